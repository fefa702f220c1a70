"""What a guardrail is, one inline check of a text with its conversation behind it; and the guardrails by name."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from turnwise.clock import Clock
from turnwise.conversation import Conversation, Side, Turn
from turnwise.deadline import Deadline
from turnwise.errors import GuardError
from turnwise.plugins import Registry, is_factory, parameters_of
from turnwise.sessions import Sessions, Stance, StateStore

if TYPE_CHECKING:
    from turnwise.guard.state.views import Work

if TYPE_CHECKING:
    from turnwise.guard.arguments import Arguments

Value = TypeVar("Value")


class Action(StrEnum):
    """What becomes of a text in which a guardrail finds something, from mild to strict."""

    LOG = "log"
    WARN = "warn"
    REDACT = "redact"
    BLOCK = "block"


class TextKind(StrEnum):
    """The kinds of text that a guard checks: prompts, responses, calls of tools, and what tools give back."""

    INPUT = "input"
    OUTPUT = "output"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


class On(StrEnum):
    """Which texts a guardrail looks at; ``both`` is prompts and responses, ``tools`` calls and results."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TOOLS = "tools"
    ALL = "all"


_KINDS = {
    On.BOTH: (TextKind.INPUT, TextKind.OUTPUT),
    On.TOOLS: (TextKind.TOOL_CALL, TextKind.TOOL_RESULT),
    On.ALL: tuple(TextKind),
}


def kinds_on(on: On | Iterable[On]) -> frozenset[TextKind]:
    """The kinds of text that one name, or several, stand for.

    >>> sorted(kinds_on([On.INPUT, On.TOOL_CALL]))
    [<TextKind.INPUT: 'input'>, <TextKind.TOOL_CALL: 'tool_call'>]
    """
    names = (on,) if isinstance(on, On) else on
    return frozenset(kind for name in names for kind in _KINDS.get(name) or (TextKind(name),))


class OnError(StrEnum):
    """What becomes of a text that a guardrail failed to check."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"


class Cost(IntEnum):
    """How costly a guardrail is; the cheaper ones run first. One of cost ``SIZE`` does not read the text."""

    SIZE = 0
    TEXT = 1
    MODEL = 2
    REMOTE = 3


_STRICTNESS = {action: rank for rank, action in enumerate(Action)}


def milder(first: Action, second: Action) -> Action:
    """The milder of two actions.

    >>> milder(Action.BLOCK, Action.WARN).value
    'warn'
    """
    return min(first, second, key=_STRICTNESS.__getitem__)


@dataclass(frozen=True, slots=True)
class Redaction:
    """A stretch of the text that should be replaced.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        kind: what it is, such as ``email``.
        placeholder: what stands in its place.

    >>> Redaction(0, 3, "ssn").placeholder
    '[SSN]'
    """

    start: int
    end: int
    kind: str
    placeholder: str = ""

    def __post_init__(self) -> None:
        if not self.placeholder:
            object.__setattr__(self, "placeholder", f"[{self.kind.upper()}]")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"start": self.start, "end": self.end, "kind": self.kind, "placeholder": self.placeholder}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a guardrail says of a text.

    Args:
        found: whether it found something.
        reason: what, in words; needed where something was found. It may be stored and shown, so it never holds
            what should be kept secret.
        confidence: how sure it is that something is there, in [0, 1].
        redactions: stretches to replace, apart from each other, by offsets in the text that was checked.
        action: the strictest action that this finding deserves; None for what is configured.
        data: what else is to be kept with the turn; JSON values.
        stance: the stance towards the session, where the guardrail knows it.
        unread: language of a text that the guardrail's observer does not read, a code of BCP 47; see `not_read`.

    Raises:
        GuardError: something was found without a reason, or a confidence out of [0, 1].
    """

    found: bool
    reason: str = ""
    confidence: float = 0.0
    redactions: tuple[Redaction, ...] = ()
    action: Action | None = None
    data: Mapping[str, Any] | None = None
    stance: Stance | None = None
    unread: str | None = None

    def __post_init__(self) -> None:
        if self.found and not self.reason:
            raise GuardError("a Finding with found=True needs a reason")
        if not (math.isfinite(self.confidence) and 0.0 <= self.confidence <= 1.0):
            raise GuardError(f"the confidence of a Finding is {self.confidence!r}; use a number in [0, 1]")

    @property
    def in_full(self) -> bool:
        """Whether something was found that deserves the strictest action that is configured."""
        return self.found and self.action is None


