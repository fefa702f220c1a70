"""The configuration of a pipeline, from YAML, a mapping or a preset, checked before anything runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from turnwise._support.locations import to_path
from turnwise.errors import GuardError, TurnwiseError, UnknownNameError, UsageError
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.finding import On, OnError
from turnwise.guard.guardrail import GUARDRAILS, Guardrail, guardrail_of
from turnwise.guard.rate_limits import RateLimits
from turnwise.guard.state.settings import StateSettings
from turnwise.guard.step import RESERVED, Step
from turnwise.guard.written_values import NO_LINES, Lines, Place, check_keys, checked, read_yaml, settings_of
from turnwise.plugins import hints_of

PLAIN = (
    "name",
    "description",
    "short_circuit",
    "max_characters",
    "max_seconds",
    "on_timeout",
    "session_by",
    "on_unread",
    "on_forged",
)
"""Keys of a configuration that hold one value each."""

_MOST_SECONDS = 3_600

_KEYS = (*PLAIN, "rate_limits", "audit", "state", "guardrails")  # all keys of a configuration

_ARGUMENTS = {"audit": "audit=", "state": "state_store="}
"""Arguments of a pipeline that stand for a key of the configuration."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What may be set of every guardrail, beside its own settings; see `Step.of`."""

    name: str | None = None
    enabled: bool = True
    on: On | tuple[On, ...] | None = None
    action: Literal["block", "redact", "warn", "log"] | None = None
    on_error: Literal["block", "warn", "allow"] | None = None
    timeout: float | Literal["default"] | None = "default"
    stream_every: int | None = None


