"""A guardrail: numbers of internal tickets don't leave the house."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnwise.errors import GuardError
from turnwise.guard import CLEAN, Check, Cost, Finding, Guardrail, Redaction
from turnwise.linear_regex import LinearRegex


@dataclass(frozen=True)
class Tickets(Guardrail):
    """Finds numbers of tickets, such as TCK-123456.

    Args:
        prefix: what stands before the number, ASCII letters.
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    default_timeout: ClassVar[float | None] = None

    prefix: str = "TCK"

    def __post_init__(self) -> None:
        if not (self.prefix.isascii() and self.prefix.isalpha()):
            raise GuardError(f"prefix must be ASCII letters, not {self.prefix!r}")

    def check(self, check: Check) -> Finding:
        """Return the numbers in a text; the expression takes linear time on every text."""
        matches = list(LinearRegex(rf"\b{self.prefix}-\d{{6}}\b").finditer(check.text))
        if not matches:
            return CLEAN
        cuts = tuple(Redaction(match.start, match.end, "ticket") for match in matches)
        return Finding(True, f"{len(cuts)} ticket numbers", confidence=1.0, redactions=cuts)
