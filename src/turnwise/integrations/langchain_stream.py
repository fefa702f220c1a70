"""Replies of LangChain's models while they come: what the guard lets through goes to the graph's stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final
from uuid import UUID

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.outputs import ChatGenerationChunk
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("langchain", error) from error

from turnwise.guard import OutputStream, PipelineResult

TEXT: Final = "turnwise.text"
"""``type`` of what is written to the stream."""


class StreamStopped(Exception):  # noqa: N818 - it stops a model, and nobody sees it
    """The reply was blocked while it came, so the model is asked for no more of it."""


class ReplyStream(BaseCallbackHandler):
    """A callback of a model that feeds its tokens to the guard, and writes what may be shown.

    LangChain's models stream because it has the two methods ``tap_output...``. ``opened`` opens the stream of the
    guard; it is None where replies are not shown while they come.
    """

    run_inline = True
    raise_error = True

    def __init__(self, opened: Callable[[], OutputStream] | None, write: Callable[[Any], None]) -> None:
        self._opened = opened
        self._write = write
        self._stream: OutputStream | None = None

    @property
    def wanted(self) -> bool:
        """Whether replies are shown while they come."""
        return self._opened is not None

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Return the output as it is."""
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Return the output as it is."""
        return output

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[Any], **kwargs: Any) -> None:
        """Begin anew; what another try of the same reply said is dropped."""
        self.drop()
        self._stream = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """Take a token; StreamStopped where the reply is blocked."""
        text = chunk.message.text if isinstance(chunk, ChatGenerationChunk) else token
        if not text or self._opened is None:
            return
        if self._stream is None:
            self._stream = self._opened()
        self._show(self._stream.feed(text))
        if self._stream.blocked:
            raise StreamStopped

    def end(self) -> PipelineResult | None:
        """Show what remains, and return the verdict; None where no text came while it was listened to."""
        if self._stream is None:
            return None
        result = self._stream.end()
        self._show(self._stream.rest)
        return result

    def drop(self) -> None:
        """Record that the reply broke off, where one was under way."""
        if self._stream is not None and self._stream.result is None:
            self._stream.drop()

    def _show(self, text: str) -> None:
        if text:
            self._write({"type": TEXT, "text": text})
