"""Values that were disguised, put back as they are usually written: pulled apart, wrapped, spelled.

Each function in `DISGUISES` undoes one trick: it takes a text and yields the stretches to replace.

To look for a pattern of letters, digits and signs in a text of any script, the text is first written as its
shapes, one byte a character (`kinds_of`, `_shapes_by`, `_MASK`), so that one expression over bytes finds it.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, compress, dropwhile, pairwise, repeat
from operator import add, itemgetter, sub

from turnwise._support.characters import LETTERS_AND_DIGITS, SPACE, WHITE_SPACE, byte_table, codes_of, kinds_of
from turnwise.guard.recognisers.addresses import ADDRESS_HINT, spelled_addresses
from turnwise.guard.recognisers.folding import DIGIT_LETTERS, LEET
from turnwise.guard.recognisers.numbers_by_form import COUNTRY_LENGTH, is_iban
from turnwise.guard.recognisers.text import Group, Stretch, Undo, digit_groups, stretches
from turnwise.linear_regex import SPACE as SPACES
from turnwise.linear_regex import LinearRegex

_GAP = 4  # characters between two groups of a number, at most, and of one that is pulled apart
_APART_LEAST = 5  # single characters in a row from which they are one word pulled apart

# Words pulled apart: single characters with one separator between them

# single characters in a row that keep their own places; more are one place, as no value has so many
_APART_MOST = 200

_ASCII_MARKS = tuple(mark for mark in map(chr, range(128)) if not mark.isalnum())

_SEPARATORS_TRIED = 6  # different separators of a text that are tried, the commonest first
_SHORT_ROW = 2  # those of a word between others that are pulled apart with the same separator
_INSIDE = f"[ ,]{{0,{_GAP - 1}}} *, *"
# Five single characters or more, or two, with separators between them, in the shapes of a text. A separator,
# sign or space stands before the first and behind the last, so that no letter of a longer word is taken. The
# last may belong to the next row as well.
_ROW, _SHORTER_ROW = (
    LinearRegex(
        rf"(?:, *[xo]{_INSIDE}|[ o][xo],(?:[ ,]{{0,{_GAP - 2}}} *,)? *)(?:[xo]{_INSIDE}){{{least - 2},}}[xo][^x]"
    )
    for least in (_APART_LEAST, _SHORT_ROW)
)

_IS_ITEM = bytes(chr(code) in "xo" for code in range(256))


def pulled_apart(text: str) -> Iterator[Stretch]:
    """What stands between the characters of words that are pulled apart; wider gaps become a space.

    >>> list(pulled_apart("my k e y"))[:1], len(list(pulled_apart("it is A-K-I-A-Q")))
    ([], 4)
    """
    kinds = kinds_of(text)
    common = _common_marks(text, kinds)
    tried = [(rows, mark) for mark in common if (rows := [*_rows(text, kinds, mark)])]
    tried.sort(key=lambda each: sum(map(_width, each[0])), reverse=True)
    taken: list[Sequence[int]] = []
    separators: dict[int, str] = {}
    for rows, mark in tried:
        # Two separators may claim the same characters: the one with more to undo was tried first, and keeps them.
        free = rows if not taken else [row for row in rows if _is_free(row, taken)]
        separators.update((row[0], mark) for row in free)
        taken = sorted([*taken, *free], key=itemgetter(0))
    for row in taken:
        yield from _between(text, row, separators[row[0]])


def _common_marks(text: str, kinds: bytes) -> Sequence[str]:
    """The signs and spaces that a text has most often, of those that may pull words apart."""
    if text.isascii():
        counts = [(text.count(mark), mark) for mark in _ASCII_MARKS if mark in text]
    else:
        counts = [*_marks_in(text, kinds)]
    enough = [each for each in counts if each[0] >= _APART_LEAST - 1]
    return [mark for _, mark in sorted(enough, reverse=True)[:_SEPARATORS_TRIED]]


def _marks_in(text: str, kinds: bytes) -> Iterator[tuple[int, str]]:
    """How often a text has signs and spaces, also outside ASCII."""
    import numpy as np

    every = np.frombuffer(kinds, np.uint8)
    counts = np.bincount(every, minlength=128).tolist()
    yield from ((counts[ord(mark)], mark) for mark in _ASCII_MARKS)
    others = codes_of(text)[every >= ord(SPACE)]
    codes, found = np.unique(others, return_counts=True)
    for code, count in zip(codes.tolist(), found.tolist(), strict=True):
        yield count, chr(code)


def _is_free(row: Sequence[int], taken: Sequence[Sequence[int]]) -> bool:
    """Whether a row shares no place with any of others, which are in order and apart."""
    index = bisect_right(taken, row[0], key=itemgetter(0))
    return (index == 0 or taken[index - 1][-1] < row[0]) and (index == len(taken) or row[-1] < taken[index][0])


def _width(row: Sequence[int]) -> int:
    return row[-1] - row[0] + 1 - len(row)


def _rows(text: str, kinds: bytes, separator: str) -> Iterator[Sequence[int]]:
    """Where the characters of each word stand that is pulled apart with one separator between them."""
    if not separator.isascii():
        kinds, separator = kinds_of(text.replace("\0", "\1").replace(separator, "\0")), "\0"
    shapes = kinds.translate(_shapes_by(separator))
    # A comma before the text and a space behind it stand for its ends.
    shapes = b",%b " % shapes
    expression = _ROW if next(_ROW.places(shapes), None) is None else _SHORTER_ROW
    for start, end in expression.places(shapes, shared=2):
        first, last = start + 1, end - 2
        row = shapes[first : last + 1].lstrip()
        first = last + 1 - len(row)
        count = len(row) - row.count(b" ") - row.count(b",")
        if len(row) == 2 * count - 1:
            yield range(first - 1, last, 2)
        else:
            yield [*compress(range(first - 1, last), row.translate(_IS_ITEM))]


@cache
def _shapes_by(separator: str) -> bytes:
    """Shapes: comma for the separator, space for other white space, x for letters and digits, o for all else."""
    return byte_table({",": separator, " ": WHITE_SPACE, "x": LETTERS_AND_DIGITS}, "o")


def _between(text: str, row: Sequence[int], separator: str) -> Iterator[Stretch]:
    """The gaps between the characters of a word pulled apart; a very long one is one stretch."""
    starts: Sequence[int]
    instead: Iterable[str]
    if isinstance(row, range):
        starts, instead = range(row.start + 1, row.stop - 1, 2), repeat("", len(row) - 1)
    else:
        starts = [at + 1 for at in row[:-1]]
        gaps = [*map(text.__getitem__, map(slice, starts, row[1:]))]
        forms = {gap: _instead(gap, separator) for gap in set(gaps)}
        instead = map(forms.__getitem__, gaps)
    if len(row) > _APART_MOST:
        joined = "".join(map(add, instead, map(text.__getitem__, row[1:])))
        yield Stretch(starts[0], row[-1] + 1, joined)
    else:
        yield from stretches(starts, row[1:], instead)


def _instead(gap: str, separator: str) -> str:
    """What a gap stands for: nothing, or a separator that was pulled apart itself, as in 1-2---3."""
    if gap.count(separator) < 2:
        return ""
    return " " if separator.isspace() or gap.strip(separator) else separator


# Numbers in which letters stand for digits, or that are grouped as numbers rarely are

_NUMBER_LENGTHS = range(9, 20)
# a row of groups in a text as `_MASK` has it
_DIGIT_GROUPS = LinearRegex(rf"(?:^| )[0o]+(?: {{1,{_GAP}}}[0o]+)*")

# 0 for digits, o for letters that pass for them, a for other letters, and spaces for signs
_MASK = byte_table({"0": string.digits, "o": "".join(DIGIT_LETTERS), "a": LETTERS_AND_DIGITS}, " ")

# lengths of the groups in which cards, social security and phone numbers are written
_EVEN = frozenset({(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (3, 2, 4), (3, 3, 4)})

_USUAL = frozenset({" ", "-", "."})  # what is usually written between them


def disguised_numbers(text: str) -> Iterator[Stretch]:
    """Letters that stand for digits, and what stands between the digits of a number.

    >>> [stretch.text for stretch in disguised_numbers("card 4l11*1111*1111*1111")]
    ['1', ' ', ' ', ' ']
    """
    if sum(map(text.count, string.digits)) < _APART_LEAST:
        return
    mask = kinds_of(text).translate(_MASK)
    for begin, behind in _DIGIT_GROUPS.places(mask):
        row = mask[begin:behind]
        if len(row) - row.count(b" ") < _NUMBER_LENGTHS[0] or row.count(b"0") < _APART_LEAST - 1:
            continue
        groups = [(begin + start, begin + end) for start, end in digit_groups(row.replace(b"o", b"0").decode())]
        if mask.startswith(b"a", behind):
            groups.pop()  # the beginning of a word
        has_letters = b"o" in row
        if has_letters:
            groups = [*dropwhile(lambda group: mask[slice(*group)] == b"o", groups)]  # such as the pronoun I
        if groups:
            yield from _in_row(text, mask if has_letters else b"", groups)


def _in_row(text: str, mask: bytes, groups: Sequence[Group]) -> Iterator[Stretch]:
    """What to undo in a row of groups that are one number, or several; no mask where there are no letters."""
    starts, ends = zip(*groups, strict=True)
    sizes = [*map(sub, ends, starts)]
    gaps = [*map(text.__getitem__, map(slice, ends, starts[1:]))]
    if len(gaps) > 1 and ":" in gaps[0] and gaps[0] not in gaps[1:]:  # as in "field 7: 4111 1111"
        starts, ends, sizes, gaps = starts[1:], ends[1:], sizes[1:], gaps[1:]
        groups = groups[1:]
    is_one = sum(sizes) in _NUMBER_LENGTHS
    for first, last in [(0, len(groups))] if is_one else _with_one_separator(gaps):
        if sum(sizes[first:last]) not in _NUMBER_LENGTHS:
            continue
        is_even = tuple(sizes[first:last]) in _EVEN
        separators = {*gaps[first : last - 1]}
        is_usual = is_even and len(separators) == 1 and separators <= _USUAL
        has_letters = mask.find(b"o", starts[first], ends[last - 1]) >= 0
        if is_usual and not has_letters:
            continue
        between = gaps[first] if is_usual else " " if is_even else ""
        for index in range(first, last):
            if index > first and gaps[index - 1] != between:
                yield Stretch(ends[index - 1], starts[index], between)
            for at in range(starts[index], ends[index]) if has_letters else ():
                if text[at] in DIGIT_LETTERS:
                    yield Stretch(at, at + 1, DIGIT_LETTERS[text[at]])


def _with_one_separator(gaps: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The stretches of groups between which one separator stands, by the gaps behind all groups but the last."""
    first = 0
    for index in range(2, len(gaps) + 1):
        if index > first + 1 and gaps[index - 1] != gaps[first]:
            yield first, index
            first = index
    yield first, len(gaps) + 1


