"""Studies: splits by group, thresholds with a guarantee, fitted detectors. Needs the ``study`` extra."""

from turnwise.stats import (
    Example,
    McNemar,
    StudySize,
    holm,
    mcnemar,
    needed_benign,
    paired_power,
    split_by_group,
    study_size,
    threshold_for,
    unpaired_power,
)
from turnwise.study.annotation.agreement import Agreement, agreement
from turnwise.study.examples import Loaded, load_examples
from turnwise.study.facets_and_trends import FacetRate, Trends, TrendWeek, facet_rates, trends
from turnwise.study.fitting import FITTED, Tuned, fit_detector, tune
from turnwise.study.gain_simulation import GainMap, Kind, gain_map, kind_of
from turnwise.study.second_look_rates import SecondLookRates, second_look_rates

__all__ = [
    "FITTED",
    "Agreement",
    "Example",
    "FacetRate",
    "GainMap",
    "Kind",
    "Loaded",
    "McNemar",
    "SecondLookRates",
    "StudySize",
    "TrendWeek",
    "Trends",
    "Tuned",
    "agreement",
    "facet_rates",
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
    "trends",
    "tune",
    "unpaired_power",
]
