"""What must hold of an embedded observer, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit.

    Args:
        value: the limit.
        lower: whether the measure must be at least that; else at most.
    """

    value: float
    lower: bool

    def __str__(self) -> str:
        return f"{'>=' if self.lower else '<='} {self.value:g}"


def at_least(value: float) -> Bound:
    """Return a lower limit."""
    return Bound(value, lower=True)


def at_most(value: float) -> Bound:
    """Return an upper limit."""
    return Bound(value, lower=False)


@dataclass(frozen=True, slots=True)
class Row:
    """A measure beside what it must be.

    Args:
        name: what was measured.
        value: the figure; None where it could not be taken.
        interval: its 95 % interval, where there is one.
        required: what must hold; None for a row that only informs.
        aim: what would be better still.
        counts: hits and trials of a rate.
    """

    name: str
    value: float | None
    interval: tuple[float, ...] | None
    required: Bound | None
    aim: str | None
    counts: tuple[int, int] | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the figure keeps the limit; None where there is none."""
        if self.required is None or self.value is None:
            return None
        keeps = self.value >= self.required.value if self.required.lower else self.value <= self.required.value
        return bool(keeps)

    def as_json(self) -> dict[str, Any]:
        """Return the row for the metrics file."""
        return {
            "name": self.name,
            "value": self.value,
            "interval": list(self.interval) if self.interval else None,
            "required": str(self.required) if self.required else None,
            "aim": self.aim or None,
            "holds": self.holds,
            "counts": list(self.counts) if self.counts else None,
        }


def print_rows(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'measure':<52} {'measured':>10} {'95 % interval':>16} {'required':>9} {'aim':>5}")
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.3g}" if abs(row.value) < 1e-3 else f"{row.value:.3f}"
        interval = f"[{row.interval[0]:.3f}, {row.interval[1]:.3f}]" if row.interval else ""
        verdict = {True: "ok", False: "MISSED", None: ""}[row.holds]
        counts = f"{row.counts[0]} of {row.counts[1]}" if row.counts else ""
        limits = f"{row.required or ''!s:>9} {row.aim or '':>5}"
        print(f"{row.name:<52} {value:>10} {interval:>16} {limits} {verdict:<7}{counts}")
