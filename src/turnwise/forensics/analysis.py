"""The forensic analysis of a conversation: everything that the guard kept, in one object, and in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from turnwise._support.visible import shown
from turnwise.conversation import Conversation, Turn
from turnwise.conversation.json_values import json_copy, json_object
from turnwise.conversation.turn import GUARD_KEY
from turnwise.forensics.evidence import evidence
from turnwise.guard.audit.chain import ranges
from turnwise.guard.finding import Action, TextKind
from turnwise.guard.rate_limits import refusals_of
from turnwise.guard.results import Detail, GuardrailStatus, Path
from turnwise.guard.step import DROPPED
from turnwise.guard.turn_checks import DriftData, TextCheck, checks_of_turn, drift_in
from turnwise.guard.written_values import INITIATOR, shown_key
from turnwise.scoring import Score
from turnwise.sessions import Outcomes, ReplyOutcome, Stance, outcome_of

_SIDES: Final = tuple(map(str, TextKind))

METHOD: Final = (
    "the turn after the last one at which the detector's score was lowest before it rose to its first alarm; "
    "Page's estimate of the change point of a cumulative sum (Biometrika 41, 1954), used for every detector"
)
"""How the turn where drift began is found."""

REPLIES: Final = "replies"  # name of the trajectory of texts that drift reads as replies
_EQUAL: Final = 1e-9  # scores that differ by no more count as equal


class _CheckedText(NamedTuple):
    """One check of one text, and the number of its turn."""

    turn: int
    text: TextCheck

    @property
    def side(self) -> str:
        return str(self.text.pipeline_type)

    @property
    def time(self) -> datetime:
        return self.text.timestamp.astimezone(UTC)

    @property
    def stance(self) -> Mapping[str, Any] | None:
        stance = self.text.stance
        return stance.to_dict() if isinstance(stance, Stance) else stance

    def of(self, status: GuardrailStatus) -> list[str]:
        """``"name: reason"`` of the guardrails with a status."""
        return [f"{name}: {one.reason}" for name, one in self.text.details.items() if one.status is status]


class DriftPoint(NamedTuple):
    """What a drift guardrail kept of one side of a turn, ``input`` or ``output``."""

    turn: int
    side: str
    kept: DriftData


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
        - ``created_at``, ``duration`` in seconds, ``total_turns``;
        - ``times``: ``first`` and ``last`` of the turns, ``first_check``, ``last_check``;
        - ``totals``: ``complete``, ``unchecked`` turns, ``checks``, and of these ``input_checks``
          and so on for each kind of text; ``blocked_turns``, ``warned_turns``,
          ``failures`` of guardrails, ``not_read``: texts in languages that a guardrail's observer does not read,
          once per guardrail, ``rate_limited`` prompts;
        - ``blocked_turns``, ``warned_turns``, ``unchecked_turns``: numbers of turns, the first two by
          kind of text. A text that one guardrail blocked and another warned of is
          in both;
        - ``guardrail_summary``: by name ``evaluated``, ``skipped``, ``failed`` (``failed_open``,
          ``failed_closed``), ``not_read``, ``total_firings``, ``blocks``, ``warnings``, ``logged``,
          ``redactions`` by kind, ``first_firing``, ``last_firing``, ``mean_seconds``, ``longest_seconds``; the
          same again under each kind of text;
        - ``timeline``: an entry for each check and each rate-limit event, in order of ``time``. Of a check:
          ``turn_number``, ``pipeline_type``, ``blocked``, ``reasons``, ``warnings``, ``failures``, ``unread``,
          ``redacted``, ``stance``; of its turn ``timestamp``, ``speaker``, ``listener``, ``speaker_type``,
          ``listener_type``, ``prompt`` and ``response``; but for these two ``tool``, its name, and ``call_id``;
        - ``rate_limits``: ``count``, and the ``latest`` events;
        - ``trajectory``: T, I and F by principle, turn by turn, of the first drift guardrail;
        - ``drift``: for each drift guardrail its detector's scores, ``alarms``, and where drift ``began``;
        - ``stance``: the stance after each check that has one;
        - ``evidence``: how evidence grew, see `turnwise.forensics.evidence`;
        - ``outcomes``: what replies did by turn, where a drift guardrail scored replies (``judge: replies``): the
          turn at which the model gave way first (``broke``) and came nearest to it (``nearest``), the turns whose
          reply gave way and was ``held`` back, the first ``alarm`` (a prompt that was blocked or warned of) and
          its ``lead`` in turns; null where no reply was scored.

    Raises:
        GuardMetadataError: what the guard kept was changed and can't be read any more; the message says where.

    >>> chat = Conversation.from_turns([("Hello", "Hi")], conversation_id="c1")
    >>> found = analyze_conversation_forensics(chat)
    >>> found["total_turns"], found["totals"]["checks"], found["unchecked_turns"]
    (1, 0, [1])
    """
    turns = conversation.turns
    checks = [_CheckedText(turn.number, check) for turn in turns for check in checks_of_turn(turn)]
    refused, latest = refusals_of(conversation)
    checked = {check.turn for check in checks}
    unchecked = [turn.number for turn in turns if turn.number not in checked]
    blocked = _by_side(check for check in checks if check.text.blocked and DROPPED not in check.text.details)
    warned = _by_side(check for check in checks if check.text.warnings)
    drifts = _drifts(checks)
    found = {
        "conversation_id": conversation.conversation_id,
        "participants": conversation.participants,
        "model_info": json_object(conversation.model_info, "model_info"),
        "created_at": _text(conversation.created_at),
        "duration": conversation.get_duration(),
        "total_turns": len(turns),
        "times": _times(turns, checks),
        "totals": {
            "complete": sum(turn.complete for turn in turns),
            "unchecked": len(unchecked),
            "checks": len(checks),
            **{f"{side}_checks": sum(check.side == side for check in checks) for side in _SIDES},
            "blocked_turns": len({turn for turns in blocked.values() for turn in turns}),
            "warned_turns": len({turn for turns in warned.values() for turn in turns}),
            "failures": sum(len(check.of(GuardrailStatus.FAILED)) for check in checks),
            "not_read": sum(len(check.of(GuardrailStatus.NOT_READ)) for check in checks),
            "rate_limited": refused,
        },
        "blocked_turns": blocked,
        "warned_turns": warned,
        "unchecked_turns": unchecked,
        "guardrail_summary": _guardrails(checks),
        "timeline": _timeline(checks, latest, turns, texts=texts),
        "rate_limits": {"count": refused, "latest": latest},
        "trajectory": _trajectory(next(iter(drifts.values()), [])),
        "drift": [_drift_summary(name, points) for name, points in drifts.items()],
        "stance": [
            {"turn": check.turn, "side": check.side, "time": _text(check.time), **check.stance}
            for check in checks
            if check.stance
        ],
        "evidence": evidence(_event(check, conversation.conversation_id) for check in checks),
        "outcomes": _outcomes(drifts.values(), turns, [*blocked["input"], *warned["input"]], blocked["output"]),
    }
    analysis: dict[str, Any] = json_copy(found, "the analysis")
    return analysis