# Codes that are pulled apart: AWS keys and IBANs

_AWS = ("AKIA", "ASIA", "ABIA", "ACCA")
_AWS_LENGTH = 20
_CODE_HEAD = LinearRegex("A(?:KIA|SIA|BIA|CCA)|[A-Z]{2}[0-9]{2}")
_IS_CODE = bytes(bytes([code]).isalnum() for code in range(256))
_NO_CODE_CHARACTERS = bytes(code for code in range(128) if not _IS_CODE[code])
_DIGITS = string.digits.encode()
_FEWEST_DIGITS = 10  # digits that an IBAN has at least
_CHECKED = 300  # candidates of a text whose check digits are verified


def keys_and_ibans(text: str) -> Iterator[Stretch]:
    """What stands between the characters of AWS keys and IBANs, also where many come before that are none.

    >>> [text[stretch.start] for text in ["IBAN DE89/3704/0044/0532/0130/00"] for stretch in keys_and_ibans(text)]
    ['/', '/', '/', '/', '/']
    """
    few = sum(map(text.count, string.digits)) < _FEWEST_DIGITS
    if few and (text.count("A") < 2 or ("I" not in text and "C" not in text)):
        return
    data = text.encode("ascii", "replace")
    squeezed = data.translate(None, _NO_CODE_CHARACTERS)
    upper = squeezed.upper()
    heads = [*_CODE_HEAD.places(upper)]
    if not heads:
        return
    places = [*compress(range(len(data)), data.translate(_IS_CODE))]
    behind = checked = 0
    for first, head_end in heads:
        head, start = upper[first:head_end].decode(), places[first]
        if start < behind or (start and text[start - 1].isalnum()):
            continue
        is_aws = head in _AWS
        length = _AWS_LENGTH if is_aws else COUNTRY_LENGTH.get(head[:2].lower(), 0)
        if not length or first + length > len(places) or (checked == _CHECKED and not is_aws):
            continue
        end = places[first + length - 1] + 1
        if text[end : end + 1].isalnum() or end - start > length * (_GAP + 1):
            continue
        own = places[first : first + length]
        if max(map(sub, own[1:], own)) > _GAP + 1:
            continue
        code = squeezed[first : first + length]
        digits = length - len(code.translate(None, _DIGITS))
        if is_aws:
            is_code = digits >= 2 and code.isupper()
        else:
            has_enough = digits * 3 >= length
            checked += has_enough
            is_code = has_enough and is_iban(code.decode())
        if is_code:
            behind = end
            yield from (Stretch(before + 1, after, "") for before, after in pairwise(own) if after > before + 1)


