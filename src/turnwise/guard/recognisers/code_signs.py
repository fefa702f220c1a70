"""Finds code by what gives it away, by language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from turnwise.guard.recognisers import command_signs, compiled_signs, fenced_blocks, script_signs
from turnwise.guard.recognisers.code_types import CodeType, Signs
from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex, replace_characters

_SIGNS: Mapping[CodeType, Signs] = {**command_signs.SIGNS, **script_signs.SIGNS, **compiled_signs.SIGNS}


HINTS: Mapping[CodeType, tuple[str, ...]] = {
    "fenced": fenced_blocks.HINTS,
    **{kind: signs.hints for kind, signs in _SIGNS.items()},
}
"""What a text has, at least, in which there may be code of a kind; RE2, ignoring case."""

_MATCHES = 200
"""Matches of an expression that are told apart; where there are more, the rest of the text counts as one."""


def find_code(plain: str, kind: CodeType) -> Iterator[Span]:
    """Find the code of a language, line by line.

    Args:
        plain: the text in plain form, case kept.
        kind: any but ``fenced``.
    """
    end = len(plain)
    masked = _in_ascii(plain)
    for sign in _SIGNS[kind].sure:
        for count, match in enumerate(_line(sign).finditer(masked[:end])):
            start, behind = match.start, match.end
            if count == _MATCHES:
                yield Span(start, len(plain), kind, 0.85)
                end = start
                break
            yield Span(start, behind, kind, 0.85)


def _in_ascii(plain: str) -> str:
    """Return a text of the same length with what RE2 takes for a letter, a space or a sign as Unicode does."""
    if plain.isascii():
        return plain
    others = (character for character in set(plain) if not character.isascii())
    return replace_characters(
        plain, {each: "_" if each.isalnum() else " " if each.isspace() else "~" for each in others}
    )


@cache
def _line(sign: str) -> LinearRegex:
    return LinearRegex(f"(?m){sign}")
