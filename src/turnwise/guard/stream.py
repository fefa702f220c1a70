"""Responses that come in pieces: what may be shown of them now, and the verdict at their end."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from turnwise.conversation import Conversation, Side, Turn
from turnwise.errors import GuardError
from turnwise.guard.finding import TextKind
from turnwise.guard.guardrail import Check
from turnwise.guard.results import Detail, Outcome, PipelineResult
from turnwise.guard.setup import Mode, Setup
from turnwise.guard.step import CheckRun, Step, afinish, finish
from turnwise.guard.stream_window import Chunk, HeldBack, replaced, shown_up_to
from turnwise.guard.tool_texts import encodable

Value = TypeVar("Value")

Feeding = Generator[tuple[Step, Check], Detail, Value]
"""Work on a piece under way; one that is awaited yields each step and is sent what it said."""

OVER: Final = "the stream has ended; open another one for the next response"


class StreamEnd(NamedTuple):
    """`known`: the guardrail that blocked it on the way, with its verdict; `dropped`: why the stream broke off."""

    known: tuple[str, Detail] | None = None
    dropped: Outcome | None = None


EndStream = Callable[..., CheckRun]
"""Checks a whole response, or records that it broke off: of a `Check`, a `StreamEnd` and ``here``."""

CheckCall = Callable[..., CheckRun]
"""Checks a call of a tool as part of the same turn: of its name, arguments, id and ``here``."""


@dataclass(slots=True)
class _PeriodicCheck:
    """A guardrail that is asked about all that came so far: after each `every` characters, next at `at`."""

    step: Step
    every: int
    at: int


class _CheckedStream:
    """What both kinds of streams do; `turn` is the one that the response completes."""

    def __init__(
        self,
        finish: EndStream,
        call: CheckCall,
        setup: Setup,
        conversation: Conversation,
        turn: Turn,
        session_id: str,
    ) -> None:
        steps = [step for step in setup.by_kind[TextKind.OUTPUT] if step.enabled]
        self._call = call
        self._finish, self._turn, self._conversation, self._session_id = finish, turn, conversation, session_id
        self._most = setup.config.max_characters if setup.mode is Mode.ON else sys.maxsize
        self._held = HeldBack(
            [step for step in steps if step.guardrail.reach is not None], turn, conversation, session_id
        )
        self._asked = [
            _PeriodicCheck(step, each, each) for step in steps if (each := step.stream_every) is not None
        ]
        self._pieces: list[str] = []
        self._half = ""
        """The first half of a surrogate pair whose second one is still to come."""
        self._shown: list[str] = []
        self._known: tuple[str, Detail] | None = None
        self._stopped = False
        self._rest = ""
        self._exposed = 0
        self._result: PipelineResult | None = None

    @property
    def turn_number(self) -> int:
        """The turn that the response completes."""
        return self._turn.number

    @property
    def blocked(self) -> bool:
        """Whether the response was blocked, so that no more of it may be shown."""
        return self._stopped or (self._result is not None and self._result.blocked)

    @property
    def result(self) -> PipelineResult | None:
        """The verdict; None before the end."""
        return self._result

    @property
    def shown(self) -> str:
        """What was given to be shown so far."""
        return "".join(self._shown)

    @property
    def rest(self) -> str:
        """What remains to be shown once the stream has ended; empty where the response was blocked."""
        return self._rest

    @property
    def exposed(self) -> int:
        """Characters that were shown before a guardrail, with the whole text before it, replaced them.

        0 but for values that reach over more than is held back.
        """
        return self._exposed

    def _feed(self, piece: str | None, *, here: bool) -> Feeding[str]:
        if self._result is not None and not self._stopped:
            raise GuardError(OVER)
        if self._stopped or not piece:
            return ""
        if not isinstance(piece, str):
            raise GuardError(f"a piece of a response is {type(piece).__name__}, not text")
        if self._half or not piece.isascii():
            piece = self._whole_characters(piece)
        self._pieces.append(piece)
        look = self._held.add(piece)
        if self._held.came > self._most:
            yield from self._stop(here=here)
            return ""
        due = [entry for entry in self._asked if self._held.came >= entry.at] if self._asked else []
        if not (look or due):
            return ""
        shown, name, blocked = yield from self._held.look(here=here)
        for entry in due if blocked is None else ():
            entry.at = self._held.came + entry.every
            check = self._check(self.shown + shown + self._held.pending, more=True)
            detail = entry.step.run(check) if here else (yield entry.step, check)
            if detail.blocked:
                name, blocked = entry.step.name, detail
                break
        if blocked is not None:
            self._known = (name, blocked)
            yield from self._stop(here=here)
            return ""
        if shown:
            self._shown.append(shown)
        return shown

    def _stop(self, *, here: bool) -> Feeding[None]:
        """Withhold the rest, and record the verdict."""
        self._stopped = True
        yield from self._end(here=here)

    def _end(self, *, here: bool) -> Feeding[PipelineResult]:
        """Check the whole text, and say what of it remains to be shown."""
        if self._result is not None:
            return self._result
        content = "".join((*self._pieces, encodable(self._half)))
        result = yield from self._finish(self._check(content), StreamEnd(self._known), here=here)
        self._result = result
        if not result.blocked:
            chunks = [Chunk(0, len(content), content, False)] if content else []
            for detail in result.details.values():
                if detail.redactions:
                    chunks = replaced(chunks, detail.redactions)
            at = self._held.settled
            self._rest = shown_up_to(chunks, at, len(content))
            if shown_up_to(chunks, 0, at) != self.shown:
                late = ((chunk.start, min(chunk.end, at)) for chunk in chunks if chunk.put and chunk.start < at)
                self._exposed = sum(end - start - self._held.covered(start, end) for start, end in late)
        return result

    def _called(self, name: str, arguments: str, call_id: str | None, *, here: bool) -> CheckRun:
        if self._result is None:
            raise GuardError("the response has not ended: end it first, calls of tools are checked after its text")
        return self._call(name, arguments, call_id, here=here)

    def _whole_characters(self, piece: str) -> str:
        """A piece as text that every guardrail can read; half a character waits for the next piece."""
        piece = self._half + piece
        self._half = piece[-1] if "\ud800" <= piece[-1] <= "\udbff" else ""
        return encodable(piece[: len(piece) - len(self._half)])

    def drop(self, why: Outcome = Outcome.BROKEN_OFF) -> None:
        """Record that the response broke off; nothing of it that is not shown yet is kept.

        Args:
            why: why it did, such as `Outcome.DISCONNECTED` or `Outcome.STALLED`.
        """
        if self._result is None:
            self._stopped = True
            self._result = finish(self._finish(self._check(self.shown), StreamEnd(dropped=why), here=True))

    def _check(self, text: str, *, more: bool = False) -> Check:
        return Check(text, Side.RESPONSE, self._turn, self._conversation, self._session_id, more=more)


class OutputStream(_CheckedStream):
    """A response that comes in pieces; `GuardrailPipeline.stream_output` opens one.

    What `feed` returns may be shown at once. A part of the text is held back until no guardrail can find anything
    in it any more; guardrails that need the whole text have their say at the end, or every so many characters
    where ``stream_every`` is set. A stream serves one response and one thread.

    As a context manager it ends when the block is left; where an exception leaves it, the response is dropped:
    recorded as broken off, and no part of `Conversation.to_messages`.
    """

    def feed(self, piece: str | None) -> str:
        """Take the next piece, and return what may be shown now; empty once the response is blocked.

        Args:
            piece: text; None and empty text, as the first and last chunk of a model often have, change nothing.

        Raises:
            GuardError: a piece that is no text, or the stream has ended.
        """
        return finish(self._feed(piece, here=True))

    def end(self) -> PipelineResult:
        """Check the whole response and return the verdict; `rest` is then what remains to be shown.

        What a model was stopped at is ended like this as well. Ending twice gives the same result.
        """
        return finish(self._end(here=True))

    def check_tool_call(self, name: str, arguments: str, *, call_id: str | None = None) -> PipelineResult:
        """Check a call of a tool that came with the response, after its end; as `check_tool_call` of pipelines.

        Args:
            call_id: its id, as the model gave it; by default one is made up.

        Raises:
            GuardError: the response has not ended.
        """
        return finish(self._called(name, arguments, call_id, here=True))

    def guard(self, pieces: Iterable[str | None]) -> Iterator[str]:
        """Yield what may be shown of a response, with its rest at the end; `result` has the verdict then.

        Where it is blocked no more pieces are asked for. Where they fail, or nobody asks for more, the response is
        dropped.

        Args:
            pieces: the pieces in order.
        """
        try:
            for piece in pieces:
                shown = self.feed(piece)
                if shown:
                    yield shown
                if self.blocked:
                    break
            self.end()
        except BaseException as error:
            self.drop(_why(error))
            raise
        if self._rest:
            yield self._rest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.end()
        else:
            self.drop(_why(error))


class AsyncOutputStream(_CheckedStream):
    """`OutputStream` for async code: what waits is awaited."""

    async def feed(self, piece: str | None) -> str:
        """Take the next piece, and return what may be shown now; see `OutputStream.feed`."""
        return await afinish(self._feed(piece, here=False))

    async def end(self) -> PipelineResult:
        """Check the whole response and return the verdict; see `OutputStream.end`."""
        return await afinish(self._end(here=False))

    async def check_tool_call(self, name: str, arguments: str, *, call_id: str | None = None) -> PipelineResult:
        """Check a call of a tool that came with the response; see `OutputStream.check_tool_call`."""
        return await afinish(self._called(name, arguments, call_id, here=False))

    async def guard(self, pieces: AsyncIterable[str | None] | Iterable[str | None]) -> AsyncIterator[str]:
        """Yield what may be shown of a response; see `OutputStream.guard`."""
        try:
            async for piece in _each(pieces):
                shown = await self.feed(piece)
                if shown:
                    yield shown
                if self.blocked:
                    break
            await self.end()
        except BaseException as error:
            self.drop(_why(error))
            raise
        if self._rest:
            yield self._rest

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.end()
        else:
            self.drop(_why(error))


def _why(error: object) -> Outcome:
    """Why a response broke off, by what left the block in which it was read."""
    if isinstance(error, TimeoutError):
        return Outcome.STALLED
    gone = isinstance(error, GeneratorExit | CancelledError | KeyboardInterrupt)
    return Outcome.DISCONNECTED if gone else Outcome.BROKEN_OFF


async def _each(pieces: AsyncIterable[str | None] | Iterable[str | None]) -> AsyncIterator[str | None]:
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
    else:
        for piece in pieces:
            yield piece
