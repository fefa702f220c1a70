"""Values that are never a finding."""

from __future__ import annotations

from collections.abc import Iterable

from turnwise.errors import GuardError
from turnwise.guard.recognisers.re2_patterns import compile_pattern

_SEPARATORS = dict.fromkeys(map(ord, "-._/()"))


class Allowed:
    """A set of values: exact ones, whatever their case and separators, and regular expressions between slashes.

    Args:
        entries: the values and expressions.

    Raises:
        GuardError: an entry that is empty, or an expression that RE2 can't read.

    >>> "555 0100" in Allowed(["555-0100"]), "sales@example.com" in Allowed(["/.*@example\\\\.com/"])
    (True, True)
    """

    def __init__(self, entries: Iterable[str]) -> None:
        exact, patterns = set(), []
        for entry in entries:
            if not isinstance(entry, str) or not entry.strip():
                raise GuardError(f"allow has {entry!r}; write a value, or a regular expression between slashes")
            if len(entry) > 2 and entry.startswith("/") and entry.endswith("/"):
                patterns.append(compile_pattern(entry[1:-1], f"allow: {entry}", ignore_case=True))
            else:
                exact.add(_key(entry))
        self._exact = frozenset(exact)
        self._patterns = tuple(patterns)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        if _key(value) in self._exact:
            return True
        return any(pattern.fullmatch(value) is not None for pattern in self._patterns)


def _key(value: str) -> str:
    value = value.strip().casefold()
    return value if "@" in value else "".join(value.split()).translate(_SEPARATORS)
