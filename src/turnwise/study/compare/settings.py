"""What a study is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turnwise.errors import UnknownNameError, UsageError

THRESHOLDS = ("calibrated", "given")
GUARANTEES = ("expectation", "confidence")
MIN_FOLDS = 2

Thresholds = Literal["calibrated", "given"]
Guarantee = Literal["expectation", "confidence"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a study; the same settings on the same data give the same bytes.

    Args:
        runs: runs to compare; those of the store with a window or a whole transcript come in as baselines.
        detectors: specifications or YAML files; the baselines come in by themselves.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        thresholds: ``"calibrated"`` on a part of the conversations, or ``"given"``: those of the specifications
            and of the run's operating points, so that every conversation is tested.
        guarantee: with ``"expectation"`` the rate holds on average over calibration sets, with ``"confidence"`` in
            all but 1 - `confidence` of them.
        confidence: of the intervals and of that guarantee, in (0, 1).
        folds: 0 for one split into train, calibrate and test; from 2 on every conversation is tested once, with
            what was fitted and calibrated on the other folds.
        shares: of the groups that go to train, calibrate and test, where there are no folds.
        seed: of the splits and of the bootstrap.
        replicates: resamples of the bootstrap.
        small_cell: conversations of a label under which a cell shows no percentage.

    Raises:
        UsageError: a value out of range, or no run.
    """

    runs: tuple[str, ...]
    detectors: tuple[str, ...] = ()
    target_fpr: float = 0.01
    thresholds: Thresholds = "calibrated"
    guarantee: Guarantee = "expectation"
    confidence: float = 0.95
    folds: int = 0
    shares: tuple[float, float, float] = (0.3, 0.3, 0.4)
    seed: int = 0
    replicates: int = 2000
    small_cell: int = 10

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("a study needs at least one run: name it with --run")
        for name in ("target_fpr", "confidence"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise UsageError(f"{name.replace('_', ' ')} must lie in (0, 1), not {value:g}")
        if self.thresholds not in THRESHOLDS:
            raise UnknownNameError("kind of thresholds", self.thresholds, THRESHOLDS)
        if self.guarantee not in GUARANTEES:
            raise UnknownNameError("guarantee", self.guarantee, GUARANTEES)
        if self.folds != 0 and self.folds < MIN_FOLDS:
            raise UsageError(f"folds must be 0 for one split, or at least {MIN_FOLDS}, not {self.folds}")
        if self.replicates < 1 or self.small_cell < 1:
            raise UsageError("replicates and small cell must be at least 1")