# Names of secrets in which digits and signs stand for letters

_NAMES = ("password", "passwort", "passwd", "passphrase", "secret", "token")
_LEET_SIGNS = "0345$7@"
_LEET = {sign: LEET[sign] for sign in _LEET_SIGNS}
_LEET_LETTERS = str.maketrans(_LEET)
_SPELLINGS = "|".join(
    "".join(
        f"[{letter}{letter.upper()}{''.join(sign for sign in _LEET if _LEET[sign] == letter)}]" for letter in name
    )
    for name in _NAMES
)
_LEET_NAME = LinearRegex(rf"(?:^|[{SPACES}])({_SPELLINGS})(?:,*[:=]|,*(?:$|[{SPACES}]))")


def names_of_secrets(text: str) -> Iterator[Stretch]:
    """Names of secrets in which digits and signs stand for letters.

    >>> [stretch.text for stretch in names_of_secrets("my p4ssw0rd: x")]
    ['password']
    """
    if any(sign in text for sign in _LEET_SIGNS):
        for _, (start, end) in _LEET_NAME.spans(text, overlapping=True):
            if not text[start:end].isalpha():
                yield Stretch(start, end, text[start:end].translate(_LEET_LETTERS))


def wrapped_lines(text: str) -> Iterator[Stretch]:
    """Line ends inside e-mail addresses, between a name and its value, and between lines of one width."""
    if "\n" not in text:
        return
    inside = _inside_cut_lines(text)
    at = text.find("\n")
    while at >= 0:
        before, after = text[at - 1 : at].strip(), text[at + 1 : at + 2]
        end = at + 1
        while end < len(text) and text[end] in " \t" and end < at + _GAP:
            end += 1
        if at in inside:
            end = at + 1
            yield Stretch(at, end, "")
        elif before in (":", "=") or (end > at + 1 and before.isalnum()):
            yield Stretch(at, end, " ")
        elif before and after.strip() and _ends_in_address(text, at):
            yield Stretch(at, end, "")
        at = text.find("\n", end)


