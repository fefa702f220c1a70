"""Personal data in a text: numbers and addresses that are a person's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal, get_args

from turnwise._support.regex_sets import RegexSet
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.addresses import EMAIL_SHAPES, IP_SHAPES, find_emails, find_ips, written_out
from turnwise.guard.recognisers.earlier_texts import OVER_TURNS, check_over_turns
from turnwise.guard.recognisers.folding import LOWER
from turnwise.guard.recognisers.numbers_by_form import (
    CARD_SHAPES,
    IBAN_SHAPES,
    SSN_SHAPES,
    find_cards,
    find_ibans,
    find_ssns,
)
from turnwise.guard.recognisers.numbers_by_name import BIRTH_DATES, find_birth_dates, find_named, named_kinds
from turnwise.guard.recognisers.patterns import check_known, check_types
from turnwise.guard.recognisers.phones import PHONE_SHAPES, Phones
from turnwise.guard.recognisers.split_values import numbers_over_turns
from turnwise.guard.recognisers.text import SPOKEN, Span, TextReading, apart
from turnwise.guard.recognisers.values import Allowed, Value, values_found, values_in

# what the guardrail knows
PiiType = Literal[
    "ssn", "card", "iban", "phone", "email", "ip", "passport", "driving_licence", "bank_account",
    "medical_record", "insurance", "employee", "student", "tax_id", "national_id", "vehicle", "birth_date",
]  # fmt: skip

Find = Callable[[TextReading], Iterator[Span]]

_NAMES = {
    "ssn": "social security number",
    "card": "payment card",
    "iban": "IBAN",
    "phone": "phone number",
    "email": "e-mail address",
    "ip": "IP address",
    "passport": "passport number",
    "driving_licence": "driving licence number",
    "bank_account": "account number",
    "medical_record": "medical record number",
    "insurance": "insurance number",
    "employee": "employee number",
    "student": "student number",
    "tax_id": "tax number",
    "national_id": "national identity number",
    "vehicle": "vehicle number",
}
# singular and plural by kind
_SINGULAR_PLURAL = {
    **{kind: (name, f"{name}es" if name.endswith("s") else f"{name}s") for kind, name in _NAMES.items()},
    "birth_date": ("date of birth", "dates of birth"),
}

# Confidence from which a finding counts in a loose reading, by kind: mostly where words near name it. Others,
# which are never as sure, are not looked for there.
_SURE: Mapping[str, float] = {"ssn": 0.9, "card": 0.95, "iban": 0.95, "phone": 0.9, "email": 0.95}

_FEWEST_DIGITS = 4  # digits of a value, at least, whose separators may be words


@dataclass(frozen=True)
class Pii(Guardrail):
    """Personal data: card, bank, phone, record and identity numbers, dates of birth, e-mail and IP addresses.

    Every form of digit, dash and space counts, characters that show nothing are ignored, and separators may be
    spelled ("dash", "dot", "(at)"). Card numbers need a known issuer, its length and a right check digit, IBANs
    their country's length and check digits, social security numbers an area that is assigned; a card or social
    security number that words name counts mistyped as well. Accounts, medical records, policies, passports,
    licences, plates and the numbers of employees, students and taxpayers need words before or after them that name
    them, in English, German, French, Spanish, Italian, Portuguese, some in Chinese and Japanese. A number that the
    nearest word before it calls an order, invoice, part, version and the like is none.

    Confidence: `ssn` 0.7 to 0.95 (3-2-4 digits of an assigned area, or any nine that words name). `card` 0.7 to
    0.99 (13 to 19 digits, not inside a longer number; ungrouped ones of other than 15 or 16 digits need words).
    `iban` 0.99. `phone` 0.6 to 0.95 (in a region's plan, or grouped as in North America; ungrouped and 7-digit
    ones need words such as "call"; other regions need +, or a leading 0 and words). `email` 0.97. `ip`
    0.85 to 0.95 (not version numbers, sections, times). `birth_date` 0.6 or 0.8 (a date after "DOB", after
    "born on" of somebody in person, or after the name of a patient or customer). All others 0.6 or 0.7.

    Words name `bank_account` (also sort codes, and routing numbers with a right check digit), `medical_record`
    (MRN, chart, patient, hospital, NHS), `insurance` (policy, member, subscriber, group, Medicare, Medicaid),
    `employee` (staff, payroll, badge), `student` (enrolment, school), `tax_id` (TIN, EIN, UTR, VAT, codice
    fiscale), `national_id` (also national insurance), `passport`, `driving_licence` (also professional) and
    `vehicle` (VIN, plates). They count near up to 64 phone numbers, 32 names of each kind and 256 numbers in all;
    beyond that only the format counts (after a name with confidence 0.5).

    Last four digits, amounts, births told in prose ("Ada Lovelace was born on ...") and loopback addresses are
    ignored.

    A number that one speaker gives in parts is found by the message that completes it.

    It does not find names, postal addresses, digits spelled as words in one message, and identity numbers that no
    word names.

    Args:
        types: what to look for, any of ``ssn``, ``card``, ``iban``, ``phone``, ``email``, ``ip``, ``passport``,
            ``driving_licence``, ``bank_account``, ``medical_record`` (and patients), ``insurance``, ``employee``,
            ``student``, ``tax_id``, ``national_id``, ``vehicle``, ``birth_date``; all by default.
        regions: ISO 3166 codes of regions whose national phone numbers are known; numbers with ``+`` are found
            for every region.
        private_addresses: whether IP addresses of private networks count.
        allow: what is never a finding, such as the numbers of a help desk: values, in any writing, or regular
            expressions (RE2) between slashes, which the whole value must match.
        min_confidence: findings below this confidence, in [0, 1], are left out.
        placeholders: what redaction puts in place: ``typed``, such as [EMAIL], or ``numbered``, such as [EMAIL_1],
            with the same number for the same value in a text.
        over_turns: turns before a text, 0 to 50, whose parts of a number are joined with its own; 0 for none.

    Raises:
        GuardError: no types, an unknown region, an expression in `allow` that can't be read, a confidence out of
            [0, 1], or turns out of range.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Pii(), "Mail jane@example.com about order 4111111111111111.").reason
    '1 e-mail address'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    reads_names: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.BOTH, On.TOOL_CALL)
    default_timeout: ClassVar[float | None] = None

    types: tuple[PiiType, ...] = get_args(PiiType)
    regions: tuple[str, ...] = ("US",)
    private_addresses: bool = True
    allow: tuple[str, ...] = ()
    min_confidence: float = 0.5
    placeholders: Literal["typed", "numbered"] = "typed"
    over_turns: int = OVER_TURNS
    _allowed: Allowed = field(init=False, repr=False, compare=False)
    _shapes: Sequence[RegexSet] = field(init=False, repr=False, compare=False)
    _phones: Phones | None = field(init=False, repr=False, compare=False)
    _finders: Mapping[PiiType, Find] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_types("type of personal data", self.types, get_args(PiiType))
        check_over_turns("pii", self.over_turns)
        if not 0.0 <= self.min_confidence <= 1.0:
            raise GuardError(f"min_confidence must be in [0, 1], not {self.min_confidence!r}")
        check_known("style of placeholders", self.placeholders, ("typed", "numbered"))
        object.__setattr__(self, "_shapes", _shapes_of(self.types))
        phones = Phones(self.regions) if "phone" in self.types else None
        object.__setattr__(self, "_phones", phones)
        finders: dict[PiiType, Find] = {
            "ssn": find_ssns,
            "card": find_cards,
            "iban": find_ibans,
            "email": find_emails,
            "ip": partial(find_ips, private=self.private_addresses),
            "birth_date": find_birth_dates,
        }
        if phones is not None:
            finders["phone"] = phones.find
        object.__setattr__(
            self, "_finders", {kind: finders.get(kind) or partial(find_named, kind=kind) for kind in self.types}
        )
        object.__setattr__(self, "_allowed", Allowed(self.allow, self._writings))

    @property
    def reach(self) -> int:
        """As far as a number goes that is pulled apart, and the words behind it that name it."""
        return 200

    def check(self, check: Check) -> Finding:
        values = values_in(check, LOWER, self._read, self._allowed)
        sure = [value for value in values if value.span.confidence >= self.min_confidence] if values else []
        over = numbers_over_turns(check, self.over_turns, self._find)
        if not sure and not over:
            return CLEAN
        return values_found(check, sure, over, _SINGULAR_PLURAL, self._placeholders)

    def _find(self, joined: str) -> list[Span]:
        reading = TextReading(joined.lower())
        return [
            span
            for span in apart(self._read(reading))
            if span.confidence >= self.min_confidence and joined[span.start : span.end] not in self._allowed
        ]

    def _read(self, reading: TextReading) -> Iterator[Span]:
        shapes = frozenset[str]()
        for each in self._shapes:
            shapes |= each.present(reading.plain)
        if not shapes:
            return
        text = reading.with_shapes(shapes)
        for kind, find in self._finders.items():
            if not reading.loose:
                yield from find(text)
            elif kind in _SURE:
                yield from (span for span in find(text) if span.confidence >= _SURE[kind])

    def _writings(self, value: str) -> Iterator[str]:
        """The forms in which an allowed value equals its other writings."""
        if "@" in value or " at " in value or "at)" in value or "at]" in value:
            yield written_out(value)
        elif sum(map(str.isdigit, value)) >= _FEWEST_DIGITS:
            for spoken in SPOKEN:
                value = value.lower().replace(spoken, "")
            yield "".join(filter(str.isalnum, value))
            if self._phones is not None and not any(map(str.isalpha, value)):
                yield from self._phones.written(value)

    def _placeholders(self, values: Iterable[Value]) -> Iterator[str]:
        numbers: dict[tuple[str, str], int] = {}
        last: dict[str, int] = {}
        for span, text in values:
            if self.placeholders == "typed":
                yield f"[{span.kind.upper()}]"
                continue
            key = (span.kind, text.casefold())
            if key not in numbers:
                last[span.kind] = numbers[key] = last.get(span.kind, 0) + 1
            yield f"[{span.kind.upper()}_{numbers[key]}]"


def _shapes_of(types: Sequence[PiiType]) -> Sequence[RegexSet]:
    """Shapes of words and of digits apart: one automaton of both has many times the states."""
    of_digits = {**SSN_SHAPES, **CARD_SHAPES, **IBAN_SHAPES, **PHONE_SHAPES, **IP_SHAPES}
    of_words = {
        "ssn named": of_digits.pop("ssn named"),
        **EMAIL_SHAPES,
        **{kind: (named.hints,) for kind, named in named_kinds().items()},
        "birth_date": BIRTH_DATES.hints,
    }
    groups = (
        {name: shape for name, shape in shapes.items() if name.partition(" ")[0] in types}
        for shapes in (of_words, of_digits)
    )
    return tuple(RegexSet(group) for group in groups if group)
