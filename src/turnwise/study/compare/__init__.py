"""A comparison of detectors on the same conversations: arms, thresholds, verdicts, tests, diagnostics."""

from turnwise.study.compare.between_runs import BetweenRuns
from turnwise.study.compare.comparisons import Cell, CellGain, Test
from turnwise.study.compare.context_and_trajectory import ApartGain, TwoByTwo
from turnwise.study.compare.data import LabelledConversation, RunData, StudyData, load_study_data, strata_of
from turnwise.study.compare.judging import Calibrated, Calibration, Judgement
from turnwise.study.compare.plan import BASELINES, REFERENCE, Arm, Fold, Settings
from turnwise.study.compare.study import Study, WhyFlagged, compare, compare_data, why_flagged
from turnwise.study.compare.truth import AgainstReader, ArmAgainstReader, ReaderTurns, read_reader
from turnwise.study.stats.split_gains import SplitGains

__all__ = [
    "BASELINES",
    "REFERENCE",
    "AgainstReader",
    "ApartGain",
    "Arm",
    "ArmAgainstReader",
    "BetweenRuns",
    "Calibrated",
    "Calibration",
    "Cell",
    "CellGain",
    "Fold",
    "Judgement",
    "LabelledConversation",
    "ReaderTurns",
    "RunData",
    "Settings",
    "SplitGains",
    "Study",
    "StudyData",
    "Test",
    "TwoByTwo",
    "WhyFlagged",
    "compare",
    "compare_data",
    "load_study_data",
    "read_reader",
    "strata_of",
    "why_flagged",
]
