"""Reads back what a guard keeps with a conversation: checks of turns, refused prompts, scores of drift.

A conversation may come from a file that anybody wrote. So everything is read into typed objects here and nowhere
else, and what can't be read is a `GuardMetadataError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from turnwise.conversation import Conversation, Turn
from turnwise.conversation.turn import ATTEMPTS_KEY, GUARD_KEY
from turnwise.errors import ScoreError
from turnwise.guard.fields import Field, GuardMetadataError, shown_key
from turnwise.guard.guardrail import Action, Redaction, TextKind
from turnwise.guard.limits import EVENTS
from turnwise.guard.records import NO_RECORDS, Detail, Path, Records, SideRecord, Status, TurnRecord
from turnwise.scoring import Score
from turnwise.sessions import EngagementMode, Stance

_TOOL_SECTIONS: Final = {
    "tool_calls": TextKind.TOOL_CALL,
    "tool_results": TextKind.TOOL_RESULT,
    "texts": TextKind.OUTPUT,
}
"""Where the checks of a turn's parts stand, and what each is about."""

INITIATOR: Final = "initiator"
"""Trajectory of scores that don't say one."""


@dataclass(frozen=True, slots=True)
class KeptCheck:
    """One check of one text of a turn, as the turn keeps it; `time` is when it ended, in UTC."""

    turn: int
    side: str
    time: datetime
    blocked: bool
    details: Mapping[str, Detail]
    stance: Mapping[str, Any] | None
    tool: str | None = None
    call_id: str | None = None

    def that(self, what: str) -> list[str]:
        """Names of the guardrails that did something; see `did`."""
        return [name for name, detail in self.details.items() if did(detail, what)]


@dataclass(frozen=True, slots=True)
class KeptDrift:
    """What a drift guardrail kept of one check.

    `score` is what the detector said, finite; a turn is blocked from `threshold` on, None where that is not known,
    and warned of from `warn` on, None for never. `trajectory` says whose texts were judged, and as what:
    ``initiator``, ``responder`` or ``replies``.
    """

    detector: str
    score: float
    threshold: float | None
    warn: float | None
    active: bool
    scores: Mapping[str, Score]
    trajectory: str = INITIATOR


def did(detail: Detail, what: str) -> bool:
    """Whether a detail is ``found``, ``blocked``, ``warned``, ``redacted``, ``logged``, or of a given status.

    >>> did(Detail(Status.EVALUATED, action=Action.REDACT), "warned")
    True
    """
    if what in ("found", "blocked", "warned"):
        return bool(getattr(detail, what))
    if what == "redacted":
        return bool(detail.redactions)
    if what == "logged":
        return detail.action is Action.LOG
    return detail.status == what


def kept_checks(turns: Iterable[Turn]) -> list[KeptCheck]:
    """The checks that turns carry, turn by turn: of the prompt, of calls and results, of the response.

    Responses that were blocked and replaced come before the last.
    """
    return [_kept(turn.number, side) for turn in turns for side in _sides(turn)]


def kept_refusals(conversation: Conversation) -> tuple[int, list[dict[str, Any]]]:
    """How many prompts a rate limit refused, and the latest of them, oldest first."""
    field = Field(conversation.metadata.get(EVENTS), f"metadata.{EVENTS}")
    if field.value is None:
        return 0, []
    latest = [
        {
            "scope": event.get("scope").text(""),
            "reason": event.get("reason").text(""),
            "text_sha256": event.get("text_sha256").text(""),
            "after_turn": event.get("after_turn").whole(),
            "timestamp": event.get("timestamp").time().isoformat(),
        }
        for event in field.get("latest").items()
    ]
    return max(field.get("count").whole(), len(latest)), latest


def kept_drift(check: KeptCheck) -> dict[str, KeptDrift]:
    """What drift kept of a check, by guardrail: those whose data have detector and score, whatever their name."""
    where = f"turn {check.turn}: {GUARD_KEY}.{check.side}.details"
    found = {}
    for name, detail in check.details.items():
        data = detail.data
        if data is not None and "score" in data and isinstance(data.get("detector"), str):
            field = Field(data, f"{where}.{shown_key(name)}.data")
            found[name] = KeptDrift(
                detector=data["detector"],
                score=field.get("score").number(),
                threshold=field.get("threshold").limit(),
                warn=field.get("warn").limit(),
                active=field.get("active").flag(),
                scores=_scores(field.get("scores")),
                trajectory=field.get("trajectory").text(INITIATOR),
            )
    return found


def kept_scores(turn: Turn, trajectory: str = INITIATOR) -> dict[str, Score] | None:
    """The scores that an earlier check kept with a turn for a trajectory; None where there are none."""
    record = read_turn(turn.checks, turn.number)
    side = None if record is None else record.input if trajectory == INITIATOR else record.output
    if side is None:
        return None
    for name, detail in side.details.items():
        data = detail.data
        if data is None or not isinstance(data.get("scores"), Mapping):
            continue
        if data.get("trajectory", INITIATOR) == trajectory:
            where = f"turn {turn.number}: {GUARD_KEY}.{side.pipeline_type}.details.{shown_key(name)}.data.scores"
            return _scores(Field(data["scores"], where))
    return None


