"""What a check gives back, which is a dict, and what is kept of it: small objects that read like JSON objects."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, final

from turnwise.conversation import Turn
from turnwise.errors import TurnwiseError
from turnwise.guard.documents import Document, Record, Slotted, plain, record
from turnwise.guard.guardrail import Action, Redaction, TextKind
from turnwise.sessions import Stance


class Status(StrEnum):
    """What became of a guardrail at a check. What is skipped or not read is not checked, and that is not clean."""

    EVALUATED = "evaluated"
    SKIPPED = "skipped"
    FAILED = "failed"
    NOT_READ = "not_read"
    """It is in a language that the guardrail's observer does not read."""


class Path(StrEnum):
    """Which way a failed guardrail went: it let the text pass, or not."""

    OPEN = "open"
    CLOSED = "closed"


class Outcome(StrEnum):
    """What came of a text: the verdict on it, or why there is none."""

    PASSED = "passed"
    WARNED = "warned"
    BLOCKED = "blocked"
    LIMITED = "limited"
    """A rate limit refused it."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    """Nobody waited for the check any more."""
    DISCONNECTED = "disconnected"
    """The client went away, before the end of its check or of the response that it was sent."""
    STALLED = "stalled"
    """The model paused for too long."""
    BROKEN_OFF = "broken_off"
    """The response ended before it was whole, for another reason."""
    UNCHECKED = "unchecked"
    """No guardrail looked at it: those that would are switched off, or do not read its language."""


_UNFINISHED = ("dropped", "cancelled", "timed_out")
"""Names under which details tell that there is no verdict."""


@record
class Detail(Record):
    """What one guardrail said at one check.

    Args:
        status: evaluated, skipped, failed or not_read.
        blocked: whether it blocked the text, by what it found or because it failed.
        found: whether it found something.
        action: what was done about it: block, redact, warn or log; None where nothing was.
        confidence: how sure it is that something is there, in [0, 1].
        reason: what was found, or why it was skipped, failed or not read.
        redactions: what was replaced, by offsets in the text that this guardrail saw.
        seconds: how long it took.
        path: ``open`` where a failed guardrail let the text pass, ``closed`` where it did not; None else.
        data: what else it gave, such as scores.
    """

    status: Status
    blocked: bool = False
    found: bool = False
    action: Action | None = None
    confidence: float = 0.0
    reason: str = ""
    redactions: tuple[Redaction, ...] = ()
    seconds: float = 0.0
    path: Path | None = None
    data: Mapping[str, Any] | None = None

    @property
    def warned(self) -> bool:
        """Whether it gave a warning."""
        return not self.blocked and self.action in (Action.WARN, Action.REDACT)

    @property
    def did(self) -> str:
        """What it did, in a word: the action, else ``block`` or ``failed``; empty where it did nothing."""
        if self.action is not None:
            return str(self.action)
        return "block" if self.blocked else "failed" if self.status is Status.FAILED else ""


@record
class SideRecord(Record):
    """One check of one text of a turn, as the turn keeps it.

    `names` and `verdicts` are of the guardrails in the order in which they ran. `timestamp` is when the check
    ended, aware. `stance` is that after it, where a guardrail knows it, a mapping where the check was read from
    JSON.
    """

    derived = ("warnings", "reasons", "details")
    hidden = ("names", "verdicts")

    pipeline_type: TextKind
    timestamp: datetime
    blocked: bool
    names: tuple[str, ...]
    verdicts: tuple[Detail, ...]
    stance: Stance | Mapping[str, Any] | None = None
    tool: str | None = None
    call_id: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """``"name: reason"`` of every guardrail that warned."""
        return tuple(self.told("warned"))

    @property
    def reasons(self) -> tuple[str, ...]:
        """``"name: reason"`` of every guardrail that blocked."""
        return tuple(self.told("blocked"))

    @property
    def details(self) -> dict[str, Detail]:
        """What each guardrail said, by name."""
        return dict(zip(self.names, self.verdicts, strict=True))

    def told(self, what: str) -> list[str]:
        """``"name: reason"`` of every guardrail that ``blocked`` or ``warned``."""
        # Most guardrails take no action, and this is asked at every check.
        acted = [one for one in zip(self.names, self.verdicts, strict=True) if one[1].action or one[1].blocked]
        return [f"{name}: {detail.reason}" for name, detail in acted if getattr(detail, what)] if acted else []


class Records(Slotted, dict[str, SideRecord]):
    """Checks of the parts of a turn by the id of a call. It is never changed: another check makes another one."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]  # so that an empty one may be a default

    def with_record(self, name: str, record: SideRecord) -> Records:
        """Return a copy with one more record, in the place of an earlier one of that name."""
        changed = Records(self)
        changed[name] = record
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {name: record.to_dict() for name, record in self.items()}


