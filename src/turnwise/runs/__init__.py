"""Runs: scores of stored sequences into the store, scores of files into findings, and verdicts over runs."""

from turnwise.runs.engines import ENGINES, Engine, InlineEngine, ProcessEngine, Progress, ThreadEngine, make_engine
from turnwise.runs.evaluation import Summary, evaluate
from turnwise.runs.inbox import Inbox, InboxItem, inbox, sentence
from turnwise.runs.inputs import ReadOptions
from turnwise.runs.judgements import export_people, judged_ids, record_judgements, record_people
from turnwise.runs.plan import Plan, count_missing, tasks_of
from turnwise.runs.scanning import ScanPlan, ScanResult, plan_scan
from turnwise.runs.verdicts import DEFAULT_DETECTORS, Detection, Flagged, detect, flagged, judges_of

__all__ = [
    "DEFAULT_DETECTORS",
    "ENGINES",
    "Detection",
    "Engine",
    "Flagged",
    "Inbox",
    "InboxItem",
    "InlineEngine",
    "Plan",
    "ProcessEngine",
    "Progress",
    "ReadOptions",
    "ScanPlan",
    "ScanResult",
    "Summary",
    "ThreadEngine",
    "count_missing",
    "detect",
    "evaluate",
    "export_people",
    "flagged",
    "inbox",
    "judged_ids",
    "judges_of",
    "make_engine",
    "plan_scan",
    "record_judgements",
    "record_people",
    "sentence",
    "tasks_of",
]
