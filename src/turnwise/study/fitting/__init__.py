"""Detectors fitted, searched and calibrated on labelled conversations."""

from turnwise.study.fitting.fit import (
    FITTED,
    FitInput,
    Guaranteed,
    Objective,
    Tuned,
    check_objective,
    fit_detector,
    guaranteed,
    highest_scores,
    tune,
)
from turnwise.study.fitting.search import (
    FOLDS,
    SPACES,
    CrossFitted,
    OneOf,
    Searched,
    check_search,
    cross_fitted,
    search,
    space_of,
)

__all__ = [
    "FITTED",
    "FOLDS",
    "SPACES",
    "CrossFitted",
    "FitInput",
    "Guaranteed",
    "Objective",
    "OneOf",
    "Searched",
    "Tuned",
    "check_objective",
    "check_search",
    "cross_fitted",
    "fit_detector",
    "guaranteed",
    "highest_scores",
    "search",
    "space_of",
    "tune",
]