NO_RECORDS = Records()
"""Of a turn without tools."""


@record
class TurnRecord(Record):
    """The last check of each text of a turn, apart and joined.

    `last` is the kind of text that was checked last. Calls and results are in order, by id of the call; `texts`,
    which the responder said beside calls, by id of the first of them.
    """

    derived = ("blocked", "warnings", "reasons", "details", "pipeline_type", "timestamp")
    hidden = ("last",)

    input: SideRecord | None
    output: SideRecord | None
    last: TextKind
    tool_calls: Records = NO_RECORDS
    tool_results: Records = NO_RECORDS
    texts: Records = NO_RECORDS

    @property
    def records(self) -> tuple[SideRecord, ...]:
        """The checks, in the order in which a turn has the texts: prompt, rounds with tools, response."""
        if not (self.tool_calls or self.tool_results or self.texts):
            return tuple(side for side in (self.input, self.output) if side is not None)
        rounds: list[SideRecord] = []
        for name, call in self.tool_calls.items():
            some = (self.texts.get(name), call, self.tool_results.get(name))
            rounds += [one for one in some if one is not None]
        rounds += [one for name, one in self.tool_results.items() if name not in self.tool_calls]
        rounds += [one for name, one in self.texts.items() if name not in self.tool_calls]
        first, last = (() if side is None else (side,) for side in (self.input, self.output))
        return (*first, *rounds, *last)

    @property
    def _in_time(self) -> list[SideRecord]:
        """The checks; the one that came last comes last."""
        records = list(self.records)
        latest = max(
            (one for one in records if one.pipeline_type is self.last), key=lambda one: one.timestamp, default=None
        )
        return [one for one in records if one is not latest] + ([] if latest is None else [latest])

    @property
    def blocked(self) -> bool:
        """Whether any of the texts was blocked."""
        return any(one.blocked for one in self.records)

    @property
    def warnings(self) -> list[str]:
        """Warnings of all checks."""
        return [text for one in self.records for text in one.warnings]

    @property
    def reasons(self) -> list[str]:
        """Reasons of all checks."""
        return [text for one in self.records for text in one.reasons]

    @property
    def details(self) -> dict[str, Detail]:
        """What each guardrail said by name; of one that checked several texts, at the last check."""
        return {name: detail for one in self._in_time for name, detail in one.details.items()}

    @property
    def pipeline_type(self) -> TextKind:
        """Which kind of text was checked last."""
        return self.last

    @property
    def timestamp(self) -> str:
        """When the last check ended."""
        return self._in_time[-1].timestamp.isoformat()


@final
@record
class PipelineResult(Document):
    """The verdict of a pipeline on one text. It is a read-only dict of JSON values, each an attribute as well.

    As attributes, enums, `details`, `stance` and `parts` are objects; by their keys they are JSON values.

    Args:
        blocked: whether the text must not go on.
        warnings: ``"name: reason"`` of every guardrail that warned.
        reasons: ``"name: reason"`` of every guardrail that blocked.
        details: what each guardrail said, by name.
        pipeline_type: ``input``, ``output``, ``tool_call`` or ``tool_result``.
        conversation_id: the conversation that the text belongs to.
        turn_number: its turn, from 1; None where the rate limit refused it.
        stance: the stance towards the session, where a guardrail knows it; as a key a mapping.
        text: the text, redacted where a guardrail redacts; of a tool call its arguments as they may go on.
        rate_limited: whether a rate limit refused it, so that no guardrail ran.
        seconds: how long the check took.
        tool: name of the tool that the text has to do with; None of a prompt and a response.
        call_id: id of its call; None likewise.
        parts: the results of each text, where `check_messages` checked several at once; the other fields join
            them: blocked where any is, and of each guardrail the gravest detail.
        retry_after: seconds until a prompt that was refused would be let through; None where none was.
        place: names the place after the text, where a list of messages was checked with a state store;
            `check_messages` takes it as ``after``.
        recorded: whether the same messages were checked before, so that this is what the record says.
    """

    blocked: bool
    warnings: list[str]
    reasons: list[str]
    details: Mapping[str, Detail]
    pipeline_type: TextKind
    conversation_id: str
    turn_number: int | None
    stance: Stance | None
    text: str
    rate_limited: bool = False
    seconds: float = 0.0
    tool: str | None = None
    call_id: str | None = None
    parts: tuple[PipelineResult, ...] = ()
    retry_after: float | None = None
    place: str | None = None
    recorded: bool = False

    derived = ("failures", "unread", "outcome")

    @property
    def outcome(self) -> Outcome:
        """What came of the text; one without a verdict must not go on either, though nothing blocked it."""
        if self.rate_limited:
            return Outcome.LIMITED
        for name in _UNFINISHED:
            detail = self.details.get(name)
            if detail is not None:
                return Outcome((detail.data or {}).get("outcome", name))
        if self.blocked or self.warnings:
            return Outcome.BLOCKED if self.blocked else Outcome.WARNED
        statuses = {detail.status for detail in self.details.values()}
        unchecked = bool(statuses & {Status.SKIPPED, Status.NOT_READ}) and Status.EVALUATED not in statuses
        return Outcome.UNCHECKED if unchecked else Outcome.PASSED

    @property
    def failures(self) -> list[str]:
        """``"name: reason"`` of every guardrail that failed to check the text, whichever way it went."""
        return self._with(Status.FAILED)

    @property
    def unread(self) -> list[str]:
        """``"name: not read: zh"`` of every guardrail whose observer does not read the language of the text."""
        return self._with(Status.NOT_READ)

    def _with(self, status: Status) -> list[str]:
        return [
            f"{name}: {detail.reason}"
            for part in self.parts or (self,)
            for name, detail in part.details.items()
            if detail.status is status
        ]

    def __repr__(self) -> str:
        done = [f"{detail.did} by {name}: {detail.reason}" for name, detail in self.details.items() if detail.did]
        why = f" ({'; '.join(done)})" if done else ""
        return f"<PipelineResult: {self.pipeline_type.replace('_', ' ')} {self.outcome}{why}>"


