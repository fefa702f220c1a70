"""What must not be written: personal data and secrets, found by guardrails that redact."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Protocol, Self

from turnwise.conversation import Conversation, Side, Turn
from turnwise.errors import GuardError, TurnwiseError
from turnwise.guard.guardrail import GUARDRAILS, Check, Guardrail
from turnwise.guard.records import Detail, Status
from turnwise.guard.step import redacted

WITHHELD = "[WITHHELD]"
"""Stands for a text that could not be searched: what is not known to be harmless is not written."""

_PLAIN = frozenset(string.ascii_lowercase + "_")
_PLAIN_LONGEST = 24
"""Short words of small letters alone: names of principles, modes and the like, in which nothing can be found."""

_HEX = frozenset(string.digits + "abcdef")
_HEX_LENGTHS = (32, 64)
_UUID_LENGTHS = [8, 4, 4, 4, 12]

_SHORT = 64
"""Characters of a text that is remembered with what came of it."""

_REMEMBERED = 1024
"""Texts that are remembered at most."""

_HASH = "sha256:"
_HASH_DIGITS = 32


class Redact(Protocol):
    """Returns a text without what must not be written."""

    def __call__(self, text: str) -> str:
        """Return it."""


def unchanged(text: str) -> str:
    """Return a text as it is."""
    return text


class Redactor:
    """Replaces what guardrails find.

    Args:
        rails: guardrails that redact; each sees what those before it left.

    >>> from turnwise.guard.guardrail import CLEAN, Finding, Redaction
    >>> class Names(Guardrail):
    ...     redacts = True
    ...     def check(self, check):
    ...         at = check.text.find("Ann")
    ...         return CLEAN if at < 0 else Finding(True, "a name", redactions=(Redaction(at, at + 3, "name"),))
    >>> Redactor([Names()])("I am Ann.")
    'I am [NAME].'
    """

    def __init__(self, rails: Sequence[Guardrail]) -> None:
        self._rails = tuple(rails)
        self._turn, self._conversation = Turn(1, ""), Conversation(conversation_id="audit")
        # Names and reasons come again and again; texts of conversations, which are longer, do not.
        self._known = lru_cache(maxsize=_REMEMBERED)(self._search)

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Return the redactor of guardrails that are registered under these names.

        Raises:
            UnknownNameError: no guardrail has that name.
            GuardError: one does not redact, or can't be built.
        """
        rails = []
        for name in names:
            factory = GUARDRAILS.get(name)
            if getattr(factory, "redacts", True) is False:
                raise GuardError(
                    f"redact: {name} does not redact; use pii, secrets or another guardrail that does"
                )
            try:
                rails.append(factory())
            except TurnwiseError as error:
                raise GuardError(f"redact: {name}: {error}") from error
            except Exception as error:
                raise GuardError(f"redact: {name} can't be built: {type(error).__name__}: {error}") from error
        return cls(rails)

    def __call__(self, text: str) -> str:
        """Return a text with what is found in it replaced; `WITHHELD` where it can't be searched."""
        if len(text) <= _PLAIN_LONGEST and _PLAIN.issuperset(text):
            return text
        return self._known(text) if len(text) <= _SHORT else self._search(text)

    def _search(self, text: str) -> str:
        # Half a surrogate pair is no Unicode text, which regular expressions and databases refuse.
        text = text.encode("utf-8", "backslashreplace").decode()
        for rail in self._rails:
            try:
                found = rail.check(Check(text, Side.PROMPT, self._turn, self._conversation, "audit"))
                text = redacted(text, Detail(Status.EVALUATED, redactions=found.redactions))
            except Exception:  # noqa: BLE001 - a guardrail may be foreign code, and must not let a text through
                return WITHHELD
        return text


def pseudonym(name: str) -> str:
    """Return what stands for a name that must not be written: the same for the same name.

    Somebody who can guess the name can check the guess.

    >>> pseudonym("ann@example.com")
    'sha256:71d4f55f72fa128dfb468a1a3901507c'
    """
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return _HASH + digest[:_HASH_DIGITS]


def private_name(name: str, redact: Redact) -> str:
    """Return the name of a person, session or conversation as it may be written.

    Args:
        name: the name.
        redact: says whether there is anything in it that must not be.
    """
    if _is_made_up(name) or redact(name) == name:
        return name
    return pseudonym(name)


def _is_made_up(name: str) -> bool:
    """Tell whether a name is an id that a program made, whose digits mean nothing: a UUID or SHA-256."""
    parts = name.split("-")
    if len(parts) == 1:
        return len(name) in _HEX_LENGTHS and _HEX.issuperset(name)
    return [*map(len, parts)] == _UUID_LENGTHS and all(map(_HEX.issuperset, parts))
