"""A text as it stands, and with what is encoded or disguised in it undone."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from turnwise._support.regex_sets import RegexSet
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers import decoding, disguises, spelled
from turnwise.guard.recognisers.addresses import spelled_addresses
from turnwise.guard.recognisers.folding import PLAIN, UNDISGUISED, Folding
from turnwise.guard.recognisers.text import TextReading

_ROUNDS = 4  # times that a text is decoded: what is encoded in what is encoded in what is encoded once more stays


def readings(check: Check) -> tuple[TextReading, ...]:
    """`readings_of` the text under check, made once for all guardrails."""
    return check.once(("readings", check.text), lambda: readings_of(check.text))


def folded_readings(check: Check, folding: Folding) -> Collection[TextReading]:
    """The `readings` of the text under check in a plain form, each once, for all guardrails that use it."""

    def compute() -> Collection[TextReading]:
        made: dict[str, TextReading] = {}
        for reading in readings(check):
            folded = reading.behind(folding.fold(reading.plain))
            made.setdefault(folded.plain, folded)
        return made.values()

    return check.once((folding, check.text), compute)


def readings_of(text: str) -> tuple[TextReading, ...]:
    """The readings of a text: as it stands, decoded, and loose ones with disguises and named ciphers undone.

    Of an ordinary one there is only the first. Takes time linear in the length of the text.

    >>> [reading.plain for reading in readings_of("Hello there.")]
    ['Hello there.']
    >>> [reading.plain for reading in readings_of("It is MTIzLTQ1LTY3ODk=")]
    ['It is MTIzLTQ1LTY3ODk=', 'It is 123-45-6789']
    """
    first = TextReading(text)
    if text.isascii() and text.isprintable() and not _hints().present(text) and not _spelled_hints().present(text):
        return (first,)
    decoded = _decoded(first)
    loose = _undisguised(decoded)
    found = [first]
    if decoded.plain != text:
        found.append(decoded)
    if loose.plain != decoded.plain:
        found.append(TextReading(loose.plain, True, loose.steps))
    in_cipher = "in cipher" in _spelled_hints().present(decoded.plain)
    for undo in spelled.ciphers_named(decoded.plain) if in_cipher else ():
        turned = _undisguised(_decoded(decoded.undone(undo)))
        found.append(TextReading(turned.plain, True, turned.steps))
    return tuple(found)


@cache
def _hints() -> RegexSet:
    return RegexSet({"encoded": decoding.HINTS, "disguised": disguises.HINTS})


@cache
def _spelled_hints() -> RegexSet:
    return RegexSet({"spelled": spelled.SPELLED_HINTS, "in cipher": spelled.CIPHER_HINTS})


def _decoded(reading: TextReading) -> TextReading:
    for _ in range(_ROUNDS):
        before = reading.plain
        for decode in decoding.decoders_for(before):
            reading = reading.undone(decode)
        reading = reading.behind(PLAIN.fold(reading.plain))
        if reading.plain == before:
            break
    return reading


def _undisguised(reading: TextReading) -> TextReading:
    if not reading.plain.isascii():
        reading = reading.behind(UNDISGUISED.fold(reading.plain))
    spellings = spelled.SPELLINGS if "spelled" in _spelled_hints().present(reading.plain) else ()
    # addresses before signs that are said, of which they have some; those that come to light later, with disguises
    for undo in (spelled_addresses, *spellings, *disguises.DISGUISES):
        reading = reading.undone(undo)
    return reading
