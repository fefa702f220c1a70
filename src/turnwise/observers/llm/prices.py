"""What tokens cost: a dated table of prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from turnwise.errors import ObserverError
from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.tables import entry, read_tables

_KEYS = ("input", "output", "as_of")
_SNAPSHOT = LinearRegex(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""What providers append to the name of a model to fix its date; the price is that of the model."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs.

    Args:
        input: US dollars per million tokens of the request, at least 0.
        output: the same of the reply.
        as_of: the day on which it was last checked.

    >>> Price(0.40, 1.60, date(2026, 2, 23)).cost(1_000_000, 500_000)
    1.2
    """

    input: float
    output: float
    as_of: date

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what a call costs, in US dollars."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by ``provider/model``.

    Args:
        entries: the prices; ``provider/*`` stands for all other models of a provider.
    """

    entries: Mapping[str, Price]

    def find(self, provider: str, model: str) -> Price | None:
        """Return the price of a model, or None where none is known.

        A name with a date at its end has the price of the name without.

        >>> prices().find("openai", "gpt-4.1-mini-2025-04-14").output
        1.6
        """
        names = (model, _SNAPSHOT.sub(lambda _: "", model), "*")
        found = (self.entries.get(f"{provider}/{name}") for name in names)
        return next((price for price in found if price is not None), None)


def prices(file: Path | None = None) -> PriceTable:
    """Return the prices that ship, overridden by those of the user's file.

    Args:
        file: a TOML file with a table a model; None for ``prices.toml`` in the configuration folder of turnwise,
            if there is one.

    Raises:
        ObserverError: the file can't be read, or an entry of it is not what it has to be.
    """
    return PriceTable(
        {
            name: _price(where, name, value)
            for where, table in read_tables("prices.toml", file)
            for name, value in table.items()
        }
    )


def _price(where: str, name: str, value: object) -> Price:
    given = entry(where, name, value, _KEYS)
    place = f'{where}: ["{name}"]'
    if "/" not in name:
        raise ObserverError(f'{place} must be named after provider and model, such as ["openai/gpt-4.1-mini"]')
    for key in ("input", "output"):
        number = given.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ObserverError(f"{place} {key} must be US dollars per million tokens, at least 0")
    if type(given.get("as_of")) is not date:
        raise ObserverError(f"{place} as_of must be the day of the price, such as 2026-04-30")
    return Price(float(given["input"]), float(given["output"]), given["as_of"])
