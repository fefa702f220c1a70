"""Regular expressions that should not match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Check, Cost, Finding, Guardrail, Redaction
from turnwise.guard.recognisers.patterns import alternatives, compile_pattern
from turnwise.guard.recognisers.text import Span, apart, counted

REACH = 200
"""Letters and digits of a match up to which none of it is shown before it is found, where a response streams."""

_MATCHES = 1_000
"""Matches of a pattern that are cut out one by one; where there are more, the rest of the text goes whole."""


@dataclass(frozen=True)
class Regex(Guardrail):
    """Regular expressions of your own, by name, in linear time on any text (RE2).

    The text is searched as it is: hidden characters and lookalike letters are not undone. RE2 has no lookaround
    and no backreferences; ``\\b``, ``\\d`` and ``\\w`` know ASCII only, ``\\pL`` and ``\\pN`` all letters and
    digits.

    Args:
        patterns: expressions by name; the reason of a finding gives the names of those that match.
        ignore_case: whether upper and lower case are equal.

    Raises:
        GuardError: no patterns, or one that RE2 does not have, can't read, or that matches the empty text; the
            message says which, where and why.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Regex(patterns={"case number": r"CASE-\\d{6}"}), "About case-123456 ...").reason
    '1 case number'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    reads_names: ClassVar[bool] = True
    default_timeout: ClassVar[float | None] = None

    patterns: Mapping[str, str]
    ignore_case: bool = True
    _any: Any = field(init=False, repr=False, compare=False)
    _compiled: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.patterns:
            raise GuardError("no patterns; give at least one, as NAME: EXPRESSION")
        compiled = {}
        for name, pattern in self.patterns.items():
            if not isinstance(name, str) or not name.strip() or not isinstance(pattern, str) or not pattern:
                raise GuardError(f"patterns has {name!r}: {pattern!r}; give NAME: EXPRESSION, both text")
            compiled[name] = compile_pattern(pattern, f"pattern {name!r}", ignore_case=self.ignore_case)
            if compiled[name].search("") is not None:
                raise GuardError(f"pattern {name!r} matches the empty text, so every text: {pattern}")
        object.__setattr__(self, "_compiled", compiled)
        together = alternatives(self.patterns.values(), "patterns together", ignore_case=self.ignore_case)
        object.__setattr__(self, "_any", together)

    @property
    def reach(self) -> int:
        """What a stream holds back for the patterns: a longer match is found at the end of the text."""
        return REACH

    def check(self, check: Check) -> Finding:
        """Which patterns match and how often, with a redaction for each match."""
        text = _encodable(check.text)
        if self._any.search(text) is None:
            return CLEAN
        spans = apart(span for name in self._compiled for span in self._matches(name, text))
        if not spans:
            return CLEAN
        names = {name: (name, name) for name in self.patterns}
        return Finding(
            found=True,
            reason=counted((span.kind for span in spans), names),
            confidence=1.0,
            redactions=tuple(Redaction(span.start, span.end, span.kind) for span in spans),
            data={"patterns": list(dict.fromkeys(span.kind for span in spans))},
        )

    def _matches(self, name: str, text: str) -> list[Span]:
        spans: list[Span] = []
        for match in self._compiled[name].finditer(text):
            if len(spans) == _MATCHES:
                spans.append(Span(match.start(), len(text), name, 1.0))
                break
            if match.end() > match.start():
                spans.append(Span(match.start(), match.end(), name, 1.0))
        return spans


def _encodable(text: str) -> str:
    """A text in which halves of characters, which can't be encoded, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= mark <= "\udfff" else mark for mark in text)
    return text
