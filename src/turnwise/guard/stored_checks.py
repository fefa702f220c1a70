"""Reads what anybody may have written: what a guard kept with a conversation, and events of an audit.

Pydantic reads it, and what can't be read is a `GuardMetadataError` that says what is wrong, and where. Unknown
keys are passed over; a missing one, or null, has its default where there is one. This module is loaded when
something is read, never for a check of a live text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from turnwise.guard.finding import Action, Redaction, TextKind
from turnwise.guard.results import Detail, GuardrailStatus, Path
from turnwise.guard.written_values import INITIATOR, GuardMetadataError, adapter_of, mistake_in
from turnwise.scoring import Score
from turnwise.sessions import EngagementMode


def _time(value: Any) -> datetime:
    """A time in UTC; one without a zone is taken for UTC."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError("time", "a time such as 2025-01-31T12:00:00+00:00") from None


def _endless_is_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


_needed: Any = Field(default=None, validate_default=True)
"""Of a value that has to be there; null is as good as none."""

_Whole = Annotated[StrictInt, Field(ge=0)]

_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]

_Share = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]

_Seconds = Annotated[float, Field(strict=True, ge=0.0, allow_inf_nan=False)]

_Limit = Annotated[_Number | None, BeforeValidator(_endless_is_none)]

_Time = Annotated[datetime, PlainValidator(_time)]


class _Stored(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {str(key): one for key, one in data.items() if one is not None}


class _StoredRedaction(_Stored):
    start: _Whole = 0
    end: _Whole = 0
    kind: StrictStr = ""
    placeholder: StrictStr = ""


class _StoredDetail(_Stored):
    status: GuardrailStatus = _needed
    blocked: StrictBool = False
    found: StrictBool = False
    action: Action | None = None
    confidence: _Share = 0.0
    reason: StrictStr = ""
    redactions: tuple[_StoredRedaction, ...] = ()
    seconds: _Seconds = 0.0
    path: Path | None = None
    data: dict[str, Any] | None = None

    def made(self) -> Detail:
        return Detail(**dict(self) | {"redactions": tuple(Redaction(**dict(one)) for one in self.redactions)})


class _StoredStance(BaseModel):
    """A stance as JSON values; of these what is read later is checked here."""

    model_config = ConfigDict(extra="allow", use_enum_values=True)

    mode: EngagementMode | None = None
    rationale: StrictStr | None = None
    trust: _Share | None = None


class StoredCheck(_Stored):
    """One check of a text."""

    blocked: StrictBool = _needed
    timestamp: _Time = _needed
    details: dict[str, _StoredDetail] = {}
    stance: _StoredStance | None = None
    tool: StrictStr | None = None
    call_id: StrictStr | None = None


class StoredTurn(_Stored):
    """The checks of a turn."""

    input: StoredCheck | None = None
    output: StoredCheck | None = None
    tool_calls: dict[str, StoredCheck | None] = {}
    tool_results: dict[str, StoredCheck | None] = {}
    texts: dict[str, StoredCheck | None] = {}
    tool_description: dict[str, StoredCheck | None] = {}
    document: dict[str, StoredCheck | None] = {}
    memory: dict[str, StoredCheck | None] = {}
    pipeline_type: TextKind | None = None


class _Attempt(_Stored):
    output: StoredCheck | None = None


class _Triple(_Stored):
    T: _Share = _needed
    I: _Share = _needed  # noqa: E741 - the field's name for indeterminacy
    F: _Share = _needed


class StoredDrift(_Stored):
    """What drift kept of a check."""

    detector: StrictStr = _needed
    score: _Number = _needed
    threshold: _Limit = None
    warn: _Limit = None
    active: StrictBool = False
    scores: dict[str, _Triple] = {}
    trajectory: StrictStr = INITIATOR
    turn: _Whole = 0
    speaker: StrictStr = ""
    second_look: dict[StrictStr, Any] | None = None
    gave_way: _Whole | None = None


class _StoredRefusal(_Stored):
    scope: StrictStr = ""
    reason: StrictStr = ""
    text_sha256: StrictStr = ""
    after_turn: _Whole = 0
    timestamp: _Time = _needed


class _Refusals(_Stored):
    count: _Whole = 0
    latest: tuple[_StoredRefusal, ...] = ()


class _StoredVerdict(_Stored):
    status: StrictStr = ""


class StoredEvent(_Stored):
    """An event of an audit."""

    kind: StrictStr = _needed
    time: StrictStr = _needed
    conversation_id: StrictStr = ""
    session_id: StrictStr = ""
    pipeline: StrictStr = ""
    side: StrictStr = ""
    outcome: StrictStr = ""
    tool: StrictStr = ""
    call_id: StrictStr = ""
    text: StrictStr = ""
    model: StrictStr = ""
    error: StrictStr = ""
    policy: StrictStr = ""
    reasons: tuple[StrictStr, ...] = ()
    warnings: tuple[StrictStr, ...] = ()
    turn: _Whole = 0
    dropped: _Whole = 0
    unwritten: _Whole = 0
    blocked: StrictBool = False
    warned: StrictBool = False
    rate_limited: StrictBool = False
    would_block: StrictBool = False
    participants: dict[str, Any] = {}
    stance: dict[str, Any] = {}
    guardrails: dict[str, _StoredVerdict] = {}


_Kind = TypeVar("_Kind")


def read_as(kind: type[_Kind], value: object, where: str) -> _Kind:
    """What somebody kept, as one of the models here; `where` names the value in errors."""
    hint: Any = kind
    try:
        found: _Kind = adapter_of(hint).validate_python(value)
        return found
    except ValidationError as error:
        raise GuardMetadataError(mistake_in(error, value).told(where)) from None


def attempts(value: object, where: str) -> list[StoredCheck]:
    """The checks of responses that were blocked and replaced."""
    return [one.output for one in read_as(tuple[_Attempt, ...], value, where) if one.output is not None]


def scores(value: object, where: str) -> dict[str, Score]:
    """Scores by principle."""
    return {name: Score(one.T, one.I, one.F) for name, one in read_as(dict[str, _Triple], value, where).items()}


def refusals(value: object, where: str) -> tuple[int, list[dict[str, Any]]]:
    """How many prompts a rate limit refused, and the latest of them, oldest first."""
    read = read_as(_Refusals, value, where)
    latest = [dict(one) | {"timestamp": one.timestamp.isoformat()} for one in read.latest]
    return max(read.count, len(latest)), latest
