"""Reference pages of settings, made from signatures and docstrings, and of the routes of the service."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from documentation.reference import MADE, table, words
from turnwise.plugins import parameters_of


class Described(NamedTuple):
    """What a docstring says.

    Args:
        about: its paragraphs before the sections, the summary first.
        settings: what each argument is for.
    """

    about: list[str]
    settings: dict[str, str]


def pages() -> dict[str, str]:
    """Return the pages by their path from the repository's root."""
    return {
        "docs/reference/guardrails.md": guardrails_page(),
        "docs/reference/routes.md": routes_page(),
        "docs/reference/settings.md": settings_page(),
    }


def guardrails_page() -> str:
    """Return the page of every guardrail that ships, with its settings."""
    from turnwise.guard.config import StepSettings
    from turnwise.guard.guardrail import GUARDRAILS, describe_guardrails
    from turnwise.guard.step import Step

    lines = [
        "# Settings of guardrails",
        "",
        MADE,
        "",
        "What every guardrail does, and what may be set of it. [Guardrails](../guardrails.md) has examples and",
        "figures. None is `null` in YAML.",
        "",
        "## Every guardrail",
        "",
        *settings_table(parameters_of(StepSettings), described(Step.of)),
    ]
    for one in describe_guardrails():
        told = described(GUARDRAILS.get(one.name))
        lines += [
            f"## {one.name}",
            "",
            *about(told),
            f"Checks by default: {checked(GUARDRAILS.get(one.name))}.",
            "",
        ]
        lines += settings_table(one.settings, told)
        if one.name == "drift":
            reasons = ((f"`{reason}`", meaning) for reason, meaning in words("reasons.toml").items())
            lines += ["### Reasons of drift", "", *table(("reason", "meaning"), reasons)]
    return "\n".join(lines).rstrip() + "\n"


def checked(kind: Any) -> str:
    """Return what a guardrail checks where nothing else is said, as names of ``On``."""
    on = kind.default_on if isinstance(kind.default_on, tuple) else (kind.default_on,)
    return ", ".join(f"`{one}`" for one in on)


