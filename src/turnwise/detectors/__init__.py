"""Detectors: they read the turns of a trajectory in order and say when it went wrong. Pure: no IO, clock."""

from turnwise.detectors.kit.base import ByPrinciple
from turnwise.detectors.kit.conformance import check_detector
from turnwise.detectors.kit.protocol import Detector, Signal, State, ThresholdSource, Verdict, run_detector
from turnwise.detectors.kit.registry import (
    DETECTORS,
    DetectorFactory,
    DetectorInfo,
    DetectorSpec,
    NamedDetector,
    build_detector,
    describe_detectors,
    detector_names,
    format_spec,
    load_detector,
    name_detector,
    same_but_threshold,
    to_mapping,
)

__all__ = [
    "DETECTORS",
    "ByPrinciple",
    "Detector",
    "DetectorFactory",
    "DetectorInfo",
    "DetectorSpec",
    "NamedDetector",
    "Signal",
    "State",
    "ThresholdSource",
    "Verdict",
    "build_detector",
    "check_detector",
    "describe_detectors",
    "detector_names",
    "format_spec",
    "load_detector",
    "name_detector",
    "run_detector",
    "same_but_threshold",
    "to_mapping",
]
