"""Detectors: they read the turns of a trajectory in order and say when it went wrong. Pure: no IO, no clock."""

from turnwise.detectors.base import FIRED_AT, ByPrinciple, Limited, count, judge, latch, number, silence
from turnwise.detectors.conformance import check_detector
from turnwise.detectors.loading import (
    DetectorSpec,
    NamedDetector,
    PatternSource,
    load_detector,
    name_detector,
    same_but_threshold,
)
from turnwise.detectors.protocol import Detector, Signal, State, ThresholdSource, Verdict, run_detector
from turnwise.detectors.registry import (
    DETECTORS,
    DetectorFactory,
    DetectorInfo,
    build_detector,
    describe_detectors,
    detector,
    detector_names,
)
from turnwise.detectors.specs import format_spec, to_mapping

__all__ = [
    "DETECTORS",
    "FIRED_AT",
    "ByPrinciple",
    "Detector",
    "DetectorFactory",
    "DetectorInfo",
    "DetectorSpec",
    "Limited",
    "NamedDetector",
    "PatternSource",
    "Signal",
    "State",
    "ThresholdSource",
    "Verdict",
    "build_detector",
    "check_detector",
    "count",
    "describe_detectors",
    "detector",
    "detector_names",
    "format_spec",
    "judge",
    "latch",
    "load_detector",
    "name_detector",
    "number",
    "run_detector",
    "same_but_threshold",
    "silence",
    "to_mapping",
]
