"""JSON and YAML from others, read within bounds of memory and stack: past one a `ValueError` names the bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_JSON_DEPTH = 200
"""Brackets within brackets that JSON may have: more than anything that turnwise writes."""

MAX_YAML_DEPTH = 50
"""Levels of nesting that YAML may have: people write it, and its reader takes several frames for each level."""

MAX_YAML_SIZE = 4 << 20
"""Characters that a YAML text may have."""

MAX_DIGITS = 64
"""Characters of a whole number; Python takes quadratic time for long ones, and refuses to print them."""

_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))
_TOO_DEEP = f"brackets are nested more than {MAX_JSON_DEPTH} levels deep; flatten it"


class YamlError(ValueError):
    """A YAML text that can't be read; `line` counts from 1, and is None where it is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class Nesting:
    """Follows how deep brackets are nested in a JSON text that comes in parts."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = self._escaped = False

    def too_deep(self, part: bytes) -> bool:
        """Whether the brackets of the next part go deeper than `MAX_JSON_DEPTH`.

        >>> Nesting().too_deep(b'["[[[[", [[]]]'), Nesting().too_deep(b"[" * 300)
        (False, True)
        """
        if not part:
            return False
        plain = part[self._escaped :].replace(rb"\\", b"").replace(rb"\"", b"")
        self._escaped = plain.endswith(b"\\")
        pieces = plain.split(b'"')
        outside = b"".join(pieces[self._in_text :: 2])
        self._in_text ^= len(pieces) % 2 == 0
        depths = list(
            accumulate(map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKETS)), initial=self._depth)
        )
        self._depth = depths[-1]
        return max(depths) > MAX_JSON_DEPTH


class ShallowStream:
    """A JSON stream of bytes that gives what is before brackets that are too deep, then raises a `ValueError`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._nesting = Nesting()
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`."""
        if self._ended:
            raise ValueError(_TOO_DEEP)
        part: bytes = self._stream.read(size)
        before = copy(self._nesting)
        if not self._nesting.too_deep(part):
            return part
        self._ended = True
        fine = next(at for at in range(len(part)) if before.too_deep(part[at : at + 1]))
        return part[:fine] or self.read()


def is_too_deep(text: bytes) -> bool:
    """Whether the brackets of a JSON text go deeper than `MAX_JSON_DEPTH`."""
    return text.count(b"[") + text.count(b"{") > MAX_JSON_DEPTH and Nesting().too_deep(text)


def read_json(
    text: str | bytes,
    *,
    nan_is_null: bool = False,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value of a JSON text; bytes are UTF-8, with a byte order mark or without.

    NaN and Infinity, which are no JSON though Python writes them, become null with `nan_is_null`, else numbers.
    `pairs` makes of the keys and values of an object what stands for it. What is no JSON raises a
    `json.JSONDecodeError`, what is not UTF-8 a `UnicodeDecodeError`, what passes a bound a plain `ValueError`.

    >>> read_json('{"score": NaN}', nan_is_null=True)
    {'score': None}
    """
    if is_too_deep(text.encode(errors="surrogatepass") if isinstance(text, str) else text):
        raise ValueError(_TOO_DEEP)
    decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
    constant = (lambda _: None) if nan_is_null else None
    return json.loads(decoded, parse_int=_whole, parse_constant=constant, object_pairs_hook=pairs)


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number has {len(text)} digits; {MAX_DIGITS} is the most")
    return int(text)


def read_yaml(text: str) -> Any:
    """The plain values of a YAML text; aliases are refused, as a few lines of them stand for billions of values.

    >>> read_yaml("cusum: {limit: 0.5}")
    {'cusum': {'limit': 0.5}}
    >>> read_yaml("day: 2025-02-30")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    YamlError: line 1: '2025-02-30' is not a valid timestamp: day is out of range for month
    """
    import yaml

    return load_yaml(text, bounded(yaml.SafeLoader))


def load_yaml(text: str, loader: type[yaml.SafeLoader]) -> Any:
    """The value of a YAML text, as `read_yaml` has it, through a loader that `bounded` made."""
    return _tried(text, loader, "get_single_data")


def yaml_nodes(text: str, loader: type[yaml.SafeLoader]) -> yaml.Node | None:
    """The tree of nodes of a YAML text, read as by `load_yaml`; None for an empty text."""
    node: yaml.Node | None = _tried(text, loader, "get_single_node")
    return node


def _tried(text: str, loader: type[yaml.SafeLoader], method: str) -> Any:
    import yaml

    if len(text) > MAX_YAML_SIZE:
        raise YamlError(f"it has {len(text)} characters; {MAX_YAML_SIZE} is the most for YAML")
    try:
        return getattr(loader(text), method)()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(str(error.problem or error.context), mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:  # a character that YAML has not
        raise YamlError(" ".join(str(error).split())) from error


@cache
def bounded(kind: type[yaml.SafeLoader]) -> type[yaml.SafeLoader]:
    """A loader of YAML, made from another one, that refuses aliases, deep nesting, and values that can't be."""
    import yaml

    class Bounded(kind):  # type: ignore[valid-type,misc]  # a class that is passed in
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Refuse an alias, and a node that is too deep, before it is read."""
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent):
                raise _refused(f"*{event.anchor} is an alias; write out what it stands for", event.start_mark)
            if self.depth == MAX_YAML_DEPTH:
                raise _refused(f"nested more than {MAX_YAML_DEPTH} levels deep; flatten it", event.start_mark)
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Refuse a text that is not what its tag says, such as the 30th of February."""
            if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") and len(node.value) > MAX_DIGITS:
                raise _refused(f"a whole number has {len(node.value)} digits", node.start_mark)
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
                shown = repr(node.value[:40]) if isinstance(node, yaml.ScalarNode) else "this"
                tag = str(node.tag).rpartition(":")[2]
                raise _refused(f"{shown} is not a valid {tag}: {error}", node.start_mark) from error

    return Bounded


def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    import yaml

    return yaml.MarkedYAMLError(None, None, problem, mark)
