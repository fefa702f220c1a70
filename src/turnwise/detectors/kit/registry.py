"""From whatever names a detector to the detector: its name, a specification, a mapping, a YAML file, a detector.

A specification is a line, such as ``cusum:drift=0.05,limit=0.2``. Only this module of the package reads files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from turnwise._support.bounded import read_yaml
from turnwise._support.locations import to_path
from turnwise.detectors.kit.protocol import Detector, ThresholdSource
from turnwise.detectors.kit.specs import read_parameters, write_value
from turnwise.errors import DetectorError, TurnwiseError, UnknownNameError
from turnwise.patterns import Library, default_library, load_patterns, parse_expression, self_contained
from turnwise.plugins import Registry, check_made, is_factory, parameters_of

DetectorFactory = Callable[..., Detector]
"""Builds a detector from its parameters, given by name: its class, or a function."""

_NEEDED = ("name", "threshold", "with_threshold", "start", "update")

_SHIPPED = {
    "all_of": "AllOf",
    "always": "Always",
    "any_of": "AnyOf",
    "any_turn": "AnyTurn",
    "boundary_testing": "BoundaryTesting",
    "count_flags": "CountFlags",
    "cusum": "Cusum",
    "f_ema": "FEma",
    "first_turn": "FirstTurn",
    "hmm": "Hmm",
    "k_of": "KOf",
    "last_turn": "LastTurn",
    "learned": "Learned",
    "length_only": "LengthOnly",
    "never": "Never",
    "page_hinkley": "PageHinkley",
    "pattern": "Pattern",
    "peak_accumulation": "PeakAccumulation",
    "shiryaev_roberts": "ShiryaevRoberts",
    "slope": "Slope",
    "sprt": "Sprt",
    "trust_ema": "TrustEma",
    "weighted": "Weighted",
}
"""Class by name, of the detectors that ship; each is the module of its name."""

DETECTORS: Registry[DetectorFactory] = Registry("detector", "turnwise.detectors", is_factory)
for _name, _class in _SHIPPED.items():
    DETECTORS.add_lazy(_name, f"turnwise.detectors.{_name}:{_class}")


Registered = TypeVar("Registered", bound=DetectorFactory)


def detector(name: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a detector's class, or a function that builds one, under a name.

    Args:
        name: what specifications call it.

    Raises:
        PluginError: the name is taken.
    """
    return DETECTORS.register(name)


@dataclass(frozen=True, slots=True)
class DetectorInfo:
    """What a person should know of a detector before using it.

    Args:
        name: name under which it is registered.
        summary: what it is for, in a line.
        parameters: default by parameter; ``"required"`` where there is none.
    """

    name: str
    summary: str
    parameters: Mapping[str, Any]


def detector_names() -> tuple[str, ...]:
    """Return the name of every detector that can be built, sorted.

    >>> {"any_turn", "cusum", "slope", "trust_ema"} <= set(detector_names())
    True
    """
    return DETECTORS.names()


def describe_detectors() -> tuple[DetectorInfo, ...]:
    """Return the description of every detector, sorted by name.

    Raises:
        PluginError: a plug-in that has a detector failed to import.

    >>> [info.parameters for info in describe_detectors() if info.name == "cusum"]
    [{'drift': 0.25, 'limit': 0.5}]
    """
    rows = []
    for name in DETECTORS.names():
        factory = DETECTORS.get(name)
        summary = (inspect.getdoc(factory) or "").partition("\n")[0]
        rows.append(DetectorInfo(name, summary, parameters_of(factory)))
    return tuple(rows)


def build_detector(spec: str | Mapping[str, Any]) -> Detector:
    """Build a detector from its specification.

    Args:
        spec: ``name``, or ``name:parameter=value,...``; a value is a number, ``none``, a text in quotes, or a list
            ``[...]`` of numbers or specifications apart by semicolons. What follows ``pattern:`` may be an
            expression as it stands. Or a mapping, as a YAML file gives it: ``detector`` with the name, and the
            parameters.

    Raises:
        UnknownNameError: no detector has that name, or it has no parameter of that name.
        DetectorError: the specification can't be read, or a value does not fit.

    >>> build_detector("cusum:drift=0.05,limit=0.2")
    Cusum(drift=0.05, limit=0.2)
    >>> build_detector({"detector": "cusum", "limit": 0.2})
    Cusum(drift=0.25, limit=0.2)
    >>> len(build_detector("any_of:members=[cusum:drift=0.1,limit=0.2; trust_ema]").members)
    2
    """
    name, values = read_spec(spec)
    factory = DETECTORS.get(name)
    known = parameters_of(factory)
    for parameter in values:
        if parameter not in known:
            raise UnknownNameError(f"parameter of {name}", parameter, known)
    values = {parameter: _built(value) for parameter, value in values.items()}
    try:
        inspect.signature(factory).bind(**values)
    except TypeError as error:
        raise DetectorError(f"detector {spec!r}: {error}") from error
    try:
        detector = factory(**values)
    except TurnwiseError:
        raise
    except Exception as error:  # a detector may be foreign code
        raise DetectorError(f"detector {spec!r} can't be built: {error}") from error
    check_made("detector", name, detector, *_NEEDED)
    return detector


