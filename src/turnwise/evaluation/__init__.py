"""Runs and verdicts: scoring the turns that a run lacks, and detectors over what it has."""

from turnwise.evaluation.judged import judged_ids, record_judgements
from turnwise.evaluation.plan import Plan, count_missing, tasks_of
from turnwise.evaluation.run import Progress, Summary, evaluate
from turnwise.evaluation.verdicts import DEFAULT_DETECTORS, Detection, detect

__all__ = [
    "DEFAULT_DETECTORS",
    "Detection",
    "Plan",
    "Progress",
    "Summary",
    "count_missing",
    "detect",
    "evaluate",
    "judged_ids",
    "record_judgements",
    "tasks_of",
]
