"""A comparison of detectors on the same conversations: arms, thresholds, verdicts, tests, diagnostics."""

from turnwise.stats import SplitGains
from turnwise.study.compare.arm_diagnostics import Rescore
from turnwise.study.compare.between_runs import BetweenRuns
from turnwise.study.compare.comparisons import Cell, CellGain, Test
from turnwise.study.compare.context_and_trajectory import ApartGain, TwoByTwo
from turnwise.study.compare.data import LabelledConversation, RunData, StudyData, load_study_data, strata_of
from turnwise.study.compare.judging import ArmJudgement, Calibrated, CalibrationFlags
from turnwise.study.compare.plan import (
    BASELINES,
    REFERENCE,
    Arm,
    Fold,
    Origin,
    Settings,
    compared_runs,
    make_folds,
    read_origin,
    sha256_of_ids,
)
from turnwise.study.compare.study import Study, WhyFlagged, compare, compare_data, why_flagged
from turnwise.study.compare.truth import (
    AgainstReader,
    ArmAgainstReader,
    ReaderTurns,
    TurnSummary,
    TurnVerdict,
    flagged_turns,
    read_reader,
    summarise_turns,
)
from turnwise.study.compare.tuning import Tuning, tune_inside_training

__all__ = [
    "BASELINES",
    "REFERENCE",
    "AgainstReader",
    "ApartGain",
    "Arm",
    "ArmAgainstReader",
    "ArmJudgement",
    "BetweenRuns",
    "Calibrated",
    "CalibrationFlags",
    "Cell",
    "CellGain",
    "Fold",
    "LabelledConversation",
    "Origin",
    "ReaderTurns",
    "Rescore",
    "RunData",
    "Settings",
    "SplitGains",
    "Study",
    "StudyData",
    "Test",
    "Tuning",
    "TurnSummary",
    "TurnVerdict",
    "TwoByTwo",
    "WhyFlagged",
    "compare",
    "compare_data",
    "compared_runs",
    "flagged_turns",
    "load_study_data",
    "make_folds",
    "read_origin",
    "read_reader",
    "sha256_of_ids",
    "strata_of",
    "summarise_turns",
    "tune_inside_training",
    "why_flagged",
]
