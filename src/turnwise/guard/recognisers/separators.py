"""What people write between the groups of a number."""

from __future__ import annotations

BETWEEN = r"(?:[-._·/ ]{1,3}| ?(?:dash|hyphen|minus|dot|space) ?)"
"""Between two groups of digits, in a text in plain form and lower case; the same in `re` and RE2."""


def digits_of(text: str) -> str:
    """Return the digits of a text.

    >>> digits_of("4111 dash 1111")
    '41111111'
    """
    return "".join(filter(str.isdigit, text))
