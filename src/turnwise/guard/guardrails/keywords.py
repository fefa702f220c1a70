"""Words and phrases that should not occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from turnwise._support.paths import to_path
from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Check, Cost, Finding, Guardrail, Redaction
from turnwise.guard.recognisers.readings import readings
from turnwise.guard.recognisers.word_search import Occurrence, WordSearch

_FOUND = 1_000
"""Occurrences that are cut out one by one; where there are more, the rest of the text goes whole."""

BESIDE = 8
"""Letters and digits beside a keyword that are looked at."""

_NAMED = 5
"""Keywords that a reason names at most."""


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
            raise GuardError("placeholder is empty")
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
        """The keywords of a text, with a redaction for each."""
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
