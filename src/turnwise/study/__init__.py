"""Studies: splits by group, thresholds with a guarantee, fitted detectors. Needs the ``study`` extra."""

from turnwise.study.calibrate import needed_benign, threshold_for, threshold_with_confidence
from turnwise.study.example import Example
from turnwise.study.fit import FITTED, fit_detector
from turnwise.study.holm import holm
from turnwise.study.load import Loaded, load_examples
from turnwise.study.splits import split_by_group
from turnwise.study.tune import Tuned, tune

__all__ = [
    "FITTED",
    "Example",
    "Loaded",
    "Tuned",
    "fit_detector",
    "holm",
    "load_examples",
    "needed_benign",
    "split_by_group",
    "threshold_for",
    "threshold_with_confidence",
    "tune",
]
