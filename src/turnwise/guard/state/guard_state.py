"""How a check runs with a state store: bring the conversation up to date, check, write in one step, or again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

from turnwise.clock import Clock
from turnwise.conversation import Conversation
from turnwise.errors import ConversationError, SessionError, StateError
from turnwise.guard.finding import OnError
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.messages.lists import MessageLists
from turnwise.guard.rate_limits import KeyLimits, RateLimits, Refusal, SharedKeyLimits
from turnwise.guard.results import Detail, PipelineResult
from turnwise.guard.state.conversations import Bound, OutrunError, StoredConversations
from turnwise.guard.state.settings import StateSettings, StateStatus, StateWatch, WhenDown
from turnwise.guard.state.stores import StateTransaction
from turnwise.guard.step import TURN_SECONDS, CheckRun, done, entered, failure
from turnwise.sessions import MemoryStateStore, StateStore

Value = TypeVar("Value")

_TRIES: Final = 20
"""How often a check is done anew at least since another worker was faster; each time one of them gets on."""

_AGAIN_SECONDS: Final = 10.0
"""How long it is done anew at least; then its turn stays, and the result says that it could not be kept."""

_ON_ERROR_BY_WHEN_DOWN: Final = {
    WhenDown.CLOSED: OnError.BLOCK,
    WhenDown.OPEN: OnError.ALLOW,
    WhenDown.MEMORY: OnError.WARN,
}


class Begun(NamedTuple):
    """A check that has begun: its turn is there, and its guardrails are at work in `run`."""

    check: Check
    run: CheckRun


Begin = Callable[[StateTransaction, Detail | None], Begun | PipelineResult]
"""Begins a check with what it changes, and what is told of the store; a result where a limit refused it."""

Amend = Callable[[PipelineResult, Check, Detail], PipelineResult]
"""Adds to a result and its record that the state could not be kept."""


class _KeptCheck(NamedTuple):
    """A check that is run and kept; fields as for `GuardState.run`, `bound` is None where nothing is kept."""

    begin: Begin
    amend: Amend
    conversation: Conversation
    bound: Bound | None
    owner: str
    here: bool
    but: int


class GuardState:
    """Keeps what a pipeline must not forget in a state store.

    A check works on a conversation that is up to date, and keeps its changes back. In the end turn, verdict,
    drift and session are written in one step; a process that is killed before has written nothing. Where another
    worker wrote the conversation meanwhile, the turn is taken back and checked again after what that one added.
    """

    def __init__(
        self,
        store: StateStore,
        settings: StateSettings,
        guardrails: Mapping[str, Guardrail],
        limits: RateLimits,
        clock: Clock,
        before: GuardState | None = None,
    ) -> None:
        self.store = store
        same = before if before is not None and before.store is store else None
        known = None if same is None else same.conversations
        self.conversations: StoredConversations = StoredConversations(store, guardrails, clock, known)
        self.limits = SharedKeyLimits(limits, store, clock)
        self._watch: StateWatch = StateWatch(repr(store), clock) if same is None else same._watch
        self._settings = settings
        self.lists: MessageLists | None = None
        """Finds conversations by lists of messages; None where conversations are not kept."""
        if settings.conversations:
            self.lists = MessageLists(store, self.current, None if same is None else same.lists)
        self._fallback = MemoryStateStore()
        self._fallback_limits = KeyLimits(limits, clock)
        self._clock = clock

    def status(self, *, ask: bool = False) -> StateStatus:
        """How the store is doing; with `ask` it is asked now, which may take as long as the store waits."""
        if ask:
            try:
                len(self.store)
            except (StateError, SessionError) as error:
                self._watch.failed(as_state_error(error), self._settings.when_down)
            else:
                self._watch.answered()
        return self._watch.status(self._settings.when_down)

    def refuse(
        self, key: str | None, role: str | None, *, here: bool
    ) -> Generator[Any, Any, tuple[Refusal | None, StateError | None]]:
        """Count a prompt unless a limit refuses it; returns the refusal, and why not all workers count it."""
        now = self._clock()
        try:
            return (yield from done(partial(self.limits.refuse, key, role, now), here=here)), None
        except (StateError, SessionError) as error:
            refusal = None
            if self._settings.when_down is WhenDown.MEMORY:
                refusal = self._fallback_limits.refuse(key, role, now)
            if refusal is not None:
                self._watch.went_without(as_state_error(error), self._settings.when_down)
            return refusal, as_state_error(error)

    def current(self, conversation_id: str, held: Conversation | None) -> Conversation | None:
        """A conversation as it is now, once no check of it is under way here; None for one not known."""
        conversation = self.conversations.load(conversation_id, held)
        if conversation is None:
            return None
        bound = self.conversations.bound(conversation)
        if not bound.lock.acquire(timeout=TURN_SECONDS):
            raise StateError(f"an earlier check of this conversation has run for {TURN_SECONDS:g} s; wait for it")
        try:
            self.conversations.follow(conversation, bound)
        finally:
            bound.lock.release()
        return conversation

    def keep(self, conversation: Conversation, owner: str) -> None:
        """Write a conversation as it is, of a session's digest; see `GuardrailPipeline.keep_conversation`."""
        if not self._settings.conversations:
            return
        try:
            bound = self.conversations.bound(conversation)
            self.conversations.write(conversation, bound, None, owner, StateTransaction(self.store))
        except OutrunError:
            name = conversation.conversation_id
            raise ConversationError(f"conversation {name!r} is in the state store already; load it") from None

    def run(
        self,
        begin: Begin,
        amend: Amend,
        conversation: Conversation,
        owner: str,
        *,
        kept: bool,
        here: bool,
        trouble: StateError | None = None,
        but: int = 0,
    ) -> Generator[Any, Any, tuple[PipelineResult, bool]]:
        """Run a check and keep what comes of it; returns its result, and whether guardrails were asked.

        Where not `kept`, only what sessions make of it is. `but` is the turn that is under check already; 0 where
        `begin` makes or chooses it. `owner` is empty for a session that nobody can name again.
        """
        bound = self.conversations.bound(conversation) if kept and self._settings.conversations else None
        lock = None if bound is None else bound.lock
        if lock is not None and not (yield from entered(lock, here=here)):
            bound = lock = None
            trouble = StateError(
                f"an earlier check of this conversation has run for {TURN_SECONDS:g} s; wait for it"
            )
        task = _KeptCheck(begin, amend, conversation, bound, owner, here, but)
        try:
            return (yield from self._tries(task, trouble))
        finally:
            if lock is not None:
                lock.release()

    def _tries(
        self, task: _KeptCheck, trouble: StateError | None
    ) -> Generator[Any, Any, tuple[PipelineResult, bool]]:
        """Run a check until nobody was faster, or the store fails."""
        start, tried = monotonic(), 0
        while True:
            tried += 1
            last = tried >= _TRIES and monotonic() - start > _AGAIN_SECONDS
            if task.bound is not None and trouble is None:
                trouble = yield from self._follow(task, task.bound)
            work = (
                StateTransaction(self.store, self._without)
                if trouble is None
                else StateTransaction(self._without())
            )
            turns = task.conversation.get_turn_count()
            begun = task.begin(work, None if trouble is None else self._told(trouble))
            if isinstance(begun, PipelineResult):
                return begun, False
            check, number = begun.check, begun.check.turn.number
            try:
                result = yield from begun.run
            except BaseException:
                # The turn stays as one whose check was cancelled, for all workers.
                if trouble is None:
                    self._write_at_last(task, number, work)
                raise
            if trouble is None and work.trouble is not None:
                # The store went down within the check: it is told as though it had been down before.
                trouble = work.trouble
                result = task.amend(result, check, self._told(trouble))
            if trouble is not None:
                self._watch.went_without(trouble, self._settings.when_down)
                if self._settings.when_down is WhenDown.MEMORY:
                    self._fallback.change_all(work.changes)
                return result, True
            try:
                written = yield from self._write(task, number, work, made=number > turns, last=last)
            except (StateError, SessionError) as error:
                trouble = as_state_error(error)
                self._watch.went_without(trouble, self._settings.when_down)
                return task.amend(result, check, self._told(trouble)), True
            if written:
                self._watch.kept()
                return result, True
            self._watch.did_again()

    def _follow(self, task: _KeptCheck, bound: Bound) -> Generator[Any, Any, StateError | None]:
        """Bring the conversation of a check up to date; returns why the store could not."""
        follow = partial(self.conversations.follow, task.conversation, bound, but=task.but)
        try:
            yield from done(follow, here=task.here)
        except (StateError, SessionError) as error:
            return as_state_error(error)
        return None

    def _write(
        self, task: _KeptCheck, number: int, work: StateTransaction, *, made: bool, last: bool
    ) -> Generator[Any, Any, bool]:
        """Write what a check changed; False means that its turn was taken back, as another worker was faster."""
        chat, bound, here = task.conversation, task.bound, task.here
        if bound is None:
            if work.changes and task.owner:
                yield from done(partial(self.store.change_all, work.changes), here=here)
            return True
        follow = partial(self.conversations.follow, chat, bound)
        for _ in range(_TRIES):
            try:
                yield from done(
                    partial(self.conversations.write, chat, bound, number, task.owner, work), here=here
                )
            except OutrunError:
                if made and last:  # it stays with this process, as a turn of a time without a store
                    raise _outrun() from None
                if made:
                    with chat.history.lock:
                        for undo in reversed(work.undo):
                            undo()
                        chat.history.take_back(number)
                        chat.limits.recount()
                    return False
            else:
                return True
            # What others added comes after the prompt that is answered here: the verdict stands as it is.
            try:
                yield from done(partial(follow, but=number), here=here)
            except ConversationError:
                yield from done(follow, here=here)
                raise
        raise _outrun()

    def _write_at_last(self, task: _KeptCheck, number: int, work: StateTransaction) -> None:
        try:
            if task.bound is not None:
                self.conversations.write(task.conversation, task.bound, number, task.owner, work)
        except (StateError, SessionError, ConversationError, OutrunError):
            pass  # nobody waits for the result, and the turn stands in this process as one that was cancelled

    def _without(self) -> StateStore:
        """Where sessions are kept while the store is down."""
        return self._fallback if self._settings.when_down is WhenDown.MEMORY else MemoryStateStore()

    def _told(self, error: StateError) -> Detail:
        return failure(_ON_ERROR_BY_WHEN_DOWN[self._settings.when_down], f"{type(error).__name__}: {error}")


def as_state_error(error: SessionError) -> StateError:
    return error if isinstance(error, StateError) else StateError(str(error))


def _outrun() -> StateError:
    return StateError("other checks of this conversation were faster again and again; send the text again")
