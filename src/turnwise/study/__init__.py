"""Studies: splits by group, thresholds with a guarantee, fitted detectors. Needs the ``study`` extra."""

from turnwise.study.annotation.agreement import Agreement, agreement
from turnwise.study.examples import Example, Loaded, load_examples, split_by_group
from turnwise.study.fitting.fit import FITTED, Tuned, fit_detector, tune
from turnwise.study.gain_simulation import GainMap, Kind, gain_map, kind_of
from turnwise.study.second_look_rates import SecondLookRates, second_look_rates
from turnwise.study.stats.power import StudySize, paired_power, study_size, unpaired_power
from turnwise.study.stats.significance import McNemar, holm, mcnemar
from turnwise.study.stats.thresholds import needed_benign, threshold_for

__all__ = [
    "FITTED",
    "Agreement",
    "Example",
    "GainMap",
    "Kind",
    "Loaded",
    "McNemar",
    "SecondLookRates",
    "StudySize",
    "Tuned",
    "agreement",
    "fit_detector",
    "gain_map",
    "holm",
    "kind_of",
    "load_examples",
    "mcnemar",
    "needed_benign",
    "paired_power",
    "second_look_rates",
    "split_by_group",
    "study_size",
    "threshold_for",
    "tune",
    "unpaired_power",
]
