"""Runs: scores of stored sequences into the store, scores of files into findings, and verdicts over runs."""

from turnwise.runs.engines import ENGINES, Engine, InlineEngine, ProcessEngine, Progress, ThreadEngine, make_engine
from turnwise.runs.evaluation import Summary, evaluate
from turnwise.runs.flips import ArmVerdicts, Compared, Flip, arm_verdicts, compare_arms
from turnwise.runs.forecast import CostForecast, Forecast, asked_of_run, forecast_evaluation, forecast_scan
from turnwise.runs.inbox import Inbox, InboxItem, inbox, sentence
from turnwise.runs.inputs import ReadOptions
from turnwise.runs.judgements import export_people, judged_ids, record_judgements, record_people
from turnwise.runs.plan import Plan, Task, TaskWork, count_missing, make_task, tasks_of
from turnwise.runs.scanning import LIVE, ScanPlan, ScanResult, SecondLooks, plan_scan, second_looks
from turnwise.runs.verdicts import DEFAULT_DETECTORS, Detection, Flagged, detect, flagged, judges_of
from turnwise.runs.why import Explanation, Near, explain_flag

__all__ = [
    "DEFAULT_DETECTORS",
    "ENGINES",
    "LIVE",
    "ArmVerdicts",
    "Compared",
    "CostForecast",
    "Detection",
    "Engine",
    "Explanation",
    "Flagged",
    "Flip",
    "Forecast",
    "Inbox",
    "InboxItem",
    "InlineEngine",
    "Near",
    "Plan",
    "ProcessEngine",
    "Progress",
    "ReadOptions",
    "ScanPlan",
    "ScanResult",
    "SecondLooks",
    "Summary",
    "Task",
    "TaskWork",
    "ThreadEngine",
    "arm_verdicts",
    "asked_of_run",
    "compare_arms",
    "count_missing",
    "detect",
    "evaluate",
    "explain_flag",
    "export_people",
    "flagged",
    "forecast_evaluation",
    "forecast_scan",
    "inbox",
    "judged_ids",
    "judges_of",
    "make_engine",
    "make_task",
    "plan_scan",
    "record_judgements",
    "record_people",
    "second_looks",
    "sentence",
    "tasks_of",
]
