"""Observers by name: ``local``, ``local-small``, ``llm:provider/model``, ``replay:scores.jsonl``, others."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from turnwise._support.secret import told
from turnwise.errors import ObserverError, PluginError, TurnwiseError, UnknownNameError, UsageError
from turnwise.observers.protocol import ContextMode, CostEstimator, Observer, ObserverInfo
from turnwise.plugins import Registry, check_made, hints_of

DEFAULT_OBSERVER = "local"
"""What scores where nothing else is named."""

Made = TypeVar("Made")

_PLAIN = (str, int, float, bool, Path, tuple, list, dict, types.NoneType)


class ObserverFactory(Protocol):
    """Builds an observer, and describes it without building it. An observer class is one.

    Its settings are what it takes beside `argument`, where they are of a plain type: number, text, truth value,
    path, or a list or mapping of such. A dataclass stands for its fields.

    More methods are optional. ``live`` builds the observer for texts that somebody waits for, and
    ``cost_estimator`` gives a `CostEstimator`; both take what the factory takes. ``card_data`` takes the argument
    and gives what ``render_card`` makes a model card of. ``inner_settings`` takes the argument and gives the
    settings of an observer within, which the factory takes as one mapping.
    """

    def __call__(self, argument: str | None = None) -> Observer:
        """Build the observer from what follows the colon of its specification, or None."""

    def describe(self) -> ObserverInfo:
        """What is known of the observer before it is built."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """What may be set of an observer.

    Args:
        name: its name.
        hint: type of its value.
        default: its value where it is left out; ``"required"`` where it has none.
        parameter: the parameter of the factory that takes it: its own, or one that takes a dataclass.
    """

    name: str
    hint: Any
    default: Any
    parameter: str


def _is_factory(part: object) -> bool:
    return callable(part) and callable(getattr(part, "describe", None))


OBSERVERS: Registry[ObserverFactory] = Registry("observer", "turnwise.observers", _is_factory)
OBSERVERS.add_lazy("llm", "turnwise.observers.llm:LlmObserver")
OBSERVERS.add_lazy("local", "turnwise.observers.local:LocalObserver")
OBSERVERS.add_lazy("local-small", "turnwise.observers.local:LocalSmallObserver")
OBSERVERS.add_lazy("replay", "turnwise.observers.replay:ReplayObserver")
OBSERVERS.add_lazy("second_look", "turnwise.observers.second_look:SecondLookObserver")
OBSERVERS.add_lazy("scripted", "turnwise.observers.scripted:ScriptedObserver")


Registered = TypeVar("Registered", bound=ObserverFactory)


def observer(name: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers an observer's class under a name.

    Args:
        name: what specifications call it.

    Raises:
        PluginError: the name is taken.
    """
    return OBSERVERS.register(name)


def build_observer(spec: str, **settings: object) -> Observer:
    """Build an observer from its specification, ``name`` or ``name:argument``.

    Args:
        spec: such as ``"local"``, ``"local:model/"`` or ``"replay:scores.jsonl"``.
        settings: its settings by name; see `observer_settings`.

    Raises:
        UnknownNameError: no observer has that name, or it has no such setting.
        ObserverError: the argument does not fit the observer.

    >>> build_observer("scripted:0.1,0.4", version="7").info.version
    '7'
    """
    return _built(spec, settings)


def build_live_observer(spec: str, **settings: object) -> Observer:
    """Build an observer for texts that somebody waits for; arguments and errors as for `build_observer`.

    One that asks a service gives up soon, and asks again at the next text.
    """
    return _built(spec, settings, live=True)


def build_cost_estimator(spec: str, **settings: object) -> CostEstimator:
    """Return an estimator of what an observer's scores would cost; needs no key.

    Args:
        spec: specification of the observer.
        settings: its settings by name; see `observer_settings`.

    Raises:
        UsageError: its scores cost nothing.
        UnknownNameError: no observer has that name, or it has no such setting.
        ObserverError: the argument does not fit the observer.
    """
    make = getattr(_factory(spec)[1], "cost_estimator", None)
    if make is None:
        raise UsageError(f"observer {spec!r} costs nothing: only a paid observer has a cost to estimate")
    made: CostEstimator = _made(spec, make, settings)
    return made


def describe_observer(name: str) -> ObserverInfo:
    """Return what is known of an observer before it is built.

    Args:
        name: its name, or its specification.

    Raises:
        UnknownNameError: no observer has that name.
        PluginError: it can't be described, or describes itself as something else.
    """
    name, factory = _factory(name)
    try:
        info = factory.describe()
    except Exception as error:  # an observer may be foreign code
        raise PluginError(f"observer {name!r} can't be described ({told(error)}): mend its package") from error
    return _checked_info(name, info)


def list_observers() -> tuple[ObserverInfo, ...]:
    """Return what is known of every observer, sorted by name.

    Raises:
        PluginError: an observer of an installed package can't be described.
    """
    return tuple(map(describe_observer, OBSERVERS.names()))


def observer_settings(name: str) -> dict[str, Setting]:
    """Return the settings of an observer by name, as its signature has them.

    Args:
        name: name of the observer, or its specification.

    Raises:
        UnknownNameError: no observer has that name.

    >>> {name: setting.default for name, setting in observer_settings("scripted").items()}
    {'version': '1'}
    """
    kind, factory = _factory(name)
    inner = getattr(factory, "inner_settings", None)  # of an observer that it puts others' settings into
    argument = name[len(kind) + 1 :]
    return {**(inner(argument) if inner is not None and argument else {}), **_settings(factory)}


