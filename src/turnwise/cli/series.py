"""The series that a pattern reads, turn by turn, for graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.patterns import Expression
    from turnwise.store import Store

_MOST = 6
"""Panels of a chart at most."""


def all_series(pattern: Expression) -> list[Expression]:
    """Return the series that a pattern reads, in their order, a few at most; F where it reads none."""
    from turnwise.patterns import series
    from turnwise.patterns.tree import Series

    found: list[Expression] = list(dict.fromkeys(node for node in pattern.walk() if isinstance(node, Series)))
    return found[:_MOST] or [series().F]


def main_series(pattern: Expression) -> Expression:
    """Return the series that a pattern reads first."""
    return all_series(pattern)[0]


def over_turns(
    store: Store, run: str, ids: Sequence[str], series: Sequence[Expression]
) -> dict[str, dict[str, list[float | None]]]:
    """Return the values of series turn by turn, None at gaps, by sequence and the text of the series."""
    from turnwise.patterns import Evaluator

    evaluators = {str(one): Evaluator(one) for one in series}
    return (
        {
            head.sequence_id: {
                name: [value.value for value in evaluator.run(trajectory)]
                for name, evaluator in evaluators.items()
            }
            for head, trajectory in store.trajectories(run, ids=ids)
        }
        if ids
        else {}
    )
