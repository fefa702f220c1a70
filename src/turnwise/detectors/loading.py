"""The detector that something names, with its threshold: given, or the observer's operating point, or its own.

Only this module of the package reads files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from turnwise._support.bounded import read_yaml
from turnwise._support.locations import to_path
from turnwise.detectors.protocol import Detector, ThresholdSource
from turnwise.detectors.registry import build_detector, read_spec
from turnwise.detectors.specs import format_spec
from turnwise.errors import DetectorError, TurnwiseError
from turnwise.patterns import Library, default_library, load_patterns, parse_expression, self_contained

DetectorSpec = str | Path | Mapping[str, Any] | Detector
"""What names a detector: ``"cusum:drift=0.05"``, a YAML file as ``turnwise study tune`` writes it, the mapping
that such a file holds, or a detector itself."""

PatternSource = Library | str | Path
"""Named patterns of one's own: a collection, or the YAML file that defines them."""

PATTERN = "pattern"
"""The detector whose expression may use named patterns."""


@dataclass(frozen=True, slots=True)
class NamedDetector:
    """A detector with the name that it was given.

    Args:
        spec: how it was named: the specification or path as it was given, else the specification that builds it.
        detector: the detector, with its threshold.
        source: where the threshold comes from.
        plain: the same without any operating point; what a saved state belongs to.
    """

    spec: str
    detector: Detector
    source: ThresholdSource
    plain: Detector


def load_detector(
    spec: DetectorSpec, points: Mapping[str, float] | None = None, patterns: PatternSource | None = None
) -> Detector:
    """Return the detector that something names; see `name_detector`."""
    return name_detector(spec, points, patterns).detector


def name_detector(
    spec: DetectorSpec, points: Mapping[str, float] | None = None, patterns: PatternSource | None = None
) -> NamedDetector:
    """Return the detector that something names, with the threshold that is given or else calibrated.

    A detector whose threshold is not given takes the observer's operating point where there is one for a detector
    that is the same but for its threshold. The members of a combination do likewise, each by itself.

    Args:
        spec: what names it.
        points: calibrated threshold by specification, as an observer publishes them for a context.
        patterns: your own named patterns, or the YAML file that defines them, for ``pattern:`` here and in members
            of combinations. The detector holds what they stand for and needs the file no more.

    Raises:
        PatternError: the file of patterns can't be read, or an expression in it.
        UnknownNameError: no such detector or parameter.
        DetectorError: a specification, file or value that does not fit; of a file the message names it.

    >>> named = name_detector("cusum:drift=0.25", {"cusum": 0.5})
    >>> named.detector, str(named.source)
    (Cusum(drift=0.25, limit=0.5), 'operating point')
    """
    library = load_patterns(patterns) if isinstance(patterns, str | Path) else patterns
    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith((".yaml", ".yml"))):
        return _of_file(str(spec), points or {}, library)
    if isinstance(spec, str | Mapping):
        text = spec if isinstance(spec, str) else None
        return _named(text, *read_spec(spec), points or {}, library)
    return NamedDetector(format_spec(spec), spec, ThresholdSource.GIVEN, spec)


def _of_file(path: str, points: Mapping[str, float], library: Library | None) -> NamedDetector:
    try:
        content = read_yaml(to_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DetectorError(f"{path}: the detector can't be read: {error}") from error
    try:
        return _named(path, *read_spec(content), points, library)
    except TurnwiseError as error:
        raise DetectorError(f"{path}: {error}") from error


def _named(
    spec: str | None,
    name: str,
    values: Mapping[str, Any],
    points: Mapping[str, float],
    library: Library | None,
) -> NamedDetector:
    text = values.get("expression")
    if library is not None and name == PATTERN and isinstance(text, str):
        held = self_contained(parse_expression(text, patterns=library), default_library())
        values = {**values, "expression": str(held)}
    members = {
        key: [name_detector(item, points, library) if isinstance(item, str | Mapping) else item for item in value]
        for key, value in values.items()
        if isinstance(value, list | tuple)
    }

    def build(part: Callable[[NamedDetector], Detector]) -> Detector:
        built = {
            key: [part(item) if isinstance(item, NamedDetector) else item for item in items]
            for key, items in members.items()
        }
        return build_detector({"detector": name, **values, **built})

    plain = detector = build(attrgetter("plain"))
    named = [item for items in members.values() for item in items if isinstance(item, NamedDetector)]
    if any(item.detector is not item.plain for item in named):
        detector = build(attrgetter("detector"))
    source = ThresholdSource.DEFAULT
    if _threshold_parameter(detector) in values:
        source = ThresholdSource.GIVEN
    else:
        point = next((value for other, value in points.items() if same_but_threshold(detector, other)), None)
        if point is not None:
            detector, source = detector.with_threshold(point), ThresholdSource.OPERATING_POINT
    return NamedDetector(spec or format_spec(detector), detector, source, plain)


def _threshold_parameter(detector: Detector) -> str | None:
    """The name of the parameter that another threshold changes."""
    if not is_dataclass(detector):
        return None
    moved: Any = detector.with_threshold(float("inf"))
    other: Any = detector.with_threshold(0.0)
    changed = (one.name for one in fields(detector) if getattr(moved, one.name) != getattr(other, one.name))
    return next(changed, None)


def same_but_threshold(detector: Detector, spec: str) -> bool:
    """Return whether a specification names the same detector, whatever the threshold of either is.

    Args:
        detector: the detector.
        spec: the specification; one that names no detector is another.
    """
    if spec.partition(":")[0].strip() != detector.name:
        return False
    try:
        other = build_detector(spec)
    except TurnwiseError:
        return False
    return type(other) is type(detector) and other.with_threshold(0.5) == detector.with_threshold(0.5)
