"""The forensic analysis of a conversation: everything that the guard kept, in one object, and in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from turnwise._support.visible import shown
from turnwise.conversation import Conversation, Turn
from turnwise.conversation.json_values import json_copy, json_object
from turnwise.guard.forensics.onset import DriftPoint, drift_points, drift_summary
from turnwise.guard.guardrail import TextKind
from turnwise.guard.metadata import KeptCheck, did, kept_checks, kept_refusals
from turnwise.guard.records import Detail, Path
from turnwise.guard.step import DROPPED

_KINDS = tuple(map(str, TextKind))

_COUNTED = {
    "evaluated": "evaluated",
    "skipped": "skipped",
    "failed": "failed",
    "not_read": "not_read",
    "firings": "found",
    "blocks": "blocked",
    "warnings": "warned",
    "logged": "logged",
}
"""Key of a summary, and what a detail did that counts for it."""


def analyze_conversation_forensics(conversation: Conversation, *, texts: bool = False) -> dict[str, Any]:
    """Return what happened in a conversation, as JSON values.

    It reads what the guard kept with the conversation, live or back from JSON. Texts are left out unless they
    are asked for.

    Args:
        conversation: the conversation; one that no guard looked at has only turns and times.
        texts: whether the timeline has ``prompt`` and ``response`` as the conversation keeps them, redacted where
            a guardrail redacts; otherwise they are null.

    Returns:
        - ``conversation_id``, ``participants``, ``model_info``;
        - ``times``: ``first`` and ``last`` of the turns, ``duration_seconds``, ``first_check``, ``last_check``;
        - ``totals``: ``turns``, ``complete``, ``unchecked`` turns, ``checks``, and of these ``input_checks``,
          ``output_checks``, ``tool_call_checks`` and ``tool_result_checks``; ``blocked_turns``, ``warned_turns``,
          ``failures`` of guardrails, ``not_read``: texts in languages that a guardrail's observer does not read,
          once per guardrail, ``rate_limited`` prompts;
        - ``blocked_turns``, ``warned_turns``, ``unchecked_turns``: numbers of turns, the first two by ``input``,
          ``output``, ``tool_call`` and ``tool_result``. A text that one guardrail blocked and another warned of is
          in both;
        - ``guardrails``: by name ``evaluated``, ``skipped``, ``failed`` (``failed_open``, ``failed_closed``),
          ``not_read``, ``firings``, ``blocks``, ``warnings``, ``logged``, ``redactions`` by kind,
          ``first_firing``, ``last_firing``, ``mean_seconds``, ``longest_seconds``; the same again under
          ``input``, ``output``, ``tool_call`` and ``tool_result``;
        - ``timeline``: an entry for each check and each rate-limit event, in order of time; for a call or result
          of a tool with ``tool``, its name, and ``call_id``;
        - ``rate_limits``: ``count``, and the ``latest`` events;
        - ``trajectory``: T, I and F by principle, turn by turn, of the first drift guardrail;
        - ``drift``: for each drift guardrail its detector's scores, ``alarms``, and where drift ``began``;
        - ``stance``: the stance after each check that has one;
        - the same under other names: ``created_at``, ``duration`` in seconds, ``total_turns``,
          ``guardrail_summary`` (``total_firings``, ``blocks``, ``warnings`` by guardrail), and in each check of
          the timeline ``turn_number``, ``timestamp``, ``speaker``, ``listener``, ``speaker_type``,
          ``listener_type``, ``pipeline_type``, ``prompt`` and ``response``.

    Raises:
        GuardMetadataError: what the guard kept was changed and can't be read any more; the message says where.

    >>> chat = Conversation.from_turns([("Hello", "Hi")], conversation_id="c1")
    >>> found = analyze_conversation_forensics(chat)
    >>> found["totals"]["turns"], found["totals"]["checks"], found["unchecked_turns"]
    (1, 0, [1])
    """
    turns = conversation.turns
    checks = kept_checks(turns)
    refused, latest = kept_refusals(conversation)
    checked = {check.turn for check in checks}
    unchecked = [turn.number for turn in turns if turn.number not in checked]
    blocked = {
        side: _turns(
            check for check in checks if check.side == side and check.blocked and DROPPED not in check.details
        )
        for side in _KINDS
    }
    warned = {
        side: _turns(check for check in checks if check.side == side and check.that("warned")) for side in _KINDS
    }
    drifts = drift_points(checks)
    guardrails = _guardrails(checks)
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
            **{f"{side}_checks": sum(check.side == side for check in checks) for side in _KINDS},
            "blocked_turns": len({turn for turns in blocked.values() for turn in turns}),
            "warned_turns": len({turn for turns in warned.values() for turn in turns}),
            "failures": sum(len(check.that("failed")) for check in checks),
            "not_read": sum(len(check.that("not_read")) for check in checks),
            "rate_limited": refused,
        },
        "blocked_turns": blocked,
        "warned_turns": warned,
        "unchecked_turns": unchecked,
        "guardrails": guardrails,
        "timeline": _timeline(checks, latest, turns, texts=texts),
        "rate_limits": {"count": refused, "latest": latest},
        "trajectory": _trajectory(next(iter(drifts.values()), [])),
        "drift": [drift_summary(name, points) for name, points in drifts.items()],
        "stance": [
            {"turn": check.turn, "side": check.side, "time": _text(check.time), **check.stance}
            for check in checks
            if check.stance
        ],
        "created_at": _text(conversation.created_at),
        "duration": conversation.get_duration(),
        "total_turns": len(turns),
        "guardrail_summary": {
            name: {
                "total_firings": counts["firings"],
                "blocks": counts["blocks"],
                "warnings": counts["warnings"],
            }
            for name, counts in guardrails.items()
        },
    }
    analysis: dict[str, Any] = json_copy(found, "the analysis")
    return analysis


def _turns(checks: Iterable[KeptCheck]) -> list[int]:
    return sorted({check.turn for check in checks})


def _times(turns: Sequence[Turn], checks: Sequence[KeptCheck]) -> dict[str, Any]:
    said = [time for turn in turns for time in (turn.timestamp, turn.response_timestamp) if time is not None]
    ended = [check.time for check in checks]
    first, last = min(said, default=None), max(said, default=None)
    return {
        "first": _text(first),
        "last": _text(last),
        "duration_seconds": None if first is None or last is None else (last - first).total_seconds(),
        "first_check": _text(min(ended, default=None)),
        "last_check": _text(max(ended, default=None)),
    }


def _timeline(
    checks: Sequence[KeptCheck], refusals: Sequence[dict[str, Any]], turns: Sequence[Turn], *, texts: bool
) -> list[dict[str, Any]]:
    entries = [{**_entry(check), **_turn(turns[check.turn - 1], check, texts=texts)} for check in checks]
    for event in refusals:
        about = {key: value for key, value in event.items() if key != "timestamp"}
        entries.append({"kind": "rate_limit", "time": event["timestamp"], **about})
    return sorted(entries, key=lambda entry: datetime.fromisoformat(entry["time"]))


def _entry(check: KeptCheck) -> dict[str, Any]:
    def told(what: str) -> list[str]:
        return [f"{name}: {check.details[name].reason}" for name in check.that(what)]

    return {
        "kind": "check",
        "time": _text(check.time),
        "turn": check.turn,
        "side": check.side,
        "blocked": check.blocked,
        "reasons": told("blocked"),
        "warnings": told("warned"),
        "failures": told("failed"),
        "unread": told("not_read"),
        "redacted": check.that("redacted"),
        "stance": check.stance.get("mode") if check.stance else None,
        **({} if check.call_id is None else {"tool": check.tool, "call_id": check.call_id}),
    }


def _turn(turn: Turn, check: KeptCheck, *, texts: bool) -> dict[str, Any]:
    return {
        "turn_number": turn.number,
        "timestamp": _text(turn.timestamp),
        "speaker": turn.speaker,
        "listener": turn.listener,
        "speaker_type": str(turn.speaker_type),
        "listener_type": str(turn.listener_type),
        "prompt": turn.prompt if texts else None,
        "response": turn.response if texts else None,
        "pipeline_type": check.side,
    }


def _trajectory(points: Sequence[DriftPoint]) -> list[dict[str, Any]]:
    return [
        {
            "turn": point.turn,
            "side": point.side,
            "scores": {name: score.to_dict() for name, score in point.kept.scores.items()},
        }
        for point in points
    ]


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _guardrails(checks: Iterable[KeptCheck]) -> dict[str, dict[str, Any]]:
    """By guardrail, how often it ran and what came of it: for all kinds of text together, and for each alone."""
    seen: dict[str, dict[str, list[tuple[int, Detail]]]] = {}
    for check in checks:
        for name, detail in check.details.items():
            seen.setdefault(name, {side: [] for side in _KINDS})[check.side].append((check.turn, detail))
    return {
        name: {
            **_counts([detail for details in sides.values() for detail in details]),
            **{side: _counts(details) for side, details in sides.items()},
        }
        for name, sides in seen.items()
    }


def _counts(details: list[tuple[int, Detail]]) -> dict[str, Any]:
    counts: dict[str, Any] = {
        key: sum(did(detail, what) for _, detail in details) for key, what in _COUNTED.items()
    }
    failed = [detail for _, detail in details if did(detail, "failed")]
    kinds = Counter(redaction.kind for _, detail in details for redaction in detail.redactions)
    ran = [detail.seconds for _, detail in details if not did(detail, "skipped")]
    fired = sorted(turn for turn, detail in details if did(detail, "found"))
    return {
        **counts,
        "failed_open": sum(detail.path is Path.OPEN for detail in failed),
        "failed_closed": sum(detail.path is Path.CLOSED for detail in failed),
        "redactions": dict(sorted(kinds.items())),
        "first_firing": fired[0] if fired else None,
        "last_firing": fired[-1] if fired else None,
        "mean_seconds": sum(ran) / len(ran) if ran else None,
        "longest_seconds": max(ran, default=None),
    }


def in_words(analysis: Mapping[str, Any]) -> list[str]:
    """Return what an analysis found, as sentences, the gravest first.

    Args:
        analysis: what `analyze_conversation_forensics` gave.

    >>> in_words({"totals": {"checks": 0, "turns": 3}, "rate_limits": {"count": 0}})
    ['No guard looked at this conversation: not checked is not clean.']
    """
    return list(_sentences(analysis))


def _sentences(analysis: Mapping[str, Any]) -> Iterator[str]:
    totals = analysis["totals"]
    if analysis["rate_limits"]["count"]:
        yield f"A rate limit refused {_count(analysis['rate_limits']['count'], 'prompt')}."
    if not totals["checks"]:
        yield "No guard looked at this conversation: not checked is not clean."
        return
    for kind in ("blocked", "warned"):
        sides = analysis[f"{kind}_turns"]
        parts = [f"{side.replace('_', ' ')} of {_listed(turns)}" for side, turns in sides.items() if turns]
        if parts:
            yield f"{kind.capitalize()}: {'; '.join(parts)}."
    for entry in analysis["timeline"]:
        if entry.get("call_id") is not None and entry["blocked"]:
            side = entry["side"].replace("_", " ").capitalize()
            told = f"{side} of {shown(entry['tool'])}, call {shown(entry['call_id'])}"
            yield f"{told}: blocked at turn {entry['turn']}."
    for drift in analysis["drift"]:
        yield _drift(drift)
    if totals["failures"]:
        failed = [name for name, counts in analysis["guardrails"].items() if counts["failed"]]
        yield f"{_count(totals['failures'], 'check')} failed, by {', '.join(failed)}: not checked is not clean."
    if totals.get("not_read"):
        unread = [name for name, counts in analysis["guardrails"].items() if counts["not_read"]]
        yield (
            f"{_count(totals['not_read'], 'check')} came to nothing since {', '.join(unread)} did not read the "
            "language: not checked is not clean."
        )
    if totals["unchecked"]:
        yield f"No guard looked at {_listed(analysis['unchecked_turns'])}: not checked is not clean."
    if analysis["stance"]:
        last = analysis["stance"][-1]
        yield f"Stance after turn {last['turn']}: {last.get('mode')} ({last.get('rationale')})."
    if not totals["blocked_turns"] and not totals["warned_turns"]:
        yield "Nothing was blocked or warned of."


def _drift(drift: Mapping[str, Any]) -> str:
    name, began = drift["guardrail"], drift["began"]
    if began is None:
        return f"{name}: the score of {drift['detector']} never rose."
    limit = "" if drift["threshold"] is None else f", threshold {drift['threshold']:.3g}"
    if began["alarm"]:
        return (
            f"{name}: drift began at turn {began['turn']}; first alarm at turn {began['led_to']} "
            f"({drift['detector']} {began['score']:.3g}{limit})."
        )
    return (
        f"{name}: no alarm. The {drift['detector']} score rose from turn {began['turn']} and was highest at turn "
        f"{began['led_to']} ({began['score']:.3g}{limit})."
    )


def _listed(turns: Sequence[int]) -> str:
    """Numbers of turns, with runs of them joined.

    >>> _listed([1, 2, 3, 7])
    'turns 1–3, 7'
    """
    spans: list[list[int]] = []
    for turn in turns:
        if spans and turn == spans[-1][1] + 1:
            spans[-1][1] = turn
        else:
            spans.append([turn, turn])
    parts = [str(first) if first == last else f"{first}–{last}" for first, last in spans]
    return f"turn{'s' if len(turns) > 1 else ''} {', '.join(parts)}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
