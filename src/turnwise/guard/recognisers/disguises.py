"""Values that were disguised: in lookalike characters, pulled apart, or spelled."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, compress, dropwhile, pairwise
from operator import sub

from turnwise._support.characters import LETTERS_AND_DIGITS, byte_table, kinds_of
from turnwise.guard.recognisers.folding import Folding, plain_character
from turnwise.guard.recognisers.hosts import PASS_FOR
from turnwise.guard.recognisers.ibans import COUNTRY_LENGTH, is_iban
from turnwise.guard.recognisers.numbers import digit_groups
from turnwise.guard.recognisers.pulled_apart import APART_LEAST, GAP, pulled_apart
from turnwise.guard.recognisers.spans import Stretch
from turnwise.linear_regex import SPACE, WORD, LinearRegex

_CAPITALS = dict(zip("АВСЕНІЈКМОРЅТХУҮԚԜѴԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧՍՕ", "ABCEHIJKMOPSTXYYQWVGABEZHIKMNOPTYXUO", strict=True))
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_DIGIT_SHAPES = {"З": "3", "з": "3", "Ʒ": "3", "б": "6", "Ƽ": "5", "Ȣ": "8", "ȣ": "8"}
_BOXED = {
    chr(first + index): letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for index, letter in enumerate(string.ascii_uppercase)
}
"""White letters on black, in circles and squares, and those that flags are made of."""

LATIN = {
    **{sign: letter for letter, signs in PASS_FOR.items() for sign in signs if sign != letter},
    **_CAPITALS,
    **_SMALL_CAPITALS,
    **_DIGIT_SHAPES,
    **_BOXED,
}

_DIGIT_GROUPS = LinearRegex(rf"(?:^| )[0o]+(?: {{1,{GAP}}}[0o]+)*")
_NUMBER_LENGTHS = range(9, 20)
_EVEN = frozenset({(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (3, 2, 4), (3, 3, 4)})
"""Lengths of the groups in which cards, social security and phone numbers are written."""

_USUAL = frozenset({" ", "-", "."})
"""What is usually written between them."""

_DIGIT_LETTERS = {"O": "0", "o": "0", "I": "1", "l": "1"}
_AWS = ("AKIA", "ASIA", "ABIA", "ACCA")
_AWS_LENGTH = 20
_CODE_HEAD = LinearRegex("A(?:KIA|SIA|BIA|CCA)|[A-Z]{2}[0-9]{2}")
_IS_CODE = bytes(bytes([code]).isalnum() for code in range(256))
_NO_CODE_CHARACTERS = bytes(code for code in range(128) if not _IS_CODE[code])
_DIGITS = string.digits.encode()
_FEWEST_DIGITS = 10
"""Digits that an IBAN has at least."""

_CHECKED = 300
"""Candidates of a text whose check digits are verified."""

_NAMES = ("password", "passwort", "passwd", "passphrase", "secret", "token")
_LEET = {"a": "4@", "e": "3", "o": "0", "s": "5$", "t": "7"}
_LEET_LETTERS = str.maketrans({sign: letter for letter, signs in _LEET.items() for sign in signs})
_SPELLINGS = "|".join(
    "".join(f"[{letter}{letter.upper()}{_LEET.get(letter, '')}]" for letter in name) for name in _NAMES
)
_LEET_NAME = LinearRegex(rf"(?:^|[{SPACE}])({_SPELLINGS})(?:,*[:=]|,*(?:$|[{SPACE}]))")
_LEET_SIGNS = "0345$7@"

_WRITES = ("mail", "contact", "reach", "write", "send", "address", "inbox", "login")
_LONGEST_ADDRESS = 256
_BEFORE = 40
"""Characters before a spelled address in which words that speak of mail are looked for."""

_OPEN = r"[(\[{<*_|'\"-]{1,2}"
_CLOSE = r"[)\]}>*_|'\"-]{1,2}"
_DOT = (
    rf"(?:\s{{0,3}}{_OPEN}\s?(?:dot|punkt|punto|point|\.)\s?{_CLOSE}\s{{0,3}}"
    r"|\s(?:dot|punkt|punto|point)\s|\s{0,3}\.\s{0,3}|,)"
)
_AT = rf"(?:\s{{0,3}}{_OPEN}\s?(?:at|@|a)\s?{_CLOSE}\s{{0,3}}|\sat\s|\s{{0,3}}@\s{{0,3}})"
_PART = rf"[{WORD}+%-]+"
_ADDRESS = LinearRegex(
    rf"(?i)({_PART}(?:(?:\.|\sdot\s|\s?{_OPEN}dot{_CLOSE}\s?){_PART}){{0,3}})({_AT})"
    rf"([{WORD}-]+(?:{_DOT}[{WORD}-]+){{0,2}}{_DOT}"
    r"(?:com|org|net|edu|gov|info|io|co|me|uk|de|fr|es|it|nl|ch|at|eu|us|ca|au|in|example|test|invalid))"
    r"(?:[^A-Za-z0-9]|$)"
)
_ADDRESS_HINT = LinearRegex(r"(?i)@|dot|punkt|punto|point|[(\[{<*_|'\"-]\s?a(?:t)?\s?[)\]}>*_|'\"-]")
_SPELLED_HINT = LinearRegex(
    rf"(?i),|\s[@.]|[@.]\s|\s(?:at|dot|punkt|punto|point)\s|{_OPEN}\s?(?:at?|@|\.|dot|punkt|punto|point)\s?{_CLOSE}"
)
_MARKS = "()[]{}<>*|'\""
_BESIDE = rf"[{SPACE}()\[\]{{}}<>*|'\"]*"
_FULL_STOP = LinearRegex(rf"(?i){_BESIDE}(?:[.,]|\b(?:dot|punkt|punto|point)\b){_BESIDE}")
_SPELLING = frozenset(string.whitespace + _MARKS + ",")
"""What an address has one of, or a word for a full stop, of which a separator is spelled."""

Undo = Callable[[str], Iterator[Stretch]]


def undisguised_character(character: str) -> str:
    """The Latin letter or digit that a character passes for, without accents; others in plain form.

    Unicode Technical Standard 39 (confusables), cut down to letters that pass for Latin ones.

    >>> [undisguised_character(each) for each in "аé²ᴀ🅰"]
    ['a', 'e', '2', 'a', 'A']
    """
    latin = LATIN.get(character)
    if latin is not None:
        return latin
    form = unicodedata.normalize("NFKD", plain_character(character))
    return "".join(each for each in form if not unicodedata.combining(each))


UNDISGUISED = Folding(undisguised_character)
"""Characters that pass for others."""


def numbers(text: str) -> Iterator[Stretch]:
    """Letters that stand for digits, and what stands between the digits of a number.

    >>> [stretch.text for stretch in numbers("card 4l11*1111*1111*1111")]
    ['1', ' ', ' ', ' ']
    """
    if sum(map(text.count, string.digits)) < APART_LEAST:
        return
    mask = _masked(text)
    for begin, behind in _DIGIT_GROUPS.places(mask.encode()):
        row = mask[begin:behind]
        if len(row) - row.count(" ") >= _NUMBER_LENGTHS[0] and row.count("0") >= APART_LEAST - 1:
            groups = digit_groups(row.replace("o", "0"))
            if mask.startswith("a", behind):
                groups.pop()
            if groups:
                yield from _number(text, mask, [(begin + start, begin + end) for start, end in groups])


def _masked(text: str) -> str:
    """The text with 0 for digits, o for letters that pass for them, a for other letters, and spaces for signs."""
    return kinds_of(text).translate(_MASK).decode("ascii")


def _number(text: str, mask: str, run: Sequence[tuple[int, int]]) -> Iterator[Stretch]:
    """What to undo in a row of groups of digits that may be one number, or several with one separator."""
    has_letters = mask.find("o", run[0][0], run[-1][1]) >= 0
    if has_letters:
        run = [*dropwhile(lambda group: mask[slice(*group)] == "o", run)]  # such as the pronoun I
    starts, ends = zip(*run, strict=True) if run else ((), ())
    sizes = [*map(sub, ends, starts)]
    gaps = [*map(text.__getitem__, map(slice, ends, starts[1:]))]
    digits = [*accumulate(sizes, initial=0)]
    last, first = len(run), 0
    whole = digits[-1] in _NUMBER_LENGTHS
    for index in (last,) if whole else range(1, last + 1):
        if index < last and (index == first + 1 or gaps[index - 1] == gaps[first]):
            continue
        if digits[index] - digits[first] in _NUMBER_LENGTHS:
            between = gaps[first : index - 1]
            is_even = tuple(sizes[first:index]) in _EVEN
            is_usual = is_even and between[0] in _USUAL and between.count(between[0]) == len(between)
            if not is_usual or (has_letters and mask.find("o", starts[first], ends[index - 1]) >= 0):
                yield from _joined(text, mask, run[first:index])
        first = index


def _joined(text: str, mask: str, groups: Sequence[tuple[int, int]]) -> Iterator[Stretch]:
    """What to undo in a number that isn't written as usual."""
    between = ""
    has_letters = "o" in mask[groups[0][0] : groups[-1][1]]
    if tuple([end - start for start, end in groups]) in _EVEN:
        gaps = {text[before[1] : after[0]] for before, after in pairwise(groups)}
        between = gaps.pop() if len(gaps) == 1 and gaps <= _USUAL else " "
    for index, (start, end) in enumerate(groups):
        if index and text[groups[index - 1][1] : start] != between:
            yield Stretch(groups[index - 1][1], start, between)
        for at in range(start, end) if has_letters else ():
            if mask[at] == "o":
                yield Stretch(at, at + 1, _DIGIT_LETTERS[text[at]])


