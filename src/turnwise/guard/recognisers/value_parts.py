"""What a text may have of a value: rows of digits, capitals, a stretch of a key, and words that say it is a part.

The words of a part, the names of values and what is none stand in ``value_parts.yaml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from turnwise._support.regex_sets import RegexSet
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.patterns import PatternTable, read_table
from turnwise.guard.recognisers.spelled import DIGITS, TEENS, TENS, TIMES
from turnwise.linear_regex import LinearRegex

_FILE = "value_parts.yaml"
_TABLE = PatternTable(_FILE)
_WORD = LinearRegex(r"[\pL\pN]+")
_MIXED = LinearRegex("[a-z][A-Z]")

_DIGITS: Final = {**DIGITS, "o": 0, "nullen": 0, "zeri": 0}
_NO_PLURAL: Final = frozenset("eins sechs trois dos tres três seis".split())  # noqa: SIM905
# words behind which a word of a number counts digits, and is none of them
_POSITIONS: Final = frozenset(
    (
        *("first", "last", "next", "middle", "final", "other", "those", "these", "remaining"),
        *("part", "piece", "bit", "half", "chunk", "block", "teil", "partie", "parte"),
    )
)

_FEW_WORDS: Final = 4  # words beside a part of a message that is little more than the part, at most
_MOST_WORDS: Final = 16  # words of a message of which a clause may be little more than the part
_HARDLY_ANY: Final = 2  # the same where nothing else tells that it is a part

# characters of a text that may be a part as such; of a longer one, and of its sentences, see `_introduced`
BRIEF: Final = 400

_CLAUSE = LinearRegex(r"[.,;:!?\n\"“”„()=]+")
_SENTENCE = LinearRegex(r"(?:[^.!?\n]|[.!?]\S)+[.!?\n]*\s*|[.!?\n]+\s*")
BLOCK: Final = 3  # digits of a part of a number that nothing names, at least


class ValuePart(NamedTuple):
    """A stretch of a text that may be part of a value, in plain form."""

    start: int
    end: int
    text: str


class ValueParts(NamedTuple):
    """What a text may have of a value; `key` is the likeliest part of a key."""

    numbers: tuple[ValuePart, ...]  # rows of digits
    signs: tuple[ValuePart, ...]  # these with capitals and mixed words
    key: ValuePart | None
    cued: bool  # words say that it is a part
    told: bool  # or there is little else
    sure: bool  # or next to nothing else
    place: int  # -1 for the beginning of something, 1 for the end


@cache
def _names() -> RegexSet:
    names = read_table(_FILE)["names"]
    patterns = {name: [rf"\b(?:{words})\b"] for name, words in names.items()}
    return RegexSet({**patterns, "": [rf"\b(?:{read_table(_FILE)['against']})\b"]}, ignore_case=True)


def values_named(text: str) -> frozenset[str]:
    """The names of values that a text has; empty for what is none, such as an order."""
    return _names().present(text)


def parts_of(text: str) -> ValueParts | None:
    """What a text may have of a value; None for most texts.

    >>> parts_of("and the last four are 1111").numbers
    (ValuePart(start=22, end=26, text='1111'),)
    >>> [part.text for part in parts_of("double four, then nine two").numbers]
    ['44', '92']
    """
    if text.count(" ") > _FEW_WORDS and not _TABLE["gate"].search(text):
        return None
    folded = PLAIN.fold(text)
    plain = folded.plain if len(folded.plain) <= BRIEF else _introduced(folded.plain)
    lower = plain.lower()
    if len(lower) != len(plain):
        lower = plain
    numbers, signs, others = _numbers(plain, lower)
    row = _longest_row(lower, numbers)
    if others <= _MOST_WORDS:
        others = min(others, _words_beside(lower, row))
    few, cued = others <= _FEW_WORDS, _TABLE["part"].search(lower) is not None
    told = few or cued
    key = _key_part(plain, told=told, few=few)
    if not numbers and not signs and key is None:
        return None
    place = place_of(lower)

    def back(part: ValuePart) -> ValuePart:
        return ValuePart(*folded.span(part.start, part.end), part.text)

    return ValueParts(
        tuple(map(back, row)),
        tuple(map(back, signs)),
        key and back(key),
        cued,
        told,
        cued or (others <= _HARDLY_ANY and "?" not in plain),
        place,
    )


def _words_beside(lower: str, row: Sequence[ValuePart]) -> int:
    """Words in the clause of a row of digits, without them."""
    if not row:
        return BRIEF
    start, end = row[0].start, row[-1].end
    signs = [*_CLAUSE.finditer(lower)]
    first = max((sign.end for sign in signs if sign.end <= start), default=0)
    last = min((sign.start for sign in signs if sign.start >= end), default=len(lower))
    words = _WORD.finditer(f"{lower[first:start]} {lower[end:last]}")
    return sum(not match[0].isdigit() for match in words)


def _introduced(plain: str) -> str:
    """A long text with blanks but for the sentences that name a value and tell of a part of it."""
    kept = []
    for match in _SENTENCE.finditer(plain):
        wanted = (
            len(match[0]) <= BRIEF and values_named(match[0]) - {""} and _TABLE["part"].search(match[0].lower())
        )
        kept.append(match[0] if wanted else " " * len(match[0]))
    return "".join(kept)


def _longest_row(plain: str, numbers: Sequence[ValuePart]) -> Sequence[ValuePart]:
    """Of rows of digits those that belong together, with nothing but signs and words such as "then" between."""
    rows: list[list[ValuePart]] = []
    for part in numbers:
        if rows and _TABLE["between"].match(plain[rows[-1][-1].end : part.start]):
            rows[-1].append(part)
        else:
            rows.append([part])
    return max(rows, key=lambda row: sum(len(part.text) for part in row), default=[])


def place_of(text: str) -> int:
    """Where a part belongs by the words beside it: -1 at the beginning, 1 at the end, 0 where they don't say."""
    lower = text.lower()
    found = [
        (match.start, place)
        for name, place in (("opens", -1), ("closes", 1))
        if (match := _TABLE[name].search(lower))
    ]
    return min(found)[1] if found else 0


