"""The forensic analysis of a conversation: everything that the guard kept, in one object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from turnwise.conversation import Conversation, Turn
from turnwise.conversation.json_values import json_copy, json_object
from turnwise.guard.forensics.checks import SIDES, KeptCheck, checks_of, read_time, refusals_of
from turnwise.guard.forensics.course import Point, courses, drift_of
from turnwise.guard.forensics.summary import guardrail_summary

_FIRST = datetime.min.replace(tzinfo=UTC)


def analyze_conversation_forensics(conversation: Conversation) -> dict[str, Any]:
    """Return what happened in a conversation, as JSON values.

    It reads what the guard kept with the conversation, live or back from JSON. Texts are no part of it.

    Args:
        conversation: the conversation; one that no guard looked at has turns and times alone.

    Returns:
        - ``conversation_id``, ``participants``, ``model_info``;
        - ``times``: ``first`` and ``last`` of the turns, ``duration_seconds``, ``first_check``, ``last_check``;
        - ``totals``: ``turns``, ``complete``, ``unchecked`` turns, ``checks``, ``input_checks`` and
          ``output_checks``, ``blocked_turns``, ``warned_turns``, ``failures`` of guardrails, ``rate_limited``
          prompts;
        - ``blocked_turns``, ``warned_turns``, ``unchecked_turns``: numbers of turns, the first two by ``input``
          and ``output``. A text that one guardrail blocked and another warned of is in both;
        - ``guardrails``: by name ``evaluated``, ``skipped``, ``failed`` (``failed_open``, ``failed_closed``),
          ``firings``, ``blocks``, ``warnings``, ``logged``, ``redactions`` by kind, ``first_firing``,
          ``last_firing``, ``mean_seconds``, ``longest_seconds``; the same again under ``input`` and ``output``;
        - ``timeline``: one entry for each check and each rate-limit event, in order of time;
        - ``rate_limits``: ``count``, and the ``latest`` events;
        - ``trajectory``: T, I and F by principle, turn by turn, of the first drift guardrail;
        - ``drift``: for each drift guardrail its detector's scores, ``alarms``, and where drift ``began``;
        - ``stance``: the stance after each check that has one.

    >>> chat = Conversation.from_turns([("Hello", "Hi")], conversation_id="c1")
    >>> found = analyze_conversation_forensics(chat)
    >>> found["totals"]["turns"], found["totals"]["checks"], found["unchecked_turns"]
    (1, 0, [1])
    """
    turns = conversation.turns
    checks = checks_of(turns)
    refused, latest = refusals_of(conversation)
    checked = {check.turn for check in checks}
    unchecked = [turn.number for turn in turns if turn.number not in checked]
    blocked = {side: _turns(check for check in checks if check.side == side and check.blocked) for side in SIDES}
    warned = {
        side: _turns(check for check in checks if check.side == side and check.names("warned")) for side in SIDES
    }
    drifts = courses(checks)
    found = {
        "conversation_id": conversation.conversation_id,
        "participants": conversation.participants,
        "model_info": json_object(conversation.model_info, "model_info"),
        "times": _times(turns, checks),
        "totals": {
            "turns": len(turns),
            "complete": sum(turn.complete for turn in turns),
            "unchecked": len(unchecked),
            "checks": len(checks),
            **{f"{side}_checks": sum(check.side == side for check in checks) for side in SIDES},
            "blocked_turns": len({*blocked["input"], *blocked["output"]}),
            "warned_turns": len({*warned["input"], *warned["output"]}),
            "failures": sum(len(check.names("failed")) for check in checks),
            "rate_limited": refused,
        },
        "blocked_turns": blocked,
        "warned_turns": warned,
        "unchecked_turns": unchecked,
        "guardrails": guardrail_summary(checks),
        "timeline": _timeline(checks, latest),
        "rate_limits": {"count": refused, "latest": latest},
        "trajectory": _trajectory(next(iter(drifts.values()), [])),
        "drift": [drift_of(name, points) for name, points in drifts.items()],
        "stance": [
            {"turn": check.turn, "side": check.side, "time": _text(check.time), **check.stance}
            for check in checks
            if check.stance is not None
        ],
    }
    analysis: dict[str, Any] = json_copy(found, "the analysis")
    return analysis


def _turns(checks: Iterable[KeptCheck]) -> list[int]:
    return sorted({check.turn for check in checks})


def _times(turns: Sequence[Turn], checks: Sequence[KeptCheck]) -> dict[str, Any]:
    said = [time for turn in turns for time in (turn.timestamp, turn.response_timestamp) if time is not None]
    ended = [check.time for check in checks if check.time is not None]
    first, last = min(said, default=None), max(said, default=None)
    return {
        "first": _text(first),
        "last": _text(last),
        "duration_seconds": None if first is None or last is None else (last - first).total_seconds(),
        "first_check": _text(min(ended, default=None)),
        "last_check": _text(max(ended, default=None)),
    }


def _timeline(checks: Sequence[KeptCheck], refusals: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    entries: list[tuple[datetime, dict[str, Any]]] = []
    known = _FIRST
    for check in checks:
        # One without a time stays behind the check before it.
        known = check.time or known
        entries.append((known, _entry(check)))
    for event in refusals:
        time = read_time(event.get("timestamp"))
        entry = {"kind": "rate_limit", "time": _text(time), **{k: v for k, v in event.items() if k != "timestamp"}}
        entries.append((time or known, entry))
    return [entry for _, entry in sorted(entries, key=lambda one: one[0])]


def _entry(check: KeptCheck) -> dict[str, Any]:
    def told(what: str) -> list[str]:
        return [f"{name}: {check.details[name].get('reason', '')}" for name in check.names(what)]

    return {
        "kind": "check",
        "time": _text(check.time),
        "turn": check.turn,
        "side": check.side,
        "blocked": check.blocked,
        "reasons": told("blocked"),
        "warnings": told("warned"),
        "failures": told("failed"),
        "redacted": check.names("redacted"),
        "stance": None if check.stance is None else check.stance.get("mode"),
    }


def _trajectory(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [
        {
            "turn": point.turn,
            "side": point.side,
            "scores": {name: score.to_dict() for name, score in point.scores.items()},
        }
        for point in points
    ]


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()
