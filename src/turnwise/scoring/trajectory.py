"""The evaluations of one sequence in one run, ordered by turn: what detectors and patterns read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turnwise._support.notebook import data_frame, html_table
from turnwise.conversation.turn import Side
from turnwise.errors import ScoreError
from turnwise.scoring.evaluation import Evaluation, Spread
from turnwise.scoring.score import Score

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("turn", "side", "principle", "T", "I", "F", "reasoning")


@dataclass(frozen=True, slots=True)
class TurnScores:
    """The scores of one turn: the input of a detector.

    A principle that was not evaluated at this turn is absent: a gap is never a zero.

    Args:
        turn: number of the turn, from 1.
        scores: score of the prompt by principle.
        length: characters of the prompt.
        response_scores: score of the response by principle.
        response_length: characters of the response; 0 where there is none.
    """

    turn: int
    scores: Mapping[str, Score]
    length: int = 0
    response_scores: Mapping[str, Score] = field(default_factory=dict)
    response_length: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain values; those of the response only where there are any."""
        value: dict[str, Any] = {
            "turn": self.turn,
            "scores": {principle: score.to_dict() for principle, score in sorted(self.scores.items())},
        }
        if self.response_scores:
            value["response_scores"] = {
                principle: score.to_dict() for principle, score in sorted(self.response_scores.items())
            }
        return value


def scores_by_turn(
    turns: int,
    scores: Iterable[tuple[int, Side, str, Score]],
    lengths: Mapping[int, tuple[int, int]],
    first: int = 1,
) -> Iterator[TurnScores]:
    """Yield the scores of every turn from `first` to `turns`; those of a turn without scores are empty.

    Args:
        turns: number of the last turn.
        scores: turn, side, principle and score, in any order.
        lengths: characters of prompt and response by turn; a turn that is absent counts as length 0.
        first: number of the first turn.
    """
    by_turn: dict[int, dict[Side, dict[str, Score]]] = {}
    for turn, side, principle, score in scores:
        by_turn.setdefault(turn, {Side.PROMPT: {}, Side.RESPONSE: {}})[side][principle] = score
    for turn in range(first, turns + 1):
        sides = by_turn.get(turn, {})
        prompt_length, response_length = lengths.get(turn, (0, 0))
        yield TurnScores(
            turn=turn,
            scores=sides.get(Side.PROMPT, {}),
            length=prompt_length,
            response_scores=sides.get(Side.RESPONSE, {}),
            response_length=response_length,
        )


class Trajectory:
    """The evaluations of one sequence in one run, ordered by turn, side and principle.

    It may be sparse: a turn or principle that was not evaluated is a gap, and gaps stay gaps.

    Args:
        run: name of the run.
        sequence_id: id of the sequence.
        turns: number of turns of the sequence, evaluated or not; for a part of it, number of the last turn.
        evaluations: in any order; each of this run and sequence, at most one per turn, side and principle.
        lengths: characters of prompt and response by turn; a turn that is absent counts as length 0.
        first: number of the first turn; above 1 where it is a part of a sequence.

    Raises:
        ScoreError: an evaluation of another run or sequence, two for one key, or a turn outside the sequence.
    """

    __slots__ = ("_evaluations", "_lengths", "first", "run", "sequence_id", "turns")

    def __init__(
        self,
        run: str,
        sequence_id: str,
        turns: int,
        evaluations: Iterable[Evaluation],
        lengths: Mapping[int, tuple[int, int]] | None = None,
        first: int = 1,
    ) -> None:
        ordered = sorted(evaluations, key=lambda e: (e.key.turn, e.key.side, e.key.principle))
        seen = set()
        for evaluation in ordered:
            key = evaluation.key
            if (key.run, key.sequence_id) != (run, sequence_id):
                raise ScoreError(
                    f"give evaluations of {run!r}/{sequence_id!r} only, not of {key.run!r}/{key.sequence_id!r}"
                )
            if not first <= key.turn <= turns:
                raise ScoreError(
                    f"turn {key.turn} must be from {first} to {turns}, turns of sequence {sequence_id!r}"
                )
            if key in seen:
                raise ScoreError(f"two evaluations for {key}: give each once")
            seen.add(key)
        self.run = run
        self.sequence_id = sequence_id
        self.turns = turns
        self.first = first
        self._evaluations = tuple(ordered)
        self._lengths = dict(lengths or {})

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All evaluations, ordered by turn, side and principle."""
        return self._evaluations

    @property
    def principles(self) -> tuple[str, ...]:
        """Names of the principles that have at least one evaluation, sorted."""
        return tuple(sorted({evaluation.key.principle for evaluation in self._evaluations}))

    def __len__(self) -> int:
        return len(self._evaluations)

    def series(self, principle: str, side: Side = Side.PROMPT) -> tuple[tuple[int, Score], ...]:
        """Return (turn, score) pairs of one principle on one side, in turn order, gaps left out."""
        return tuple((one.key.turn, one.score) for one in self._of(principle, side))

    def spread(self, principle: str, side: Side = Side.PROMPT) -> tuple[tuple[int, Spread], ...]:
        """Return (turn, spread) pairs of one principle on one side, in turn order.

        A turn has one where its evaluation was loaded with its calls, and at least two of them gave a score.
        """
        found = ((one.key.turn, one.spread) for one in self._of(principle, side))
        return tuple((turn, apart) for turn, apart in found if apart is not None)

    def _of(self, principle: str, side: Side) -> Iterator[Evaluation]:
        return (one for one in self._evaluations if one.key.principle == principle and one.key.side is side)

    def __iter__(self) -> Iterator[TurnScores]:
        """Yield the scores of every turn, `first` to `turns`; a turn without evaluations has no scores in it."""
        scores = ((e.key.turn, e.key.side, e.key.principle, e.score) for e in self._evaluations)
        return scores_by_turn(self.turns, scores, self._lengths, self.first)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores turn by turn as plain values."""
        return {"run": self.run, "sequence_id": self.sequence_id, "turns": [scores.to_dict() for scores in self]}

    def to_frame(self) -> pandas.DataFrame:
        """Return the evaluations as a table of pandas.

        Columns: ``turn``, ``side``, ``principle``, ``T``, ``I``, ``F``, ``reasoning``.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(_COLUMNS, self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for one in self._evaluations:
            score = one.score
            yield one.key.turn, str(one.key.side), one.key.principle, score.T, score.I, score.F, one.reasoning

    def __repr__(self) -> str:
        return (
            f"Trajectory(run={self.run!r}, sequence_id={self.sequence_id!r}, turns={self.turns}, "
            f"evaluations={len(self)}, principles={self.principles})"
        )

    def _repr_html_(self) -> str:
        return html_table(repr(self), _COLUMNS, self._rows(), len(self))