def _numbers(plain: str, lower: str) -> tuple[list[ValuePart], list[ValuePart], int]:
    """Rows of digits; these with capitals and mixed words; and how many other words there are."""
    words = [(match.start, match.end) for match in _WORD.finditer(lower)]
    numbers: list[ValuePart] = []
    signs: list[ValuePart] = []
    others = at = 0
    while at < len(words):
        start, end = words[at]
        digits, count, spelled = "", 0, False
        while at + count < len(words):
            one, used, is_word = _digits(lower, words, at + count)
            if not one or (digits and lower[end : words[at + count][0]].strip(" -.,")):
                break
            digits, count, spelled = digits + one, count + used, spelled or is_word
            end = words[at + count - 1][1]
            if len(lower[end : words[at + count][0]] if at + count < len(words) else "") > 3:
                break
        if digits and not (spelled and len(digits) < 2):
            part = ValuePart(start, end, digits)
            if not _TABLE["corrected"].match(lower[end : end + 24]):
                numbers.append(part)
                signs.append(part)
            at += count
            continue
        end = words[at][1]
        word = plain[start:end]
        if (
            word.isascii()
            and (len(word) > 1 or word not in "IA")
            and (word.isupper() or not (word.isalpha() or word.isdigit()))
        ):
            if not _TABLE["corrected"].match(lower[end : end + 24]):
                signs.append(ValuePart(start, end, word.upper()))
        else:
            others += not word.isdigit()
        at += 1
    return numbers, signs, others


