"""How the language is written: names, numbers, and which operators hold tightest."""

from __future__ import annotations

import json

RESERVED = frozenset({"and", "or", "not", "response"})
"""Words that are no name of a principle unless they stand in quotes."""

OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, ATOM = range(1, 9)
"""How tightly each kind of expression holds together, loosest first."""


def number_text(value: float) -> str:
    """The shortest text of a number that reads back to the same float.

    >>> number_text(3.0), number_text(0.60), number_text(-1e-9)
    ('3', '0.6', '-1e-09')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def is_plain_name(name: str) -> bool:
    """Whether a name has letters of ASCII, digits and _ only, and needs no quotes."""
    return name.isascii() and name.isidentifier()


def principle_text(principle: str) -> str:
    """The name of a principle as it is written: in quotes where it is no plain word."""
    plain = is_plain_name(principle) and principle not in RESERVED
    return principle if plain else json.dumps(principle)