CLEAN = Finding(found=False)
"""Nothing was found."""

IfUnread = Literal["allow", "block", "warn"]
"""What becomes of a text in a language that the observer does not read."""


def not_read(language: str, then: IfUnread, finding: Finding = CLEAN) -> Finding:
    """The finding for a text that the observer does not read, on top of what else the guardrail found.

    >>> not_read("zh", "allow").found, not_read("zh", "warn").reason
    (False, 'not read: zh')
    """
    reason = "; ".join(filter(None, (finding.reason, f"not read: {language}")))
    if then == "block":
        return replace(finding, found=True, reason=reason, action=None, unread=language)
    action = Action.WARN if then == "warn" and not finding.found else finding.action
    return replace(finding, found=finding.found or then == "warn", reason=reason, action=action, unread=language)


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a text under check has to do with a tool.

    Args:
        kind: ``tool_call`` or ``tool_result``.
        name: name of the tool; empty where it is not known.
        call_id: id of the call.
        arguments: of a call its arguments: ``arguments.raw`` as the model gave them, ``arguments.text`` as they
            are checked. None of a result.
    """

    kind: TextKind
    name: str
    call_id: str
    arguments: Arguments | None = None


@dataclass(slots=True)
class Check:
    """One text under check, as its guardrails see it.

    Args:
        text: the text, as redacted by the guardrails before.
        side: ``prompt`` for an input and for what a tool gave back, ``response`` for an output and for the
            arguments of a tool call: what reaches the model, and what it says.
        turn: the turn that the text belongs to.
        conversation: the conversation with all its turns.
        session_id: the session that the turn belongs to.
        shared: results that several guardrails of this check may use; see `once`.
        stance: the stance towards the session, from the last guardrail that knew it.
        tool: the call or result that the text is of; None for a prompt or a response.
        before: characters of the text that come before this stretch of it, where it is a stretch; see
            `Guardrail.reach`.
        more: whether more of the text is still to come.
        state: what sessions are kept in until the check has ended, where the pipeline has a state store.
        deadline: when the check has to end; None for no limit.
    """

    text: str
    side: Side
    turn: Turn
    conversation: Conversation
    session_id: str
    shared: dict[object, Any] = field(default_factory=dict)
    stance: Stance | None = None
    tool: ToolText | None = None
    before: int = 0
    more: bool = False
    state: Work | None = None
    deadline: Deadline | None = None

    @property
    def kind(self) -> TextKind:
        """Which of the four kinds of text it is."""
        if self.tool is not None:
            return self.tool.kind
        return TextKind.INPUT if self.side is Side.PROMPT else TextKind.OUTPUT

    def once(self, key: object, compute: Callable[[], Value]) -> Value:
        """Return what was computed under a key during this check; the first time, compute it.

        Args:
            key: names the result; holds everything that it depends on.
            compute: computes it.
        """
        if key not in self.shared:
            self.shared[key] = compute()
        value: Value = self.shared[key]
        return value


class Guardrail(ABC):
    """One inline check. A user's own is a subclass, registered by `guardrail` or an entry point.

    Its settings are its constructor's arguments: their names, annotations and defaults are what a configuration
    file may say. One guardrail serves many conversations at once, from several threads. It may have a coroutine
    method ``acheck`` beside `check`, which async pipelines await instead; both must say the same. One that only
    awaits is an `AsyncGuardrail`.

    Class attributes, each a default that a configuration may override where it says so:

    - ``cost``: the cheaper ones run first;
    - ``redacts``: whether findings have redactions, without which ``action: redact`` is refused;
    - ``default_action``;
    - ``default_on``: the kinds of text that it looks at, a name of `On` or a tuple of them; all four unless it
      says otherwise, so that nothing passes unseen. Of a tool call it sees the arguments (see `Check.tool`);
    - ``reads``: the kinds of text that it can look at; ``on`` may name no other;
    - ``reads_names``: whether it is also asked about names that a text comes with: of tools, of who speaks;
    - ``files``: settings that name a file, which in a YAML file is relative to that; each with the endings by
      which files are told from other values, none where it is always a file;
    - ``default_timeout``: seconds after which the check has failed. With a timeout the check runs in a thread of
      its own; None is for those that only compute, in bounded time. One that computes for long calls
      `turnwise.deadline.check_deadline` between its steps, so that it ends when nobody waits for it any more.
    """

    cost: ClassVar[Cost] = Cost.REMOTE
    redacts: ClassVar[bool] = False
    reads_names: ClassVar[bool] = False
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    default_action: ClassVar[Action] = Action.BLOCK
    default_on: ClassVar[On | tuple[On, ...]] = On.ALL
    reads: ClassVar[On | tuple[On, ...]] = On.ALL
    default_timeout: ClassVar[float | None] = 10.0

    @property
    def waits(self) -> bool:
        """Whether a check may wait, as those with a time limit do; settings may make others wait as well.

        Such a check never runs on an event loop, and has a time limit unless that is set to none.
        """
        return self.default_timeout is not None

    @property
    def reach(self) -> int | None:
        """How many letters and digits around a place of a text decide what is found there, at least 0.

        A response that comes in pieces is looked at stretch by stretch by the guardrails that say so, and as
        many are held back. None is for those that need the whole text; they are asked at its end. What such a
        guardrail finds in a stretch counts: where it blocks that, it blocks the text.
        """
        return None

    @property
    def remembers(self) -> bool:
        """Whether a check changes what the guardrail says later, so that it is asked once about each text."""
        return False

    def take_over(self, before: Guardrail) -> None:
        """Go on with what another guardrail remembers, whose place this one takes when a pipeline is reloaded.

        Args:
            before: the one of the same name and class; it may still be asked for a while.
        """
        return

    @abstractmethod
    def check(self, check: Check) -> Finding:
        """Return what is found in a text. An exception is a failed check, which ends as ``on_error`` says."""

    def placed(self, name: str, clock: Clock) -> Guardrail:
        """Return the guardrail as it stands in a pipeline; most don't care.

        Args:
            name: how the pipeline calls it.
            clock: gives the pipeline's time, aware.
        """
        return self

    def sessions(self, store: StateStore | None = None) -> Sessions | None:
        """Return its session memory, in the state store where one is given; None where it has none."""
        return None

    def park(self, conversation: Conversation) -> bytes | None:
        """Return what it remembers of a conversation, for `resume` in another process; None for nothing."""
        return None

    def resume(self, conversation: Conversation, parked: bytes) -> None:
        """Go on with a conversation where `park` was called, maybe by another process or an earlier version.

        Args:
            conversation: the conversation, with all turns that there were.
            parked: what `park` gave.

        Raises:
            TurnwiseError: it can't be read; it is never taken for nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has a park, so it needs a resume")