def _outcomes(
    drifts: Iterable[Sequence[DriftPoint]], turns: Sequence[Turn], alarms: Sequence[int], held: Sequence[int]
) -> dict[str, Any] | None:
    """What replies did, by the scores of the first drift guardrail that read them as replies."""
    read = ([point for point in points if point.kept.trajectory == REPLIES] for points in drifts)
    points = next(filter(None, read), [])
    found = {}
    for point in points:
        scores = {name: Score.from_dict(score) for name, score in point.kept.scores.items()}
        outcome = outcome_of(scores, turns[point.turn - 1].response or "")
        if outcome is not None:
            found[point.turn] = outcome
    if not found:
        return None
    alarm = min(alarms, default=None)
    unscored = tuple(turn.number for turn in turns if turn.complete and turn.number not in found)
    nearest = max(points, key=lambda point: max((one["F"] for one in point.kept.scores.values()), default=-1.0))
    outcomes = Outcomes(found, unscored, nearest.turn)
    gave_way = [turn for turn, one in found.items() if one is ReplyOutcome.GAVE_WAY]
    return {
        **outcomes.to_dict(alarm=alarm),
        "held": [turn for turn in gave_way if turn in held],
        "in_words": outcomes.in_words(alarm=alarm),
    }


def _event(check: _CheckedText, conversation_id: str) -> dict[str, Any]:
    """A check as an audit has it, for `evidence`."""
    told = ("status", "found", "blocked", "action", "reason", "data")
    guardrails = {name: {key: getattr(one, key) for key in told} for name, one in check.text.details.items()}
    return {
        "time": _text(check.time),
        "conversation_id": conversation_id,
        "turn": check.turn,
        "side": check.side,
        "stance": check.stance,
        "guardrails": guardrails,
    }


