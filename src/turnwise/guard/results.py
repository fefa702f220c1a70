"""What a check gives back: `PipelineResult`, a dict of JSON values, and in it what each guardrail said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import isfinite
from typing import Any, NoReturn, final

from turnwise.errors import TurnwiseError
from turnwise.guard.finding import Action, Redaction, TextKind
from turnwise.sessions import Stance

_DEPTH = 12  # levels of nesting that are kept of what foreign code gave


class GuardrailStatus(StrEnum):
    """The status of a guardrail at a check. A text that is skipped or not read is not checked, so not clean."""

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
    """The outcome of a text: the verdict on it, or why there is none."""

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


_UNFINISHED = ("dropped", "cancelled", "timed_out")  # names under which details tell that there is no verdict


@dataclass(frozen=True, slots=True)
class Detail:
    """The result of one guardrail at one check.

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

    status: GuardrailStatus
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
    def would_block(self) -> bool:
        """Whether it blocked, in mode ``log`` would have, or found something where it is set to log alone."""
        if self.action is not Action.LOG:
            return self.blocked
        return self.reason.startswith(f"would {Action.BLOCK}: ") or not self.reason.startswith("would ")

    @property
    def asks(self) -> bool:
        """Whether it blocked the text only until the user approves of it, which `data` says."""
        return self.blocked and self.data is not None and self.data.get("asks") is True

    @property
    def did(self) -> str:
        """Its effect in a word: the action, else ``block`` or ``failed``; empty where it had none."""
        if self.action is not None:
            return str(self.action)
        return "block" if self.blocked else "failed" if self.status is GuardrailStatus.FAILED else ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        data: Any = self.data
        return {
            "status": str(self.status),
            "blocked": self.blocked,
            "found": self.found,
            "action": None if self.action is None else str(self.action),
            "confidence": self.confidence,
            "reason": self.reason,
            "redactions": [one.to_dict() for one in self.redactions],
            "seconds": self.seconds,
            "path": None if self.path is None else str(self.path),
            "data": data.to_dict() if hasattr(data, "to_dict") else as_json(data),
        }


