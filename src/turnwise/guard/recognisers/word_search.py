"""Many words and phrases in a text at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnwise.errors import GuardError
from turnwise.guard.recognisers.folding import (
    Folded,
    Folding,
    bare_character,
    caseless_character,
    decomposed_character,
)

_FOLDINGS = {
    (True, True): Folding(caseless_character, str.lower, join_spaces=True),
    (True, False): Folding(bare_character, str.lower, join_spaces=True),
    (False, True): Folding(decomposed_character, join_spaces=True),
}
_ENDINGS = ("", "s", "es", "'s", "’s")


class Occurrence(NamedTuple):
    """A phrase, by its place in the list, and its offsets in the text in plain form."""

    start: int
    end: int
    phrase: int


class WordSearch:
    """Finds words and phrases, however many, in time linear in the text.

    A. V. Aho and M. J. Corasick, Efficient string matching (1975). White space in a phrase stands for any white
    space. With `whole_words` letters or digits beside a phrase rule it out; case is ignored by Unicode case
    folding. With `inflect` the English endings s and es are allowed, and a phrase that ends in ``*`` stands for
    all words that start so.

    >>> phrases = WordSearch(["credit card", "invest*"], inflect=True)
    >>> text = "Investing with Credit\\n  cards"
    >>> [text[slice(*phrases.fold(text).span(each.start, each.end))] for each in phrases.find(phrases.fold(text))]
    ['Investing', 'Credit\\n  cards']
    """

    def __init__(
        self,
        phrases: Sequence[str],
        *,
        whole_words: bool = True,
        ignore_case: bool = True,
        accents: bool = True,
        inflect: bool = False,
    ) -> None:
        import ahocorasick_rs

        if not phrases:
            raise GuardError("there is nothing to look for; give at least one word or phrase")
        if not ignore_case and not accents:
            raise GuardError("accents: false needs ignore_case: true")
        self._folding = _FOLDINGS[ignore_case, accents]
        self._whole_words = whole_words
        self._inflect = inflect
        self._open: list[bool] = []
        plain = []
        for phrase in phrases:
            if not isinstance(phrase, str):
                raise GuardError(f"{phrase!r} is no text; put it in quotes")
            is_open = inflect and phrase.endswith("*")
            folded = self._folding.fold(phrase[:-1] if is_open else phrase).plain
            if not folded:
                raise GuardError(f"{phrase!r} has no character to look for")
            plain.append(folded)
            self._open.append(is_open)
        self._starts_in_word = [each[0].isalnum() for each in plain]
        self._ends_in_word = [each[-1].isalnum() for each in plain]
        self._automaton = ahocorasick_rs.AhoCorasick(plain, matchkind=ahocorasick_rs.MatchKind.Standard)

    def fold(self, text: str) -> Folded:
        """A text in the plain form in which phrases are looked for."""
        return self._folding.fold(text)

    def find(self, folded: Folded) -> Iterator[Occurrence]:
        """Every occurrence in a text that `fold` gave, overlapping ones among them, in the order of their ends."""
        plain = folded.plain
        found = self._automaton.find_matches_as_indexes(plain, overlapping=True)
        if not self._whole_words:
            yield from (Occurrence(start, end, phrase) for phrase, start, end in found)
            return
        for phrase, start, end in found:
            if start and self._starts_in_word[phrase] and plain[start - 1].isalnum():
                continue
            if not self._ends_in_word[phrase] or not plain[end : end + 1].isalnum():
                yield Occurrence(start, self._ending(plain, end) if self._inflect else end, phrase)
            elif self._open[phrase] or (self._inflect and plain[end : self._word_end(plain, end)] in _ENDINGS):
                yield Occurrence(start, self._word_end(plain, end), phrase)

    def _ending(self, plain: str, end: int) -> int:
        """Where a word ends, with a possessive ending."""
        ends = plain[end : end + 2] in ("'s", "’s") and not plain[end + 2 : end + 3].isalnum()
        return end + 2 if ends else end

    def _word_end(self, plain: str, end: int) -> int:
        limit = min(len(plain), end + _LONGEST_ENDING)
        while end < limit and plain[end].isalnum():
            end += 1
        return end


_LONGEST_ENDING = 40
"""Characters that ``*`` stands for at most."""