GuardrailFactory = Callable[..., Guardrail]
"""Builds a guardrail from its settings, given by name: its class."""


def _as_factory(part: Any) -> Any:
    from turnwise.guard.functions import as_factory

    return as_factory(part)


GUARDRAILS: Registry[GuardrailFactory] = Registry(
    "guardrail", "turnwise.guardrails", is_factory, _as_factory, modules=True
)
for _name, _class in {
    "code": "Code",
    "drift": "Drift",
    "harm": "Harm",
    "keywords": "Keywords",
    "length": "Length",
    "llm": "Llm",
    "openai_moderation": "OpenAIModeration",
    "pii": "Pii",
    "presidio": "Presidio",
    "prompt_injection": "PromptInjection",
    "regex": "Regex",
    "secrets": "Secrets",
    "topics": "Topics",
    "toxicity": "Toxicity",
    "urls": "Urls",
}.items():
    GUARDRAILS.add_lazy(_name, f"turnwise.guard.guardrails.{_name}:{_class}")


@dataclass(frozen=True, slots=True)
class GuardrailInfo:
    """What a person should know of a guardrail before using it.

    Args:
        name: name under which it is registered.
        summary: what it is for, in a line.
        settings: default by setting; ``"required"`` where there is none.
    """

    name: str
    summary: str
    settings: Mapping[str, Any]


def guardrail_names() -> tuple[str, ...]:
    """Return the name of every guardrail that can be built, sorted.

    >>> {"drift", "pii", "length"} <= set(guardrail_names())
    True
    """
    return GUARDRAILS.names()


def describe_guardrails() -> tuple[GuardrailInfo, ...]:
    """Describe every guardrail, sorted by name.

    Raises:
        PluginError: a plug-in that has a guardrail failed to import.
    """
    rows = []
    for name in GUARDRAILS.names():
        factory = GUARDRAILS.get(name)
        summary = (inspect.getdoc(factory) or "").partition("\n")[0]
        rows.append(GuardrailInfo(name, summary, parameters_of(factory)))
    return tuple(rows)
