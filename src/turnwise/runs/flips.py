"""Run against run: what two arms say of the same conversations, and which they judge differently.

An arm is a detector on the scores of a run. Two arms may differ in the run (two observers, or two dates) or in the
detector (or its threshold). All is read from stored scores, in arrays, so that thresholds are tried in no time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Items
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from turnwise.conversation import Label, group_of
from turnwise.detectors import ByPrinciple, Detector, DetectorSpec, PatternSource, ThresholdSource, run_detector
from turnwise.detectors.baselines import AnyTurn
from turnwise.errors import UnknownNameError
from turnwise.rates import Rate
from turnwise.runs.verdicts import detect, judges_of
from turnwise.scoring import Score, TurnScores
from turnwise.store import Run, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]
    Real = NDArray[np.float64]
    Bools = NDArray[np.bool_]

FACETS: Final = ("source", "label", "model", "category", "language")
"""What flips and trends can be told apart by."""

UNKNOWN: Final = "unknown"
"""In place of a facet that the metadata of a conversation do not tell."""

DISPUTED: Final = "disputed"
"""In place of the label of a conversation on which people disagree."""

_KEYS: Final = {"model": ("model",), "category": ("category",), "language": ("language", "lang")}
"""Keys of the metadata by facet."""

_LONGEST = 200
"""Characters of such a value that are kept."""

_PAGE = 50_000
"""Sequences whose metadata are in memory at once."""


class Peaks:
    """The highest F over principles of each scored prompt of a run."""

    def __init__(self, store: Store, run: Run) -> None:
        import numpy as np

        found = store.source.peaks(run)
        found = found[np.lexsort((-found[:, 2], found[:, 1], found[:, 0]))]
        where = found[:, :2].astype(np.int64)
        first = np.append(True, (where[1:] != where[:-1]).any(axis=1))[: len(where)]
        (self._of, self.turns), self.F = where[first].T, found[first, 2]
        self.sequences, self._begin = np.unique(self._of, return_index=True)

    def at(self, sequences: Whole, turns: Whole) -> Real:
        """F at a turn of each of some sequences; NaN where it was not scored."""
        import numpy as np

        wide = int(max(self.turns.max(initial=0), turns.max(initial=0))) + 1
        known, asked = self._of * wide + self.turns, sequences * wide + turns
        if not len(known):
            return np.full(len(asked), np.nan)
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[place] == asked, self.F[place], np.nan)

    def highest(self, sequences: Whole) -> Real:
        """The highest F of each of some sequences; NaN where no prompt was scored."""
        import numpy as np

        found = np.full(len(sequences), np.nan)
        _, asked, known = np.intersect1d(sequences, self.sequences, assume_unique=True, return_indices=True)
        found[asked] = np.maximum.reduceat(self.F, self._begin)[known]
        return found

    def first(self, threshold: float) -> Whole:
        """The first turn of each of `sequences` at which F reaches a threshold; 0 where none does."""
        import numpy as np

        never = np.iinfo(np.int64).max
        found = np.minimum.reduceat(np.where(threshold <= self.F, self.turns, never), self._begin)
        return np.where(found == never, 0, found)


@dataclass(frozen=True, slots=True)
class ArmVerdicts:
    """What a detector says of the conversations of a run that it could judge, in arrays.

    Args:
        run: the run.
        detector: the detector, at its threshold.
        spec: its specification.
        threshold_source: where its threshold comes from.
        sequences: row numbers of the conversations, rising.
        scores: highest score of each; minus infinity where no signal had evidence.
        fired: whether it fired.
        peaks: F of the run's prompts.
    """

    run: Run
    detector: Detector
    spec: str
    threshold_source: ThresholdSource
    sequences: Whole
    scores: Real
    fired: Bools
    peaks: Peaks

    @property
    def name(self) -> str:
        """Run with its date, and detector with its threshold, in a line."""
        threshold = f"{self.detector.threshold:.4g}, {self.threshold_source}"
        return f"{self.run.name} of {self.run.created_at:%Y-%m-%d}: {self.spec} (threshold {threshold})"

    def flagged(self, threshold: float | None = None) -> Bools:
        """Which conversations it flags, at its own threshold or another one."""
        return self.fired if threshold is None else self.scores >= threshold

    def only(self, chosen: Any) -> Self:
        """The same arm on some of its conversations, by place or mask."""
        return replace(
            self, sequences=self.sequences[chosen], scores=self.scores[chosen], fired=self.fired[chosen]
        )


def arm_verdicts(
    store: Store, run: str, detector: DetectorSpec | None = None, patterns: PatternSource | None = None
) -> ArmVerdicts:
    """Judge all conversations of a run, with the verdicts that `detect` gives.

    Args:
        store: the record, or findings.
        run: name of the run.
        detector: names the detector; by default the first that judges the run, see `turnwise.runs.judges_of`.
        patterns: your own named patterns, or the YAML file that defines them.

    Raises:
        UnknownNameError: no such run, detector or parameter.
        DetectorError: a specification or value that does not fit.
    """
    named = judges_of(store, run, () if detector is None else (detector,), patterns)[0]
    known = store.run(run)
    found = Peaks(store, known)
    judged = _judged(store, run, found, named.detector)
    return ArmVerdicts(known, named.detector, named.spec, named.source, *judged, found)


@dataclass(frozen=True, slots=True)
class Flip:
    """A conversation that one arm flags and the other does not.

    Args:
        flagged_by: the arm that flags it.
        turn: the turn at which that arm fired first.
        score_a: highest score by the first arm; minus infinity without evidence.
        score_b: highest score by the second arm.
        F_a: highest F over principles of the turn's prompt in the first run; None where it was not scored.
        F_b: the same in the second run.
    """

    sequence_id: str
    source: str
    label: str
    model: str
    category: str
    language: str
    flagged_by: Literal["a", "b"]
    turn: int | None
    score_a: float
    score_b: float
    F_a: float | None
    F_b: float | None

    @property
    def difference(self) -> float | None:
        """F at that turn, second run less first."""
        return None if self.F_a is None or self.F_b is None else self.F_b - self.F_a

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; a score without evidence is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in (asdict(self) | {"F_difference": self.difference}).items()
        }

    def cells(self) -> dict[str, str]:
        """What a table shows of it, by heading."""
        row = {name: f"{value:.3f}" if isinstance(value, float) else str(value or "–")
               for name, value in self.to_dict().items()}  # fmt: skip
        row["by"] = self.flagged_by.upper()
        row["apart"] = "–" if self.difference is None else f"{self.difference:+.3f}"
        return {heading: row[name] for heading, name in _HEADINGS.items()}


_HEADINGS: Final = {
    "conversation": "sequence_id", "label": "label", "source": "source", "flagged by": "by", "turn": "turn",
    "score A": "score_a", "score B": "score_b", "F A": "F_a", "F B": "F_b", "F B − A": "apart",
}  # fmt: skip

Thresholds = tuple[float | None, float | None]
"""Other thresholds of the two arms; None for its own."""

OWN: Final[Thresholds] = (None, None)


class AtThresholds(NamedTuple):
    """What two arms flag at some thresholds: how many each alone, and of each recall and false alarms."""

    a_alone: int
    b_alone: int
    rates_a: tuple[Rate, Rate]
    rates_b: tuple[Rate, Rate]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two arms on the conversations that both could judge.

    Args:
        a: the first arm, on these conversations.
        b: the second arm, on the same in the same order.
        facts: by name of a facet, ``sequence_id`` or ``group``, an array with a text for each of them.
        only_a: conversations that the first arm alone could judge; they are no flips.
        only_b: the same of the second arm.
    """

    a: ArmVerdicts
    b: ArmVerdicts
    facts: Mapping[str, NDArray[Any]]
    only_a: int
    only_b: int

    def __len__(self) -> int:
        return len(self.a.sequences)

    def flagged(self, thresholds: Thresholds = OWN) -> tuple[Bools, Bools]:
        """Which conversations each arm flags."""
        return self.a.flagged(thresholds[0]), self.b.flagged(thresholds[1])

    def at(self, thresholds: Thresholds = OWN) -> AtThresholds:
        """What both flag; intervals take the thresholds as given."""
        a, b = self.flagged(thresholds)
        attacks, benign = (self.facts["label"] == str(label) for label in (Label.ATTACK, Label.BENIGN))

        def rates(flagged: Bools) -> tuple[Rate, Rate]:
            recall = Rate(int((flagged & attacks).sum()), int(attacks.sum()))
            return recall, Rate(int((flagged & benign).sum()), int(benign.sum()))

        return AtThresholds(int((a & ~b).sum()), int((b & ~a).sum()), rates(a), rates(b))

    def flipped(self, thresholds: Thresholds = OWN, where: Mapping[str, str] | None = None) -> Whole:
        """Places of the conversations that one arm alone flags, the clearest first.

        Clear is what lies far from both thresholds. `where` has values that facets must have.
        """
        import numpy as np

        flagged_a, flagged_b = self.flagged(thresholds)
        chosen = flagged_a != flagged_b
        for facet, value in (where or {}).items():
            if facet not in FACETS:
                raise UnknownNameError("facet", facet, FACETS)
            chosen = chosen & (self.facts[facet] == value)
        places = np.flatnonzero(chosen)
        margins = []
        for arm, own in zip((self.a, self.b), thresholds, strict=True):
            limit = arm.detector.threshold if own is None else own
            margins.append(np.abs(np.nan_to_num(arm.scores[places] - limit)))  # both may be infinite
        found: Whole = places[np.lexsort((places, -np.minimum(*margins)))]
        return found

    def flips(self, store: Store, places: Items[int] | Whole, thresholds: Thresholds = OWN) -> list[Flip]:
        """The flips at some places, in their order; see `flipped`."""
        import numpy as np

        at = np.asarray(places, np.int64)
        flagged_a = self.a.flagged(thresholds[0])[at]
        turns, ids = np.zeros(len(at), np.int64), self.facts["sequence_id"][at]
        for arm, mine, other in ((self.a, flagged_a, thresholds[0]), (self.b, ~flagged_a, thresholds[1])):
            turns[mine] = _turns(store, arm.only(at[mine]), ids[mine].tolist(), other)
        facts = {name: self.facts[name][at].tolist() for name in ("sequence_id", *FACETS)}
        columns: dict[str, list[Any]] = {
            **facts,
            "flagged_by": ["a" if by_a else "b" for by_a in flagged_a.tolist()],
            "turn": [turn or None for turn in turns.tolist()],
            "score_a": self.a.scores[at].tolist(),
            "score_b": self.b.scores[at].tolist(),
        }
        for name, arm in (("F_a", self.a), ("F_b", self.b)):
            F = arm.peaks.at(arm.sequences[at], turns).tolist()
            columns[name] = [None if math.isnan(one) else one for one in F]
        return [Flip(**{name: values[place] for name, values in columns.items()}) for place in range(len(at))]