def read_settings(spec: str, texts: Iterable[str]) -> dict[str, Any]:
    """Read settings from texts such as ``temperature=0.5``; ``none`` stands for None, JSON for what is nested.

    Args:
        spec: specification of the observer.
        texts: the settings; of two with the same name the later one counts.

    Raises:
        UsageError: a text that is no setting, or a value of another type.
        UnknownNameError: the observer has no such setting.

    >>> read_settings("scripted:0.1", ["version=2"])
    {'version': '2'}
    """
    name = spec.partition(":")[0]
    known = observer_settings(spec)
    values = {}
    for text in texts:
        setting, equals, value = (part.strip() for part in text.partition("="))
        if not (setting and equals):
            raise UsageError(f"observer setting {text!r} is not name=value, such as {_example(known)}")
        values[setting] = _read_value(name, _known(name, setting, known), value)
    return values


def _factory(spec: str) -> tuple[str, ObserverFactory]:
    name = spec.partition(":")[0]
    return name, OBSERVERS.get(name)


def _built(spec: str, settings: Mapping[str, object], *, live: bool = False) -> Observer:
    name, factory = _factory(spec)
    observer: Observer = _made(spec, getattr(factory, "live", factory) if live else factory, settings)
    check_made("observer", name, observer, "parameters", "start", "observe")
    try:
        info = observer.info
    except Exception as error:  # an observer may be foreign code
        raise PluginError(f"observer {name!r} has no info ({told(error)}): mend its package") from error
    _checked_info(name, info)
    return observer


def _made(spec: str, make: Callable[..., Made], settings: Mapping[str, object]) -> Made:
    """Call a factory, or a method that takes the same, with the argument of a specification and settings."""
    _, colon, argument = spec.partition(":")
    try:
        return make(argument if colon else None, **_grouped(spec, settings))
    except TurnwiseError:
        raise
    except Exception as error:  # an observer may be foreign code
        raise ObserverError(f"observer {spec!r} can't be built: {told(error)}") from error


def _grouped(spec: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings as a factory takes them: by themselves, or in the dataclass or mapping that holds them."""
    if not settings:
        return {}
    name, make = _factory(spec)
    known, parameters = observer_settings(spec), inspect.signature(make).parameters
    arguments: dict[str, Any] = {}
    within: dict[str, dict[str, object]] = {}
    for key, value in settings.items():
        setting = _known(name, key, known)
        if setting.parameter == key:
            arguments[key] = value
        else:
            within.setdefault(setting.parameter, {})[key] = value
    hints = hints_of(make)
    for parameter, values in within.items():
        default: Any = parameters[parameter].default
        plain = _dataclass_of(hints[parameter]) or dict
        given = isinstance(default, plain)
        arguments[parameter] = dataclasses.replace(default, **values) if given else plain(**values)
    return arguments


def _known(name: str, setting: str, known: Mapping[str, Setting]) -> Setting:
    if setting not in known:
        raise UnknownNameError(f"setting of observer {name}", setting, known)
    return known[setting]


def _settings(make: Callable[..., Any]) -> dict[str, Setting]:
    hints = hints_of(make)
    found: dict[str, Setting] = {}
    for name, parameter in list(inspect.signature(make).parameters.items())[1:]:  # the first is the argument
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        hint = hints.get(name)
        plain = _dataclass_of(hint)
        if plain is not None:
            within = typing.get_type_hints(plain)
            for field in dataclasses.fields(plain):
                if field.init:
                    found[field.name] = Setting(field.name, within[field.name], _default_of(field), name)
        default = "required" if parameter.default is parameter.empty else parameter.default
        if plain is None and _is_plain(hint) and isinstance(default, _PLAIN):  # the environment is no setting
            found[name] = Setting(name, hint, default, name)
    return found


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "required" if field.default is dataclasses.MISSING else field.default


def _dataclass_of(hint: Any) -> Any:
    """The dataclass that an annotation names, alone or beside None; None where it names anything else."""
    for part in typing.get_args(hint) or (hint,):
        if isinstance(part, type) and dataclasses.is_dataclass(part):
            return part
    return None


def _is_plain(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in {types.UnionType, typing.Union}:
        return all(map(_is_plain, typing.get_args(hint)))
    if origin is not None:
        return origin is Literal or (isinstance(origin, type) and issubclass(origin, Collection))
    return hint in _PLAIN


def _read_value(observer: str, setting: Setting, text: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    if text.lower() == "none" and types.NoneType in typing.get_args(setting.hint):
        return None
    try:
        value = json.loads(text) if text[:1] in {"{", "["} else text
        return TypeAdapter(setting.hint).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]["msg"]
        raise UsageError(
            f"setting {setting.name} of observer {observer}: {first[0].lower()}{first[1:]}, not {text!r}"
        ) from error
    except ValueError as error:
        raise UsageError(f"setting {setting.name} of observer {observer}: no JSON: {error}") from error


def _example(known: Mapping[str, Setting]) -> str:
    first = next(iter(known), None)
    return f"{first}=..." if first else "name=value; this observer has no settings"


def _checked_info(name: str, info: object) -> ObserverInfo:
    """Check that what an observer says of itself can be shown and relied on."""
    if not isinstance(info, ObserverInfo):
        raise PluginError(f"observer {name!r} must describe itself by an ObserverInfo, not {type(info).__name__}")
    right = {
        **{field: isinstance(getattr(info, field), str) for field in ("name", "version", "summary", "needs")},
        "contexts": _are(ContextMode, info.contexts),
        "principles": info.principles is None or _are(str, info.principles),
        "base": isinstance(info.base, str | None),
        "training_sources": _are(str, info.training_sources),
        "operating_points": isinstance(info.operating_points, Mapping),
    }
    wrong = [field for field, fits in right.items() if not fits]
    if wrong:
        raise PluginError(f"observer {name!r} must give an ObserverInfo with a right {', '.join(wrong)}")
    return info


def _are(kind: type, values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)
