"""Settings of the guardrails of texts: kinds to look for, allowed values, regular expressions of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from turnwise.errors import GuardError, UnknownNameError
from turnwise.linear_regex import LinearRegex


def check_types(what: str, types: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a setting ``types`` that is empty or names what is not known; `what` is such as ``"type of secret"``.

    >>> check_types("type of secret", ["aws"], ["aws", "jwt"])
    """
    if not types:
        raise GuardError(f"types is empty; name any of {', '.join(known)}")
    for name in types:
        if name not in known:
            raise UnknownNameError(what, str(name), known)


_SEPARATORS = dict.fromkeys(map(ord, "-._/()"))


class Allowed:
    """A set of values: exact ones, whatever their case and separators, and regular expressions between slashes.

    `forms` gives further writings of a value under which it is equal to others, such as a phone number's with the
    code of its country.

    >>> "555 0100" in Allowed(["555-0100"]), "sales@example.com" in Allowed(["/.*@example\\\\.com/"])
    (True, True)
    """

    def __init__(self, entries: Iterable[str], forms: Callable[[str], Iterable[str]] = lambda _: ()) -> None:
        exact, patterns = set(), []
        self._forms = forms
        for entry in entries:
            if not isinstance(entry, str) or not entry.strip():
                raise GuardError(f"allow has {entry!r}; write a value, or a regular expression between slashes")
            if len(entry) > 2 and entry.startswith("/") and entry.endswith("/"):
                patterns.append(compile_pattern(entry[1:-1], f"allow: {entry}", ignore_case=True))
            else:
                exact |= {_key(entry), *forms(entry)}
        self._exact = frozenset(exact)
        self._patterns = tuple(patterns)

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        if _key(value) in self._exact or not self._exact.isdisjoint(self._forms(value)):
            return True
        return any(pattern.fullmatch(value) is not None for pattern in self._patterns)


def _key(value: str) -> str:
    value = value.strip().casefold()
    return value if "@" in value else "".join(value.split()).translate(_SEPARATORS)


_MISSING = (
    (LinearRegex(r"\(\?<?[=!]"), "a lookaround"),
    (LinearRegex(r"(?:^|[^\\])(?:\\\\)*(\\[1-9]|\\g<|\(\?P=)"), "a backreference"),
    (LinearRegex(r"\(\?>|[*+?}]\+"), "an atomic group or possessive quantifier"),
    (LinearRegex(r"\(\?\("), "a conditional"),
    (LinearRegex(r"\(\?#"), "a comment"),
)
"""What other engines have and RE2 does not, because it takes more than linear time, or is only notation."""

_QUOTED = LinearRegex(r": ([^:]+)$")


def compile_pattern(pattern: str, where: str, *, ignore_case: bool = False) -> Any:
    """A regular expression (RE2), compiled; `where` tells in messages what it belongs to.

    RE2 has no lookaround and no backreferences, and in turn takes linear time on every text.

    >>> compile_pattern("a(?=b)", "pattern 'ab'")
    Traceback (most recent call last):
        ...
    turnwise.errors.GuardError: pattern 'ab': column 2: (?= is a lookaround, which RE2 lacks; write it without
      a(?=b)
       ^^^
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise GuardError(f"{where}: {_explain(pattern, _text(error))}") from None


def alternatives(patterns: Iterable[str], where: str, *, ignore_case: bool = False) -> Any:
    """One expression that matches wherever any of several does, which compile by themselves."""
    return compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns), where, ignore_case=ignore_case)


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _explain(pattern: str, reason: str) -> str:
    for form, name in _MISSING:
        for *_, (start, end) in form.spans(pattern):
            text = f"{pattern[start:end]} is {name}, which RE2 lacks; write it without"
            return _placed(text, pattern, start, end - start)
    quoted = _QUOTED.search(reason)
    at = pattern.find(quoted[1]) if quoted else -1
    if at < 0 or quoted is None:
        return f"{reason}\n  {pattern}"
    return _placed(reason, pattern, at, len(quoted[1]))


def _placed(reason: str, pattern: str, start: int, width: int) -> str:
    return f"column {start + 1}: {reason}\n  {pattern}\n  {' ' * start}{'^' * width}"