@dataclass(frozen=True, slots=True)
class GuardrailEntry:
    """A guardrail of a configuration, not built yet; `kind` is its registered name or the guardrail itself."""

    kind: str | Guardrail
    place: Place
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How results name it."""
        kind = self.kind
        known = kind if isinstance(kind, str) else getattr(kind, "name", type(kind).__name__.lower())
        return str(self.settings.get("name") or known)


@dataclass(frozen=True, slots=True)
class Config:
    """A pipeline's configuration.

    Args:
        name: how the audit names the pipeline.
        description: what it is for, in a sentence; of a preset what lists say.
        short_circuit: which guardrails are skipped once one has blocked: ``costly`` for those that cost more than
            it, true for all after it, false for none.
        max_characters: longest text that is checked, in Unicode code points, at least 1; a longer one is blocked
            and no guardrail runs.
        max_seconds: how long the check of a text may take, above 0 and at most 3,600; None for no limit. When the
            time is up, what still reads the text ends, and the result has a failure ``timed_out``.
        on_timeout: what becomes of a text whose time was up.
        session_by: what a session is where a check names none: one ``conversation``, or everything that one
            ``initiator`` says. Conversations whose initiator has no name are sessions of their own.
        on_unread: what becomes of a message with content that can't be read, such as an image.
        on_forged: what becomes of a text whose list has messages of the model that the guard never saw as its
            output; ``allow`` only tells of them. It needs a state store.
        rate_limits: limits by key and over all keys; a conversation has its own beside them.
        lines: where everything stands, for errors.
        folder: what relative paths start from: where the YAML file lies; None for where the program runs.
    """

    name: str = "pipeline"
    description: str = ""
    short_circuit: bool | Literal["costly"] = "costly"
    max_characters: int = 1_000_000
    max_seconds: float | None = None
    on_timeout: OnError = OnError.BLOCK
    session_by: Literal["conversation", "initiator"] = "conversation"
    on_unread: OnError = OnError.WARN
    on_forged: OnError = OnError.ALLOW
    rate_limits: RateLimits = field(default_factory=RateLimits)
    audit: AuditSettings | None = None
    state: StateSettings | None = None
    entries: tuple[GuardrailEntry, ...] = ()
    lines: Lines = field(default=NO_LINES, repr=False, compare=False)
    folder: Path | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, config: Config | Mapping[str, Any] | str | PathLike[str]) -> Config:
        """Read a mapping or a YAML file by its path; errors name file, line and key. A `Config` stays as it is."""
        if isinstance(config, Config):
            return config
        if isinstance(config, Mapping):
            return cls.of(config, NO_LINES)
        if not isinstance(config, str | PathLike):
            raise GuardError(
                f"a configuration is a mapping with guardrails or the path of a YAML file, not "
                f"{type(config).__name__}; for guardrails alone use {{'guardrails': [...]}}"
            )
        path = fspath(config)
        try:
            text = to_path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            known = "; for a preset use GuardrailPipeline.from_preset" if not Path(path).suffix else ""
            raise GuardError(f"{path}: the configuration can't be read: {error}{known}") from error
        return replace(cls.of(*read_yaml(text, str(path))), folder=to_path(path).absolute().parent)

    @classmethod
    def preset(cls, name: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Config:
        """The configuration of a preset, with some of its settings changed; see `overridden`."""
        config = cls.of(*read_yaml(preset_text(name), f"preset {name}"))
        return config if overrides is None else config.overridden(overrides)

    def overridden(self, overrides: Mapping[str, Mapping[str, Any]]) -> Config:
        """The configuration with settings by guardrail, in place of those that it has or beside them."""
        if not isinstance(overrides, Mapping):
            raise GuardError(f"overrides is {type(overrides).__name__}; give settings by name of a guardrail")
        names = [entry.name for entry in self.entries]
        for name, settings in overrides.items():
            if name not in names:
                raise _no_guardrail(str(name), names)
            if not isinstance(settings, Mapping):
                raise GuardError(
                    f"overrides of {name} is {type(settings).__name__}; give settings and their values"
                )
        entries = (
            replace(entry, settings={**entry.settings, **overrides.get(entry.name, {})}) for entry in self.entries
        )
        return replace(self, entries=tuple(entries))

    @classmethod
    def of(cls, data: object, lines: Lines) -> Config:
        """Read a mapping, checked as far as can be without building guardrails."""
        if not isinstance(data, Mapping):
            raise lines.error((), f"a configuration is a mapping with guardrails, not {type(data).__name__}")
        check_keys(data, _KEYS, (), lines)
        hints = typing.get_type_hints(cls)
        plain = {key: checked(data[key], hints[key], (key,), lines) for key in PLAIN if key in data}
        most = data.get("max_characters", 1)
        if isinstance(most, bool) or plain.get("max_characters", 1) < 1:
            raise lines.error(("max_characters",), f"use a whole number of at least 1, not {most!r}")
        seconds = plain.get("max_seconds")
        if isinstance(data.get("max_seconds"), bool) or not (seconds is None or 0 < seconds <= _MOST_SECONDS):
            raise lines.error(("max_seconds",), f"use seconds above 0, at most {_MOST_SECONDS}, not {seconds!r}")
        items = data.get("guardrails")
        if not isinstance(items, list | tuple) or not items:
            raise lines.error(("guardrails",), "give a list of at least one guardrail")
        audit, state = data.get("audit"), data.get("state")
        return cls(
            rate_limits=settings_of(RateLimits, data.get("rate_limits") or {}, ("rate_limits",), lines),
            audit=None if audit is None else settings_of(AuditSettings, audit, ("audit",), lines),
            state=None if state is None else settings_of(StateSettings, state, ("state",), lines),
            entries=tuple(read_entry(item, ("guardrails", at), lines) for at, item in enumerate(items)),
            lines=lines,
            **plain,
        )

    def build(self) -> tuple[Step, ...]:
        """Build the guardrails in the order of the configuration; a failure is an error, none is left out."""
        steps: list[Step] = []
        for entry in self.entries:
            step = build_step(entry, self.lines, self.folder)
            if step.name in RESERVED:
                raise self.lines.error(entry.place, f"no guardrail can be called {step.name!r}; rename it")
            if any(step.name == other.name for other in steps):
                raise self.lines.error(
                    entry.place, f"two guardrails are called {step.name!r}; give one of them another name"
                )
            steps.append(step)
        return tuple(steps)


def read_entry(item: object, place: Place, lines: Lines) -> GuardrailEntry:
    """Read ``name``, ``{name: {setting: value}}`` or ``{use: name, setting: value}``; a name may be the thing."""
    if inspect.isfunction(item):
        item = guardrail_of(item)()
    if isinstance(item, str | Guardrail):
        return GuardrailEntry(item, place, {})
    if isinstance(item, Mapping) and "use" in item:
        kind = guardrail_of(item["use"])() if inspect.isfunction(item["use"]) else item["use"]
        if isinstance(kind, str | Guardrail):
            return GuardrailEntry(kind, place, {key: value for key, value in item.items() if key != "use"})
    elif isinstance(item, Mapping) and len(item) == 1:
        ((kind, settings),) = item.items()
        if isinstance(kind, str) and (settings is None or isinstance(settings, Mapping)):
            return GuardrailEntry(kind, (*place, kind), dict(settings or {}))
    raise lines.error(place, "a guardrail is its name, or its name with settings: `- pii: {action: warn}`")


def build_step(entry: GuardrailEntry, lines: Lines, folder: Path | None) -> Step:
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
        with lines.errors_at(entry.place):
            factory = GUARDRAILS.get(entry.kind)
        for setting, endings in getattr(factory, "files", {}).items():
            value = own.get(setting)
            if folder is not None and isinstance(value, str) and (not endings or value.endswith(endings)):
                own[setting] = str(folder / value)  # an absolute one stays as it is
        rail = build_from(factory, entry.kind, own, entry.place, lines)
    with lines.errors_at(entry.place):
        return Step.of(rail, name, **{key: getattr(step, key) for key in common if key != "name"})


def build_guardrail(name: str, /, **settings: object) -> Guardrail:
    """Build a guardrail by its name, to try it on texts with `finding_of`.

    Args:
        name: name of the guardrail; `guardrail_names` lists them.
        settings: its own settings, as a configuration has them.

    Raises:
        UnknownNameError: no guardrail has that name.
        GuardError: a setting is unknown or missing, or its value does not fit.

    >>> build_guardrail("length", max_characters=2_000).max_characters
    2000
    """
    return build_from(GUARDRAILS.get(name), name, settings)


def build_from(
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


def _no_guardrail(name: str, names: list[str]) -> UnknownNameError:
    """The error for a guardrail that is not there; for a key of the configuration it says where that goes."""
    if name not in _KEYS:
        return UnknownNameError("guardrail", name, names)
    passed = f"pass {_ARGUMENTS[name]}, or " if name in _ARGUMENTS else ""
    hint = (
        f"{name} is a key of the configuration: {passed}set it in a file, which `turnwise list presets` gives, as "
        "overrides are for guardrails alone"
    )
    return UnknownNameError("guardrail", name, names, hint=hint)


_SUFFIX = ".yaml"


@cache
def preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    files = resources.files("turnwise.guard").joinpath("presets").iterdir()
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)))


def preset_text(name: str) -> str:
    """The YAML text of a preset."""
    if name not in preset_names():
        raise UnknownNameError("preset", name, preset_names())
    file = resources.files("turnwise.guard").joinpath("presets", name + _SUFFIX)
    return file.read_text(encoding="utf-8")


def with_observer(config: Config, observer: str) -> Config:
    """The configuration with another observer, for each guardrail that has one; a `UsageError` where none has."""
    from turnwise.observers.second_look import screen_and_judge

    screen, judge = screen_and_judge(observer)
    given = {"observer": screen, **({"second_look": judge} if judge else {})}
    entries: list[GuardrailEntry] = []
    found = False
    for entry in config.entries:
        known = inspect.signature(GUARDRAILS.get(entry.kind)).parameters if isinstance(entry.kind, str) else {}
        settings = {name: value for name, value in given.items() if name in known}
        found = found or bool(settings)
        entries.append(replace(entry, settings={**entry.settings, **settings}))
    if not found:
        raise UsageError("--observer: no guardrail of this configuration has an observer; add drift")
    return replace(config, entries=tuple(entries))


def preset_summary(name: str) -> str:
    """What a preset is for, in a line."""
    import yaml

    data: dict[str, Any] = yaml.safe_load(preset_text(name))
    return " ".join(str(data["description"]).split())