@final
class PipelineResult(dict[str, Any]):
    """The verdict of a pipeline on one text. It is a read-only dict of JSON values, each an attribute as well.

    As attributes, enums, `details`, `stance` and `parts` are objects; by their keys they are JSON values.

    Args:
        blocked: whether the text must not go on.
        warnings: ``"name: reason"`` of every guardrail that warned.
        reasons: ``"name: reason"`` of every guardrail that blocked.
        details: what each guardrail said, by name.
        pipeline_type: the kind of text, a `TextKind`.
        conversation_id: the conversation that the text belongs to.
        turn_number: its turn, from 1; None where the rate limit refused it.
        stance: the stance towards the session, where a guardrail knows it; as a key a mapping.
        text: the text, redacted where a guardrail redacts; of a tool call its arguments as they may go on.
        rate_limited: whether a rate limit refused it, so that no guardrail ran.
        seconds: how long the check took.
        tool: name of the tool that the text has to do with, or where a document or memory comes from; None of a
            prompt and a response.
        call_id: id of the call, or of the description, document or memory; None likewise.
        parts: the results of each text, where `check_messages` checked several at once; the other fields join
            them: blocked where any is, and of each guardrail the gravest detail.
        retry_after: seconds until a prompt that was refused would be let through; None where none was.
        place: names the place after the text, where a list of messages was checked with a state store;
            `check_messages` takes it as ``after``.
        recorded: whether the same messages were checked before, so that this is what the record says.
    """

    __slots__ = (
        "blocked",
        "call_id",
        "conversation_id",
        "details",
        "parts",
        "pipeline_type",
        "place",
        "rate_limited",
        "reasons",
        "recorded",
        "retry_after",
        "seconds",
        "stance",
        "text",
        "tool",
        "turn_number",
        "warnings",
    )

    def __init__(
        self,
        *,
        blocked: bool,
        warnings: list[str],
        reasons: list[str],
        details: Mapping[str, Detail],
        pipeline_type: TextKind,
        conversation_id: str,
        turn_number: int | None,
        stance: Stance | None,
        text: str,
        rate_limited: bool = False,
        seconds: float = 0.0,
        tool: str | None = None,
        call_id: str | None = None,
        parts: tuple[PipelineResult, ...] = (),
        retry_after: float | None = None,
        place: str | None = None,
        recorded: bool = False,
    ) -> None:
        _teach_yaml()
        self.blocked = blocked
        self.warnings = warnings
        self.reasons = reasons
        self.details = details
        self.pipeline_type = pipeline_type
        self.conversation_id = conversation_id
        self.turn_number = turn_number
        self.stance = stance
        self.text = text
        self.rate_limited = rate_limited
        self.seconds = seconds
        self.tool = tool
        self.call_id = call_id
        self.parts = parts
        self.retry_after = retry_after
        self.place = place
        self.recorded = recorded
        super().__init__(self.to_dict())

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):  # each is set once, when the result is made
            self._refused()
        super().__setattr__(name, value)

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a PipelineResult is read-only; to_dict() gives a dict of your own")

    __setitem__ = __delitem__ = __delattr__ = __ior__ = _refused
    update = setdefault = pop = popitem = clear = _refused

    def to_dict(self) -> dict[str, Any]:
        """A dict of your own, of JSON values."""
        return {
            "blocked": self.blocked,
            "warnings": [*self.warnings],
            "reasons": [*self.reasons],
            "details": {name: detail.to_dict() for name, detail in self.details.items()},
            "pipeline_type": str(self.pipeline_type),
            "conversation_id": self.conversation_id,
            "turn_number": self.turn_number,
            "stance": None if self.stance is None else self.stance.to_dict(),
            "text": self.text,
            "rate_limited": self.rate_limited,
            "seconds": self.seconds,
            "tool": self.tool,
            "call_id": self.call_id,
            "parts": [part.to_dict() for part in self.parts],
            "retry_after": self.retry_after,
            "place": self.place,
            "recorded": self.recorded,
            "failures": self.failures,
            "unread": self.unread,
            "outcome": str(self.outcome),
            "asks": self.asks,
        }

    def without_reasons(self) -> dict[str, Any]:
        """The dict without reasons, warnings, details, stance and unread languages, which help to probe a guard.

        Of failures the names of the guardrails are left, and a text with a warning is one that passed.
        """
        told = self.to_dict() | {"warnings": [], "reasons": [], "details": {}, "stance": None, "unread": []}
        told["failures"] = [failure.partition(":")[0] for failure in self.failures]
        told["parts"] = [part.without_reasons() for part in self.parts]
        return told | {"outcome": str(Outcome.PASSED if self.outcome is Outcome.WARNED else self.outcome)}

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def replaced(self, **changes: object) -> PipelineResult:
        """Return one like it, with other values for some fields."""
        return PipelineResult(**self._fields() | changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _result_of, (self._fields(),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        as_dict = core_schema.plain_serializer_function_ser_schema(cls.to_dict)
        return core_schema.is_instance_schema(cls, serialization=as_dict)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "object", "title": cls.__name__}

    @property
    def outcome(self) -> Outcome:
        """The outcome of the text; one without a verdict must not go on either, though nothing blocked it."""
        if self.rate_limited:
            return Outcome.LIMITED
        for name in _UNFINISHED:
            detail = self.details.get(name)
            if detail is not None:
                return Outcome((detail.data or {}).get("outcome", name))
        if self.blocked or self.warnings:
            return Outcome.BLOCKED if self.blocked else Outcome.WARNED
        statuses = {detail.status for detail in self.details.values()}
        unchecked = (
            bool(statuses & {GuardrailStatus.SKIPPED, GuardrailStatus.NOT_READ})
            and GuardrailStatus.EVALUATED not in statuses
        )
        return Outcome.UNCHECKED if unchecked else Outcome.PASSED

    @property
    def asks(self) -> bool:
        """Whether it is blocked only until the user approves of it; see the guardrail ``actions``."""
        return self.blocked and all(detail.asks for detail in self.details.values() if detail.blocked)

    @property
    def failures(self) -> list[str]:
        """``"name: reason"`` of every guardrail that failed to check the text, whichever way it went."""
        return self._with(GuardrailStatus.FAILED)

    @property
    def unread(self) -> list[str]:
        """``"name: not read: zh"`` of every guardrail whose observer does not read the language of the text."""
        return self._with(GuardrailStatus.NOT_READ)

    def _with(self, status: GuardrailStatus) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class Correction:
    """The result of a second look that came after its check had ended.

    Args:
        conversation_id: the conversation.
        turn_number: the turn that was checked.
        session_id: the session that the turn belongs to.
        guardrail: name of the guardrail that asked.
        pipeline_type: the kind of text that was checked.
        detail: what the guardrail would have said with the judge's scores; ``failed`` where the judge gave none,
            so that the check stands as it was.
        stance: the stance towards the session as it is now; None where it is not known, or nothing changed.
        seconds: how long the answer took.
    """

    conversation_id: str
    turn_number: int
    session_id: str
    guardrail: str
    pipeline_type: TextKind
    detail: Detail
    stance: Stance | None = None
    seconds: float = 0.0

    @property
    def would_block(self) -> bool:
        """Whether the turn, which went on, would have been blocked."""
        return self.detail.blocked

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "conversation_id": self.conversation_id,
            "turn_number": self.turn_number,
            "session_id": self.session_id,
            "guardrail": self.guardrail,
            "pipeline_type": str(self.pipeline_type),
            "would_block": self.would_block,
            "detail": self.detail.to_dict(),
            "stance": None if self.stance is None else self.stance.to_dict(),
            "seconds": self.seconds,
        }


