"""Runs and verdicts: scoring the turns that a run lacks, and detectors over what it has."""

from turnwise.detectors.files import calibrated, read_detector
from turnwise.evaluate.detect import Detection, detect, score_conversation
from turnwise.evaluate.judged import judged_ids, record_judgements
from turnwise.evaluate.missing import Aim, count_missing, works_of
from turnwise.evaluate.outbox import Progress
from turnwise.evaluate.run import Summary, evaluate

__all__ = [
    "Aim",
    "Detection",
    "Progress",
    "Summary",
    "calibrated",
    "count_missing",
    "detect",
    "evaluate",
    "judged_ids",
    "read_detector",
    "record_judgements",
    "score_conversation",
    "works_of",
]