def routes_page() -> str:
    """Return the page of what `turnwise serve` answers to, as its OpenAPI document has it."""
    from turnwise import GuardrailPipeline
    from turnwise.serve import ServeSettings, create_app

    with GuardrailPipeline({"guardrails": ["pii"]}) as pipeline:
        paths = create_app(pipeline, ServeSettings()).openapi()["paths"]
    rows = [
        (f"`{method.upper()} {path}`", told.get("description") or told["summary"])
        for path, methods in paths.items()
        for method, told in methods.items()
    ]
    lines = [
        "# Routes of the service",
        "",
        MADE,
        "",
        "What [`turnwise serve`](../serve.md#routes) answers to. `GET /openapi.json` has every field, with",
        "examples; what goes wrong is a [problem](errors.md#problems-of-the-service).",
        "",
        *table(("route", "what it does"), rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def settings_page() -> str:
    """Return the page of what may be set of a pipeline, its state and audit, observers and the session memory."""
    from turnwise.guard.audit import AuditSettings
    from turnwise.guard.config import PLAIN, Config
    from turnwise.guard.state.settings import StateSettings
    from turnwise.observers import OBSERVERS, observer_settings
    from turnwise.observers.llm.settings import LlmSettings
    from turnwise.operations import ReceiverSettings, Rule

    config = described(Config)
    lines = [
        "# Settings",
        "",
        MADE,
        "",
        "Of the guard's [configuration](../guard.md#configuration), of observers and of the session memory;",
        "[guardrails](guardrails.md) have a page of their own, commands [options](../cli.md). None is `null` in",
        "YAML.",
        "",
        "## Pipeline",
        "",
        *settings_table({name: value for name, value in parameters_of(Config).items() if name in PLAIN}, config),
        "## State",
        "",
        *settings_table(parameters_of(StateSettings), described(StateSettings)),
        "## Audit",
        "",
        *settings_table(parameters_of(AuditSettings), described(AuditSettings)),
    ]
    lines += ["## Alerts", ""]
    for name, kind in (("Receivers", ReceiverSettings), ("Rules", Rule)):
        lines += [f"### {name}", "", *settings_table(parameters_of(kind), described(kind))]
    for name in ("llm", "local", "second_look"):  # those that ship for use, with something to set
        told = described(LlmSettings if name == "llm" else OBSERVERS.get(name))
        known = {one.name: one.default for one in observer_settings(name).values()}
        lines += [f"## Observer {name}", "", *settings_table(known, told)]
    return "\n".join([*lines, *session_presets()]).rstrip() + "\n"


def session_presets() -> list[str]:
    """Return the lines on presets of the session memory: what each is for, and what it sets."""
    from turnwise.sessions import presets

    first, *others = presets()
    rows = []
    for name, value, meaning in flat(first.settings):
        differ = {one.name: shown(dict(values(one.settings)).get(name)) for one in others}
        every = set(differ.values())
        told = "; ".join(f"`{one}`: {found}" for one, found in differ.items() if found != shown(value))
        if len(every) == 1 and told:
            told = every.pop()
        rows.append((f"`{name}`", shown(value), told, meaning))
    return [
        "## Session memory",
        "",
        *table(("preset", "what it is for"), ((f"`{one.name}`", one.summary) for one in presets())),
        *table(("setting", f"`{first.name}`", "other presets", "what it is"), rows),
    ]


def flat(settings: Any, prefix: str = "") -> Iterator[tuple[str, object, str]]:
    """Yield name, value and meaning of every setting, those of parts with the part's name before a full stop."""
    told = described(type(settings))
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from flat(value, f"{field.name}.")
        else:
            yield f"{prefix}{field.name}", value, told.settings[field.name]


def values(settings: Any) -> Iterator[tuple[str, object]]:
    """Yield name and value of every setting."""
    yield from ((name, value) for name, value, _ in flat(settings))


def described(part: Callable[..., object]) -> Described:
    """Return what a docstring says, as Markdown.

    >>> described(Described).settings["settings"]
    'what each argument is for.'
    """
    text, _, rest = (inspect.getdoc(part) or "").partition("\nArgs:\n")
    paragraphs = text.strip().split("\n\n")
    arguments = re.split(r"\n(?=\S)", rest)[0]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, flags=re.MULTILINE)
    return Described(list(map(markdown, paragraphs)), {name: markdown(meaning) for name, meaning in found})


def markdown(text: str) -> str:
    """Return a text of a docstring as Markdown, in one line, with links to pages that it names.

    >>> markdown("Is ``a``;\\n    see docs/guard.md.")
    'Is `a`; see [docs/guard.md](../guard.md).'
    """
    text = re.sub(r"(?<!`)``(?!`)(.+?)(?<!`)``(?!`)", r"`\1`", " ".join(text.split()))
    return re.sub(r"docs/([\w-]+\.md)", r"[docs/\1](../\1)", text)


def about(told: Described) -> list[str]:
    """Return the lines of a docstring's paragraphs."""
    return [line for paragraph in told.about for line in (paragraph, "")]


def settings_table(defaults: Mapping[str, Any], told: Described) -> list[str]:
    """Return the lines of a table of settings with default and meaning."""
    rows = []
    for name, default in defaults.items():
        meaning = told.settings[name]
        every = isinstance(default, tuple) and len(default) > 1 and all(f"`{one}`" in meaning for one in default)
        rows.append((f"`{name}`", "all" if every else shown(default), meaning))
    return table(("setting", "default", "what it is"), rows)


def shown(value: object) -> str:
    """Return a value as YAML has it.

    >>> shown(None), shown(True), shown(("a", "b")), shown(1_000_000), shown(timedelta(days=7))
    ('`null`', '`true`', '`[a, b]`', '1,000,000', '7 days')
    """
    if value == "required":
        return "required"
    if isinstance(value, timedelta):
        return f"{value.days} days"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
    return f"`{plain(value)}`"


def plain(value: object) -> str:
    """Return the words of a value in YAML's flow style."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {plain(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    return str(value) or '""'
