"""Patterns (RE2): those of this package in YAML tables, with names of things; and those that a user sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any

from turnwise.errors import GuardError, UnknownNameError
from turnwise.linear_regex import LinearRegex


@cache
def read_table(file: str, package: str = "turnwise.guard.recognisers") -> Mapping[str, Any]:
    """A YAML file of a package, read once."""
    import yaml

    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


def marked(parts: Mapping[str, str]) -> dict[str, str]:
    """Parts of patterns by the marks that stand for them: their names in braces."""
    return {f"{{{name}}}": part for name, part in parts.items()}


def filled(pattern: str, parts: dict[str, str]) -> str:
    """A pattern with parts put in for their marks; a part may hold marks of others that come before it.

    >>> filled("{greeting}, you", marked({"word": "hello", "greeting": "(oh )?{word}"}))
    '(oh )?hello, you'
    """
    for mark, part in reversed(parts.items()):
        pattern = pattern.replace(mark, part)
    return pattern


class PatternTable(dict[str, LinearRegex]):
    """A file of patterns by name, made with its lists of words; it is read when one is first asked for."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    @cached_property
    def _parts(self) -> dict[str, str]:
        words = read_table(self._file)["words"]
        return marked({name: "|".join(alternatives) for name, alternatives in words.items()})

    @property
    def hints(self) -> tuple[str, ...]:
        """What a text has, at least, in which any pattern matters."""
        return tuple(filled(hint, self._parts) for hint in read_table(self._file)["hints"])

    def __missing__(self, name: str) -> LinearRegex:
        pattern = filled(read_table(self._file)["patterns"][name], self._parts)
        return self.setdefault(name, LinearRegex(pattern))


# What a user sets


def check_types(what: str, types: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a setting ``types`` that is empty or names what is not known; `what` is such as ``"type of secret"``.

    >>> check_types("type of secret", ["aws"], ["aws", "jwt"])
    """
    if not types:
        raise GuardError(f"types is empty; name any of {', '.join(known)}")
    for name in types:
        check_known(what, name, known)


def check_known(what: str, name: str, known: Sequence[str]) -> None:
    """Refuse a name that is none of those that are known; `what` says of what."""
    if name not in known:
        raise UnknownNameError(what, str(name), known)


def check_count(name: str, number: object) -> None:
    """Refuse a setting that is no whole number of at least 1."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise GuardError(f"{name} must be a whole number of at least 1, not {number!r}")


# what other engines have and RE2 does not, because it takes more than linear time, or is only notation
_MISSING = (
    (LinearRegex(r"\(\?<?[=!]"), "a lookaround"),
    (LinearRegex(r"(?:^|[^\\])(?:\\\\)*(\\[1-9]|\\g<|\(\?P=)"), "a backreference"),
    (LinearRegex(r"\(\?>|[*+?}]\+"), "an atomic group or possessive quantifier"),
    (LinearRegex(r"\(\?\("), "a conditional"),
    (LinearRegex(r"\(\?#"), "a comment"),
)

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
        reason = error.args[0] if error.args else str(error)
        told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise GuardError(f"{where}: {_explain(pattern, told)}") from None


def alternatives(patterns: Iterable[str], where: str, *, ignore_case: bool = False) -> Any:
    """One expression that matches wherever any of several does, which compile by themselves."""
    return compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns), where, ignore_case=ignore_case)


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