def codes(text: str) -> Iterator[Stretch]:
    """What stands between the characters of AWS keys and IBANs, also where many come before that are none.

    >>> [text[stretch.start] for text in ["IBAN DE89/3704/0044/0532/0130/00"] for stretch in codes(text)]
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
        written, start = upper[first:head_end].decode(), places[first]
        if start < behind or (start and text[start - 1].isalnum()):
            continue
        is_aws = written in _AWS
        length = _AWS_LENGTH if is_aws else COUNTRY_LENGTH.get(written[:2].lower(), 0)
        if not length or first + length > len(places) or (checked == _CHECKED and not is_aws):
            continue
        end = places[first + length - 1] + 1
        if text[end : end + 1].isalnum() or end - start > length * (GAP + 1):
            continue
        own = places[first : first + length]
        if max(map(sub, own[1:], own)) > GAP + 1:
            continue
        code = squeezed[first : first + length].decode()
        digits = length - len(upper[first : first + length].translate(None, _DIGITS))
        if is_aws:
            is_code = digits >= 2 and code.isupper()
        else:
            checked += digits * 3 >= length
            is_code = digits * 3 >= length and is_iban(code)
        if is_code:
            behind = end
            yield from (Stretch(before + 1, after, "") for before, after in pairwise(own) if after > before + 1)


def addresses(text: str) -> Iterator[Stretch]:
    """E-mail addresses that are spelled or spaced out.

    Plain words and spaces count only behind words that speak of mail, as in "write to jane at example dot com".

    >>> [stretch.text for stretch in addresses("jane {at} example {dot} com")]
    ['jane@example.com']
    """
    if _ADDRESS_HINT.search(text) is None or _SPELLED_HINT.search(text) is None:
        return
    for _, *parts in _ADDRESS.spans(text, overlapping=True):
        local, at, domain = (text[first:last] for first, last in parts)
        start, end = parts[0][0], parts[-1][1]
        if end - start > _LONGEST_ADDRESS:
            continue
        if at == "@" and _SPELLING.isdisjoint(whole := text[start:end]) and not _speaks_of_dots(whole.lower()):
            continue
        spelled = f"{_with_dots(local)}@{_with_dots(domain)}"
        if spelled == text[start:end]:
            continue
        if at.strip() in ("@", "at") and (at != "@" or " " in domain or "," in domain):
            if at.strip() == "at" and " dot " not in domain.lower():
                continue
            near = text[max(0, start - _BEFORE) : start].lower()
            if not any(word in near for word in _WRITES):
                continue
        yield Stretch(start, end, spelled)


def _speaks_of_dots(lower: str) -> bool:
    return "dot" in lower or "punkt" in lower or "punto" in lower or "point" in lower


def _with_dots(part: str) -> str:
    """Part of an address, with full stops for the spelled ones and the brackets and spaces around them."""
    return _FULL_STOP.sub(lambda _: ".", part)


def names(text: str) -> Iterator[Stretch]:
    """Names of secrets in which digits and signs stand for letters.

    >>> [stretch.text for stretch in names("my p4ssw0rd: x")]
    ['password']
    """
    if any(sign in text for sign in _LEET_SIGNS):
        for _, (start, end) in _LEET_NAME.spans(text, overlapping=True):
            if not text[start:end].isalpha():
                yield Stretch(start, end, text[start:end].translate(_LEET_LETTERS))


def wrapped_lines(text: str) -> Iterator[Stretch]:
    """Line ends inside e-mail addresses, and between a name and its value."""
    if "\n" not in text:
        return
    at = text.find("\n")
    while at >= 0:
        before, after = text[at - 1 : at].strip(), text[at + 1 : at + 2]
        end = at + 1
        while end < len(text) and text[end] in " \t" and end < at + GAP:
            end += 1
        if before in (":", "=") or (end > at + 1 and before.isalnum()):
            yield Stretch(at, end, " ")
        elif before and after.strip() and _ends_in_address(text, at):
            yield Stretch(at, end, "")
        at = text.find("\n", end)


def _ends_in_address(text: str, at: int) -> bool:
    word = text[max(0, at - 64) : at].rsplit(maxsplit=1)[-1]
    return "@" in word and "." not in word.rpartition("@")[2].rstrip(".") and word[0] != "@"


DISGUISES: tuple[Undo, ...] = (pulled_apart, wrapped_lines, addresses, numbers, codes, names)
"""What is undone, in this order."""

_SIGNS = f"[^A-Za-z0-9]{{0,{GAP}}}"
HINTS = (
    r"(?s)[^A-Za-z0-9].[^A-Za-z0-9]+.[^A-Za-z0-9]+.[^A-Za-z0-9]",
    _ADDRESS_HINT.pattern,
    rf"(?:[0-9{''.join(_DIGIT_LETTERS)}]{_SIGNS}){{{_NUMBER_LENGTHS[0]}}}",
    rf"(?i)[a-z]{_SIGNS}[a-z]{_SIGNS}[0-9]{_SIGNS}[0-9]",
    *(f"(?i){_SIGNS.join(head)}" for head in _AWS),
    _LEET_NAME.pattern,
)
"""What a text in one line of printable ASCII has, at least, in which something is disguised; RE2."""


_MASK = byte_table({"0": string.digits, "o": "".join(_DIGIT_LETTERS), "a": LETTERS_AND_DIGITS}, " ")
