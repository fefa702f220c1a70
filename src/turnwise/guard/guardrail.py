"""What a guardrail is, one inline check of a text with its conversation behind it; and the guardrails by name."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from math import inf
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from turnwise.clock import Clock
from turnwise.conversation import Conversation, Side, Turn
from turnwise.deadline import Deadline, current_deadline
from turnwise.guard.finding import Action, Cost, EarlierPart, Finding, On, TextKind
from turnwise.guard.threads import in_time
from turnwise.plugins import Registry, hints_of, is_factory, parameters_of
from turnwise.sessions import Sessions, Stance, StateStore

if TYPE_CHECKING:
    from turnwise.guard.results import Correction, Detail
    from turnwise.guard.state.stores import StateTransaction
    from turnwise.guard.tool_texts import Arguments

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a text under check has to do with a tool, or where a document or memory comes from.

    Args:
        kind: any kind of text but ``input`` and ``output``.
        name: name of the tool or source; empty where it is not known.
        call_id: id of the call; of a description, document or memory its own.
        arguments: of a call its arguments: ``arguments.raw`` as the model gave them, ``arguments.text`` as they
            are checked. None of other kinds.
        digest: of a description the SHA-256 of all that it says, in hexadecimal; else empty.
    """

    kind: TextKind
    name: str
    call_id: str
    arguments: Arguments | None = None
    digest: str = ""


