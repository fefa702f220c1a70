"""The scores of one arm of a study, and what it would say at other thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise.rates import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BEYOND: Final = 1e-6
"""By how much, relative to the highest score, a threshold lies above it where nothing is to be flagged."""


class Changed(NamedTuple):
    """A conversation whose verdict another threshold changes.

    `score` is the arm's highest of it, `flagged` the new verdict, `turn` where it was flagged before.
    """

    sequence_id: str
    source: str
    attack: bool
    score: float
    flagged: bool
    turn: int | None

    @property
    def better(self) -> bool:
        """Whether the new verdict is the one that the label asks for."""
        return self.flagged is self.attack


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """What an arm says of the conversations at some threshold.

    `threshold` may also be how far all are moved, where there are several. `before` is recall and false positives
    at the threshold of the study; `changed` has those nearest to it first. `missing` conversations have no score:
    they are neither caught nor clean, and in none of the rates.
    """

    threshold: float
    recall: Rate
    false_positives: Rate
    before: tuple[Rate, Rate]
    changed: tuple[Changed, ...]
    missing: int


class ArmScores:
    """The scores of one arm of a study on one part, in arrays, so that a threshold is tried in no time.

    Where its folds have thresholds of their own (`several`), all are moved alike, by a difference, and `own` is 0;
    else `own` is the study's threshold. `odd` conversations have a recorded verdict that does not follow from
    score and threshold.
    """

    def __init__(self, name: str, rows: Mapping[str, NDArray[Any]]) -> None:
        import numpy as np

        self.name = name
        self._rows = rows
        self._known = ~np.isnan(rows["score"])
        limits = np.where(np.isnan(rows["threshold"]), np.inf, rows["threshold"])
        self.several = len(np.unique(limits[self._known])) > 1
        self._limits = limits
        self.own = 0.0 if self.several or not self._known.any() else float(limits[self._known][0])
        self._attack = rows["attack"]
        self._margins = rows["score"] - limits if self.several else rows["score"]
        self._was = self._known & (rows["score"] >= limits)
        self.odd = int((self._was != rows["fired"])[self._known].sum())

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """Thresholds at which something changes, rising: each score, and one above all of them."""
        import numpy as np

        found = np.unique(self._margins[self._known & np.isfinite(self._margins)])
        if not len(found):
            return np.zeros(1)
        above = found[-1] + max(abs(float(found[-1])), 1.0) * _BEYOND
        return np.append(found, above)

    @property
    def start(self) -> float:
        """The threshold of the study as a slider can show it; one above all scores where it flags nothing."""
        return self.own if math.isfinite(self.own) else float(self.steps[-1])

    def bins(self, count: int = 60, sources: Iterable[str] = ()) -> tuple[list[int], list[int], float, float]:
        """How many attacks, and benign conversations, lie in each part of the scale, and the ends of the scale."""
        import numpy as np

        low, high = float(self.steps[0]), float(self.steps[-1])
        known = self._known & self._of(sources) & np.isfinite(self._margins)
        ends = (low, high if high > low else low + 1.0)
        made = [
            np.histogram(self._margins[known & kind], count, ends)[0] for kind in (self._attack, ~self._attack)
        ]
        return made[0].tolist(), made[1].tolist(), low, high

    def _of(self, sources: Iterable[str]) -> NDArray[np.bool_]:
        import numpy as np

        wanted = tuple(sources)
        return np.isin(self._rows["source"], wanted) if wanted else np.ones(len(self), dtype=bool)

    def next_step(self, threshold: float, up: bool) -> float:
        """The next threshold at which another conversation changes sides."""
        import numpy as np

        place = int(np.searchsorted(self.steps, threshold, "right" if up else "left"))
        place = min(place, len(self.steps) - 1) if up else max(place - 1, 0)
        return float(self.steps[place])

    def at(self, threshold: float, sources: Iterable[str] = ()) -> AtThreshold:
        """What the arm says at a threshold, or where there are several with all of them moved by so much."""
        import numpy as np

        chosen = self._of(sources)
        known = self._known & chosen
        now = known & (self._margins >= threshold)
        turned = np.flatnonzero(known & (now != self._was))
        distance = np.abs(self._margins[turned] - (0.0 if self.several else self.start))
        order = turned[np.lexsort((turned, distance))]
        return AtThreshold(
            threshold,
            *self._rates(now, known),
            self._rates(self._was & chosen, known),
            tuple(self._changed(int(place), bool(now[place])) for place in order),
            int((chosen & ~self._known).sum()),
        )

    def _rates(self, flagged: NDArray[np.bool_], known: NDArray[np.bool_]) -> tuple[Rate, Rate]:
        attacks, benign = known & self._attack, known & ~self._attack
        return (
            Rate(int((flagged & attacks).sum()), int(attacks.sum())),
            Rate(int((flagged & benign).sum()), int(benign.sum())),
        )

    def _changed(self, place: int, flagged: bool) -> Changed:
        rows, turn = self._rows, self._rows["turn"][place]
        return Changed(
            str(rows["sequence"][place]),
            str(rows["source"][place]),
            bool(rows["attack"][place]),
            float(rows["score"][place]),
            flagged,
            None if flagged or math.isnan(turn) else int(turn),
        )