class GuardrailBlocked(TurnwiseError):  # noqa: N818 - it names what happened, which is no fault of the caller
    """A guardrail blocked a text. The message has the reasons, and nothing of the text.

    ``brief`` is the message without reasons, for whoever wrote the text: scores and names of guardrails help to
    write around them.

    Args:
        result: the verdict.
        path: where the text stands, in something that has several; empty for the text as such.
    """

    def __init__(self, result: PipelineResult, path: str = "") -> None:
        what = path or f"the {result.pipeline_type.replace('_', ' ')}"
        self.brief = f"{what} was blocked"
        super().__init__(f"{self.brief}: {'; '.join(result.reasons) or 'no reason was given'}")
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
    failed, unread, ran = (
        detail.status is one
        for one in (GuardrailStatus.FAILED, GuardrailStatus.NOT_READ, GuardrailStatus.EVALUATED)
    )
    return detail.blocked, failed, detail.warned, detail.found, unread, ran


def _result_of(fields: dict[str, Any]) -> PipelineResult:
    return PipelineResult(**fields)


@cache
def _teach_yaml() -> None:
    """Tell PyYAML how to write results; by itself it writes no subclass of dict."""
    from yaml.representer import Representer, SafeRepresenter  # what its dumpers inherit from

    for kind in (SafeRepresenter, Representer):
        kind.add_representer(PipelineResult, lambda dumper, result: dumper.represent_dict(result.to_dict()))


def as_json(value: Any, depth: int = 0) -> Any:
    """A value from foreign code as JSON has it; what JSON lacks becomes null, or the name of its type."""
    if isinstance(value, str | bool | int):
        return value if isinstance(value, bool) else str.__str__(value) if isinstance(value, str) else int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if value is None or depth >= _DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item, depth + 1) for item in value]
    return type(value).__name__
