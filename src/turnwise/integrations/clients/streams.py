"""Replies that come in pieces as the caller sees them: an iterator that can be closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from turnwise.guard import AsyncOutputStream, OutputStream, PipelineResult
from turnwise.integrations.checking import Do
from turnwise.integrations.clients.calls import AdmittedRequest, Guarding

END: Final = object()
"""Comes after the last piece of a model."""


class Show(NamedTuple):
    """A piece that the caller may have."""

    chunk: Any


class PieceSteps(ABC):
    """A reply in pieces under check; ``result`` is the verdict, None before the end."""

    def __init__(self, guarding: Guarding, asked: AdmittedRequest, named: Mapping[str, Any]) -> None:
        self._guarding, self._asked, self._named = guarding, asked, named
        self._stream: OutputStream | AsyncOutputStream | None = None
        self.result: PipelineResult | None = None if asked.sent is not None else asked.result

    @abstractmethod
    def steps(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        """Take the model's pieces; ``following`` gives `END` after the last. Show what may be shown."""

    def drop(self) -> None:
        """Record that the reply broke off, where it did not end."""
        if self._stream is not None and self._stream.result is None:
            self._stream.drop()
            self.result = self._stream.result

    def _feed(self, text: str) -> Generator[Do, Any, str]:
        """Give the guard a piece of the text, and return what may be shown now."""
        if self._stream is None:
            self._stream = yield self._guarding.open_stream(self._asked.messages, self._named)
        shown: str = yield Do(self._stream.feed, (text,))
        return shown


class _ClientStream:
    def __init__(self, reply: PieceSteps, raw: Any) -> None:
        self._reply, self._raw = reply, raw
        self._steps = reply.steps(self._following)
        self._pieces: Any = None

    def _following(self) -> Any:
        raise NotImplementedError

    @property
    def turnwise_result(self) -> PipelineResult | None:
        """The verdict; None before the end."""
        return self._reply.result

    @property
    def response(self) -> Any:
        """The response of the HTTP client; None where nothing was asked."""
        return getattr(self._raw, "response", None)


class GuardedStream(_ClientStream, Iterator[Any]):
    """A reply that comes in pieces, as `openai.Stream` is one: an iterator, and a context manager.

    ``turnwise_result`` has the verdict at the end; so has the last piece. A reply that is blocked ends with
    `turnwise.guard.GuardrailBlocked`, or with the refusal where one is set.
    """

    def _following(self) -> Any:
        if self._pieces is None:
            self._pieces = iter(self._raw if self._raw is not None else ())
        return next(self._pieces, END)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        given: Any = None
        try:
            while True:
                step = self._steps.send(given)
                if isinstance(step, Show):
                    return step.chunk
                given = step.run()
        except BaseException as error:
            if not isinstance(error, StopIteration):
                self._reply.drop()
            self._close_raw()
            raise

    def close(self) -> None:
        """End the request; a reply that has not ended is recorded as broken off."""
        self._steps.close()
        self._reply.drop()
        self._close_raw()

    def _close_raw(self) -> None:
        if self._raw is not None:
            self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


class GuardedAsyncStream(_ClientStream, AsyncIterator[Any]):
    """`GuardedStream` for async code, as `openai.AsyncStream` is one."""

    async def _following(self) -> Any:
        if self._pieces is None and self._raw is not None:
            self._pieces = aiter(self._raw)
        return END if self._pieces is None else await anext(self._pieces, END)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        given: Any = None
        try:
            while True:
                step = self._steps.send(given)
                if isinstance(step, Show):
                    return step.chunk
                given = await step.arun()
        except StopIteration:
            await self._close_raw()
            raise StopAsyncIteration from None
        except BaseException:
            self._reply.drop()
            await self._close_raw()
            raise

    async def close(self) -> None:
        """End the request; a reply that has not ended is recorded as broken off."""
        self._steps.close()
        self._reply.drop()
        await self._close_raw()

    aclose = close

    async def _close_raw(self) -> None:
        if self._raw is not None:
            await self._raw.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        await self.close()
