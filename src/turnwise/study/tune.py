"""A detector for one's own data: fitted on some groups, its threshold set on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.detectors import Detector, load_detector, run_detector
from turnwise.rates import Rate
from turnwise.study.calibrate import threshold_for
from turnwise.study.example import Example
from turnwise.study.fit import FITTED, fit_detector
from turnwise.study.splits import split_by_group

SHARES = {"train": 0.6, "calibrate": 0.4}


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned detector and what it does on the conversations that set its threshold.

    Args:
        detector: the detector, at its new threshold.
        fitted: whether its parameters were fitted, or only its threshold was set.
        train: conversations that it was fitted on.
        calibrate: conversations that set the threshold.
        flagged_benign: benign ones of the latter that it flags.
        flagged_attacks: attacks of the latter that it flags; not a test result, but nothing was chosen on them.
    """

    detector: Detector
    fitted: bool
    train: int
    calibrate: int
    flagged_benign: Rate
    flagged_attacks: Rate


def tune(spec: str, examples: Sequence[Example], target_fpr: float = 0.01, seed: int = 0) -> Tuned:
    """Fit a detector on three fifths of the groups and set its threshold on the benign conversations of the rest.

    Args:
        spec: the name of a detector that is fitted, or a specification whose threshold alone is set.
        examples: conversations of both labels.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        seed: of the split.

    Raises:
        UnknownNameError: no such detector or parameter.
        DetectorError: a specification or value that does not fit.
        UsageError: too few conversations; the message says how many are needed.
    """
    parts = split_by_group(examples, SHARES, seed)
    fitted = spec in FITTED
    detector = fit_detector(spec, parts["train"], seed) if fitted else load_detector(spec)
    peaks = [(example.attack, run_detector(detector, example.turns).score) for example in parts["calibrate"]]
    limit = threshold_for([score for attack, score in peaks if not attack], target_fpr)
    tuned = detector.with_threshold(limit)
    flagged = [(example.attack, run_detector(tuned, example.turns).fired) for example in parts["calibrate"]]

    def rate(attack: bool) -> Rate:
        verdicts = [fired for label, fired in flagged if label is attack]
        return Rate(sum(verdicts), len(verdicts))

    return Tuned(tuned, fitted, len(parts["train"]), len(parts["calibrate"]), rate(False), rate(True))