def read_turn(value: object, number: int) -> TurnRecord | None:
    """The checks of a turn from its metadata, live or back from JSON; None where there are none."""
    if value is None or isinstance(value, TurnRecord):
        return value
    field = Field(value, f"turn {number}: {GUARD_KEY}")
    first, second = (_side(field.get(str(kind)), kind) for kind in (TextKind.INPUT, TextKind.OUTPUT))
    parts = {key: _parts(field.get(key), kind) for key, kind in _TOOL_SECTIONS.items()}
    record = TurnRecord(first, second, TextKind.INPUT).replaced(**parts)
    if not record.records:
        return None
    told = field.get("pipeline_type")
    last = record.records[-1].pipeline_type if told.value is None else told.member(TextKind, TextKind.OUTPUT)
    if all(one.pipeline_type is not last for one in record.records):
        told.wrong("what was checked last")
    return record.replaced(last=last)


def stance_of(kept: Stance | Mapping[str, Any] | None) -> Stance | None:
    """The stance that was kept with a check; None where there is none, or it can't be read."""
    if kept is None or isinstance(kept, Stance):
        return kept
    try:
        return Stance.from_dict(kept)
    except (KeyError, TypeError, ValueError):
        return None


def _sides(turn: Turn) -> list[SideRecord]:
    record = read_turn(turn.checks, turn.number)
    if record is None:
        return []
    if ATTEMPTS_KEY not in turn.own_metadata or record.output is None:
        return list(record.records)
    return [*(one for one in record.records if one is not record.output), *_attempts(turn), record.output]


def _attempts(turn: Turn) -> list[SideRecord]:
    """The checks of responses that were blocked and replaced."""
    field = Field(turn.own_metadata[ATTEMPTS_KEY], f"turn {turn.number}: {ATTEMPTS_KEY}")
    checks = [_side(attempt.get("output"), TextKind.OUTPUT) for attempt in field.items()]
    return [one for one in checks if one is not None]


def _kept(number: int, side: SideRecord) -> KeptCheck:
    stance = side.stance.to_dict() if isinstance(side.stance, Stance) else side.stance
    time = side.timestamp.astimezone(UTC)
    return KeptCheck(
        number, str(side.pipeline_type), time, side.blocked, side.details, stance, side.tool, side.call_id
    )


def _parts(field: Field, kind: TextKind) -> Records:
    found = {name: _side(part, kind) for name, part in field.pairs()}
    return Records({name: one for name, one in found.items() if one is not None}) if found else NO_RECORDS


def _side(field: Field, side: TextKind) -> SideRecord | None:
    if field.value is None:
        return None
    if field.get("blocked").value is None:
        field.get("blocked").wrong("true or false")
    details = {name: _detail(detail) for name, detail in field.get("details").pairs()}
    return SideRecord(
        pipeline_type=side,
        timestamp=field.get("timestamp").time(),
        blocked=field.get("blocked").flag(),
        names=tuple(details),
        verdicts=tuple(details.values()),
        stance=_stance(field.get("stance")),
        tool=field.get("tool").optional(),
        call_id=field.get("call_id").optional(),
    )


def _detail(field: Field) -> Detail:
    status = field.get("status")
    if status.value is None:
        status.wrong(f"one of {', '.join(Status)}")
    action, path, data = field.get("action"), field.get("path"), field.get("data")
    return Detail(
        status=status.member(Status, Status.SKIPPED),
        blocked=field.get("blocked").flag(),
        found=field.get("found").flag(),
        action=None if action.value is None else action.member(Action, Action.LOG),
        confidence=0.0 if field.get("confidence").value is None else field.get("confidence").number(0.0, 1.0),
        reason=field.get("reason").text(""),
        redactions=tuple(map(_redaction, field.get("redactions").items())),
        seconds=0.0 if field.get("seconds").value is None else field.get("seconds").number(0.0),
        path=None if path.value is None else path.member(Path, Path.OPEN),
        data=None if data.value is None else data.mapping(),
    )


def _redaction(field: Field) -> Redaction:
    start, end = field.get("start").whole(), field.get("end").whole()
    return Redaction(start, end, field.get("kind").text(""), field.get("placeholder").text(""))


def _stance(field: Field) -> Mapping[str, Any] | None:
    """A stance as JSON values; what is read of it later is checked here."""
    if field.value is None or isinstance(field.value, Stance):
        return field.value.to_dict() if isinstance(field.value, Stance) else None
    field.get("mode").member(EngagementMode, EngagementMode.NORMAL)
    field.get("rationale").text("")
    if field.get("trust").value is not None:
        field.get("trust").number(0.0, 1.0)
    return field.mapping()


def _scores(field: Field) -> dict[str, Score]:
    found = {}
    for name, score in field.pairs():
        try:
            found[name] = score.value if isinstance(score.value, Score) else Score.from_dict(score.mapping())
        except (ScoreError, TypeError, ValueError, OverflowError) as error:
            raise GuardMetadataError(f"{score.where} can't be read: {error}") from error
    return found
