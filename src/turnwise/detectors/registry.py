"""The detectors by name, and how one is built from its specification."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from turnwise.detectors.protocol import Detector
from turnwise.detectors.specs import read_parameters
from turnwise.errors import DetectorError, TurnwiseError, UnknownNameError
from turnwise.plugins import Registry, check_made, is_factory, parameters_of

DetectorFactory = Callable[..., Detector]
"""Builds a detector from its parameters, given by name: its class, or a function."""

_NEEDED = ("name", "threshold", "with_threshold", "start", "update")

_SHIPPED = {
    "baselines": {
        "always": "Always",
        "any_turn": "AnyTurn",
        "count_flags": "CountFlags",
        "first_turn": "FirstTurn",
        "last_turn": "LastTurn",
        "length_only": "LengthOnly",
        "never": "Never",
    },
    "change_points": {
        "cusum": "Cusum",
        "hmm": "Hmm",
        "page_hinkley": "PageHinkley",
        "shiryaev_roberts": "ShiryaevRoberts",
        "sprt": "Sprt",
    },
    "combinations": {"all_of": "AllOf", "any_of": "AnyOf", "k_of": "KOf", "weighted": "Weighted"},
    "learned": {"learned": "Learned"},
    "pattern": {"pattern": "Pattern"},
    "rules": {"boundary_testing": "BoundaryTesting", "peak_accumulation": "PeakAccumulation"},
    "trends": {"f_ema": "FEma", "slope": "Slope", "trust_ema": "TrustEma"},
}
"""The detectors that ship: by module, class by name."""

DETECTORS: Registry[DetectorFactory] = Registry("detector", "turnwise.detectors", is_factory)
for _module, _classes in _SHIPPED.items():
    for _name, _class in _classes.items():
        DETECTORS.add_lazy(_name, f"turnwise.detectors.{_module}:{_class}")


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
    if not isinstance(value, list | tuple):
        return value
    return tuple(build_detector(item) if isinstance(item, str | Mapping) else item for item in value)