def _by_side(checks: Iterable[_CheckedText]) -> dict[str, list[int]]:
    turns: dict[str, set[int]] = {side: set() for side in _SIDES}
    for check in checks:
        turns[check.side].add(check.turn)
    return {side: sorted(numbers) for side, numbers in turns.items()}


def _times(turns: Sequence[Turn], checks: Sequence[_CheckedText]) -> dict[str, Any]:
    said = [time for turn in turns for time in (turn.timestamp, turn.response_timestamp) if time is not None]
    ended = [check.time for check in checks]
    return {
        "first": _text(min(said, default=None)),
        "last": _text(max(said, default=None)),
        "first_check": _text(min(ended, default=None)),
        "last_check": _text(max(ended, default=None)),
    }


def _timeline(
    checks: Sequence[_CheckedText], refusals: Sequence[dict[str, Any]], turns: Sequence[Turn], *, texts: bool
) -> list[dict[str, Any]]:
    entries = [_entry(check, turns[check.turn - 1], texts=texts) for check in checks]
    for event in refusals:
        about = {key: value for key, value in event.items() if key != "timestamp"}
        entries.append({"kind": "rate_limit", "time": event["timestamp"], **about})
    return sorted(entries, key=lambda entry: datetime.fromisoformat(entry["time"]))


def _entry(check: _CheckedText, turn: Turn, *, texts: bool) -> dict[str, Any]:
    text = check.text
    return {
        "kind": "check",
        "time": _text(check.time),
        "turn_number": check.turn,
        "pipeline_type": check.side,
        "timestamp": _text(turn.timestamp),
        "speaker": turn.speaker,
        "listener": turn.listener,
        "speaker_type": str(turn.speaker_type),
        "listener_type": str(turn.listener_type),
        "prompt": turn.prompt if texts else None,
        "response": turn.response if texts else None,
        "blocked": text.blocked,
        "reasons": text.reasons,
        "warnings": text.warnings,
        "failures": check.of(GuardrailStatus.FAILED),
        "unread": check.of(GuardrailStatus.NOT_READ),
        "redacted": [name for name, detail in text.details.items() if detail.redactions],
        "stance": check.stance.get("mode") if check.stance else None,
        **({} if text.call_id is None else {"tool": text.tool, "call_id": text.call_id}),
    }


def _trajectory(points: Sequence[DriftPoint]) -> list[dict[str, Any]]:
    return [{"turn": point.turn, "side": point.side, "scores": point.kept.scores} for point in points]


def _drifts(checks: Iterable[_CheckedText]) -> dict[str, list[DriftPoint]]:
    """What each drift guardrail kept, turn by turn; other trajectories have names such as ``drift (replies)``."""
    found: dict[str, list[DriftPoint]] = {}
    for check in checks:
        for name, detail in check.text.details.items():
            where = f"turn {check.turn}: {GUARD_KEY}.{check.side}.details.{shown_key(name)}.data"
            kept = drift_in(detail, where)
            if kept is None:
                continue
            whose = name if kept.trajectory == INITIATOR else f"{name} ({kept.trajectory})"
            found.setdefault(whose, []).append(DriftPoint(check.turn, check.side, kept))
    return found


def _drift_summary(name: str, points: Sequence[DriftPoint]) -> dict[str, Any]:
    last = points[-1].kept
    return {
        "guardrail": name,
        "detector": last.detector,
        "threshold": last.threshold,
        "warn": last.warn,
        "scores": [
            {"turn": point.turn, "side": point.side, "score": point.kept.score, "active": point.kept.active}
            for point in points
        ],
        "alarms": sorted({point.turn for point in points if point.kept.active}),
        "began": began(points),
    }


