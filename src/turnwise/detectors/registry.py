"""Detectors by name, and the one-line specification that builds them: ``cusum:drift=0.05,limit=0.2``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from turnwise.detectors.protocol import Detector
from turnwise.detectors.specs import read_parameters, write_value
from turnwise.errors import DetectorError, TurnwiseError, UnknownNameError
from turnwise.plugins import Registry, check_made, is_factory, parameters_of

DetectorFactory = Callable[..., Detector]
"""Builds a detector from its parameters, given by name: its class, or a function."""

_NEEDED = ("name", "threshold", "with_threshold", "start", "update")

DETECTORS: Registry[DetectorFactory] = Registry("detector", "turnwise.detectors", is_factory)
DETECTORS.add_lazy("all_of", "turnwise.detectors.all_of:AllOf")
DETECTORS.add_lazy("always", "turnwise.detectors.always:Always")
DETECTORS.add_lazy("any_of", "turnwise.detectors.any_of:AnyOf")
DETECTORS.add_lazy("any_turn", "turnwise.detectors.any_turn:AnyTurn")
DETECTORS.add_lazy("boundary_testing", "turnwise.detectors.boundary_testing:BoundaryTesting")
DETECTORS.add_lazy("count_flags", "turnwise.detectors.count_flags:CountFlags")
DETECTORS.add_lazy("cusum", "turnwise.detectors.cusum:Cusum")
DETECTORS.add_lazy("f_ema", "turnwise.detectors.f_ema:FEma")
DETECTORS.add_lazy("first_turn", "turnwise.detectors.first_turn:FirstTurn")
DETECTORS.add_lazy("hmm", "turnwise.detectors.hmm:Hmm")
DETECTORS.add_lazy("k_of", "turnwise.detectors.k_of:KOf")
DETECTORS.add_lazy("last_turn", "turnwise.detectors.last_turn:LastTurn")
DETECTORS.add_lazy("learned", "turnwise.detectors.learned:Learned")
DETECTORS.add_lazy("length_only", "turnwise.detectors.length_only:LengthOnly")
DETECTORS.add_lazy("never", "turnwise.detectors.never:Never")
DETECTORS.add_lazy("page_hinkley", "turnwise.detectors.page_hinkley:PageHinkley")
DETECTORS.add_lazy("pattern", "turnwise.detectors.pattern:Pattern")
DETECTORS.add_lazy("peak_accumulation", "turnwise.detectors.peak_accumulation:PeakAccumulation")
DETECTORS.add_lazy("shiryaev_roberts", "turnwise.detectors.shiryaev_roberts:ShiryaevRoberts")
DETECTORS.add_lazy("slope", "turnwise.detectors.slope:Slope")
DETECTORS.add_lazy("sprt", "turnwise.detectors.sprt:Sprt")
DETECTORS.add_lazy("trust_ema", "turnwise.detectors.trust_ema:TrustEma")
DETECTORS.add_lazy("weighted", "turnwise.detectors.weighted:Weighted")


@dataclasses.dataclass(frozen=True, slots=True)
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
    """Return what is to be known of every detector, sorted by name.

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
    """Return the name of a detector and the parameters that are given with it, as they are written.

    Args:
        spec: a specification or mapping, as for `build_detector`.

    Raises:
        UnknownNameError: no detector has that name.
        DetectorError: the specification can't be read.

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
    """Return a value with the members of a combination built; they stand in lists, as texts or mappings."""
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
    """Return the parameters that are not at their default, by name."""
    if not dataclasses.is_dataclass(detector):
        return {}
    # In the order in which the constructor takes them: those that are given by name alone come last.
    fields = sorted(dataclasses.fields(detector), key=lambda field: field.kw_only)
    return {
        field.name: value
        for field in fields
        if field.init and (value := getattr(detector, field.name)) != field.default
    }


def _written(value: Any, write: Callable[[Detector], Any]) -> Any:
    """Return a value with the detectors in it written; tuples become lists."""
    if isinstance(value, tuple):
        return [write(item) if hasattr(item, "with_threshold") else item for item in value]
    return dict(value) if isinstance(value, Mapping) else value
