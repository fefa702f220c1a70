"""Detectors by what a person writes: a specification, or a YAML file with one.

Only this module of the package reads files.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnwise.bounded import read_yaml
from turnwise.detectors.protocol import Detector
from turnwise.detectors.registry import build_detector
from turnwise.errors import DetectorError, TurnwiseError
from turnwise.paths import to_path


def read_detector(spec: str) -> Detector:
    """Build a detector from its specification, or from a YAML file that holds one.

    Args:
        spec: such as ``"cusum:drift=0.05"``, or a path that ends in ``.yaml`` or ``.yml``; the file holds a
            mapping with ``detector`` and its parameters, as ``turnwise tune`` writes it.

    Raises:
        UnknownNameError: no such detector or parameter.
        DetectorError: a specification, file or value that does not fit; of a file the message names it.
    """
    if not spec.endswith((".yaml", ".yml")):
        return build_detector(spec)
    try:
        content = read_yaml(to_path(spec).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DetectorError(f"{spec}: the detector can't be read: {error}") from error
    try:
        return build_detector(content)
    except TurnwiseError as error:
        raise DetectorError(f"{spec}: {error}") from error


def calibrated(spec: str, operating_points: Mapping[str, float]) -> Detector:
    """Build a detector; one that is named without parameters takes the observer's operating point.

    Args:
        spec: specification of the detector, or a YAML file; see `read_detector`.
        operating_points: calibrated threshold by detector.

    Raises:
        UnknownNameError: no such detector or parameter.
        DetectorError: a specification or value that does not fit.
    """
    detector = read_detector(spec)
    return detector.with_threshold(operating_points[spec]) if spec in operating_points else detector
