"""What a turn keeps of its checks: small objects, since JSON values would take three times the memory.

They are written as JSON by `to_dict`, and read back by `read_checks`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from turnwise.conversation import Turn
from turnwise.conversation.tool_log import CALLS, RESULTS, TEXTS
from turnwise.conversation.turn import ATTEMPTS_KEY, GUARD_KEY
from turnwise.guard.finding import CONTEXT, TextKind
from turnwise.guard.results import Detail, PipelineResult
from turnwise.guard.written_values import INITIATOR, GuardMetadataError, shown_key
from turnwise.scoring import Score
from turnwise.sessions import Stance

if TYPE_CHECKING:
    from turnwise.guard.stored_checks import StoredCheck, StoredTurn


@dataclass(frozen=True, slots=True, eq=False)
class DriftData(Mapping[str, Any]):
    """What drift keeps with a turn, as the data of its `Detail`; a mapping of JSON values."""

    detector: str
    score: float
    threshold: float | None  # None where it is not known or endless
    warn: float | None  # None for never
    active: bool
    turn: int = 0
    trajectory: str = INITIATOR  # whose texts were judged, and as what: initiator, responder or replies
    speaker: str = ""
    principles: tuple[str, ...] = ()
    components: array[float] = field(default_factory=lambda: array("d"))  # T, I and F of each principle in turn
    second_look: Mapping[str, Any] | None = None
    gave_way: int | None = None  # turn at which the model gave way, where that holds the conversation

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The score of each principle."""
        triples = zip(*[iter(self.components)] * 3, strict=True)
        found = zip(self.principles, triples, strict=True)
        return {name: dict(zip("TIF", triple, strict=True)) for name, triple in found}

    def with_scores(self, scores: Mapping[str, Score]) -> DriftData:
        """The same with other scores."""
        components = array("d", (part for one in scores.values() for part in (one.T, one.I, one.F)))
        return replace(self, principles=tuple(scores), components=components)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "detector": self.detector,
            "score": self.score,
            "threshold": self.threshold,
            "warn": self.warn,
            "active": self.active,
            "turn": self.turn,
            "trajectory": str(self.trajectory),
            "speaker": self.speaker,
            "scores": self.scores,
            **({} if self.gave_way is None else {"gave_way": self.gave_way}),
            **({} if self.second_look is None else {"second_look": dict(self.second_look)}),
        }

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@dataclass(frozen=True, slots=True)
class TextCheck:
    """One check of one text of a turn."""

    pipeline_type: TextKind
    timestamp: datetime  # when the check ended, aware
    blocked: bool
    names: tuple[str, ...]  # of the guardrails in the order in which they ran
    verdicts: tuple[Detail, ...]
    stance: Stance | Mapping[str, Any] | None = None  # after it; a mapping where it was read from JSON
    tool: str | None = None
    call_id: str | None = None

    @property
    def details(self) -> dict[str, Detail]:
        """What each guardrail said, by name."""
        return dict(zip(self.names, self.verdicts, strict=True))

    @property
    def warnings(self) -> list[str]:
        """``"name: reason"`` of every guardrail that warned."""
        return [f"{name}: {detail.reason}" for name, detail in self._acted() if detail.warned]

    @property
    def reasons(self) -> list[str]:
        """``"name: reason"`` of every guardrail that blocked."""
        return [f"{name}: {detail.reason}" for name, detail in self._acted() if detail.blocked]

    def _acted(self) -> list[tuple[str, Detail]]:
        # Most guardrails take no action, and this is asked at every check.
        return [one for one in zip(self.names, self.verdicts, strict=True) if one[1].action or one[1].blocked]

    def get(self, key: str) -> Any:
        """Return the value of a field, as `Turn.blocked` asks for it; None for another key."""
        return getattr(self, key, None)

    def result(self, conversation_id: str, turn_number: int, text: str, seconds: float = 0.0) -> PipelineResult:
        """The result of the check, with the text as it may go on."""
        return PipelineResult(
            blocked=self.blocked,
            warnings=self.warnings,
            reasons=self.reasons,
            details=self.details,
            pipeline_type=self.pipeline_type,
            conversation_id=conversation_id,
            turn_number=turn_number,
            stance=stance_of(self.stance),
            text=text,
            seconds=seconds,
            tool=self.tool,
            call_id=self.call_id,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        stance = self.stance
        return {
            "pipeline_type": str(self.pipeline_type),
            "timestamp": self.timestamp.isoformat(),
            "blocked": self.blocked,
            "stance": stance.to_dict() if isinstance(stance, Stance) else stance and dict(stance),
            "tool": self.tool,
            "call_id": self.call_id,
            "warnings": self.warnings,
            "reasons": self.reasons,
            "details": {name: detail.to_dict() for name, detail in self.details.items()},
        }


NO_CHECKS: Final[Mapping[str, TextCheck]] = MappingProxyType({})  # of a turn without tools


def _no_checks() -> Mapping[str, TextCheck]:
    return NO_CHECKS


@dataclass(frozen=True, slots=True)
class TurnChecks:
    """The last check of each text of a turn, apart and joined."""

    input: TextCheck | None
    output: TextCheck | None
    last: TextKind  # that was checked last
    tool_calls: Mapping[str, TextCheck] = field(default_factory=_no_checks)  # in order, by id
    tool_results: Mapping[str, TextCheck] = field(default_factory=_no_checks)  # in order, by id of the call
    texts: Mapping[str, TextCheck] = field(default_factory=_no_checks)  # beside calls, by id of the first of them
    tool_description: Mapping[str, TextCheck] = field(default_factory=_no_checks)
    document: Mapping[str, TextCheck] = field(default_factory=_no_checks)
    memory: Mapping[str, TextCheck] = field(default_factory=_no_checks)

    @property
    def records(self) -> tuple[TextCheck, ...]:
        """The checks, in the order in which a turn has the texts: prompt, context, rounds with tools, response."""
        rounds: list[TextCheck | None] = [one for kind in CONTEXT for one in getattr(self, kind).values()]
        for name, call in self.tool_calls.items():
            rounds += [self.texts.get(name), call, self.tool_results.get(name)]
        for alone in (self.tool_results, self.texts):
            rounds += [one for name, one in alone.items() if name not in self.tool_calls]
        return tuple(one for one in (self.input, *rounds, self.output) if one is not None)

    @property
    def blocked(self) -> bool:
        """Whether any of the texts was blocked."""
        return any(one.blocked for one in self.records)

    def get(self, key: str) -> Any:
        """Return the value of a field, as `Turn.blocked` asks for it; None for another key."""
        return getattr(self, key, None)

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values; ``details`` of the turn have what each guardrail said at its last check."""
        records = self.records
        latest = max((one for one in records if one.pipeline_type is self.last), key=lambda one: one.timestamp)
        in_time = [*(one for one in records if one is not latest), latest]
        return {
            "input": None if self.input is None else self.input.to_dict(),
            "output": None if self.output is None else self.output.to_dict(),
            **{
                key: {name: one.to_dict() for name, one in getattr(self, key).items()}
                for key in SECTIONS
                if key not in CONTEXT or getattr(self, key)
            },
            "blocked": self.blocked,
            "warnings": [text for one in records for text in one.warnings],
            "reasons": [text for one in records for text in one.reasons],
            "details": {name: detail.to_dict() for one in in_time for name, detail in one.details.items()},
            "pipeline_type": str(self.last),
            "timestamp": latest.timestamp.isoformat(),
        }


SECTIONS: Final = {
    CALLS: TextKind.TOOL_CALL,
    RESULTS: TextKind.TOOL_RESULT,
    TEXTS: TextKind.OUTPUT,
    **{str(kind): kind for kind in CONTEXT},
}
"""Where the checks of a turn's parts stand, and what each is about."""


def read_checks(value: object, number: int) -> TurnChecks | None:
    """The checks of a turn from its metadata, live or back from JSON; None where there are none."""
    if value is None or isinstance(value, TurnChecks):
        return value
    from turnwise.guard.stored_checks import StoredTurn, read_as

    where = f"turn {number}: {GUARD_KEY}"
    return _turn_checks(read_as(StoredTurn, value, where), where)


def _turn_checks(stored: StoredTurn, where: str) -> TurnChecks | None:
    made: dict[str, Mapping[str, TextCheck]] = {}
    for key, kind in SECTIONS.items():
        parts: dict[str, StoredCheck | None] = getattr(stored, key)
        made[key] = {name: _check(one, kind) for name, one in parts.items() if one is not None} or NO_CHECKS
    checks = TurnChecks(
        None if stored.input is None else _check(stored.input, TextKind.INPUT),
        None if stored.output is None else _check(stored.output, TextKind.OUTPUT),
        stored.pipeline_type or TextKind.INPUT,
        **made,
    )
    kinds = [one.pipeline_type for one in checks.records]
    if not kinds:
        return None
    if stored.pipeline_type is None:
        return replace(checks, last=kinds[-1])
    if stored.pipeline_type not in kinds:
        raise GuardMetadataError(f"{where}.pipeline_type is '{stored.pipeline_type}', of which there is no check")
    return checks


def _check(stored: StoredCheck, kind: TextKind) -> TextCheck:
    return TextCheck(
        pipeline_type=kind,
        timestamp=stored.timestamp,
        blocked=stored.blocked,
        names=tuple(stored.details),
        verdicts=tuple(one.made() for one in stored.details.values()),
        stance=None if stored.stance is None else stored.stance.model_dump(exclude_unset=True),
        tool=stored.tool,
        call_id=stored.call_id,
    )


def readable_checks(value: object, number: int) -> TurnChecks | None:
    """The same; None as well where they can't be read."""
    try:
        return read_checks(value, number)
    except GuardMetadataError:
        return None


def with_check(number: int, check: TextCheck, section: str, before: object) -> TurnChecks:
    """The checks of a turn after one more, in a section of `SECTIONS`, or "" for a prompt or a response."""
    known = before if isinstance(before, TurnChecks) else readable_checks(before, number)
    kind = check.pipeline_type
    if known is None:
        known = TurnChecks(None, None, kind)
    changed: dict[str, Any] = {"input" if kind is TextKind.INPUT else "output": check}
    if section:
        changed = {section: {**getattr(known, section), check.call_id: check}}
    return replace(known, last=kind, **changed)


def with_text_beside(before: object, identity: str) -> object:
    """The checks of a turn after its response turned out to be a text beside calls: its check moves there."""
    known = readable_checks(before, 1)
    if known is None or known.output is None:
        return before
    return replace(known, output=None, texts={**known.texts, identity: known.output})


def with_attempt(turn: Turn, before: object) -> list[dict[str, Any]]:
    """The blocked and replaced responses of a turn, and the one it has now; what can't be read is left out."""
    checks = turn.checks
    output = checks.get("output") if hasattr(checks, "get") else None
    attempt = {
        "response": turn.response,
        "response_timestamp": turn.response_timestamp.isoformat() if turn.response_timestamp else None,
        "output": output.to_dict() if isinstance(output, TextCheck) else output,
    }
    return [*(before if isinstance(before, list) else ()), attempt]


def checks_of_turn(turn: Turn) -> tuple[TextCheck, ...]:
    """All checks of a turn in order; those of responses that were blocked and replaced come before the last."""
    known = read_checks(turn.checks, turn.number)
    if known is None:
        return ()
    if ATTEMPTS_KEY not in turn.own_metadata or known.output is None:
        return known.records
    from turnwise.guard.stored_checks import attempts

    replaced = attempts(turn.own_metadata[ATTEMPTS_KEY], f"turn {turn.number}: {ATTEMPTS_KEY}")
    return (*known.records[:-1], *(_check(one, TextKind.OUTPUT) for one in replaced), known.output)


def drift_in(detail: Detail, where: str) -> DriftData | None:
    """What drift kept of a check, from the data of a guardrail of any name; None where it is no drift."""
    data = detail.data
    if data is None or isinstance(data, DriftData):
        return data
    if "score" not in data or not isinstance(data.get("detector"), str):
        return None
    from turnwise.guard.stored_checks import StoredDrift, read_as

    kept = dict(read_as(StoredDrift, data, where))
    scores = kept.pop("scores")
    components = array("d", (part for one in scores.values() for part in (one.T, one.I, one.F)))
    return DriftData(**kept, principles=tuple(scores), components=components)


def kept_scores(turn: Turn, trajectory: str = INITIATOR) -> dict[str, Score] | None:
    """The scores that an earlier check kept with a turn for a trajectory; None where there are none."""
    known = read_checks(turn.checks, turn.number)
    side = None if known is None else known.input if trajectory == INITIATOR else known.output
    if side is None:
        return None
    for name, detail in side.details.items():
        data = detail.data
        if data is None or not isinstance(data.get("scores"), Mapping):
            continue
        if data.get("trajectory", INITIATOR) == trajectory:
            if isinstance(data, DriftData):
                return {name: Score.from_dict(score) for name, score in data.scores.items()}
            from turnwise.guard.stored_checks import scores

            where = f"turn {turn.number}: {GUARD_KEY}.{side.pipeline_type}.details.{shown_key(name)}.data.scores"
            return scores(data["scores"], where)
    return None


def stance_of(kept: Stance | Mapping[str, Any] | None) -> Stance | None:
    """The stance that was kept with a check; None where there is none, or it can't be read."""
    if kept is None or isinstance(kept, Stance):
        return kept
    try:
        return Stance.from_dict(kept)
    except (KeyError, TypeError, ValueError):
        return None
