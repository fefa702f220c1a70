"""What a text only speaks of: quotations, and what stands behind words that forbid, explain or report."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from turnwise.linear_regex import LinearRegex

_QUOTATION = LinearRegex(
    r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|„[^“”\n]{1,400}[“”]|「[^」\n]{1,400}」|『[^』\n]{1,400}』"
    r"|`[^`\n]{1,400}`|(?:^|[\s(\[:,—-])('(?:[^'\n]|\b'\b){2,400}')(?:[^\w']|$)"
)
_SENTENCE_END = LinearRegex(r"[.!?][\"')\]]*(?:\s|$)|\n|[。！？।۔؟]")
_CLAUSE_END = LinearRegex(r"[.!?,;][\"')\]]*(?:\s|$)|\n|[。！？，；।۔؟،]")
_WORDS = LinearRegex(r"\pL+")

_NEAR = 60
"""Characters before and behind a quotation that tell what it is."""

_JUDGED = 300
"""Quotations of a text that are looked at; any more are taken for the text's own words."""

_FEWEST = 2
"""Words that stand outside of all quotations at least, where any of them is one."""

_TOLD = 6
"""Words behind a colon from which they are an order with something to it, unless a question mark ends them."""

_LOOKED = 200
"""Characters behind a colon that are looked at."""

_GAP = " _ "
"""What stands for what was taken out: a word that belongs to no phrase."""


@dataclass(frozen=True)
class Heads:
    """Words behind which a text speaks of something.

    Args:
        patterns: the words; RE2 syntax, case ignored. A match is taken out itself.
        reach: characters behind them that are taken out with them at most, up to the end of the sentence.
        clause: whether a comma ends it as well.
        reported: whether they report what somebody said, which a message that is being drafted does not.
        colon: whether a colon ends it where what follows, without quotation marks, is longer than what is asked
            about mostly is: "what does this mean: ..." can hide an order.
    """

    patterns: tuple[str, ...]
    reach: int
    clause: bool = False
    reported: bool = False
    colon: bool = False

    @cached_property
    def _regex(self) -> LinearRegex:
        return LinearRegex("(?i)" + "|".join(f"(?:{pattern})" for pattern in self.patterns))

    def stretches(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where something is only spoken of."""
        spans = [spans[0] for spans in self._regex.spans(text)]
        if not spans:
            return
        if not self.reach:
            yield from spans
            return
        stops = [stop[0][0] for stop in (_CLAUSE_END if self.clause else _SENTENCE_END).spans(text)]
        for start, end in spans:
            index = bisect_left(stops, end)
            stop = stops[index] if index < len(stops) else len(text)
            reached = min(stop, end + self.reach)
            if self.colon and (mark := text.find(":", end, reached)) >= 0 and _is_order(text[mark + 1 : stop + 1]):
                reached = mark
            yield start, reached


def _is_order(text: str) -> bool:
    """Return whether what follows a colon is an order with something to it rather than what is asked about.

    >>> _is_order(" stop here?"), _is_order(" stop here and tell me where the keys of the car are")
    (False, True)
    """
    words = _WORDS.spans(text[:_LOOKED])
    return "?" not in text[-1:] and all(next(words, None) for _ in range(_TOLD + 1))


@dataclass(frozen=True)
class Mentions:
    """Takes out of a text what it only speaks of, in time linear in its length.

    Args:
        heads: words behind which a text speaks of something.
        before: what stands before a quotation that counts as one, up to its mark; RE2 syntax. Empty for anything.
        after: what stands behind a quotation that counts as one whatever stands before it; empty for nothing.
        drafts: what asks for a message or hands one over: in such a text quotations and reports are its own words.

    >>> mentions = Mentions((Heads((r"\\bnever say\\b",), 80),))
    >>> mentions.without("Never say shut up. Be kind."), mentions.without('He said "shut up" to me.')
    (' _ . Be kind.', 'He said  _  to me.')
    """

    heads: tuple[Heads, ...] = ()
    before: str = ""
    after: str = ""
    drafts: str = ""

    @cached_property
    def _before(self) -> LinearRegex | None:
        return LinearRegex(self.before) if self.before else None

    @cached_property
    def _after(self) -> LinearRegex | None:
        return LinearRegex(self.after) if self.after else None

    @cached_property
    def _drafts(self) -> LinearRegex | None:
        return LinearRegex(self.drafts) if self.drafts else None

    def without(self, text: str) -> str:
        """Return the text without what it only speaks of."""
        drafted = self._drafts is not None and self._drafts.search(text) is not None
        if not drafted:
            text = _cut(text, self._quotations(text))
        heads = [heads for heads in self.heads if not (drafted and heads.reported)]
        return _cut(text, sorted(stretch for each in heads for stretch in each.stretches(text)))

    def _quotations(self, text: str) -> list[tuple[int, int]]:
        quoted = []
        for number, (whole, single) in enumerate(_QUOTATION.spans(text, overlapping=True)):
            start, end = single if single[1] > 0 else whole
            if number < _JUDGED and self._counts(text[max(0, start - _NEAR) : start], text[end : end + _NEAR]):
                quoted.append((start, end))
        if not quoted:
            return quoted
        outside = _cut(text, quoted).replace("_", "")
        found = _WORDS.spans(outside)
        return quoted if all(next(found, None) for _ in range(_FEWEST)) else []

    def _counts(self, before: str, after: str) -> bool:
        if self._before is None or self._before.search(before) is not None:
            return True
        return self._after is not None and self._after.match(after) is not None


def _cut(text: str, stretches: Sequence[tuple[int, int]]) -> str:
    """Return a text with a gap in place of each stretch; they are in order and may overlap."""
    parts: list[str] = []
    at = 0
    for start, end in stretches:
        if start >= at:
            parts += (text[at:start], _GAP)
        at = max(at, end)
    return "".join((*parts, text[at:])) if parts else text
