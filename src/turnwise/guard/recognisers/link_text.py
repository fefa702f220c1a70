"""A text with what ends the hosts and links in it."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from functools import cached_property

from turnwise.guard.recognisers.hosts import is_host_character
from turnwise.linear_regex import replace_characters

_SCHEMES = ("https", "hxxps", "http", "hxxp", "ftps", "ftp", "wss", "ws")
"""Schemes behind which a browser needs no two slashes, and as text the first four none."""

_SCHEME_CHARACTERS = string.ascii_lowercase + string.digits + "+.-"
_NO_LETTERS = string.digits + "+.-"
_LONGEST_SCHEME = 21
_PATH = "/\\?#"
_DOT_BEFORE = tuple(f".{mark}" for mark in f":{_PATH}")
_QUOTED = frozenset(string.whitespace + "\"'`<>|^{}")
"""ASCII characters that end a link."""

_AUTHORITY_ENDS = frozenset(string.whitespace + '"<>' + _PATH)
_TRAILING = ".,;:!?)]}*_"
_PORT_DIGITS = 5

FILL = "\0"
"""Stands for a character that is not there; a text in plain form has none."""

EDGES = f"._-{FILL}"
INSIDE_LINK = frozenset(string.ascii_letters + string.digits + "=/\\?#&:+-_.~%@")
"""Characters behind which a scheme is part of the path that it stands in."""

LONGEST_HOST = 400
"""Characters of a written host; what is longer can't be reached, but part of it may be."""


class LinkText:
    """A text with what ends the hosts and links in it.

    Args:
        plain: the text.
    """

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self._characters = set(plain)
        self._hosts = self._only(lambda character: is_host_character(character) or character in f".{FILL}")
        self._path = (0, 0)

    def _only(self, keep: Callable[[str], bool]) -> str:
        """Return the text with spaces in the place of all other characters."""
        return replace_characters(self.plain, {each: " " for each in self._characters if not keep(each)})

    @cached_property
    def _authorities(self) -> str:
        return self._only(lambda character: character not in _AUTHORITY_ENDS and not character.isspace())

    @cached_property
    def _links(self) -> str:
        return self._only(
            lambda character: character not in _QUOTED if character.isascii() else is_host_character(character)
        )

    def openings(self) -> Iterator[tuple[int, int]]:
        """Yield where links with a scheme, or with two slashes, start and where their scheme and slashes end."""
        marks = self._only(":/\\".__contains__)
        at = 0
        for word in marks.split():
            first = marks.find(word, at)
            at = first + len(word)
            if word[0] != ":":
                if len(word) > 1 and self._is_bare_opening(first, at):
                    yield first, at
                continue
            slashes = word.find(":", 1) - 1 if ":" in word[1:] else len(word) - 1
            before = self.plain[max(0, first - _LONGEST_SCHEME) : first].rstrip(FILL)
            name = before[len(before.rstrip(_SCHEME_CHARACTERS)) :]
            schemes = _SCHEMES if slashes else _SCHEMES[:4]
            usual = next(filter(name.endswith, schemes)) if name.endswith(schemes) else ""
            if usual and not name.removesuffix(usual)[-1:].isalnum():
                name = usual
            elif slashes > 1:
                name = name.lstrip(_NO_LETTERS)
            else:
                continue
            if len(name) > 1:
                yield self.plain.rfind(name, 0, first), first + 1 + slashes

    def _is_bare_opening(self, first: int, behind: int) -> bool:
        """Tell whether two slashes begin a link: nothing like a path stands before them, and a host behind."""
        if first and (self._hosts[first - 1] != " " or self.plain[first - 1] in INSIDE_LINK):
            return False
        return "." in self.plain[behind : min(self.authority_end(behind), behind + LONGEST_HOST)]

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches of characters of hosts that hold a full stop."""
        at = 0
        for run in self._hosts.split():
            first = self._hosts.find(run, at)
            at = first + len(run)
            if "." in run:
                yield first, at

    def authority_end(self, at: int) -> int:
        """Return where what a browser takes for users, host and port ends."""
        return _found(self._authorities, " ", at, len(self.plain))

    def host_end(self, at: int, limit: int) -> int:
        """Return where a host ends that begins at an offset, before a limit."""
        end = _found(self._hosts, " ", at, limit)
        end = _found(self.plain, "..", at, end)
        return end - len(self.plain[at:end]) + len(self.plain[at:end].rstrip(EDGES))

    def port_end(self, at: int) -> int:
        """Return where a port ends, and a full stop before it, that stand at an offset; the offset without one."""
        if self.plain.startswith(_DOT_BEFORE, at):
            at += 1
        digits = self.plain[at + 1 : at + 2 + _PORT_DIGITS] if self.plain.startswith(":", at) else ""
        length = len(digits) - len(digits.lstrip(string.digits))
        return at + 1 + length if 0 < length <= _PORT_DIGITS else at

    def has_path(self, at: int, marks: tuple[str, ...] = ("/", "?", "#")) -> bool:
        """Return whether a path or query begins, with one of the marks, behind a host that ends at an offset."""
        return self.plain.startswith(marks, self.port_end(at))

    def link_end(self, at: int) -> int:
        """Return where a link ends whose host ends at an offset."""
        if not self.has_path(at, tuple(_PATH)):
            return self.port_end(at)
        if not self._path[0] <= at < self._path[1]:
            end = _found(self._links, " ", at, len(self.plain))
            while self.plain[end - 1] in _TRAILING:
                end -= 1
            self._path = (at, end)
        return self._path[1]


def _found(text: str, mark: str, at: int, limit: int) -> int:
    found = text.find(mark, at, limit)
    return limit if found < 0 else found
