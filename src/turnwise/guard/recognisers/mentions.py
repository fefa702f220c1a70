"""What a text only speaks of: quotations, and what stands behind words that forbid, explain or report."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from turnwise.linear_regex import LinearRegex

_QUOTATION = LinearRegex(
    r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|„[^“”\n]{1,400}[“”]|「[^」\n]{1,400}」|『[^』\n]{1,400}』"
    r"|`[^`\n]{1,400}`|(?:^|[\s(\[:,—-])('(?:[^'\n]|\b'\b){2,400}')(?:[^\w']|$)"
)
_SENTENCE_END = LinearRegex(r"[.!?][\"')\]]*(?:\s|$)|\n|[。！？।۔؟]")
_WORDS = LinearRegex(r"\pL+")

_JUDGED = 300  # quotations of a text that are looked at; any more are taken for the text's own words
_FEWEST = 2  # words that stand outside of all quotations at least, where any of them is one
_GAP = " _ "  # what stands for what was taken out: a word that belongs to no phrase


@dataclass(frozen=True)
class Heads:
    """Words behind which a text only speaks of something.

    The patterns are RE2, case ignored. A match is taken out itself, with up to `reach` characters behind it, at
    most to the end of the sentence. `reported` ones tell what somebody said, which a message that is being drafted
    does not.
    """

    patterns: tuple[str, ...]
    reach: int
    reported: bool = False

    @cached_property
    def _regex(self) -> LinearRegex:
        return LinearRegex("(?i)" + "|".join(f"(?:{pattern})" for pattern in self.patterns))

    def stretches(self, text: str) -> Iterator[tuple[int, int]]:
        """Where something is only spoken of."""
        spans = [spans[0] for spans in self._regex.spans(text)]
        if not spans:
            return
        if not self.reach:
            yield from spans
            return
        stops = [stop[0][0] for stop in _SENTENCE_END.spans(text)]
        for start, end in spans:
            index = bisect_left(stops, end)
            yield start, min(stops[index] if index < len(stops) else len(text), end + self.reach)


@dataclass(frozen=True)
class Mentions:
    """Takes out of a text what it only speaks of, in time linear in its length.

    With `quotes` that is what stands in quotation marks, where words stand outside of them too. `drafts` tells
    what asks for a message or hands one over: in such a text quotations and reports are its own words.

    >>> mentions = Mentions((Heads((r"\\bnever say\\b",), 80),), quotes=True)
    >>> mentions.without("Never say shut up. Be kind."), mentions.without('He said "shut up" to me.')
    (' _ . Be kind.', 'He said  _  to me.')
    """

    heads: tuple[Heads, ...] = ()
    quotes: bool = False
    drafts: str = ""

    @cached_property
    def _drafts(self) -> LinearRegex | None:
        return LinearRegex(self.drafts) if self.drafts else None

    def without(self, text: str) -> str:
        """The text without what it only speaks of."""
        drafted = self._drafts is not None and self._drafts.search(text) is not None
        if self.quotes and not drafted:
            text = _cut(text, _quotations(text))
        heads = [heads for heads in self.heads if not (drafted and heads.reported)]
        return _cut(text, sorted(stretch for each in heads for stretch in each.stretches(text)))


def _quotations(text: str) -> list[tuple[int, int]]:
    spans = islice(_QUOTATION.spans(text, overlapping=True), _JUDGED)
    quoted = [single if single[1] > 0 else whole for whole, single in spans]
    if not quoted:
        return quoted
    outside = _WORDS.spans(_cut(text, quoted).replace("_", ""))
    return quoted if all(next(outside, None) for _ in range(_FEWEST)) else []


def _cut(text: str, stretches: Sequence[tuple[int, int]]) -> str:
    """A text with a gap in place of each stretch; they are in order and may overlap."""
    parts: list[str] = []
    at = 0
    for start, end in stretches:
        if start >= at:
            parts += (text[at:start], _GAP)
        at = max(at, end)
    return "".join((*parts, text[at:])) if parts else text
