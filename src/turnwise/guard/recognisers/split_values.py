"""Values that come in parts: what several messages of a speaker have of one number, key or password, joined.

Only the join is looked at, by the recognisers that look at each text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from operator import attrgetter
from typing import Final, NamedTuple

from turnwise.conversation import Side
from turnwise.guard.finding import EarlierPart, Redaction, TextKind
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.earlier_texts import EarlierText, OverTurns, ends_of, over_turns, with_earlier
from turnwise.guard.recognisers.numbers_by_form import COUNTRY_LENGTH, is_card, is_iban
from turnwise.guard.recognisers.text import Span
from turnwise.guard.recognisers.value_parts import BLOCK, BRIEF, ValuePart, ValueParts, parts_of, values_named

Find = Callable[[str], Sequence[Span]]  # the recognisers of a guardrail, on a text that was joined
_MOST_PARTS: Final = 8  # texts that have parts of one value, at most
_LONGEST_NUMBER, _SHORTEST_NUMBER = 34, 6
_LONGEST_SIGNS = 200
_SPAN_OF_PHONE = range(7, 16)
_SSN_DIGITS = 9
_SSN: Final = [3, 2, 4]
_BEHIND_NAMED: Final = (4, 6)  # digits of a social security number that come behind those that are named
_NAMES_OF_KEYS: Final = ("password", "api key")
# what a key or password is joined behind where a text names one
_LABELS_OF_KEYS: Final = (("password", "password: "), ("api key", "api_key: "), ("api key", "aws secret key: "))

# numbers that are found in parts of which each side said some, since a checksum tells them
_CHECKED: Final = ("card", "iban")

_PROMPTING: Final = (TextKind.INPUT, TextKind.TOOL_RESULT)

_SECRET: Final = frozenset(("", *(label for _, label in _LABELS_OF_KEYS)))

_MOST_CHAINS: Final = 32  # choices and orders of texts that are tried, at most
_CHOSEN_FROM: Final = 5  # latest texts with parts of which any may be left out


class Joined(NamedTuple):
    """A value over several texts: its kind, how sure it is, what it says, and where its parts stand."""

    kind: str
    confidence: float
    text: str
    parts: tuple[tuple[EarlierText, ValuePart], ...]
    current: EarlierText

    @property
    def over_turns(self) -> tuple[OverTurns, str]:
        """The turns that it came from, for results and in words."""
        return over_turns(self.kind, [said for said, _ in self.parts], self.current)

    @property
    def of_both(self) -> bool:
        """Whether each side said some of it."""
        return len({said.kind in _PROMPTING for said, _ in self.parts}) > 1

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


_signs, _key = attrgetter("signs"), attrgetter("key")

_Chain = Sequence[tuple[EarlierText, ValueParts]]
_Placed = Sequence[tuple[EarlierText, ValuePart]]


def _chains(texts: Sequence[EarlierText], has: Callable[[ValueParts], object]) -> Iterator[_Chain]:
    """Texts whose parts may be one value, the one under check among them, in the order of the value."""
    parts = [(said, said.once(parts_of)) for said in texts]
    known = [(said, one) for said, one in parts if one is not None and has(one)]
    if len(known) < 2 or known[-1][0] is not texts[-1]:
        return
    before = known[-1 - _MOST_PARTS : -1]
    told = [one for one in before if one[1].told]
    rows = [some[first:] for some in (before, told) for first in range(len(some) - 1, -1, -1)]
    # Any may be left out where words tell of parts; without them, as in calls of tools, parts follow each other.
    cued = any(one.cued or said.once(values_named) - {""} for said, one in known)
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
                names = _asked(check, most).union(*(said.once(values_named) for said in texts))
            for found in _number_of(chain, texts[-1], names, find=find):
                if found.kind in _CHECKED or not found.of_both:
                    return [found]
    return []


def _completing(check: Check, most: int, has: Callable[[ValueParts], object]) -> Iterator[tuple[EarlierText, ...]]:
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
    return frozenset[str]().union(*(values_named(text) for text in texts if text and len(text) <= BRIEF)) - {""}


def _asked_for_else(said: EarlierText) -> bool:
    """Whether what the other side said right before a text asks for something that is no value, such as a date."""
    return 0 < len(said.before) <= BRIEF and values_named(said.before) == {""}


def _number_of(chain: _Chain, current: EarlierText, names: frozenset[str], *, find: Find) -> Iterator[Joined]:
    digits = [(said, part) for said, parts in chain for part in parts.numbers]
    joined = "".join(part.text for _, part in digits)
    has_number = _SHORTEST_NUMBER <= len(joined) <= _LONGEST_NUMBER and all(parts.numbers for _, parts in chain)
    if has_number:
        own = [(parts, said.once(values_named)) for said, parts in chain]
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


def _are_blocks(digits: _Placed, own: Sequence[tuple[ValueParts, frozenset[str]]]) -> bool:
    """Whether parts are blocks of one number that nothing names, rather than phone numbers and what counts."""
    unnamed = all(parts.sure and not some for parts, some in own)
    return unnamed and all(len(part.text) >= BLOCK for _, part in digits)


def _is_ssn_in_parts(digits: _Placed, own: Sequence[tuple[ValueParts, frozenset[str]]]) -> bool:
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


def _key_of(check: Check, texts: Sequence[EarlierText], find: Find) -> Joined | None:
    named_since: dict[int, frozenset[str]] = {}
    for chain in _chains(texts, _key):
        parts = [(said, one.key) for said, one in chain if one.key is not None]
        names = own = frozenset[str]().union(*(said.once(values_named) for said, _ in chain))
        if all(one.sure for _, one in chain):
            since = min(said.turn.number for said, _ in chain) - 1
            if since not in named_since:
                near = (said.once(values_named) for said in texts if said.turn.number >= since)
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


def _checked(label: str, parts: _Placed, kinds: Sequence[str], last: EarlierText, find: Find) -> Iterator[Joined]:
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


def _merged(parts: _Placed) -> Iterator[tuple[EarlierText, ValuePart]]:
    """The parts by text and place, those with nothing but separators between them as one."""
    last: tuple[EarlierText, ValuePart] | None = None
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
