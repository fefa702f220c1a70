"""Keys, tokens and passwords in a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Literal, get_args

from turnwise._support.regex_sets import RegexSet
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.earlier_texts import OVER_TURNS, check_over_turns
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.keys import ASSIGNED, find_assigned, find_keys, key_forms
from turnwise.guard.recognisers.patterns import check_known, check_types
from turnwise.guard.recognisers.split_values import keys_over_turns
from turnwise.guard.recognisers.text import Span, TextReading, apart
from turnwise.guard.recognisers.values import Allowed, Value, values_found, values_in

# what is known, by provider or form
KeyType = Literal[
    "aws", "azure", "google_cloud", "github", "gitlab", "slack", "discord", "telegram", "stripe",
    "shopify", "openai", "anthropic", "hugging_face", "model_provider", "npm", "pypi", "docker", "twilio",
    "sendgrid", "mail_provider", "hosting", "monitoring", "jwt", "private_key", "connection_string",
    "bearer", "generic",
]  # fmt: skip


@dataclass(frozen=True)
class Secrets(Guardrail):
    """Keys and tokens of the usual providers, private keys, passwords in connection strings and assignments.

    A provider's key is told by its published form; ``generic`` finds values, other than words and placeholders,
    that are given to a name such as ``api_key`` or ``password``, passwords in prose in some fifteen languages, and
    a person's PIN. Of connection strings and assignments only the secret part is cut. Ignored are ``AKIAXXXX...``,
    "placeholder", and the first line of a private key alone. Beyond 64 names only the format counts.

    What is encoded or disguised is read, and a secret that one speaker gives in parts is found by the message that
    completes it. It does not find keys without a form of their own where nothing names them, keys other than those
    of AWS cut in pieces in one message, and passwords of letters alone.

    Args:
        types: what to look for; all by default. The names are providers (``aws``, ``github``, ``stripe`` ...),
            groups of them (``model_provider``, ``mail_provider``, ``hosting``, ``monitoring``) and forms (``jwt``,
            ``private_key``, ``connection_string``, ``bearer``, ``generic``).
        min_entropy: least entropy of a generic key, in bits a character, in [0, 8].
        allow: what is never a finding: exact values, or regular expressions (RE2) between slashes, which the whole
            value must match.
        placeholders: what redaction puts in place: ``typed``, such as [GITHUB_KEY], or ``plain``, [SECRET].
        over_turns: turns before a text, 0 to 50, whose parts of a secret are joined with its own; 0 for none.

    Raises:
        GuardError: no or unknown types, an entropy or turns out of range, an expression in `allow` that can't be
            read.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Secrets(), "postgres://app:s3cr3tpw@db.example/app").reason
    '1 connection string with a password'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    reads_names: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.BOTH, On.TOOL_CALL)
    default_timeout: ClassVar[float | None] = None

    types: tuple[KeyType, ...] = get_args(KeyType)
    min_entropy: float = 3.3
    allow: tuple[str, ...] = ()
    placeholders: Literal["typed", "plain"] = "typed"
    over_turns: int = OVER_TURNS
    _allowed: Allowed = field(init=False, repr=False, compare=False)
    _shapes: RegexSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_types("type of secret", self.types, get_args(KeyType))
        check_over_turns("secrets", self.over_turns)
        if not 0.0 <= self.min_entropy <= 8.0:
            raise GuardError(f"min_entropy must be in [0, 8] bits, not {self.min_entropy!r}")
        check_known("style of placeholders", self.placeholders, ("typed", "plain"))
        object.__setattr__(self, "_allowed", Allowed(self.allow))
        hints = {**{kind: form.hints for kind, form in key_forms().items()}, "generic": ASSIGNED.hints}
        object.__setattr__(self, "_shapes", RegexSet({kind: hints[kind] for kind in self.types}, ignore_case=True))

    @property
    def reach(self) -> int:
        """As far as a key goes that is pulled apart; one that is written as it is has no white space."""
        return 200

    def check(self, check: Check) -> Finding:
        values = values_in(check, PLAIN, self._find, self._allowed)
        over = keys_over_turns(check, self.over_turns, self._find_in)
        if not values and not over:
            return CLEAN
        return values_found(check, values, over, _names(), self._placeholders)

    def _find_in(self, joined: str) -> list[Span]:
        spans = apart(self._find(TextReading(joined)))
        return [span for span in spans if joined[span.start : span.end] not in self._allowed]

    def _placeholders(self, values: Sequence[Value]) -> list[str]:
        return [self._placeholder(value.span.kind) for value in values]

    def _find(self, reading: TextReading) -> Iterator[Span]:
        shapes = self._shapes.present(reading.plain)
        for kind in self.types if shapes else ():
            if kind in shapes:
                is_known = kind != "generic"
                yield from find_keys(reading, kind) if is_known else find_assigned(reading, self.min_entropy)

    def _placeholder(self, kind: str) -> str:
        if self.placeholders == "plain" or kind == "generic":
            return "[SECRET]"
        named = kind.endswith(("key", "string", "jwt"))
        return f"[{kind.upper()}]" if named else f"[{kind.upper()}_KEY]"


@cache
def _names() -> Mapping[str, tuple[str, str]]:
    """Singular and plural by kind."""
    forms = {kind: (form.singular, form.plural) for kind, form in key_forms().items()}
    return {**forms, "generic": ("key or password", "keys or passwords")}
