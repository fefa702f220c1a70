"""Personal data in a text: numbers and addresses that are a person's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from turnwise._support.regex_sets import RegexSet
from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard.guardrail import CLEAN, Check, Cost, Finding, Guardrail, On
from turnwise.guard.recognisers import (
    birth_dates,
    emails,
    ibans,
    ips,
    named_numbers,
    payment_cards,
    phones,
    social_security,
)
from turnwise.guard.recognisers.folding import LOWER
from turnwise.guard.recognisers.numbers import Digits
from turnwise.guard.recognisers.phones import Phones
from turnwise.guard.recognisers.readings import TextReading, Value, values_found, values_in
from turnwise.guard.recognisers.settings import Allowed, check_types
from turnwise.guard.recognisers.spans import Span

PiiType = Literal[
    "ssn",
    "card",
    "iban",
    "phone",
    "email",
    "ip",
    "passport",
    "driving_licence",
    "bank_account",
    "medical_record",
    "insurance",
    "employee",
    "student",
    "tax_id",
    "national_id",
    "vehicle",
    "birth_date",
]
"""What the guardrail knows."""

_NAMES = {
    "ssn": ("social security number", "social security numbers"),
    "card": ("payment card", "payment cards"),
    "iban": ("IBAN", "IBANs"),
    "phone": ("phone number", "phone numbers"),
    "email": ("e-mail address", "e-mail addresses"),
    "ip": ("IP address", "IP addresses"),
    "passport": ("passport number", "passport numbers"),
    "driving_licence": ("driving licence number", "driving licence numbers"),
    "bank_account": ("account number", "account numbers"),
    "medical_record": ("medical record number", "medical record numbers"),
    "insurance": ("insurance number", "insurance numbers"),
    "employee": ("employee number", "employee numbers"),
    "student": ("student number", "student numbers"),
    "tax_id": ("tax number", "tax numbers"),
    "national_id": ("national identity number", "national identity numbers"),
    "vehicle": ("vehicle number", "vehicle numbers"),
    "birth_date": ("date of birth", "dates of birth"),
}
_SHAPES: Mapping[str, tuple[str, ...]] = {
    **social_security.SHAPES,
    **payment_cards.SHAPES,
    **ibans.SHAPES,
    **phones.SHAPES,
    **emails.SHAPES,
    **ips.SHAPES,
    **named_numbers.SHAPES,
    **birth_dates.SHAPES,
}
"""What a text has, at least, in which there may be any; names begin with the type."""

_TOLD_BY_WORDS = frozenset({"ssn named", "email", "email spelled", "birth_date", *named_numbers.SHAPES})
"""Shapes that are looked for apart from those of digits: one automaton of both has many times the states."""

_SURE: Mapping[str, float] = {"ssn": 0.9, "card": 0.95, "iban": 0.95, "phone": 0.9, "email": 0.95}
"""Confidence from which a finding counts in a loose reading, by kind: mostly where words near name it.

Others, which are never as sure, are not looked for there.
"""

_FEWEST_DIGITS = 4
"""Digits of a value, at least, whose separators may be words."""

_SPOKEN = ("dash", "hyphen", "minus", "dot", "space")

_FINDERS: Mapping[PiiType, Callable[[str, Set[str], Digits], Iterator[Span]]] = {
    "ssn": social_security.find_ssns,
    "card": payment_cards.find_cards,
    "birth_date": birth_dates.find_birth_dates,
}


@dataclass(frozen=True)
class Pii(Guardrail):
    """Personal data: card, bank, phone, record and identity numbers, dates of birth, e-mail and IP addresses.

    Every form of digit, dash and space counts, characters that show nothing are ignored, and separators may be
    spelled ("dash", "dot", "(at)"). Card numbers need a known issuer, its length and a right check digit, IBANs
    their country's length and check digits, social security numbers an area that is assigned; a card or social
    security number that words name counts mistyped as well. Accounts, medical records, policies, passports,
    licences, plates and the numbers of employees, students and taxpayers need words beside them that name them, in
    English and some other languages, and dates of birth their label or a person's name. A number that the nearest
    word before it calls an order, invoice, part, version and the like is none.

    It does not find names, postal addresses, digits spelled as words, identity numbers that no word names, and
    numbers spread over several messages.

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

    Raises:
        GuardError: no types, an unknown region, an expression in `allow` that can't be read, a confidence out of
            [0, 1].

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
    _allowed: Allowed = field(init=False, repr=False, compare=False)
    _shapes: tuple[RegexSet, ...] = field(init=False, repr=False, compare=False)
    _phones: Phones | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        check_types("type of personal data", self.types, get_args(PiiType))
        if not 0.0 <= self.min_confidence <= 1.0:
            raise GuardError(f"min_confidence is in [0, 1], not {self.min_confidence!r}")
        if self.placeholders not in ("typed", "numbered"):
            raise UnknownNameError("style of placeholders", str(self.placeholders), ("typed", "numbered"))
        shapes = {name: shape for name, shape in _SHAPES.items() if name.partition(" ")[0] in self.types}
        groups = [
            {name: shapes[name] for name in shapes if (name in _TOLD_BY_WORDS) is told} for told in (True, False)
        ]
        object.__setattr__(self, "_shapes", tuple(RegexSet(group) for group in groups if group))
        if "phone" in self.types:
            object.__setattr__(self, "_phones", Phones(self.regions))
        object.__setattr__(self, "_allowed", Allowed(self.allow, self._writings))

    @property
    def reach(self) -> int:
        """As far as a number goes that is pulled apart, and the words behind it that name it."""
        return 200

    def check(self, check: Check) -> Finding:
        """The personal data of a text, by kind and count, with a redaction for each."""
        values = values_in(check, LOWER, self._read, self._allowed)
        sure = [value for value in values if value.span.confidence >= self.min_confidence] if values else []
        if not sure:
            return CLEAN
        return values_found(check, sure, _NAMES, self._placeholders(sure))

    def _read(self, reading: TextReading) -> Iterator[Span]:
        shapes = frozenset[str]()
        for each in self._shapes:
            shapes |= each.present(reading.plain)
        if shapes:
            if not reading.loose:
                yield from self._find(reading.plain, shapes, self.types)
                return
            for span in self._find(reading.plain, shapes, [kind for kind in self.types if kind in _SURE]):
                if span.confidence >= _SURE[span.kind]:
                    yield span

    def _find(self, lower: str, shapes: Set[str], kinds: Iterable[PiiType]) -> Iterator[Span]:
        digits = Digits.of(lower)
        for kind in kinds:
            if kind == "phone" and self._phones is not None:
                yield from self._phones.find(lower, shapes, digits)
            elif kind == "ip":
                yield from ips.find_ips(lower, shapes, digits, self.private_addresses)
            elif kind == "iban":
                yield from ibans.find_ibans(lower, shapes)
            elif kind == "email":
                yield from emails.find_emails(lower, shapes)
            elif kind in _FINDERS:
                yield from _FINDERS[kind](lower, shapes, digits)
            elif kind in shapes:
                yield from named_numbers.find_named(lower, digits, kind)

    def _writings(self, value: str) -> Iterator[str]:
        """The forms in which an allowed value equals its other writings."""
        if "@" in value or " at " in value or "at)" in value or "at]" in value:
            yield emails.written_out(value)
        elif sum(map(str.isdigit, value)) >= _FEWEST_DIGITS:
            for spoken in _SPOKEN:
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
