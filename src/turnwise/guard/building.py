"""Builds guardrails from a configuration, and checks each setting against its annotation."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from turnwise.errors import GuardError, TurnwiseError, UnknownNameError
from turnwise.guard.functions import guardrail_of
from turnwise.guard.guardrail import GUARDRAILS, Guardrail
from turnwise.guard.step import Step
from turnwise.guard.yaml_lines import NO_LINES, Lines, Place
from turnwise.plugins import hints_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

OnName = Literal["input", "output", "both", "tool_call", "tool_result", "tools", "all"]
"""The texts that a guardrail may be set to look at; see `turnwise.guard.On`."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What may be set of every guardrail, beside its own settings; see `Step.of`."""

    name: str | None = None
    enabled: bool = True
    on: OnName | tuple[OnName, ...] | None = None
    action: Literal["block", "redact", "warn", "log"] | None = None
    on_error: Literal["block", "warn", "allow"] | None = None
    timeout: float | Literal["default"] | None = "default"
    stream_every: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A guardrail of a configuration, not built yet; `kind` is its registered name or the guardrail itself."""

    kind: str | Guardrail
    place: Place
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How results name it."""
        known = (
            self.kind
            if isinstance(self.kind, str)
            else getattr(self.kind, "name", type(self.kind).__name__.lower())
        )
        return str(self.settings.get("name") or known)


def read_entry(item: object, place: Place, lines: Lines) -> Entry:
    """Read ``name``, ``{name: {setting: value}}``, ``{use: name, setting: value}``, a guardrail or a function.

    The value of ``use`` may be a guardrail or a function as well; a function is one from a check to a finding.
    """
    if inspect.isfunction(item):
        item = guardrail_of(item)()
    if isinstance(item, str | Guardrail):
        return Entry(item, place, {})
    if isinstance(item, Mapping) and "use" in item:
        kind = guardrail_of(item["use"])() if inspect.isfunction(item["use"]) else item["use"]
        if isinstance(kind, str | Guardrail):
            return Entry(kind, place, {key: value for key, value in item.items() if key != "use"})
    elif isinstance(item, Mapping) and len(item) == 1:
        ((kind, settings),) = item.items()
        if isinstance(kind, str) and (settings is None or isinstance(settings, Mapping)):
            return Entry(kind, (*place, kind), dict(settings or {}))
    raise lines.error(place, "a guardrail is its name, or its name with settings: `- pii: {action: warn}`")


def build_step(entry: Entry, lines: Lines, folder: Path | None) -> Step:
    """Build a guardrail; files that its settings name are relative to `folder`, or to where the program runs."""
    common = StepSettings.__dataclass_fields__
    shared = {key: value for key, value in entry.settings.items() if key in common}
    own = {key: value for key, value in entry.settings.items() if key not in common}
    step = settings_of(StepSettings, shared, entry.place, lines)
    name = entry.name
    if isinstance(entry.kind, Guardrail):
        rail = entry.kind
        if own:
            raise lines.error(entry.place, f"{name} is built already; set {next(iter(own))} when you build it")
    else:
        try:
            factory = GUARDRAILS.get(entry.kind)
        except TurnwiseError as error:
            raise lines.error(entry.place, str(error)) from error
        for setting, endings in getattr(factory, "files", {}).items():
            value = own.get(setting)
            if folder is not None and isinstance(value, str) and (not endings or value.endswith(endings)):
                own[setting] = str(folder / value)  # an absolute one stays as it is
        rail = build_guardrail(factory, entry.kind, own, entry.place, lines)
    try:
        return Step.of(
            rail,
            name,
            enabled=step.enabled,
            on=step.on,
            action=step.action,
            on_error=step.on_error,
            timeout=step.timeout,
            stream_every=step.stream_every,
        )
    except GuardError as error:
        raise lines.error(entry.place, str(error)) from error


def build_guardrail(
    factory: Callable[..., Guardrail],
    name: str,
    settings: Mapping[str, Any],
    place: Place = (),
    lines: Lines = NO_LINES,
) -> Guardrail:
    """Build a guardrail from settings as a file has them; every error, also of its class, is a `GuardError`."""
    signature = inspect.signature(factory)
    known = [*StepSettings.__dataclass_fields__, *signature.parameters]
    check_keys(settings, known, place, lines)
    hints = hints_of(factory)
    values = {key: checked(value, hints.get(key, Any), (*place, key), lines) for key, value in settings.items()}
    try:
        signature.bind(**values)
    except TypeError as error:
        raise lines.error(place, f"{name}: {error}") from error
    try:
        return factory(**values)
    except TurnwiseError as error:
        raise lines.error(place, str(error)) from error
    except Exception as error:
        raise lines.error(place, f"{name} can't be built: {type(error).__name__}: {error}") from error


def settings_of(kind: type[Any], data: object, place: Place, lines: Lines) -> Any:
    """A dataclass of settings from a mapping, each value checked against its annotation."""
    if not isinstance(data, Mapping):
        raise lines.error(place, f"give a mapping of settings, not {type(data).__name__}")
    check_keys(data, kind.__dataclass_fields__, place, lines)
    hints = typing.get_type_hints(kind)
    values = {key: checked(value, hints[key], (*place, key), lines) for key, value in data.items()}
    try:
        return kind(**values)
    except GuardError as error:
        raise lines.error(place, str(error)) from error


def check_keys(data: Mapping[Any, Any], known: typing.Iterable[str], place: Place, lines: Lines) -> None:
    """Refuse a mapping with an unknown key."""
    for key in data:
        if key not in known:
            raise lines.error((*place, str(key)), str(UnknownNameError("key", str(key), known)))


def checked(value: object, hint: Any, place: Place, lines: Lines) -> Any:
    """A value as its annotation has it, or a `GuardError` that says what would fit."""
    from pydantic import ValidationError

    try:
        return _adapter(hint).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        inner = tuple(part for part in first["loc"] if isinstance(part, int) or part in _keys_of(value))
        message = first["msg"][0].lower() + first["msg"][1:]
        raise lines.error((*place, *inner), f"{message}, not {first['input']!r}") from error


def _keys_of(value: object) -> typing.Collection[Any]:
    return value if isinstance(value, Mapping) else ()


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)
