"""Every text of a request or a reply, wherever it stands, and the check of those that no conversation has."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from turnwise.errors import TurnwiseError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline
from turnwise.guard.finding import OnError
from turnwise.guard.names import as_text, is_ordinary
from turnwise.integrations.checking import Steps, pipeline_call

_BINARY: Final = frozenset({"b64_json", "data", "file_data", "partial_image_b64"})
_SHORT, _KEY = 200, 40
"""Characters from which a text without spaces under such a key is no text; and of a key that may be repeated."""

_LABELS: Final = ("role", "type", "kind", "object", "status", "finish_reason")

_TOKENS: Final = ("input", "prompt", "prompt_token_ids")
_CLEAN: Final = 10_000
"""Texts that are known to be clean, at most."""

_LOG: Final = logging.getLogger("turnwise.guard")


class UnreadError(TurnwiseError):
    """Something in a request or reply can't be read or replaced; the message has nothing of its text."""

    def __init__(self, path: str, what: str, do: str) -> None:
        super().__init__(f"{path}: {what}; {do}")


class Leaf(NamedTuple):
    """A text and where it stands: its path, what holds it, its key there; None for content that is no text."""

    path: str
    holder: Any
    key: Any
    text: str | None

    def put(self, text: str) -> None:
        """Put another text in its place; thinking that is signed is emptied: no other one would be taken back."""
        if hasattr(self.holder, "model_dump"):
            setattr(self.holder, self.key, "" if hasattr(self.holder, "signature") else text)
            return
        if not isinstance(self.holder, dict | list) or "signature" in self.holder:
            raise UnreadError(self.path, "what must be replaced here can't be", "take it out")
        self.holder[self.key] = text


def leaves(tree: Any, keys: Collection[str] | None = None, skip: Collection[str] = ()) -> Iterator[Leaf]:
    """Yield every text in JSON values, and keys that may say something; ``keys`` of the outermost object alone."""
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, holder = stack.pop()
        for key, value in _items(holder, path):
            if key in skip or (keys is not None and not path and key not in keys):
                continue
            # A key is text of others: one that does not look like a key is not repeated.
            told = key if str(key).replace("-", "_").isidentifier() and len(key) <= _KEY else "?"
            place = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{told}".removeprefix(".")
            if isinstance(key, str) and not is_ordinary(key):
                yield Leaf(place, None, None, as_text(key))
            if isinstance(value, str):
                yield Leaf(place, holder, key, None if _is_media(key, value) else value)
            elif isinstance(value, bytes | bytearray) or hasattr(value, "read"):
                yield Leaf(place, holder, key, None)
            elif value is not None and not isinstance(value, bool | int | float):
                if key in _TOKENS and _is_tokens(value):
                    raise UnreadError(place, "numbers of tokens can't be read", "send the text itself")
                stack.append((place, value))


def last_heard(messages: Sequence[Any]) -> int:
    """Place, from 1, of the last message that a model answers; what comes after is put into its mouth."""
    roles = [message.get("role") if isinstance(message, Mapping) else None for message in messages]
    return max((at for at, role in enumerate(roles, 1) if role in ("user", "tool", "function")), default=0)


class OtherTexts:
    """Checks texts one by one. Clean ones save prompts are remembered: the same tools come every time."""

    def __init__(self, pipeline: GuardrailPipeline) -> None:
        self._pipeline, self._steps = pipeline, pipeline.steps
        self._clean: set[bytes] = set()

    def check(self, found: Iterable[Leaf], method: str, seen: Collection[str] = (), **named: Any) -> Steps[bool]:
        """Check texts that were not seen, put back what is replaced, and return whether anything was."""
        if self._steps is not self._pipeline.steps:
            self._steps, self._clean = self._pipeline.steps, set()
        changed = False
        for leaf in found:
            if leaf.text is None:
                self._unread(leaf.path)
                continue
            known = sha256(f"{method}|{leaf.text}".encode("utf-8", "surrogatepass")).digest()
            label = _is_label(leaf.key, leaf.text, method == "check_tool_result")
            if label or not leaf.text or leaf.text in seen or known in self._clean:
                continue
            result = yield pipeline_call(self._pipeline, method, content=leaf.text, **named)
            if result.blocked:
                raise GuardrailBlocked(result, leaf.path)
            if result.text != leaf.text:
                leaf.put(result.text)
                changed = True
            elif method != "check_input" and not result.failures:
                if len(self._clean) >= _CLEAN:
                    self._clean.clear()
                self._clean.add(known)
        return changed

    def _unread(self, path: str) -> None:
        """Treat what is no text as the configuration says."""
        on_unread = self._pipeline.config.on_unread
        if on_unread is OnError.BLOCK:
            raise UnreadError(path, "no text, and on_unread is block", "leave it out")
        if on_unread is OnError.WARN:
            _LOG.warning("unread: %s is no text", path)


def _items(holder: Any, path: str) -> list[tuple[Any, Any]]:
    if isinstance(holder, Mapping):
        return list(holder.items())
    if isinstance(holder, list | tuple):
        return list(enumerate(holder))
    if hasattr(holder, "model_dump"):
        return list(holder)
    raise UnreadError(path, f"a {type(holder).__name__} can't be read", "use JSON values, or another endpoint")


def _is_media(key: object, text: str) -> bool:
    if text.startswith("data:") and "," in text[:_SHORT]:
        return not text.startswith("data:text/")
    return key in _BINARY and len(text) > _SHORT and len(text.split(maxsplit=1)) == 1


def _is_tokens(value: Any) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, int)


def _is_label(key: object, text: str, beside: bool) -> bool:
    """Whether a text is an id or a label such as ``user``; ``beside`` what is said, a short word counts too."""
    single = len(text) <= _SHORT and len(text.split()) == 1 and len(as_text(text).split("\n")[-1].split()) <= 2
    return single and (key in _LABELS or str(key).endswith("id") or (beside and is_ordinary(text)))
