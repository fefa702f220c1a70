"""Levels of F that were set for the weights of the observer ``local``: where it warns, where it blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from turnwise.conversation import Side
from turnwise.errors import GuardError

LEVELS_FILE = "levels.yaml"


@dataclass(frozen=True, slots=True)
class Levels:
    """Where a guardrail warns and where it blocks.

    Args:
        warn: F above which it warns, in [0, 1].
        block: F above which it finds in full, in [0, 1], at least `warn`.

    Raises:
        GuardError: a level out of range, or the two the wrong way round.

    >>> Levels(0.5, 0.4)
    Traceback (most recent call last):
        ...
    turnwise.errors.GuardError: warn_above is 0.5 and block_above 0.4; both are in [0, 1], warn_above the lower one
    """

    warn: float
    block: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.warn <= self.block <= 1.0:
            raise GuardError(
                f"warn_above is {self.warn:g} and block_above {self.block:g}; both are in [0, 1], warn_above the "
                "lower one"
            )


@cache
def shipped_levels() -> Mapping[str, Any]:
    """Return the levels that ship with turnwise.

    Returns:
        ``observer`` and ``weights_sha256`` of the weights that they were set for, and ``levels``: warn and block
        by guardrail and by the side as which texts are read.
        Written by ``benchmarks/guard_models.py --calibrate --write``.
    """
    import yaml

    text = resources.files("turnwise.guard.guardrails").joinpath(LEVELS_FILE).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.safe_load(text)
    return data


def levels_of(
    name: str, observer: str, warn_above: float | None, block_above: float | None, side: Side = Side.PROMPT
) -> Levels:
    """Return the levels that were set, and the shipped ones for those that were not.

    Args:
        name: name of the guardrail.
        observer: specification of its observer.
        warn_above: F above which it warns; None for the shipped level.
        block_above: F above which it finds in full; None for the shipped level.
        side: as what texts are read.

    Raises:
        GuardError: a level is missing for an observer that none was set for, or a level can't be.
    """
    known = shipped_levels()
    if (warn_above is None or block_above is None) and observer != known["observer"]:
        raise GuardError(
            f"{name}: the shipped levels were set for observer {known['observer']}, not for {observer}; give "
            "warn_above and block_above, set on your own traffic"
        )
    shipped = known["levels"][name][str(side)] if observer == known["observer"] else {}
    return Levels(
        warn=shipped["warn"] if warn_above is None else warn_above,
        block=shipped["block"] if block_above is None else block_above,
    )
