"""What a check gives back, and what is kept of it: small objects that read like JSON objects.

A long conversation keeps these for every turn, so they are slotted objects that become dicts only on demand.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform, final

from turnwise.conversation import Turn
from turnwise.conversation.turn import GUARD_KEY
from turnwise.guard.guardrail import Action, Redaction
from turnwise.scoring import Score
from turnwise.sessions import Stance

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values


class Pipeline(StrEnum):
    """Which texts a check was about."""

    INPUT = "input"
    OUTPUT = "output"


class Status(StrEnum):
    """What became of a guardrail at a check. Skipped is not checked, and not checked is not clean."""

    EVALUATED = "evaluated"
    SKIPPED = "skipped"
    FAILED = "failed"


class Path(StrEnum):
    """Which way a failed guardrail went."""

    OPEN = "open"
    CLOSED = "closed"


class _Slotted:
    """Tells a record from other values; asking an abstract class would take a call of its own."""

    __slots__ = ()


_AS_IT_IS = (bool, float, int, _Slotted)

HINT = "call to_dict() for the values"
"""The one key that the dict under a record has: JSON encoders take an empty dict for ``{}`` without asking it."""

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: Kind) -> Kind:
    """Make a class a record: a frozen, slotted dataclass that reads like a JSON object, and is written as one."""
    built: Any = dataclass(frozen=True, slots=True, eq=False)(kind)
    derived: tuple[str, ...] = getattr(built, "derived", ())
    hidden: tuple[str, ...] = getattr(built, "hidden", ())
    built.own = tuple(each.name for each in fields(built))
    built.public = tuple(name for name in built.own if name not in hidden) + derived
    # Web frameworks take dataclasses apart by their fields. These are dicts, and are asked for their keys.
    del built.__dataclass_fields__, built.__dataclass_params__
    made: Kind = built
    return made


class Record(_Slotted, Mapping[str, Any]):
    """A slotted object that is also a mapping from field to JSON value, or to another record."""

    __slots__ = ()

    own: ClassVar[tuple[str, ...]] = ()
    """Names of the fields."""

    public: ClassVar[tuple[str, ...]] = ()
    """The keys: fields that are not hidden, and what is derived from them."""

    def __getitem__(self, key: str) -> Any:
        if key not in self.public:
            raise KeyError(key)
        value = getattr(self, key)
        # A record reads like a JSON object; making it one at every look would cost more than the look.
        return value if isinstance(value, _AS_IT_IS) else _plain(value)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if key not in self.public:
            return default
        value = getattr(self, key)
        return value if isinstance(value, _AS_IT_IS) else _plain(value)

    def __contains__(self, key: object) -> bool:
        return key in self.public

    def __iter__(self) -> Iterator[str]:
        return iter(self.public)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.public)

    def __len__(self) -> int:
        return len(self.public)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: _plain(getattr(self, name)) for name in self.public}

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.own)


class Document(Record, dict[str, Any]):
    """A record that is also a read-only dict, for those that are handed out or kept with a turn.

    It becomes JSON values when it is looked at as a whole: by ``json.dumps``, ``dict`` or `to_dict`. Encoders that
    read dicts behind their backs, such as orjson, are given what `to_dict` returns.
    """

    __slots__ = ()

    # Runs in C, with the hint that each takes as its last argument: one is made at every check.
    __post_init__ = dict.setdefault

    def keys(self) -> dict_keys[str, Any]:
        """Return the keys."""
        return dict.fromkeys(self.public).keys()

    def values(self) -> dict_values[str, Any]:
        """Return the values as JSON has them."""
        return self.to_dict().values()

    def items(self) -> dict_items[str, Any]:
        """Return keys and values as JSON has them."""
        return self.to_dict().items()

    def copy(self) -> dict[str, Any]:
        """Return it as a dict of one's own, of JSON values."""
        return self.to_dict()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self.to_dict() == other.to_dict()
        return self.to_dict() == other if isinstance(other, Mapping) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {**self.to_dict(), **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {**other, **self.to_dict()}

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is read-only; to_dict() gives a dict of your own")

    __setitem__ = __delitem__ = __ior__ = _refused
    update = setdefault = pop = popitem = clear = _refused


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, _Slotted | Stance | Score):
        return value.to_dict()  # type: ignore[union-attr]
    if isinstance(value, Redaction):
        return {
            "start": value.start,
            "end": value.end,
            "kind": value.kind,
            "placeholder": value.placeholder,
        }
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


