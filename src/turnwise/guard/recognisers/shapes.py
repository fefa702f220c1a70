"""A quick look at which of many things may be in a text, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MEMORY = 64 << 20
"""Bytes that the automaton may take. It grows only as texts need it; with too few a set would find nothing."""


class Shapes:
    """Tells which expressions match somewhere in a text, all at once and in linear time (an RE2 set).

    Args:
        shapes: expressions by name; RE2 syntax.
        ignore_case: whether upper and lower case are equal.

    >>> sorted(Shapes({"number": ["[0-9]+"], "mail": ["@"], "link": ["://"]}).present("a@b 12"))
    ['mail', 'number']
    """

    def __init__(self, shapes: Mapping[str, Sequence[str]], *, ignore_case: bool = False) -> None:
        import re2

        options = re2.Options()
        options.max_mem = _MEMORY
        options.never_capture = True
        options.case_sensitive = not ignore_case
        self._names: list[str] = []
        self._set = re2.Set.SearchSet(options)
        for name, patterns in shapes.items():
            for pattern in patterns:
                self._set.Add(pattern)
                self._names.append(name)
        self._set.Compile()

    def present(self, text: str) -> frozenset[str]:
        """Return the names of the expressions that match somewhere in a text."""
        found = self._set.Match(text)
        return frozenset([self._names[index] for index in found]) if found else _NOTHING


_NOTHING: frozenset[str] = frozenset()
