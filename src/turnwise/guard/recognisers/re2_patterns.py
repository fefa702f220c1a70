"""Regular expressions in linear time: RE2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from turnwise.errors import GuardError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MISSING = (
    (re.compile(r"\(\?<?[=!]"), "a lookaround"),
    (re.compile(r"(?<!\\)(?:\\\\)*(\\[1-9]|\\g<|\(\?P=)"), "a backreference"),
    (re.compile(r"\(\?>|[*+?}]\+"), "an atomic group or possessive quantifier"),
    (re.compile(r"\(\?\("), "a conditional"),
    (re.compile(r"\(\?#"), "a comment"),
)
"""What other engines have and RE2 does not, because it takes more than linear time, or is only notation."""

_QUOTED = re.compile(r": ([^:]+)$")


def compile_pattern(pattern: str, where: str, *, ignore_case: bool = False) -> Any:
    """Return a regular expression, compiled.

    Source of the syntax: RE2. It has no lookaround and no backreferences, and in turn takes linear time on every
    text.

    Args:
        pattern: the expression.
        where: what it belongs to, for messages.
        ignore_case: whether upper and lower case are equal.

    Raises:
        GuardError: the expression can't be read; the message says where.

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
    """Return one expression that matches wherever any of several does.

    Args:
        patterns: expressions that compile by themselves.
        where: what they belong to, for messages.
        ignore_case: whether upper and lower case are equal.
    """
    return compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns), where, ignore_case=ignore_case)


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _explain(pattern: str, reason: str) -> str:
    for form, name in _MISSING:
        match = form.search(pattern)
        if match is not None:
            start = match.start(1) if form.groups else match.start()
            found = match.group(1) if form.groups else match.group()
            text = f"{found} is {name}, which RE2 lacks; write it without"
            return _placed(text, pattern, start, len(found))
    quoted = _QUOTED.search(reason)
    at = pattern.find(quoted.group(1)) if quoted else -1
    if at < 0 or quoted is None:
        return f"{reason}\n  {pattern}"
    return _placed(reason, pattern, at, len(quoted.group(1)))


def _placed(reason: str, pattern: str, start: int, width: int) -> str:
    return f"column {start + 1}: {reason}\n  {pattern}\n  {' ' * start}{'^' * width}"