def read_spec(spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a detector and the parameters that are given with it, as they are written.

    >>> read_spec("any_of:members=[cusum:drift=0.1; trust_ema]")
    ('any_of', {'members': ['cusum:drift=0.1', 'trust_ema']})
    """
    if not isinstance(spec, str):
        return _read_mapping(spec)
    name, colon, text = spec.partition(":")
    name = name.strip()
    factory = DETECTORS.get(name)
    known = parameters_of(factory)
    whole = getattr(factory, "whole_argument", None)
    return name, read_parameters(spec, name, text, known, whole) if colon else {}


def _read_mapping(spec: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(spec, Mapping) or not isinstance(spec.get("detector"), str):
        raise DetectorError(
            "a detector is given by its specification, or by a mapping with its name under 'detector', "
            f"not {spec!r}"
        )
    return spec["detector"], {str(name): value for name, value in spec.items() if name != "detector"}


def _built(value: Any) -> Any:
    """Build the members of a combination; they stand in lists, as texts or mappings."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(build_detector(item) if isinstance(item, str | Mapping) else item for item in value)


def format_spec(detector: Detector) -> str:
    """Return the specification that builds an equal detector: the parameters that are not at their default.

    Args:
        detector: a dataclass with its parameters as fields, as the detectors of turnwise are; of any other
            only the name is known.

    >>> format_spec(build_detector("slope:limit=0.10, window=5"))
    'slope:window=5'
    """
    given = _given(detector)
    whole = getattr(detector, "whole_argument", None)
    if whole is not None and list(given) == [whole]:
        return f"{detector.name}:{given[whole]}"
    written = [f"{name}={write_value(_written(value, format_spec))}" for name, value in given.items()]
    return f"{detector.name}:{','.join(written)}" if written else detector.name


def to_mapping(detector: Detector) -> dict[str, Any]:
    """Return the mapping that builds an equal detector, plain values as a YAML file holds them.

    Args:
        detector: as for `format_spec`.

    >>> to_mapping(build_detector("cusum:limit=0.2"))
    {'detector': 'cusum', 'limit': 0.2}
    """
    given = {name: _written(value, to_mapping) for name, value in _given(detector).items()}
    return {"detector": detector.name, **given}


def _given(detector: Detector) -> dict[str, Any]:
    """The parameters that are not at their default, by name."""
    if not is_dataclass(detector):
        return {}
    # In the order in which the constructor takes them: those that are given by name alone come last.
    ordered = sorted(fields(detector), key=lambda field: field.kw_only)
    return {
        field.name: value
        for field in ordered
        if field.init and (value := getattr(detector, field.name)) != field.default
    }


def _written(value: Any, write: Callable[[Detector], Any]) -> Any:
    """A value with the detectors in it written; tuples become lists."""
    if isinstance(value, tuple):
        return [write(item) if hasattr(item, "with_threshold") else item for item in value]
    return dict(value) if isinstance(value, Mapping) else value


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
    plain = detector = build_detector({"detector": name, **values, **_built_members(members, plain=True)})
    named = [item for items in members.values() for item in items if isinstance(item, NamedDetector)]
    if any(item.detector is not item.plain for item in named):
        detector = build_detector({"detector": name, **values, **_built_members(members, plain=False)})
    source = ThresholdSource.DEFAULT
    if _threshold_parameter(detector) in values:
        source = ThresholdSource.GIVEN
    else:
        point = next((value for other, value in points.items() if same_but_threshold(detector, other)), None)
        if point is not None:
            detector, source = detector.with_threshold(point), ThresholdSource.OPERATING_POINT
    return NamedDetector(spec or format_spec(detector), detector, source, plain)


def _built_members(members: Mapping[str, list[Any]], *, plain: bool) -> dict[str, list[Any]]:
    def built(item: Any) -> Any:
        if not isinstance(item, NamedDetector):
            return item
        return item.plain if plain else item.detector

    return {key: list(map(built, items)) for key, items in members.items()}


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
