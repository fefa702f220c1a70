"""Runs and verdicts: scoring the turns that a run lacks, and detectors over what it has."""

from turnwise.evaluate.detect import DEFAULT_DETECTORS, Detection, detect
from turnwise.evaluate.judged import judged_ids, record_judgements
from turnwise.evaluate.missing import Aim, count_missing, works_of
from turnwise.evaluate.outbox import Progress
from turnwise.evaluate.run import Summary, evaluate

__all__ = [
    "DEFAULT_DETECTORS",
    "Aim",
    "Detection",
    "Progress",
    "Summary",
    "count_missing",
    "detect",
    "evaluate",
    "judged_ids",
    "record_judgements",
    "works_of",
]
