"""Values that come in parts: what several messages of a speaker have of one number, key or password, joined.

Only the join is looked at, by the recognisers that look at each text. The words of a part, the names of values and
what is none stand in ``assembly.yaml``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Final, NamedTuple

from turnwise._support.regex_sets import RegexSet
from turnwise.conversation import Side
from turnwise.guard.finding import EarlierPart, Redaction, TextKind
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.checked_numbers import COUNTRY_LENGTH, is_card, is_iban
from turnwise.guard.recognisers.earlier_texts import OverTurns, Said, ends_of, told_turns, with_earlier
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.patterns import PatternTable, read_table
from turnwise.guard.recognisers.text import Span
from turnwise.linear_regex import LinearRegex

Find = Callable[[str], Sequence[Span]]
"""The recognisers of a guardrail, on a text that was joined."""

_FILE = "assembly.yaml"
_TABLE = PatternTable(_FILE)
_WORD = LinearRegex(r"[\pL\pN]+")
_MIXED = LinearRegex("[a-z][A-Z]")

_WORDS_OF_DIGITS: Final = {
    word: str(digit)
    for digit, words in enumerate(
        (
            "zero zeroes oh o null nullen zéro cero ceros zeri",
            "one eins ein un uno um",
            "two zwei zwo deux dos due",
            "three drei trois tres tre três",
            "four vier quatre cuatro quattro quatro",
            "five fünf cinq cinco cinque",
            "six sechs seis sei",
            "seven sieben sept siete sette sete",
            "eight acht huit ocho otto oito",
            "nine neun neuf nueve nove",
        )
    )
    for word in words.split()
}
_TENS: Final = {
    word: str(tens)
    for words in (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
    for tens, word in enumerate(words.split(), 2)
}
_TEENS: Final = {
    word: str(teen)
    for words in (
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
        "dix onze douze treize quatorze quinze seize",
    )
    for teen, word in enumerate(words.split(), 10)
}
_COUNTS: Final = {"double": "2", "twice": "2", "triple": "3", "treble": "3"}
_NO_PLURAL: Final = frozenset("eins sechs trois dos tres três seis".split())  # noqa: SIM905
_POSITIONS: Final = frozenset(
    (
        *("first", "last", "next", "middle", "final", "other", "those", "these", "remaining"),
        *("part", "piece", "bit", "half", "chunk", "block", "teil", "partie", "parte"),
    )
)
"""Words behind which a word of a number counts digits, and is none of them."""

_FEW_WORDS: Final = 4
"""Words beside a part of a message that is little more than the part, at most."""

_MOST_WORDS: Final = 16
"""Words of a message of which a clause may be little more than the part."""

_HARDLY_ANY: Final = 2
"""The same where nothing else tells that it is a part."""

_BRIEF: Final = 400
"""Characters of a text that may be a part as such; of a longer one, and of its sentences, see `_introduced`."""

_CLAUSE = LinearRegex(r"[.,;:!?\n\"“”„()=]+")
_SENTENCE = LinearRegex(r"(?:[^.!?\n]|[.!?]\S)+[.!?\n]*\s*|[.!?\n]+\s*")
_MOST_PARTS: Final = 8
"""Texts that have parts of one value, at most."""

_LONGEST_NUMBER, _SHORTEST_NUMBER = 34, 6
_LONGEST_SIGNS = 200
_SPAN_OF_PHONE = range(7, 16)
_SSN_DIGITS = 9
_SSN: Final = [3, 2, 4]
_BEHIND_NAMED: Final = (4, 6)
"""Digits of a social security number that come behind those that are named."""

_BLOCK: Final = 3
"""Digits of a part of a card that nothing names, at least."""

_NAMES_OF_KEYS: Final = ("password", "api key")
_LABELS_OF_KEYS: Final = (
    ("password", "password: "),
    ("api key", "api_key: "),
    ("api key", "aws secret key: "),
)
"""What a key or password is joined behind where a text names one."""

_CHECKED: Final = ("card", "iban")
"""Numbers that are found in parts of which each side said some, since a checksum tells them."""

_PROMPTING: Final = (TextKind.INPUT, TextKind.TOOL_RESULT)

_SECRET: Final = frozenset(("", *(label for _, label in _LABELS_OF_KEYS)))

_MOST_CHAINS: Final = 32
"""Choices and orders of texts that are tried, at most."""

_CHOSEN_FROM: Final = 5
"""Latest texts with parts of which any may be left out."""


class Part(NamedTuple):
    """A stretch of a text that may be part of a value, in plain form."""

    start: int
    end: int
    text: str


class Parts(NamedTuple):
    """What a text may have of a value.

    `numbers` are rows of digits, `signs` these with capitals and mixed words, `key` is the likeliest part of a
    key. `cued`: words say that it is a part; `told`: or there is little else; `sure`: or next to nothing else.
    `place` is -1 for the beginning of something, 1 for the end.
    """

    numbers: tuple[Part, ...]
    signs: tuple[Part, ...]
    key: Part | None
    cued: bool
    told: bool
    sure: bool
    place: int


class Joined(NamedTuple):
    """A value over several texts: its kind, how sure it is, what it says, and where its parts stand."""

    kind: str
    confidence: float
    text: str
    parts: tuple[tuple[Said, Part], ...]
    current: Said

    @property
    def turns(self) -> OverTurns:
        """The turns that it came from, for results."""
        saids = [said for said, _ in self.parts]
        turns = sorted({said.turn.number for said in saids})
        sent = sorted({said.turn.number for said in saids if said is not self.current and said.sent})
        return OverTurns(kind=self.kind, turns=turns, sent=sent)

    @property
    def of_both(self) -> bool:
        """Whether each side said some of it."""
        return len({said.kind in _PROMPTING for said, _ in self.parts}) > 1

    @property
    def told(self) -> str:
        """Where it is, in words."""
        turns = self.turns
        return told_turns(turns["turns"], turns["sent"])

    @property
    def spans(self) -> Iterator[Span]:
        """Where its parts stand in the text under check."""
        return (Span(one.start, one.end, *self[:2]) for said, one in self.parts if said is self.current)

    def earlier(self, placeholder: str) -> Iterator[EarlierPart]:
        """Its parts in texts before the one under check, as what is to be replaced."""
        for said, part in self.parts:
            if said is not self.current:
                redaction = Redaction(part.start, part.end, self.kind, placeholder)
                yield EarlierPart(said.turn.number, said.kind, said.call_id, said.text, redaction)


@cache
def _names() -> RegexSet:
    names = read_table(_FILE)["names"]
    patterns = {name: [rf"\b(?:{words})\b"] for name, words in names.items()}
    return RegexSet({**patterns, "": [rf"\b(?:{read_table(_FILE)['against']})\b"]}, ignore_case=True)


def _named(text: str) -> frozenset[str]:
    """The names of values that a text has; empty for what is none, such as an order."""
    return _names().present(text)


def parts_of(text: str) -> Parts | None:
    """What a text may have of a value; None for most texts.

    >>> parts_of("and the last four are 1111").numbers
    (Part(start=22, end=26, text='1111'),)
    >>> [part.text for part in parts_of("double four, then nine two").numbers]
    ['44', '92']
    """
    if text.count(" ") > _FEW_WORDS and not _TABLE["gate"].search(text):
        return None
    folded = PLAIN.fold(text)
    plain = folded.plain if len(folded.plain) <= _BRIEF else _introduced(folded.plain)
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

    def back(part: Part) -> Part:
        return Part(*folded.span(part.start, part.end), part.text)

    return Parts(
        tuple(map(back, row)),
        tuple(map(back, signs)),
        key and back(key),
        cued,
        told,
        cued or (others <= _HARDLY_ANY and "?" not in plain),
        place,
    )


def _words_beside(lower: str, row: Sequence[Part]) -> int:
    """Words in the clause of a row of digits, without them."""
    if not row:
        return _BRIEF
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
        wanted = len(match[0]) <= _BRIEF and _named(match[0]) - {""} and _TABLE["part"].search(match[0].lower())
        kept.append(match[0] if wanted else " " * len(match[0]))
    return "".join(kept)


def _longest_row(plain: str, numbers: Sequence[Part]) -> Sequence[Part]:
    """Of rows of digits those that belong together, with nothing but signs and words such as "then" between."""
    rows: list[list[Part]] = []
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


def _numbers(plain: str, lower: str) -> tuple[list[Part], list[Part], int]:
    """Rows of digits; these with capitals and mixed words; and how many other words there are."""
    words = [(match.start, match.end) for match in _WORD.finditer(lower)]
    numbers: list[Part] = []
    signs: list[Part] = []
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
            part = Part(start, end, digits)
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
                signs.append(Part(start, end, word.upper()))
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
    count = int(_COUNTS.get(word) or _TEENS.get(word) or _WORDS_OF_DIGITS.get(word) or 0)
    if count > 1 and following:
        digit = _WORDS_OF_DIGITS.get(following) or _WORDS_OF_DIGITS.get(following.removesuffix("s"))
        digit = digit or _WORDS_OF_DIGITS.get(following.removesuffix("es"))
        digit = digit or (following if len(following) == 1 and following.isdigit() else None)
        plural = following.endswith(("s", "en", "zeri")) and following not in _NO_PLURAL
        if digit and (word in _COUNTS or plural):
            return digit * count, 2, True
    if (at and lower[slice(*words[at - 1])] in _POSITIONS) or (
        count > 1 and following.isdigit() and len(following) == count
    ):
        return "", 1, True
    if word in _TENS:
        unit = _WORDS_OF_DIGITS.get(following, "0")
        glued = unit != "0" and lower[end : words[at + 1][0]] in (" ", "-")
        return _TENS[word] + (unit if glued else "0"), 1 + glued, True
    ones, _, tens = word.partition("und")
    if tens in _TENS and ones in _WORDS_OF_DIGITS:
        return _TENS[tens] + _WORDS_OF_DIGITS[ones], 1, True
    return _WORDS_OF_DIGITS.get(word) or _TEENS.get(word, ""), 1, True


def _counts_something(lower: str, start: int, end: int) -> bool:
    """Whether digits are an amount, a time, a date, a score, or say which part, page or room it is."""
    behind, before = lower[end : end + 12], lower[max(0, start - 14) : start]
    if _TABLE["no_number"].match(behind) or _TABLE["labelled"].search(before):
        return True
    if end - start < _BLOCK and _TABLE["which_part"].search(before):
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


def _key_part(plain: str, *, told: bool, few: bool) -> Part | None:
    """The stretch of a text that looks most like a part of a key or password."""
    best: tuple[int, int] | None = None
    found: Part | None = None
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
            best, found = score, Part(start, start + len(written), word)
    return found


def _changes(one: str, other: str) -> bool:
    return (one.isupper(), one.isdigit(), one.isalnum()) != (other.isupper(), other.isdigit(), other.isalnum())


# Joining

_signs, _key = attrgetter("signs"), attrgetter("key")

_Chain = Sequence[tuple[Said, Parts]]
_Placed = Sequence[tuple[Said, Part]]


def _chains(texts: Sequence[Said], has: Callable[[Parts], object]) -> Iterator[_Chain]:
    """Texts whose parts may be one value, the one under check among them, in the order of the value."""
    parts = [(said, said.once(parts_of, parts_of)) for said in texts]
    known = [(said, one) for said, one in parts if one is not None and has(one)]
    if len(known) < 2 or known[-1][0] is not texts[-1]:
        return
    before = known[-1 - _MOST_PARTS : -1]
    told = [one for one in before if one[1].told]
    rows = [some[first:] for some in (before, told) for first in range(len(some) - 1, -1, -1)]
    # Any may be left out where words tell of parts; without them, as in calls of tools, parts follow each other.
    cued = any(one.cued or said.once(_named, _named) - {""} for said, one in known)
    near = before[-_CHOSEN_FROM:] if cued else []
    rows += [
        [one for one, bit in zip(near, bits, strict=True) if bit] for bits in product((1, 0), repeat=len(near))
    ]
    seen: set[tuple[int, ...]] = set()
    for row in rows:
        members = [*row, known[-1]]
        orders = [members] if row else []
        if row and any(one.place for _, one in members):
            orders.append(sorted(members, key=lambda member: member[1].place))
            if members[0][1].place > 0:
                orders.append(members[::-1])
        for order in orders:
            key = tuple(id(said) for said, _ in order)
            if key not in seen and len(seen) < _MOST_CHAINS:
                seen.add(key)
                yield order


def numbers_over_turns(check: Check, most: int, find: Find) -> list[Joined]:
    """The numbers that the text under check completes, where neither it nor what came before has them whole."""
    names: frozenset[str] | None = None
    for texts in _completing(check, most, _signs):
        for chain in _chains(texts, _signs):
            if names is None:
                names = _asked(check, most).union(*(said.once(_named, _named) for said in texts))
            for found in _number_of(chain, texts[-1], names, find=find):
                if found.kind in _CHECKED or not found.of_both:
                    return [found]
    return []


def _completing(check: Check, most: int, has: Callable[[Parts], object]) -> Iterator[tuple[Said, ...]]:
    """The texts of a speaker up to the one under check, then those of both, where that has a part of a value."""
    if not most:
        return
    parts = check.once(("parts", check.text), lambda: parts_of(ends_of(check.text)))
    if parts is not None and has(parts):
        for both in (False, True):
            texts = with_earlier(check, most, both=both)
            for said in texts[-1:]:
                said.made.setdefault(parts_of, parts)
            yield texts


def _asked(check: Check, most: int) -> frozenset[str]:
    """The names of values in the last texts of the other side."""
    number = check.turn.number
    turns = check.conversation.history.turns[max(0, number - 1 - most) : number]
    texts = [turn.prompt if check.side is Side.RESPONSE else turn.response for turn in turns]
    return frozenset[str]().union(*(_named(text) for text in texts if text and len(text) <= _BRIEF)) - {""}


def _asked_for_else(said: Said) -> bool:
    """Whether what the other side said right before a text asks for something that is no value, such as a date."""
    before = said.before
    return said.once(_asked_for_else, lambda _: bool(before) and len(before) <= _BRIEF and _named(before) == {""})


def _number_of(chain: _Chain, current: Said, names: frozenset[str], *, find: Find) -> Iterator[Joined]:
    digits = [(said, part) for said, parts in chain for part in parts.numbers]
    joined = "".join(part.text for _, part in digits)
    has_number = _SHORTEST_NUMBER <= len(joined) <= _LONGEST_NUMBER and all(parts.numbers for _, parts in chain)
    if has_number:
        own = [(parts, said.once(_named, _named)) for said, parts in chain]
        against = any(
            "" in some or (not some and not parts.cued and _asked_for_else(said))
            for (said, parts), (_, some) in zip(chain, own, strict=True)
        )
        called = not against or any("card" in some for _, some in own)
        if called and is_card(joined) and ("card" in names or _are_blocks(digits, own)):
            yield from _checked("card number: ", digits, ("card",), current, find)
        for name in names - {"card", "", *_NAMES_OF_KEYS} if not against else ():
            strict = name not in ("ssn", "phone")
            sure = all((parts.cued if strict else parts.sure) or name in some for parts, some in own)
            groups = [len(part.text) for _, part in digits]
            if not sure and not (name == "ssn" and (groups == _SSN or all(parts.told for parts, _ in own))):
                continue
            if name == "ssn" and len(joined) == _SSN_DIGITS and _is_ssn_in_parts(digits, own):
                yield from _checked("ssn: ", digits, ("ssn",), current, find)
            elif (
                name == "phone" and len(joined) in _SPAN_OF_PHONE and all(len(part.text) > 1 for _, part in digits)
            ):
                yield from _checked("call ", digits, ("phone",), current, find)
                yield from _checked("call +", digits, ("phone",), current, find)
            elif strict:
                yield from _checked(f"{name}: ", digits, (), current, find)
    written = [(said, part) for said, parts in chain for part in parts.signs]
    for signs in (written, [one for one in written if len(one[1].text) > 1 or one[1].text.isdigit()]):
        whole = "".join(part.text for _, part in signs)[:_LONGEST_SIGNS]
        for start in range(len(whole) - 14):
            if not whole[start + 2 : start + 4].isdigit():
                continue
            length = COUNTRY_LENGTH.get(whole[start : start + 2].lower(), 0)
            if length and start + length <= len(whole) and is_iban(whole[start : start + length]):
                yield from _checked("iban: ", _within(signs, start, start + length), ("iban",), current, find)


def _are_blocks(digits: _Placed, own: Sequence[tuple[Parts, frozenset[str]]]) -> bool:
    """Whether parts that nothing names are blocks of one number, rather than numbers that count something."""
    return all(parts.sure for parts, _ in own) and all(len(part.text) >= _BLOCK for _, part in digits)


def _is_ssn_in_parts(digits: _Placed, own: Sequence[tuple[Parts, frozenset[str]]]) -> bool:
    """Whether nine digits over texts are one number, rather than its last four and another one, such as a ZIP."""
    if sorted(len(part.text) for _, part in digits) == [2, 3, 4]:
        return True
    lengths = [sum(len(part.text) for part in parts.numbers) for parts, _ in own]
    return all(parts.sure or "ssn" in some for parts, some in own) and all(
        parts.cued
        or "ssn" in some
        or (length in _BEHIND_NAMED and any("ssn" in other or each.cued for each, other in own))
        for (parts, some), length in zip(own, lengths, strict=True)
    )


def keys_over_turns(check: Check, most: int, find: Find) -> list[Joined]:
    """The keys and passwords that the text under check completes, as `numbers_over_turns`."""
    for texts in _completing(check, most, _key):
        if found := _key_of(check, texts, find):
            return [found]
    return []


def _key_of(check: Check, texts: Sequence[Said], find: Find) -> Joined | None:
    named_since: dict[int, frozenset[str]] = {}
    for chain in _chains(texts, _key):
        parts = [(said, one.key) for said, one in chain if one.key is not None]
        names = own = frozenset[str]().union(*(said.once(_named, _named) for said, _ in chain))
        if all(one.sure for _, one in chain):
            since = min(said.turn.number for said, _ in chain) - 1
            if since not in named_since:
                near = (said.once(_named, _named) for said in texts if said.turn.number >= since)
                named_since[since] = _asked(check, check.turn.number - since).union(*near)
            names = own | named_since[since]
        if "".join(part.text for _, part in parts).isdigit() and not all(one.cued for _, one in chain):
            continue
        for label in ("", *(label for name, label in _LABELS_OF_KEYS if name in names and "" not in own)):
            for found in _checked(label, parts, (), texts[-1], find):
                if not (label and found.of_both):
                    return found
    return None


def _within(parts: _Placed, start: int, end: int) -> _Placed:
    """The parts that have something of a stretch of their join."""
    kept, at = [], 0
    for said, part in parts:
        if at < end and at + len(part.text) > start:
            kept.append((said, part))
        at += len(part.text)
    return kept


def _checked(label: str, parts: _Placed, kinds: Sequence[str], last: Said, find: Find) -> Iterator[Joined]:
    """What recognisers find in parts joined behind a label, over several texts with the last text among them."""
    joined = "".join(part.text for _, part in parts)
    for span in find(label + joined):
        if kinds and span.kind not in kinds:
            continue
        mine = _within(parts, span.start - len(label), span.end - len(label))
        if len({id(said) for said, _ in mine}) < 2 or all(said is not last for said, _ in mine):
            continue
        new = "".join(part.text for said, part in mine if said is last)
        before = [(said, part) for said, part in mine if said is not last]
        rest = "".join(part.text for _, part in before)
        if span.kind == "card":
            known = is_card(new) or is_card(rest)
        else:
            several = len({id(said) for said, _ in before}) > 1
            texts = (new, label * several + rest) if label in _SECRET else (label + new, label + rest)
            known = any(one.kind == span.kind for text in texts for one in find(text))
        if not known:
            yield Joined(span.kind, span.confidence, joined, tuple(_merged(mine)), last)


def _merged(parts: _Placed) -> Iterator[tuple[Said, Part]]:
    """The parts by text and place, those with nothing but separators between them as one."""
    last: tuple[Said, Part] | None = None
    for said, part in sorted(
        parts, key=lambda one: (one[0].turn.number, one[0].kind is not TextKind.INPUT, one[1].start)
    ):
        if last is not None and last[0] is said and not said.text[last[1].end : part.start].strip(" -./,"):
            last = said, last[1]._replace(end=max(part.end, last[1].end), text=last[1].text + part.text)
            continue
        if last is not None:
            yield last
        last = said, part
    if last is not None:
        yield last
