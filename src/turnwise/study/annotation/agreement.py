"""How far people agree on what they said of the same conversations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from turnwise.conversation import Label
from turnwise.errors import UsageError
from turnwise.stats import Interval
from turnwise.store.people import SET

if TYPE_CHECKING:
    from turnwise.store import HumanScore, LabelCorrection

_WORTH: Final[Mapping[Label, float | None]] = {Label.ATTACK: 1.0, Label.BENIGN: 0.0, Label.UNLABELLED: None}


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far people agree on one thing: a principle, ``label``, or at which turns it had ``turned``.

    `component` is T, I or F, and empty for labels and turns. `units` are the turns, or conversations, that at
    least two people spoke of, and `authors` those people. `reason` says why there is no alpha.
    """

    what: str
    component: str
    alpha: Interval | None
    units: int
    authors: tuple[str, ...]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The agreement as JSON values."""
        alpha = self.alpha
        return {
            "what": self.what,
            "component": self.component,
            "alpha": None if alpha is None else alpha.value,
            "ci": None if alpha is None else [alpha.low, alpha.high],
            "units": self.units,
            "authors": list(self.authors),
            "reason": self.reason,
            "note": "" if alpha is None else alpha.note,
        }


def agreement(
    scores: Iterable[HumanScore],
    corrections: Iterable[LabelCorrection],
    turns: Mapping[str, int],
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> tuple[Agreement, ...]:
    """How far people agree: on each principle by component, on labels, and on where it turned.

    Krippendorff's alpha for the squared difference, which for labels and turned turns, having two values, is the
    alpha for categories. Units are turns, and whole conversations for labels; the bootstrap draws conversations,
    since turns of one conversation hang together. `scores` and `corrections` hold the latest of each person;
    `turns` is how many turns the marked conversations have. What a set says (`turnwise.study.annotation`) was
    made of others' words, and is left out.
    """
    given: dict[tuple[str, str], dict[Hashable, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    for one in (one for one in scores if not one.author.startswith(SET)):
        unit = one.sequence_id, one.turn, str(one.side), str(one.seen)
        for component in "TIF":
            given[one.principle, component][unit][one.author] = getattr(one.score, component)
    for said in (one for one in corrections if not one.author.startswith(SET)):
        if said.label is not None:
            given["label", ""][said.sequence_id,][said.author] = _WORTH[said.label]
        elif said.turn is not None:
            for turn in range(1, turns[said.sequence_id] + 1):
                had = bool(said.turn) and turn >= said.turn
                given["turned", ""][said.sequence_id, turn][said.author] = float(had)
    order = sorted(given, key=lambda key: (key[0] in ("label", "turned"), key[0], "TIF".find(key[1])))
    return tuple(_agreement(*key, given[key], replicates, seed) for key in order)


def _agreement(
    what: str, component: str, units: Mapping[Hashable, Mapping[str, float | None]], replicates: int, seed: int
) -> Agreement:
    from turnwise.stats import krippendorff_alpha

    ratings = {unit: [value for value in row.values() if value is not None] for unit, row in units.items()}
    shared = sorted((unit for unit, row in ratings.items() if len(row) > 1), key=repr)
    authors = sorted({name for unit in shared for name, value in units[unit].items() if value is not None})
    head = what, component
    try:
        alpha = krippendorff_alpha(
            [ratings[unit] for unit in shared],
            np.random.default_rng(seed),
            [str(unit[0]) for unit in shared],  # type: ignore[index]  # a unit begins with its conversation
            replicates,
        )
    except UsageError as error:
        return Agreement(*head, None, len(shared), tuple(authors), str(error))
    if alpha.value != alpha.value:  # NaN: all alike, so that nothing can disagree
        return Agreement(*head, None, len(shared), tuple(authors), "everybody gave the same everywhere")
    return Agreement(*head, alpha, len(shared), tuple(authors))
