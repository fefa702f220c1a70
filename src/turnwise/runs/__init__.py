"""Runs: scores of stored sequences into the store, scores of files into findings, and verdicts over runs."""

from turnwise.runs.engines import ENGINES, InlineEngine, ProcessEngine, ThreadEngine, make_engine
from turnwise.runs.evaluation import evaluate
from turnwise.runs.inputs import ReadOptions
from turnwise.runs.judgements import export_people, judged_ids, record_judgements, record_people
from turnwise.runs.plan import Plan, count_missing, tasks_of
from turnwise.runs.run import Engine, Progress
from turnwise.runs.scanning import ScanPlan, ScanResult, plan_scan
from turnwise.runs.store_sink import Summary
from turnwise.runs.verdicts import DEFAULT_DETECTORS, Detection, detect

__all__ = [
    "DEFAULT_DETECTORS",
    "ENGINES",
    "Detection",
    "Engine",
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
    "judged_ids",
    "make_engine",
    "plan_scan",
    "record_judgements",
    "record_people",
    "tasks_of",
]
