"""``keywords`` and ``regex``: your words and regular expressions; and the search for many words at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from turnwise._support.locations import to_path
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, Redaction
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.deobfuscation import readings
from turnwise.guard.recognisers.folding import (
    Folded,
    Folding,
    bare_character,
    caseless_character,
    decomposed_character,
)
from turnwise.guard.recognisers.patterns import alternatives, compile_pattern
from turnwise.guard.recognisers.text import Span, apart, counted

_FOUND = 1_000  # occurrences that are cut out one by one; where there are more, the rest of the text goes whole
BESIDE = 8  # letters and digits beside a keyword that are looked at
_NAMED = 5  # keywords that a reason names at most


@dataclass(frozen=True)
class Keywords(Guardrail):
    """Words and phrases of your own list, any number of them.

    Case is ignored by Unicode case folding (``STRASSE`` is ``straße``), characters that show nothing are ignored,
    white space in a phrase stands for any white space, and what is encoded (entities, percent signs, base64 and
    the like) is read.

    It does not find other forms of a word, misspellings, or words with letters replaced or pulled apart. Languages
    written without spaces, such as Chinese, need ``whole_words: false``.

    Args:
        keywords: words and phrases.
        file: a text file in UTF-8 with one a line; empty lines, and lines that start with ``#``, are left out. It
            is read once, when the guardrail is built.
        whole_words: whether letters or digits beside a keyword rule it out, as in ``class`` for ``ass``.
        ignore_case: whether case is ignored.
        accents: whether accents make a difference; without, ``cafe`` is ``café``. Needs `ignore_case`.
        reveal: whether a reason names the keywords that were found, five at most; otherwise only how many.
        placeholder: what redaction puts in place.

    Raises:
        GuardError: neither keywords nor a file, a file that can't be read, or a keyword without a character to
            look for.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Keywords(keywords=("project x",)), "What is Project  X?").reason
    "'project x'"
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    reads_names: ClassVar[bool] = True
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {"file": ()}
    default_timeout: ClassVar[float | None] = None

    keywords: tuple[str, ...] = ()
    file: str | None = None
    whole_words: bool = True
    ignore_case: bool = True
    accents: bool = True
    reveal: bool = True
    placeholder: str = "[KEYWORD]"
    _words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _phrases: WordSearch = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.keywords, str):
            raise GuardError("keywords is one text; give a list")
        words = tuple(dict.fromkeys((*self.keywords, *_read(self.file))))
        if not words:
            raise GuardError("no keywords; give keywords or a file that has some")
        if not self.placeholder:
            raise GuardError("placeholder is empty; give the text that replaces what was found")
        object.__setattr__(self, "_words", words)
        phrases = WordSearch(
            words, whole_words=self.whole_words, ignore_case=self.ignore_case, accents=self.accents
        )
        object.__setattr__(self, "_phrases", phrases)

    @property
    def reach(self) -> int:
        """As far as the longest keyword."""
        return max(map(len, self._words)) + BESIDE

    def check(self, check: Check) -> Finding:
        found: list[Occurrence] = []
        for reading in readings(check):
            if not reading.loose:
                folded = self._phrases.fold(reading.plain)
                read = reading.behind(folded)
                found += (
                    Occurrence(*read.span(each.start, each.end), each.phrase)
                    for each in _longest(self._phrases.find(folded), len(folded.plain))
                )
        longest = _longest(found, len(check.text))
        if not longest:
            return CLEAN
        return Finding(
            found=True,
            reason=self._reason(longest),
            confidence=1.0,
            redactions=tuple(Redaction(each.start, each.end, "keyword", self.placeholder) for each in longest),
            data={"count": len(longest)},
        )

    def _reason(self, found: Iterable[Occurrence]) -> str:
        counts = Counter(self._words[each.phrase] for each in found)
        total = sum(counts.values())
        if not self.reveal:
            return f"{total} keyword{'s' if total != 1 else ''}"
        named = ", ".join(repr(word) for word in list(counts)[:_NAMED])
        more = len(counts) - _NAMED
        return f"{named} and {more} more" if more > 0 else named


def _longest(found: Iterable[Occurrence], end: int) -> list[Occurrence]:
    """The occurrences apart from each other; overlapping ones become one."""
    kept: list[Occurrence] = []
    for each in sorted(found):
        if len(kept) == _FOUND and kept[-1].end <= each.start:
            kept.append(each._replace(end=end))
            break
        if not kept or kept[-1].end <= each.start:
            kept.append(each)
        elif each.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=each.end)  # all of both has to go
    return kept


def _read(file: str | None) -> tuple[str, ...]:
    if file is None:
        return ()
    try:
        lines = to_path(file).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise GuardError(f"file {file!r} can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise GuardError(f"file {file!r} is not in UTF-8 (byte {error.start})") from None
    return tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


# letters and digits of a match up to which none of it is shown before it is found, where a response streams
REACH = 200

# matches of a pattern that are cut out one by one; where there are more, the rest of the text goes whole
_MATCHES = 1_000


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
                raise GuardError(f"pattern {name!r} matches every text, even the empty one: {pattern}; narrow it")
        object.__setattr__(self, "_compiled", compiled)
        together = alternatives(self.patterns.values(), "patterns together", ignore_case=self.ignore_case)
        object.__setattr__(self, "_any", together)

    @property
    def reach(self) -> int:
        """What a stream holds back for the patterns: a longer match is found at the end of the text."""
        return REACH

    def check(self, check: Check) -> Finding:
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

    A. V. Aho and M. J. Corasick, Efficient string matching (1975). With `inflect` the English endings s and es are
    allowed, and a phrase that ends in ``*`` stands for all words that start so.

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


_LONGEST_ENDING = 40  # characters that ``*`` stands for at most