def _digits(lower: str, words: Sequence[tuple[int, int]], at: int) -> tuple[str, int, bool]:
    """The digits that a word stands for, how many words they take, and whether they are spelled; "" for none."""
    start, end = words[at]
    word = lower[start:end]
    if word.isdigit() and word.isascii():
        return ("" if _counts_something(lower, start, end) else word), 1, False
    following = lower[slice(*words[at + 1])] if at + 1 < len(words) else ""
    count = TIMES.get(word) or TEENS.get(word) or _DIGITS.get(word, 0)
    if count > 1 and following:
        digit = next(
            (_DIGITS[one] for one in map(following.removesuffix, ("", "s", "es")) if one in _DIGITS), None
        )
        if digit is None and len(following) == 1 and following.isdigit():
            digit = int(following)
        plural = following.endswith(("s", "en", "zeri")) and following not in _NO_PLURAL
        if digit is not None and (word in TIMES or plural):
            return str(digit) * count, 2, True
    if (at and lower[slice(*words[at - 1])] in _POSITIONS) or (
        count > 1 and following.isdigit() and len(following) == count
    ):
        return "", 1, True
    if word in TENS:
        unit = _DIGITS.get(following, 0)
        glued = unit > 0 and lower[end : words[at + 1][0]] in (" ", "-")
        return f"{TENS[word]}{unit if glued else 0}", 1 + glued, True
    ones, _, tens = word.partition("und")
    if tens in TENS and ones in _DIGITS:
        return f"{TENS[tens]}{_DIGITS[ones]}", 1, True
    said = _DIGITS.get(word, TEENS.get(word))
    return "" if said is None else str(said), 1, True


def _counts_something(lower: str, start: int, end: int) -> bool:
    """Whether digits are an amount, a time, a date, a score, or say which part, page or room it is."""
    behind, before = lower[end : end + 12], lower[max(0, start - 14) : start]
    if _TABLE["no_number"].match(behind) or _TABLE["labelled"].search(before):
        return True
    if end - start < BLOCK and _TABLE["which_part"].search(before):
        return True
    row = lower[max(0, start - 3) : start]
    if (len(row) > 1 and row[-1] in "-_./" and row[-2].isalpha()) or (
        behind[:1] in tuple("-_./") and behind[1:2].isalpha()
    ):
        return True
    if len(row) > 1 and row[-1] in ".,:/-" and row[-2].isdigit():
        return end - start < 3 and (row[-1] != "-" or end - start == 1)
    follows = len(behind) > 1 and behind[0] in ".,:/-" and behind[1].isdigit()
    width = len(behind[1:]) - len(behind[1:].lstrip("0123456789")) if follows else 0
    return follows and width < 3 and (behind[0] != "-" or (width == 1 and end - start == 1))


def _key_part(plain: str, *, told: bool, few: bool) -> ValuePart | None:
    """The stretch of a text that looks most like a part of a key or password."""
    best: tuple[int, int] | None = None
    found: ValuePart | None = None
    slots = [(groups[1], 10) for groups in _TABLE["slot"].spans(plain, overlapping=True)]
    slots += [(groups[1], 10) for groups in _TABLE["assigned"].spans(plain)]
    tokens = [(spans[0], 0) for spans in (*_TABLE["spelled"].spans(plain), *_TABLE["token"].spans(plain))]
    for (start, end), weight in (*slots, *tokens):
        written = plain[start:end].rstrip(".:?")
        if not weight and written.isalpha() and written.islower():
            continue  # a word, as most are
        word = written.replace(" ", "")
        letters, digits = any(map(str.isalpha, word)), any(map(str.isdigit, word))
        changes = sum(map(_changes, word, word[1:]))
        random = letters and (
            (len(word) > 7 and changes > 2)
            or (len(word) > 5 and ((digits and word.isupper()) or _MIXED.search(word)))
        )
        random = random or " " in written
        named = weight and plain[end:].strip(" .\"'") == "" and plain[:start].rstrip(" \"'")[-1:] in (":", "=")
        capital = weight or _MIXED.search(word) or word.isupper()
        looks = named or digits or (capital and word.lower() != word) or not word.isalnum()
        if (
            len(word) < 2
            or word[0] == "/"
            or "://" in word
            or (word.isdigit() and _counts_something(plain.lower(), start, start + len(written)))
            or not looks
            or not (letters or digits)
            or not (told or random)
        ):
            continue
        if not weight and not (
            few or random or (len(word) > 3 and digits and letters) or (digits and len(word) > 2)
        ):
            continue
        score = weight + changes + 5 * (" " in written), len(word)
        if best is None or score > best:
            best, found = score, ValuePart(start, start + len(written), word)
    return found


def _changes(one: str, other: str) -> bool:
    return (one.isupper(), one.isdigit(), one.isalnum()) != (other.isupper(), other.isdigit(), other.isalnum())
