"""What a detector is: a fold over the turns of a trajectory that gives a signal after each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self

from turnwise.scoring import TurnScores

State = dict[str, Any]
"""The state of a detector in one conversation: JSON values only, so that it can be stored and resumed."""


@dataclass(frozen=True, slots=True)
class Signal:
    """The output of a detector after a turn.

    Args:
        score: suspicion after this turn; finite, higher is more suspicious, comparable to the detector's
            threshold. Real-valued, so that any threshold can be calibrated.
        fired: whether it fired at this or an earlier turn (latched: the conversation's verdict).
        active: whether it would fire now, judged on its present score alone (recovery shows here).
        turn: the first turn that fired, or None.
        reason: why, in words a person can check against the trajectory.
        contributions: what each principle contributed to `score`; may be left empty.
        evidence: whether `score` rests on anything; see `silent`.
    """

    score: float
    fired: bool
    active: bool
    turn: int | None
    reason: str
    contributions: Mapping[str, float] = field(default_factory=dict)
    evidence: bool = True

    @classmethod
    def silent(cls, reason: str, fired_at: int | None = None) -> Signal:
        """Return the signal of a detector that can't judge yet, such as a slope at the first turn.

        Its score of 0.0 stands for nothing: no verdict, threshold or figure counts it.

        Args:
            reason: what it lacks, in words.
            fired_at: the first turn that fired, or None; what fired stays fired.

        >>> Signal.silent("a slope needs 3 turns").evidence
        False
        """
        return cls(0.0, fired_at is not None, False, fired_at, reason, evidence=False)


class Detector(Protocol):
    """Reads turns in order; its verdict at turn k depends on turns 1 to k alone."""

    @property
    def name(self) -> str:
        """Name under which the detector is registered."""

    @property
    def threshold(self) -> float:
        """Score beyond which it fires, in the unit of `Signal.score`."""

    def with_threshold(self, value: float, /) -> Self:
        """Return the same detector with another threshold, in the unit of `Signal.score`; this one is kept.

        The scores stay the same, so an operating point can be chosen on recorded scores. Infinity gives a
        detector that never fires. Whether a score that equals the threshold fires is the detector's own
        choice, so a calibrated threshold lies between two scores that occurred, not on one.
        """

    def start(self) -> State:
        """Return the state before the first turn."""

    def update(self, state: State, scores: TurnScores, /) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it.

        A principle that was not evaluated at the turn is skipped, not taken for zero; where there is nothing to
        go by yet, the signal is `Signal.silent`. The scores are not changed; the state is.
        """


class ThresholdSource(StrEnum):
    """Where the threshold of a detector comes from."""

    GIVEN = "given"
    """Whoever named the detector said it."""

    OPERATING_POINT = "operating point"
    """The observer publishes it for this detector: calibrated to a share of false positives."""

    DEFAULT = "default"
    """The detector's own; it is calibrated to nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a detector on a whole conversation.

    Args:
        detector: its specification, such as ``"cusum:limit=0.2"``.
        fired: whether it fired at any turn, as a live guard would have.
        turn: the first turn that fired, or None.
        score: the highest score of its signals that had evidence; None where none had: it can't tell, at any
            threshold.
        threshold: the score beyond which it fires; infinity where it never does.
        threshold_source: where the threshold comes from.
        reason: the reason at the turn that fired, else at the turn of the highest score.
        signals: the signal after each turn.
    """

    detector: str
    fired: bool
    turn: int | None
    score: float | None
    threshold: float
    threshold_source: ThresholdSource
    reason: str
    signals: tuple[Signal, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, without the signals; a threshold that is infinite is None."""
        return {
            "detector": self.detector,
            "fired": self.fired,
            "turn": self.turn,
            "score": self.score,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "threshold_source": str(self.threshold_source),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        """Return it in a line."""
        what = f"fired at turn {self.turn}" if self.fired else "did not fire"
        score = "no evidence" if self.score is None else f"highest score {self.score:.3f}"
        rule = f"threshold {self.threshold:.3f}, {self.threshold_source}"
        return f"{self.detector}: {what}, {score} ({rule}): {self.reason}"


def run_detector(
    detector: Detector,
    turns: Iterable[TurnScores],
    spec: str | None = None,
    source: ThresholdSource = ThresholdSource.GIVEN,
) -> Verdict:
    """Run a detector over the turns of one conversation, in order.

    A detector with a true attribute ``judges_last`` is asked at the last evaluated turn alone.

    Args:
        detector: the detector.
        turns: the scores turn by turn, such as a `Trajectory`.
        spec: how the verdict names the detector; its own name by default.
        source: where its threshold comes from.
    """
    state = detector.start()
    told = [(scores.turn, detector.update(state, scores)) for scores in turns]
    known = [(turn, signal) for turn, signal in told if signal.evidence]
    if getattr(detector, "judges_last", False):
        known = known[-1:]
        first = next(((turn, signal) for turn, signal in known if signal.active), None)
    else:
        first = next(((turn, signal) for turn, signal in told if signal.fired), None)
    peak = max((signal for _, signal in known), key=lambda signal: signal.score, default=None)
    shown = first[1] if first else peak or (told[-1][1] if told else None)
    return Verdict(
        detector=spec or detector.name,
        fired=first is not None,
        turn=first[0] if first else None,
        score=peak.score if peak else None,
        threshold=detector.threshold,
        threshold_source=source,
        reason=shown.reason if shown else "no turn was evaluated",
        signals=tuple(signal for _, signal in told),
    )
