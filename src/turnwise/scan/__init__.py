"""Scan: from raw logs of any size to findings, part by part, on one machine or on many."""

from turnwise.scan.engines import InlineEngine
from turnwise.scan.engines.choice import ENGINES, make_engine
from turnwise.scan.engines.process import ProcessEngine
from turnwise.scan.run import Progress, ScanResult, run_scan, scan
from turnwise.scan.setup import Scan, set_up

__all__ = [
    "ENGINES",
    "InlineEngine",
    "ProcessEngine",
    "Progress",
    "Scan",
    "ScanResult",
    "make_engine",
    "run_scan",
    "scan",
    "set_up",
]
