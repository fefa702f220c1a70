"""Every text of a request or a reply, wherever it stands, and the check of those that no conversation has."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from turnwise.errors import TurnwiseError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, PipelineResult
from turnwise.guard.guardrail import OnError
from turnwise.guard.names import as_text, is_ordinary
from turnwise.integrations.asking import Ask, Asking

_BINARY: Final = frozenset({"b64_json", "data", "embedding", "file_data", "partial_image_b64", "signature"})
"""Keys of what is no text although JSON has it as one, where it is long and has no spaces."""

_SHORT: Final = 200
_IDS: Final = ("id", "_id")
_TOKENS: Final = ("input", "prompt", "prompt_token_ids")
"""Keys under which a list of numbers is a text that the model reads and guardrails do not."""

_CLEAN: Final = 10_000
"""Texts that are known to be clean, at most."""

_LOG: Final = logging.getLogger("turnwise.guard")


class UnreadError(TurnwiseError):
    """Something in a request or reply can't be read or replaced; the message names its place and its type."""

    def __init__(self, path: str, what: str, do: str) -> None:
        super().__init__(f"{path}: {what}; {do}")


class BlockedTextError(GuardrailBlocked):
    """A guardrail blocked a text of a request or reply; the message names its place."""

    def __init__(self, path: str, result: PipelineResult) -> None:
        super().__init__(result)
        self.args = (f"{path} was blocked: {'; '.join(result.reasons)}",)


class Leaf(NamedTuple):
    """A text and where it stands; None for content that is no text."""

    path: str
    holder: Any
    key: Any
    text: str | None

    def put(self, text: str) -> None:
        """Put another text in its place."""
        if not isinstance(self.holder, dict | list) or (
            isinstance(self.holder, dict) and "signature" in self.holder
        ):
            raise UnreadError(self.path, "what must be replaced here can't be", "take it out")
        self.holder[self.key] = text


def leaves(tree: Any, keys: Collection[str] | None = None, skip: Collection[str] = ()) -> Iterator[Leaf]:
    """Yield every text in JSON values, keys of objects among it.

    Args:
        tree: dicts, lists, and objects of pydantic.
        keys: the keys of the outermost object that count; None for all.
        skip: keys of what is left out, at any depth.

    Raises:
        UnreadError: a value that is none of these, or a text as numbers of tokens.
    """
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, holder = stack.pop()
        for key, value in _items(holder, path):
            if key in skip or (keys is not None and not path and key not in keys):
                continue
            place = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key if _is_plain(key) else '?'}"
            place = place.removeprefix(".")
            if isinstance(key, str) and not is_ordinary(key):
                yield Leaf(place, None, None, as_text(key))
            if isinstance(value, str):
                yield Leaf(place, holder, key, None if _is_media(key, value) else value)
            elif isinstance(value, bytes | bytearray) or hasattr(value, "read"):
                yield Leaf(place, holder, key, None)
            elif key in _TOKENS and _is_tokens(value):
                raise UnreadError(place, "numbers of tokens can't be read", "send the text itself")
            elif value is not None and not isinstance(value, bool | int | float):
                stack.append((place, value))


class OtherTexts:
    """Checks texts one by one; those in requests that were clean are remembered, since tools come with every one.

    Args:
        pipeline: checks them.
    """

    def __init__(self, pipeline: GuardrailPipeline) -> None:
        self._pipeline = pipeline
        self._steps = pipeline.steps
        self._clean: set[bytes] = set()

    def check(
        self,
        found: Iterable[Leaf],
        method: str,
        seen: Collection[str] = (),
        **named: Any,
    ) -> Asking[bool]:
        """Check texts, put back what is replaced, and return whether anything was.

        Args:
            found: the texts.
            method: ``check_input``, ``check_output``, or ``check_tool_result`` for what is not said by the person.
            seen: texts that were checked as a whole before.
            named: further arguments of the method.

        Raises:
            BlockedTextError: one was blocked.
            UnreadError: something can't be read, and has to be.
        """
        if self._steps is not self._pipeline.steps:
            self._steps, self._clean = self._pipeline.steps, set()
        changed = False
        for leaf in found:
            if leaf.text is None:
                self._unread(leaf.path)
                continue
            known = sha256(f"{method}|{leaf.text}".encode("utf-8", "surrogatepass")).digest()
            if leaf.text in seen or known in self._clean or (method == "check_tool_result" and _is_token(leaf)):
                continue
            result = yield Ask(method, {"content": leaf.text, **named})
            if result.blocked:
                raise BlockedTextError(leaf.path, result)
            if result.text != leaf.text:
                leaf.put(result.text)
                changed = True
            elif method != "check_input" and not result.failures:
                if len(self._clean) >= _CLEAN:
                    self._clean.clear()
                self._clean.add(known)
        return changed

    def _unread(self, path: str) -> None:
        if self._pipeline.config.on_unread is OnError.BLOCK:
            raise UnreadError(path, "no text, and on_unread is block", "leave it out")
        if self._pipeline.config.on_unread is OnError.WARN:
            _LOG.warning("unread: %s is no text", path)


def _items(holder: Any, path: str) -> list[tuple[Any, Any]]:
    if isinstance(holder, Mapping):
        return list(holder.items())
    if isinstance(holder, list | tuple):
        return list(enumerate(holder))
    if hasattr(holder, "model_dump"):
        return list({**vars(holder), **(getattr(holder, "model_extra", None) or {})}.items())
    kind = type(holder).__name__
    raise UnreadError(path or kind, f"a {kind} can't be read", "use JSON values, or another endpoint")


def _is_plain(key: object) -> bool:
    """Return whether a key may be repeated to the caller: it is text of others."""
    return isinstance(key, str) and len(key) <= 30 and key.replace("-", "_").isidentifier()


def _is_media(key: object, text: str) -> bool:
    if text.startswith("data:") and "," in text[:_SHORT]:
        return not text.startswith("data:text/")
    return key in _BINARY and len(text) > _SHORT and len(text.split(maxsplit=1)) == 1


def _is_tokens(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, int) or (isinstance(first, list) and bool(first) and isinstance(first[0], int))


def _is_token(leaf: Leaf) -> bool:
    """Return whether a text is a short name or an id, as ``auto`` and ``call_a1b2`` are."""
    assert leaf.text is not None
    one = len(as_text(leaf.text).split("\n")[-1].split()) <= 2 and len(leaf.text.split()) == 1
    return (is_ordinary(leaf.text) and one) or (str(leaf.key).endswith(_IDS) and one)