def compare_arms(store: Store, a: ArmVerdicts, b: ArmVerdicts, corrected_by: Collection[str] = ()) -> Compared:
    """Lay two arms beside each other, on the conversations that both could judge.

    Args:
        store: the store of both runs.
        a: the first arm.
        b: the second arm.
        corrected_by: people whose corrected labels replace the imported ones, where they agree.

    Raises:
        UnknownNameError: one of these people said nothing.
    """
    import numpy as np

    both, in_a, in_b = np.intersect1d(a.sequences, b.sequences, assume_unique=True, return_indices=True)
    facts = facts_of(store, both, corrected_by)
    return Compared(a.only(in_a), b.only(in_b), facts, len(a.sequences) - len(both), len(b.sequences) - len(both))


def facts_of(store: Store, sequences: Whole, corrected_by: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """What is known of some sequences, given by row numbers that rise: id, group and every facet, as texts."""
    import numpy as np

    place = {number: at for at, number in enumerate(sequences.tolist())}
    facts = {name: np.full(len(sequences), UNKNOWN, object) for name in ("sequence_id", *FACETS)}
    for page in store.source.pages():
        for number, head in page:
            if (at := place.get(number)) is not None:
                told = head.sequence_id, head.source, str(head.label)
                facts["sequence_id"][at], facts["source"][at], facts["label"][at] = told
    if corrected_by:
        labels = store.people.labels(corrected_by)
        for at, name in enumerate(facts["sequence_id"]):
            if name in labels:
                facts["label"][at] = DISPUTED if labels[name] is None else str(labels[name])
    facts["group"] = facts["sequence_id"].copy()
    last = 0
    while found := store.source.metadata(last, _PAGE):
        last = found[-1][0]
        for number, value in found:
            if (at := place.get(number)) is not None and (metadata := read_object(value)):
                facts["group"][at] = group_of(metadata, facts["sequence_id"][at])
                for name, keys in _KEYS.items():
                    facts[name][at] = next((text for key in keys if (text := fact(metadata.get(key)))), UNKNOWN)
    return facts


def read_object(value: Any) -> dict[str, Any]:
    """The metadata of a row, which SQLite gives as text; what can't be read says nothing."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def fact(value: Any) -> str:
    """A value of metadata as a text of at most 200 characters; empty where there is none.

    >>> fact(["money", "travel"]), fact(None)
    ('money, travel', '')
    """
    if value is None:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text[:_LONGEST]


# Judging ------------------------------------------------------------------------------------------------


def _turns(store: Store, arm: ArmVerdicts, ids: Items[str], threshold: float | None) -> Whole:
    """The turns at which an arm fires on its sequences, maybe at another threshold; 0 where it does not."""
    import numpy as np

    detector = arm.detector
    if threshold is not None:
        # A score that equals the threshold is flagged here, and not by every detector: it may be just below.
        detector = detector.with_threshold(math.nextafter(threshold, -math.inf) if threshold else threshold)
    if type(detector) is AnyTurn:
        return arm.peaks.first(detector.threshold)[np.searchsorted(arm.peaks.sequences, arm.sequences)]
    verdicts = detect(store, arm.run.name, [detector], ids=ids) if ids else ()
    turns = {one.head.sequence_id: one.verdict.turn if one.verdict else None for one in verdicts}
    return np.array([turns.get(name) or 0 for name in ids], np.int64)


def _judged(store: Store, run: str, peaks: Peaks, detector: Detector) -> tuple[Whole, Real, Bools]:
    """Row numbers and highest scores of the conversations that a detector could judge, and whether it fired."""
    import numpy as np

    if type(detector) is AnyTurn:  # the one that is asked most, without a fold
        scores = peaks.highest(peaks.sequences)
        return peaks.sequences, scores, scores >= detector.threshold
    with store.mirror.tables() as tables:
        rows = tables.execute(
            "SELECT sequence, turn, principles.name, response, coalesce(prompt_chars, 0), "
            "coalesce(response_chars, 0), T, I, F, turns, sequence_id FROM copied.evaluations "
            "JOIN copied.runs USING (run) JOIN copied.sequences USING (sequence) "
            "JOIN copied.principles USING (principle) WHERE runs.name = ? "
            "ORDER BY sequence, turn, response, principles.name",
            [run],
        ).fetchall()
    judged: dict[int, tuple[float, bool]] = {}
    gaps: dict[str, int] = {}
    for sequence, mine in groupby(rows, itemgetter(0)):
        scored = list(mine)
        turns = list(_turn_scores(scored))
        if len(turns) < scored[0][-2]:
            gaps[scored[0][-1]] = sequence  # turns without a score are told to a detector too
        elif isinstance(detector, ByPrinciple):  # the same without reasons
            if math.isfinite(score := detector.highest(turns)):
                judged[sequence] = score, score >= detector.limit
        else:
            verdict = run_detector(detector, turns)
            if verdict.score is not None or any(one.scores for one in turns):
                judged[sequence] = -math.inf if verdict.score is None else verdict.score, verdict.fired
    for one in detect(store, run, [detector], ids=list(gaps)) if gaps else ():
        if one.verdict is not None:
            score = -math.inf if one.verdict.score is None else one.verdict.score
            judged[gaps[one.head.sequence_id]] = score, one.verdict.fired
    order = sorted(judged)
    values = np.array([judged[sequence] for sequence in order], float).reshape(-1, 2)
    return np.array(order, np.int64), values[:, 0], values[:, 1] > 0


def _turn_scores(rows: Items[tuple[Any, ...]]) -> Iterator[TurnScores]:
    for turn, scored in groupby(rows, itemgetter(1)):
        sides: tuple[dict[str, Score], dict[str, Score]] = ({}, {})
        prompt = response = 0
        for _, _, principle, of_response, prompt_chars, response_chars, T, I, F, *_ in scored:  # noqa: E741
            sides[of_response][principle] = Score(T, I, F)
            prompt, response = prompt or prompt_chars, response or response_chars
        yield TurnScores(turn, sides[0], prompt, sides[1], response)