_WIDTHS = range(3, 21)  # characters of lines into which a value or an order is cut


def _inside_cut_lines(text: str) -> set[int]:
    """Line ends beside lines of one width, two in a row at least, that are no numbers."""
    lines = text.split("\n")
    widths = [len(line) if len(line) in _WIDTHS and not line.isdigit() else 0 for line in lines]
    same = [bool(width) and width == after for width, after in pairwise(widths)]
    cut = [before or after for before, after in zip([False, *same], [*same, False], strict=True)]
    ends = [end - 1 for end in accumulate(len(line) + 1 for line in lines)]
    return {end for end, before, after in zip(ends, cut, cut[1:], strict=False) if before or after}


def _ends_in_address(text: str, at: int) -> bool:
    word = text[max(0, at - 64) : at].rsplit(maxsplit=1)[-1]
    return "@" in word and "." not in word.rpartition("@")[2].rstrip(".") and word[0] != "@"


# what is undone, in this order
DISGUISES: tuple[Undo, ...] = (
    pulled_apart,
    wrapped_lines,
    spelled_addresses,
    disguised_numbers,
    keys_and_ibans,
    names_of_secrets,
)

_SIGNS = f"[^A-Za-z0-9]{{0,{_GAP}}}"
# what a text in one line of printable ASCII has, at least, in which something is disguised; RE2
HINTS = (
    r"(?s)[^A-Za-z0-9].[^A-Za-z0-9]+.[^A-Za-z0-9]+.[^A-Za-z0-9]",
    ADDRESS_HINT.pattern,
    rf"(?:[0-9{''.join(DIGIT_LETTERS)}]{_SIGNS}){{{_NUMBER_LENGTHS[0]}}}",
    rf"(?i)[a-z]{_SIGNS}[a-z]{_SIGNS}[0-9]{_SIGNS}[0-9]",
    *(f"(?i){_SIGNS.join(head)}" for head in _AWS),
    _LEET_NAME.pattern,
)