class GuardrailBlocked(TurnwiseError):  # noqa: N818 - it names what happened, which is no fault of the caller
    """A guardrail blocked a text. The message has the reasons, and nothing of the text.

    Args:
        result: the verdict.
        path: where the text stands, in something that has several; empty for the text as such.
    """

    def __init__(self, result: PipelineResult, path: str = "") -> None:
        what = path or f"the {result.pipeline_type.replace('_', ' ')}"
        super().__init__(f"{what} was blocked: {'; '.join(result.reasons) or 'no reason was given'}")
        self.result = result


def joined(results: Sequence[PipelineResult]) -> PipelineResult:
    """The results of several texts as one: about the first that was blocked, else warned of, else the first."""
    ranked = sorted(results, key=lambda one: 0 if one.blocked else 1 if one.warnings else 2)
    details: dict[str, Detail] = {}
    for one in results:
        for name, detail in one.details.items():
            if name not in details or _grave(detail) > _grave(details[name]):
                details[name] = detail
    return ranked[0].replaced(
        blocked=any(one.blocked for one in results),
        warnings=[warning for one in results for warning in one.warnings],
        reasons=[reason for one in results for reason in one.reasons],
        details=details,
        stance=next((one.stance for one in reversed(results) if one.stance is not None), None),
        rate_limited=any(one.rate_limited for one in results),
        seconds=sum(one.seconds for one in results),
        place=results[-1].place,
        parts=tuple(results),
    )


def _grave(detail: Detail) -> tuple[bool, ...]:
    failed, unread, ran = (detail.status is one for one in (Status.FAILED, Status.NOT_READ, Status.EVALUATED))
    return detail.blocked, failed, detail.warned, detail.found, unread, ran


@record
class DriftData(Record):
    """What drift keeps with a turn.

    A turn is blocked from `threshold` on, and warned of from `warn` on, None for never. `trajectory` says whose
    texts were judged, and as what: ``initiator``, ``responder`` or ``replies``. `components` are T, I and F of
    each principle, one after the other.
    """

    derived = ("scores",)
    hidden = ("principles", "components")

    detector: str
    score: float
    threshold: float
    warn: float | None
    active: bool
    turn: int
    trajectory: str
    speaker: str
    principles: tuple[str, ...]
    components: array[float]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The score of each principle."""
        triples = zip(*[iter(self.components)] * 3, strict=True)
        return {
            name: dict(zip("TIF", each, strict=True)) for name, each in zip(self.principles, triples, strict=True)
        }


def with_attempt(turn: Turn, before: object) -> list[dict[str, Any]]:
    """The blocked and replaced responses of a turn, and the one it has now; what can't be read is left out."""
    checks = turn.checks
    output = checks.get("output") if isinstance(checks, Mapping) else None
    attempt = {
        "response": turn.response,
        "response_timestamp": turn.response_timestamp.isoformat() if turn.response_timestamp else None,
        "output": None if output is None else plain(output),
    }
    return [*(before if isinstance(before, list) else ()), attempt]