def began(points: Sequence[DriftPoint]) -> dict[str, Any] | None:
    """Where drift began: its turn, the alarm or peak that it led to, and how that was found (`METHOD`).

    A cumulative sum is zero before the first turn, so one that rises from the start began at turn 1. Without an
    alarm the same is told of the highest score, which need not mean anything; None where the score never rose.

    >>> def at(turn, score, active=False):
    ...     return DriftPoint(turn, "input", DriftData("cusum", score, 0.5, None, active))
    >>> began([at(1, 0.0), at(2, 0.2), at(3, 0.0), at(4, 0.3), at(5, 0.7, True)])["turn"]
    4
    """
    alarm = next((place for place, point in enumerate(points) if point.kept.active), None)
    peak = max(range(len(points)), key=lambda place: points[place].kept.score, default=None)
    end = alarm if alarm is not None else peak
    if end is None:
        return None
    before = [point.kept.score for point in points[:end]]
    lowest = min(before, default=math.inf)
    if alarm is None and not points[end].kept.score > lowest + _EQUAL:
        return None
    # A cumulative sum that is above zero from the first turn on began with the conversation.
    from_start = not before or (points[0].kept.detector.startswith("cusum") and lowest > _EQUAL)
    place = 0
    if not from_start:
        place = 1 + max(at for at, score in enumerate(before) if score <= lowest + _EQUAL)
    return {
        "turn": points[place].turn,
        "led_to": points[end].turn,
        "alarm": alarm is not None,
        "score": points[end].kept.score,
        "method": METHOD,
    }


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _guardrails(checks: Iterable[_CheckedText]) -> dict[str, dict[str, Any]]:
    """By guardrail, how often it ran and what came of it: for all kinds of text together, and for each alone."""
    seen: dict[str, dict[str, list[tuple[int, Detail]]]] = {}
    for check in checks:
        for name, detail in check.text.details.items():
            seen.setdefault(name, {side: [] for side in _SIDES})[check.side].append((check.turn, detail))
    return {
        name: {
            **_counts([detail for details in sides.values() for detail in details]),
            **{side: _counts(details) for side, details in sides.items()},
        }
        for name, sides in seen.items()
    }


def _counts(details: list[tuple[int, Detail]]) -> dict[str, Any]:
    said = [detail for _, detail in details]
    counts: dict[str, Any] = {
        **{str(status): sum(one.status is status for one in said) for status in GuardrailStatus},
        "total_firings": sum(one.found for one in said),
        "blocks": sum(one.blocked for one in said),
        "warnings": sum(one.warned for one in said),
        "logged": sum(one.action is Action.LOG for one in said),
    }
    failed = [one for one in said if one.status is GuardrailStatus.FAILED]
    kinds = Counter(redaction.kind for one in said for redaction in one.redactions)
    ran = [one.seconds for one in said if one.status is not GuardrailStatus.SKIPPED]
    fired = sorted(turn for turn, detail in details if detail.found)
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

    >>> in_words({"totals": {"checks": 0}, "rate_limits": {"count": 0}})
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
            side = entry["pipeline_type"].replace("_", " ").capitalize()
            told = f"{side} of {shown(entry['tool'])}, call {shown(entry['call_id'])}"
            yield f"{told}: blocked at turn {entry['turn_number']}."
    yield from _outcome_sentences(analysis["outcomes"])
    for drift in analysis["drift"]:
        yield _drift(drift)
    if totals["failures"]:
        failed = [name for name, counts in analysis["guardrail_summary"].items() if counts["failed"]]
        yield f"{_count(totals['failures'], 'check')} failed, by {', '.join(failed)}: not checked is not clean."
    if totals.get("not_read"):
        unread = [name for name, counts in analysis["guardrail_summary"].items() if counts["not_read"]]
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


def _outcome_sentences(outcomes: Mapping[str, Any] | None) -> Iterator[str]:
    if outcomes:
        yield outcomes["in_words"]
        if outcomes["held"]:
            yield f"Held back: the reply of {_listed(outcomes['held'])}."


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
    parts = [str(first) if first == last else f"{first}–{last}" for first, last in ranges(turns)]
    return f"turn{'s' if len(turns) > 1 else ''} {', '.join(parts)}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
