"""Options of observers that ask a language model, and the observer that they make."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.observers import Observer
    from turnwise.observers.llm import Endpoint, LlmSettings
    from turnwise.store import Run

BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="llm: where to send requests, instead of the provider's own address.")
]
Temperature: TypeAlias = Annotated[
    str | None, typer.Option(help="llm: 0 to 2, or none for models that take none. [default: 0]")
]
MaxTokens: TypeAlias = Annotated[
    int | None, typer.Option(help="llm: tokens that a reply may have. [default: 1024]")
]
Structured: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="llm: how to ask for JSON: json_schema, json_object or none. [default: as the provider does]"
    ),
]
Repeats: TypeAlias = Annotated[
    int | None, typer.Option(help="llm: how often each score is asked for; the score is the mean. [default: 1]")
]
MaxRetries: TypeAlias = Annotated[
    int | None, typer.Option(help="llm: how often a request is sent again after a passing fault. [default: 5]")
]
Timeout: TypeAlias = Annotated[
    float | None, typer.Option(help="llm: seconds that a request may take in all. [default: 120]")
]
Budget: TypeAlias = Annotated[
    float | None, typer.Option(help="llm: most US dollars to spend; the run stops before it would pass them.")
]
NoCache: TypeAlias = Annotated[bool, typer.Option("--no-cache", help="llm: ask anew even where a reply is kept.")]

PREFIX = "llm"


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """What was given of these options; None and False where an option was left out."""

    base_url: str | None = None
    temperature: str | None = None
    max_tokens: int | None = None
    structured: str | None = None
    repeats: int | None = None
    max_retries: int | None = None
    timeout: float | None = None
    budget: float | None = None
    no_cache: bool = False

    def given(self) -> tuple[str, ...]:
        """Return the options that were given, as they are written."""
        names = (field.name for field in fields(self) if getattr(self, field.name) not in {None, False})
        return tuple(f"--{name.replace('_', '-')}" for name in names)


def is_llm(spec: str) -> bool:
    """Return whether a specification names a language model."""
    return spec.partition(":")[0] == PREFIX


def read_settings(spec: str, run: Run | None, options: LlmOptions) -> LlmSettings:
    """Return how a model is to be asked: as the options say, else as the run did, else by default.

    Args:
        spec: specification of the observer.
        run: the run that is continued; None for one that is new.
        options: what was given.

    Raises:
        UsageError: a value that can't be.
    """
    from turnwise.observers.llm import LlmSettings, resolve

    values: dict[str, Any] = {}
    if run is not None and run.observer == spec:
        names = ("base_url", "temperature", "max_tokens", "structured", "extra", "repeats")
        values = {name: run.parameters[name] for name in names if name in run.parameters}
        if values.get("base_url") == resolve(spec.partition(":")[2]).base_url:
            del values["base_url"]  # the provider's own: then the provider's own headers go with it
    for name in ("base_url", "max_tokens", "structured", "repeats", "max_retries", "timeout"):
        if getattr(options, name) is not None:
            values[name] = getattr(options, name)
    if options.temperature is not None:
        values["temperature"] = _temperature(options.temperature)
    return LlmSettings(**values, budget_usd=options.budget, cache=not options.no_cache)


def read_endpoint(spec: str, run: Run | None, options: LlmOptions) -> Endpoint:
    """Return the model that a specification names, without a key; arguments and errors as `read_settings`."""
    from turnwise.observers.llm import resolve

    return resolve(spec.partition(":")[2], read_settings(spec, run, options))


def read_observer(spec: str, run: Run | None, options: LlmOptions) -> str | Observer:
    """Return an observer with its settings, or the specification where that says it all.

    Args:
        spec: specification of the observer.
        run: the run that is continued; None for one that is new.
        options: what was given; for observers of other kinds nothing may be.

    Raises:
        UsageError: an option that the observer does not have, or a value that can't be.
        ObserverError: there is no key, or the observer can't be built for another reason.
    """
    if not is_llm(spec):
        refuse_without_llm([spec], options)
        return spec
    from turnwise.observers.llm import LlmObserver

    return LlmObserver.build(spec.partition(":")[2], read_settings(spec, run, options))


def refuse_without_llm(specs: list[str], options: LlmOptions) -> None:
    """Refuse options that none of these observers has.

    Raises:
        UsageError: there are some.
    """
    if options.given() and not any(map(is_llm, specs)):
        raise UsageError(
            f"{', '.join(options.given())}: only for observers llm:provider/model, not {', '.join(specs)}"
        )


def _temperature(text: str) -> float | None:
    if text.strip().lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--temperature must be a number from 0 to 2, or none, not {text!r}") from None
