"""Agreement of judges: between the observers of a panel, and of an observer with itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.study.agreement import Icc, icc_within, krippendorff_alpha
from turnwise.study.bootstrap import Interval
from turnwise.study.compare.load import RunData
from turnwise.study.example import Example

if TYPE_CHECKING:
    from turnwise.store import Store

COMPONENTS = ("T", "I", "F")


@dataclass(frozen=True, slots=True)
class PanelAgreement:
    """How far two observers agree that saw the same: Krippendorff's alpha.

    Args:
        first: name of a run.
        second: name of another, of another observer in the same context.
        component: T, I or F.
        alpha: with the interval of a bootstrap over groups.
        units: turns and principles that both scored.
    """

    first: str
    second: str
    component: str
    alpha: Interval
    units: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """How well an observer repeats itself: the intraclass correlation.

    Args:
        run: name of its run.
        component: T, I or F.
        icc: over turns and principles with equally many calls.
    """

    run: str
    component: str
    icc: Icc


def panel_agreement(runs: Sequence[RunData], seed: int) -> tuple[PanelAgreement, ...]:
    """Return the agreement of every two runs of different observers in the same context.

    Args:
        runs: the runs, on the same conversations in the same order.
        seed: of the bootstrap.
    """
    import numpy as np

    found = []
    for one, other in itertools.combinations(runs, 2):
        same = (one.run.observer, one.run.observer_version) == (other.run.observer, other.run.observer_version)
        if same or one.run.context != other.run.context:
            continue
        for component in COMPONENTS:
            rows = [
                (first.group, pair)
                for first, second in zip(one.examples, other.examples, strict=True)
                for pair in _pairs(first, second, component)
            ]
            try:
                alpha = krippendorff_alpha(
                    [pair for _, pair in rows], np.random.default_rng(seed), [group for group, _ in rows]
                )
            except UsageError:  # too little in common to say anything
                continue
            found.append(PanelAgreement(one.run.name, other.run.name, component, alpha, len(rows)))
    return tuple(found)


def _pairs(first: Example, second: Example, component: str) -> list[tuple[float, float]]:
    return [
        (getattr(score, component), getattr(turn.scores[principle], component))
        for own, turn in zip(first.turns, second.turns, strict=True)
        for principle, score in own.scores.items()
        if principle in turn.scores
    ]


def repeats_agreement(runs: Sequence[RunData], store: Store) -> tuple[Repeated, ...]:
    """Return how well the observers that were asked several times repeat themselves.

    Args:
        runs: the runs.
        store: where their calls are.
    """
    found = []
    for one in runs:
        if one.run.parameters.get("repeats", 1) in (None, 1):
            continue
        ids = [example.sequence_id for example in one.examples]
        scores = [
            [call.score for call in evaluation.calls if call.score is not None]
            for _, trajectory in store.trajectories(one.run.name, ids=ids, replies=True)
            for evaluation in trajectory.evaluations
        ]
        most = max((len(row) for row in scores), default=0)
        whole = [row for row in scores if len(row) == most]
        for component in COMPONENTS:
            try:
                icc = icc_within([[getattr(score, component) for score in row] for row in whole])
            except UsageError:  # fewer than two units or repeats
                continue
            found.append(Repeated(one.run.name, component, icc))
    return tuple(found)