@record
class Detail(Record):
    """What one guardrail said at one check.

    Args:
        status: evaluated, skipped or failed.
        blocked: whether it blocked the text, by what it found or because it failed.
        found: whether it found something.
        action: what was done about it: block, redact, warn or log; None where nothing was.
        confidence: how sure it is that something is there, in [0, 1].
        reason: what was found, or why it was skipped or failed.
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


@record
class SideRecord(Record):
    """One check of one side of a turn, as the turn keeps it.

    Args:
        pipeline_type: ``input`` or ``output``.
        timestamp: when the check ended, aware.
        blocked: whether the text was blocked.
        names: names of the guardrails that are part of the check, in the order in which they ran.
        verdicts: what each said, in the same order.
        stance: the stance towards the session after the check, where a guardrail knows it; a mapping where the
            check was read from JSON.
    """

    derived = ("warnings", "reasons", "details")
    hidden = ("names", "verdicts")

    pipeline_type: Pipeline
    timestamp: datetime
    blocked: bool
    names: tuple[str, ...]
    verdicts: tuple[Detail, ...]
    stance: Stance | Mapping[str, Any] | None = None

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
        """Return ``"name: reason"`` of every guardrail that did something.

        Args:
            what: ``blocked`` or ``warned``.
        """
        # Most guardrails take no action, and this is asked at every check.
        acted = [one for one in zip(self.names, self.verdicts, strict=True) if one[1].action or one[1].blocked]
        return [f"{name}: {detail.reason}" for name, detail in acted if getattr(detail, what)] if acted else []


@record
class TurnRecord(Document):
    """The checks of a turn: both sides apart under ``input`` and ``output``, and joined beside them.

    Args:
        input: the last check of the prompt.
        output: the last check of the response.
        last: which of the two came last.
    """

    derived = ("blocked", "warnings", "reasons", "details", "pipeline_type", "timestamp")
    hidden = ("last",)

    _: InitVar[str] = field(default=HINT, kw_only=True)
    input: SideRecord | None
    output: SideRecord | None
    last: Pipeline

    @property
    def _sides(self) -> tuple[SideRecord, ...]:
        """The sides that were checked; the one that was checked last comes last."""
        sides = (self.input, self.output) if self.last is Pipeline.OUTPUT else (self.output, self.input)
        return tuple(side for side in sides if side is not None)

    @property
    def blocked(self) -> bool:
        """Whether either side was blocked."""
        return any(side.blocked for side in self._sides)

    @property
    def warnings(self) -> list[str]:
        """Warnings of both sides."""
        return [text for side in (self.input, self.output) if side is not None for text in side.warnings]

    @property
    def reasons(self) -> list[str]:
        """Reasons of both sides."""
        return [text for side in (self.input, self.output) if side is not None for text in side.reasons]

    @property
    def details(self) -> dict[str, Detail]:
        """What each guardrail said by name; of one that checked both sides, at the last check."""
        return {name: detail for side in self._sides for name, detail in side.details.items()}

    @property
    def pipeline_type(self) -> Pipeline:
        """Which side was checked last."""
        return self.last

    @property
    def timestamp(self) -> str:
        """When the last check ended."""
        return self._sides[-1].timestamp.isoformat()


@final
@record
class PipelineResult(Document):
    """The verdict of a pipeline on one text. Every field can be read as an attribute and as a key.

    Args:
        blocked: whether the text must not go on.
        warnings: ``"name: reason"`` of every guardrail that warned.
        reasons: ``"name: reason"`` of every guardrail that blocked.
        details: what each guardrail said, by name.
        pipeline_type: ``input`` or ``output``.
        conversation_id: the conversation that the text belongs to.
        turn_number: its turn, from 1; None where the rate limit refused it.
        stance: the stance towards the session, where a guardrail knows it; as a key a mapping.
        text: the text, redacted where a guardrail redacts.
        rate_limited: whether a rate limit refused it, so that no guardrail ran.
        seconds: how long the check took.
        retry_after: seconds until a prompt that was refused would be let through; None where none was.
    """

    _: InitVar[str] = field(default=HINT, kw_only=True)
    blocked: bool
    warnings: list[str]
    reasons: list[str]
    details: Mapping[str, Detail]
    pipeline_type: Pipeline
    conversation_id: str
    turn_number: int | None
    stance: Stance | None
    text: str
    rate_limited: bool = False
    seconds: float = 0.0
    retry_after: float | None = None

    derived = ("failures",)

    @property
    def failures(self) -> list[str]:
        """``"name: reason"`` of every guardrail that failed to check the text, whichever way it went."""
        failed = ((name, detail) for name, detail in self.details.items() if detail.status is Status.FAILED)
        return [f"{name}: {detail.reason}" for name, detail in failed]


@record
class DriftData(Record):
    """What drift keeps with a turn.

    Args:
        detector: the detector, such as ``"any_turn"``.
        score: what it said after this turn.
        threshold: score at which a turn is blocked.
        warn: score at which a turn is warned of; None for never.
        active: whether the turn was over the threshold.
        turn: number of the turn.
        principles: names of the principles that were scored.
        components: T, I and F of each, one after the other.
    """

    derived = ("scores",)
    hidden = ("principles", "components")

    detector: str
    score: float
    threshold: float
    warn: float | None
    active: bool
    turn: int
    principles: tuple[str, ...]
    components: array[float]

    @property
    def scores(self) -> dict[str, Score]:
        """The score of each principle."""
        triples = zip(*[iter(self.components)] * 3, strict=True)
        return {name: Score(*triple) for name, triple in zip(self.principles, triples, strict=True)}


def with_attempt(turn: Turn, before: object) -> list[dict[str, Any]]:
    """Return the responses of a turn that were blocked and replaced, with the one that it has now.

    Args:
        turn: the turn, whose response was blocked.
        before: those before it; what can't be read is left out.
    """
    checks = turn.metadata.get(GUARD_KEY)
    output = checks.get("output") if isinstance(checks, Mapping) else None
    attempt = {
        "response": turn.response,
        "response_timestamp": turn.response_timestamp.isoformat() if turn.response_timestamp else None,
        "output": None if output is None else _plain(output),
    }
    return [*(before if isinstance(before, list) else ()), attempt]