@dataclass(slots=True)
class Check:
    """One text under check, as its guardrails see it.

    Args:
        text: the text, as redacted by the guardrails before.
        side: ``response`` for an output and for the arguments of a tool call, ``prompt`` for all others: what
            the model says, and what reaches it.
        turn: the turn that the text belongs to.
        conversation: the conversation with all its turns.
        session_id: the session that the turn belongs to.
        shared: results that several guardrails of this check may use; see `once`.
        stance: the stance towards the session, from the last guardrail that knew it.
        tool: the tool or source that the text is of; None for a prompt or a response.
        before: characters of the text that come before this stretch of it, where it is a stretch; see
            `Guardrail.reach`.
        more: whether more of the text is still to come.
        alone: whether it is looked at without what was said before it, as a name is.
        redact_before: what is to be replaced in earlier texts of the conversation once the check ends.
        state: what sessions are kept in until the check has ended, where the pipeline has a state store.
        deadline: when the check has to end; None for no limit.
        person: stands for an initiator without a name; empty for nobody.
        afterwards: is called once the check has ended and is kept, with what takes corrections of it.
        said: what the guardrails before this one said, by name.
        against: whether one of them blocked it whose blocks speak against whoever wrote it.
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
    alone: bool = False
    redact_before: list[EarlierPart] = field(default_factory=list)
    state: StateTransaction | None = None
    deadline: Deadline | None = None
    person: str = ""
    afterwards: list[Callable[[Callable[[Correction], None]], None]] = field(default_factory=list)
    said: dict[str, Detail] = field(default_factory=dict)
    against: bool = False

    @property
    def kind(self) -> TextKind:
        """Which kind of text it is."""
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
    - ``default_on``: the kinds of text that it looks at, a name of `On` or a tuple of them; all unless it
      says otherwise, so that nothing passes unseen. Of a tool call it sees the arguments (see `Check.tool`);
    - ``reads``: the kinds of text that it can look at; ``on`` may name no other;
    - ``reads_names``: whether it is also asked about names that a text comes with: of tools, of who speaks;
    - ``counts_against``: whether what it blocks speaks against whoever wrote it (`Check.against`);
    - ``files``: settings that name a file, which in a YAML file is relative to that; each with the endings by
      which files are told from other values, none where it is always a file;
    - ``default_timeout``: seconds after which the check has failed. With a timeout the check runs in a thread of
      its own; None is for those that only compute, in bounded time. One that computes for long calls
      `turnwise.deadline.check_deadline` between its steps, so that it ends when nobody waits for it any more.
    """

    cost: ClassVar[Cost] = Cost.REMOTE
    redacts: ClassVar[bool] = False
    reads_names: ClassVar[bool] = False
    counts_against: ClassVar[bool] = False
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
        """Take over the memory of the guardrail that this one replaces when a pipeline is reloaded.

        Args:
            before: the one of the same name and class; it may still be asked for a while.
        """
        return

    def close(self) -> None:
        """Stop what is still under way, since the pipeline is closed; by default there is nothing."""
        return

    @abstractmethod
    def check(self, check: Check) -> Finding:
        """Return the finding on a text. An exception is a failed check, which is handled by ``on_error``."""

    def note(self, check: Check, said: Mapping[str, Detail]) -> None:
        """Take note of the results of all guardrails on a text; by default nothing is noted.

        It is also called where this guardrail was spared the text. What it changes in ``check.state`` is written
        with the check, and ``check.stance`` is what the result tells.

        Args:
            check: the text under check.
            said: what each guardrail said, by name.
        """
        return

    def forget(self, session_id: str, store: StateStore | None = None) -> bool:
        """Forget its memory of a session outside `sessions`, and return whether there was any.

        Args:
            session_id: the session.
            store: the state store, where the pipeline has one.
        """
        return False

    def placed(self, name: str, clock: Clock) -> Guardrail:
        """Return the guardrail to use in a pipeline, by default itself.

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


# Your own guardrails that are no class with a `check`: coroutines and plain functions

CheckFunction = Callable[[Check], Finding] | Callable[[Check], Awaitable[Finding]]
"""A guardrail as a plain function, sync or async."""


class AsyncGuardrail(Guardrail):
    """A guardrail that awaits. A user's own is a subclass with `acheck` and no `check`.

    Async pipelines await it on their event loop. Sync ones run it to its end in a thread, in an event loop that
    lasts as long as the check, so that it can't keep a connection that belongs to a loop.
    """

    @abstractmethod
    async def acheck(self, check: Check) -> Finding:
        """Return the finding on a text. An exception is a failed check, which is handled by ``on_error``."""

    def check(self, check: Check) -> Finding:
        """Run `acheck` to its end in a thread; it is cancelled when the time of the check is up."""
        deadline = current_deadline() or check.deadline
        found = in_time(self.acheck(check), inf if deadline is None else deadline.left)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, asyncio.run, found).result()


@cache
def guardrail_of(function: CheckFunction) -> type[Guardrail]:
    """The class of the guardrail that a function is: without settings, with the defaults of `Guardrail`."""
    kind, method = (AsyncGuardrail, "acheck") if inspect.iscoroutinefunction(function) else (Guardrail, "check")
    members = {
        method: lambda self, check: function(check),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
    }
    return new_class(function.__name__, (kind,), exec_body=lambda names: names.update(members))


def as_factory(part: Any) -> Any:
    """The factory of a guardrail; a function that is annotated to return `Finding` gets a class of its own."""
    checks = inspect.isfunction(part) and hints_of(part).get("return") is Finding
    return guardrail_of(part) if checks else part


# The guardrails by name

GuardrailFactory = Callable[..., Guardrail]  # builds a guardrail from its settings, given by name: its class

GUARDRAILS: Registry[GuardrailFactory] = Registry(
    "guardrail", "turnwise.guardrails", is_factory, as_factory, modules=True
)
for _name, _place in {
    "actions": "actions:Actions",
    "code": "code:Code",
    "data_flow": "data_flow:DataFlow",
    "drift": "drift:Drift",
    "harm": "harm:Harm",
    "keywords": "keywords:Keywords",
    "length": "length:Length",
    "llm": "llm:Llm",
    "openai_moderation": "services:OpenAIModeration",
    "pii": "pii:Pii",
    "presidio": "services:Presidio",
    "probing": "probing:Probing",
    "prompt_injection": "prompt_injection:PromptInjection",
    "regex": "keywords:Regex",
    "secrets": "secrets:Secrets",
    "sources": "sources:Sources",
    "topics": "topics:Topics",
    "toxicity": "toxicity:Toxicity",
    "urls": "urls:Urls",
}.items():
    GUARDRAILS.add_lazy(_name, f"turnwise.guard.guardrails.{_place}")


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


Registered = TypeVar("Registered", bound=Callable[..., Guardrail] | CheckFunction)


def guardrail(name: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a guardrail under a name: its class, or a function from check to finding.

    Args:
        name: what configurations call it.

    Raises:
        PluginError: the name is taken.
    """
    return GUARDRAILS.register(name)
