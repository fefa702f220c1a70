"""Scores the conversations of a part: scores in columns, and what the detector makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from turnwise.conversation import Sequence as Conversation
from turnwise.conversation import Side, Turn
from turnwise.detectors import Detector, run_detector
from turnwise.observers import Context, NotRead, ObservationFailure, Observer, Request
from turnwise.observers.many import ObservedMany, observe_conversations
from turnwise.principles import Principle
from turnwise.scoring import Score, TurnScores

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of some conversations, in columns.

    Columns up to `detector_score`, the detector's score after that turn, have a row for each score, in ascending
    order of conversations: `conversation` and `principle` are indexes, `side` is 0 for the prompt and 1 for the
    response, `scores` are T, I and F, with shape (scores, 3), and `chars` the characters of the text. The others
    have a row for each conversation: `flag_turn` is the first turn at which the detector fired, 0 for none, and
    `peak` its highest score, not a number where nothing was scored. `failures` and `unread` have the index of the
    conversation, the number of the turn, and what happened.
    """

    conversation: NDArray[np.int32]
    turn: NDArray[np.int32]
    side: NDArray[np.int8]
    principle: NDArray[np.int8]
    scores: NDArray[np.float64]
    chars: NDArray[np.int64]
    detector_score: NDArray[np.float64]
    scored: NDArray[np.bool_]
    fired: NDArray[np.bool_]
    flag_turn: NDArray[np.int32]
    peak: NDArray[np.float64]
    failures: tuple[tuple[int, int, ObservationFailure], ...] = ()
    unread: tuple[tuple[int, int, NotRead], ...] = ()


class Scorer:
    """Scores conversations and runs a detector over them; one a worker.

    `threads` are conversations at a time, for an observer that waits.
    """

    def __init__(
        self,
        observer: Observer,
        context: Context,
        principles: Sequence[Principle],
        sides: Sequence[Side],
        detector: Detector,
        threads: int = 1,
    ) -> None:
        self._observer = observer
        self._context = context
        self._names = [principle.name for principle in principles]
        self._wanted = [Request(principle, side) for side in Side if side in sides for principle in principles]
        self._detector = detector
        self._threads = threads

    @property
    def spent_usd(self) -> float:
        """US dollars that the observer of this worker has spent; 0 for one that costs nothing."""
        return float(getattr(self._observer, "spent_usd", 0.0))

    def score(self, conversations: Sequence[Conversation]) -> Scored:
        """Score every turn of some conversations; ObserverError where the observer can't go on."""
        # The texts alone: what a data set says about a turn may give the answer away.
        turns = [
            [Turn(turn.number, turn.prompt, turn.response) for turn in one.conversation] for one in conversations
        ]
        many = observe_conversations(
            self._observer,
            turns,
            self._context,
            self._wanted,
            ids=[one.sequence_id for one in conversations],
            threads=self._threads,
        )
        return self._judged(turns, many)

    def _judged(self, turns: list[list[Turn]], many: ObservedMany) -> Scored:
        count, rows = len(turns), len(many)
        kinds = max(1, len(self._names))
        side = (many.request // kinds).astype(np.int8)
        if self._wanted and self._wanted[0].side is Side.RESPONSE:
            side = side + np.int8(1)
        principle = (many.request % kinds).astype(np.int8)
        chars = np.zeros(rows, np.int64)
        detector_score = np.zeros(rows)
        fired = np.zeros(count, np.bool_)
        flag_turn = np.zeros(count, np.int32)
        peak = np.full(count, np.nan)
        bounds = np.searchsorted(many.conversation, np.arange(count + 1)).tolist()
        turn_of, side_of, principle_of = many.turn.tolist(), side.tolist(), principle.tolist()
        values = many.scores.tolist()
        for place, said in enumerate(turns):
            low, high = bounds[place], bounds[place + 1]
            if low == high:
                continue
            told = self._trajectory(
                said, turn_of[low:high], side_of[low:high], principle_of[low:high], values[low:high]
            )
            verdict = run_detector(self._detector, told)
            signals = np.fromiter((signal.score for signal in verdict.signals), np.float64, len(said))
            of_row = many.turn[low:high] - 1
            detector_score[low:high] = signals[of_row]
            lengths = np.array([(one.length, one.response_length) for one in told], np.int64)
            chars[low:high] = lengths[of_row, side[low:high]]
            fired[place] = verdict.fired
            flag_turn[place] = verdict.turn or 0
            if verdict.score is not None:
                peak[place] = verdict.score
        scored = np.diff(bounds) > 0
        return Scored(
            many.conversation,
            many.turn,
            side,
            principle,
            many.scores,
            chars,
            detector_score,
            scored,
            fired,
            flag_turn,
            peak,
            many.failures,
            many.unread,
        )

    def _trajectory(
        self,
        turns: list[Turn],
        turn_of: list[int],
        side_of: list[int],
        principle_of: list[int],
        values: list[list[float]],
    ) -> list[TurnScores]:
        """The scores of one conversation turn by turn; turns are numbered from 1 without gaps."""
        prompts: list[dict[str, Score]] = [{} for _ in turns]
        responses: list[dict[str, Score]] = [{} for _ in turns]
        sides = prompts, responses
        names = self._names
        for turn, side, principle, (T, I, F) in zip(turn_of, side_of, principle_of, values, strict=True):  # noqa: E741
            sides[side][turn - 1][names[principle]] = Score(T, I, F)
        return [
            TurnScores(turn.number, prompt, len(turn.prompt), response, len(turn.response or ""))
            for turn, prompt, response in zip(turns, prompts, responses, strict=True)
        ]
