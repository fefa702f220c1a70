"""What may be set: how a language model is asked, and the tables of providers and of their prices."""

from __future__ import annotations

import math
import os
import string
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from turnwise.conversation.json_values import json_object
from turnwise.errors import ConversationError, ObserverError, UnknownNameError, UsageError
from turnwise.linear_regex import LinearRegex

STRUCTURED = ("json_schema", "json_object", "none")
"""Ways of asking for JSON: by a schema, as any object, or in words alone."""

MOST_REPEATS = 1_000
"""How often a score may be asked for."""

VERDICT = ("logprobs", "none")
"""Ways of asking a guard model for its verdict: with log-probabilities or without."""

RESERVED = (
    "model",
    "messages",
    "stream",
    "n",
    "temperature",
    "response_format",
    "max_tokens",
    "max_completion_tokens",
)
"""Fields of a request that have a setting of their own, or that the observer relies on."""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """Settings of the observer ``llm``; no key is among them, keys come from the environment.

    Args:
        base_url: where to send requests, instead of the provider's own; without user name, password or query.
        temperature: 0 to 2; None where the model takes none, as some reasoning models do.
        max_tokens: tokens that a reply may have, at least 64.
        structured: how to ask for JSON: ``json_schema``, ``json_object``, or ``none`` for in words; with `format`
            ``logprobs`` or ``none``. None for what the provider honours.
        format: the kind of guard model that is asked, in its own format: ``llama-guard``, ``qwen3guard``,
            ``shieldgemma`` or ``granite-guardian``; None for any other model.
        together: whether one request asks for all principles of a side at once; not with `format`.
        extra: further fields of the request body, JSON values, such as ``{"reasoning_effort": "low"}``.
        repeats: how often each score is asked for, from 1 to 1,000; the score is the mean.
        max_retries: how often a request is sent again after a fault that may pass, at least 0.
        timeout: seconds that a request may take from sending to the end of its reply, above 0.
        budget_usd: most US dollars that this observer may spend; None for no limit. It counts from when the
            observer is built: what an earlier run spent is not in it.
        requests_per_minute: most requests that this observer may send in a minute, above 0; None for no limit.
        cache: whether a reply in the journal is used instead of asking again.
        max_failures_in_row: failed calls in a row after which the run stops; 0 for never.
        providers_file: a TOML file that adds to the table of providers; None for the user's own, if there is one.
        prices_file: the same for the table of prices.

    >>> LlmSettings(repeats=3).repeats
    3
    """

    base_url: str | None = None
    temperature: float | None = 0.0
    max_tokens: int = 1024
    structured: str | None = None
    format: str | None = None
    together: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)
    repeats: int = 1
    max_retries: int = 5
    timeout: float = 120.0
    budget_usd: float | None = None
    requests_per_minute: float | None = None
    cache: bool = True
    max_failures_in_row: int = 20
    providers_file: Path | None = None
    prices_file: Path | None = None

    def __post_init__(self) -> None:
        if self.base_url is not None:
            check_url(self.base_url, "base URL")
        _within("temperature", self.temperature, 0, 2)
        _at_least("max_tokens", self.max_tokens, 64)
        _at_least("repeats", self.repeats, 1)
        _within("repeats", self.repeats, 1, MOST_REPEATS)
        _at_least("max_retries", self.max_retries, 0)
        _at_least("max_failures_in_row", self.max_failures_in_row, 0)
        _within("timeout", self.timeout, 0.001, 86_400)
        _within("budget", self.budget_usd, 0, math.inf)
        _within("requests_per_minute", self.requests_per_minute, 0.001, 1_000_000)
        ways = STRUCTURED if self.format is None else VERDICT
        if self.structured is not None and self.structured not in ways:
            of = "" if self.format is None else f" of a {self.format} model"
            raise UsageError(f"structured{of} must be one of {', '.join(ways)}, not {self.structured!r}")
        if self.format is not None and self.together:
            raise UsageError("leave together out where format is set: a guard model gives one verdict a request")
        taken = sorted(set(self.extra) & set(RESERVED))
        if taken:
            raise UsageError(f"leave {taken[0]!r} out of extra: {', '.join(RESERVED)} are set by turnwise")
        try:
            object.__setattr__(self, "extra", json_object(self.extra, "extra"))
        except ConversationError as error:
            raise UsageError(str(error)) from error


def check_url(url: str, what: str) -> str:
    """A base URL without its last slash, or a `UsageError` whose message never shows what may be a secret.

    >>> check_url("http://localhost:8000/v1/", "base URL")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(url)
        spaced = any(mark.isspace() or mark < " " for mark in url)
        fine = parts.scheme in {"http", "https"} and bool(parts.hostname) and not spaced
        _ = parts.port
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(f"{what} must look like https://host/v1 or http://localhost:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{what} of {parts.hostname} carries a user name, password, query or fragment: it is stored with the "
            "run, so leave them out; a key belongs in the provider's environment variable"
        )
    return url.rstrip("/")


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number, at least {least}, not {value!r}")


def _within(name: str, value: float | None, least: float, most: float) -> None:
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value) or not least <= value <= most:
        raise UsageError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")


INLINE = LlmSettings(timeout=10.0, max_retries=1, max_failures_in_row=0)
"""How a model is asked while somebody waits: soon given up, and never for good."""


_OWN_SERVER = "A server of your own: llm:vllm/MODEL with --base-url"

_PROVIDER_KEYS = ("base_url", "key_variable", "key_optional", "structured", "token_limit")
_NAME = frozenset(string.ascii_letters + string.digits + "_.-")
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where models are reached, with the field of a request that limits the length of the reply."""

    name: str
    base_url: str
    key_variable: str = ""  # of the environment; empty where no key is needed
    key_optional: bool = False  # the server may be run without one
    structured: str = "none"  # how it can be made to answer in JSON, one of `STRUCTURED`
    token_limit: str = "max_tokens"


def providers(file: Path | None = None) -> Mapping[str, Provider]:
    """Every provider by name: those that ship, and those of the user's TOML file; None for `user_file`.

    >>> providers()["ollama"].base_url
    'http://localhost:11434/v1'
    """
    return {name: _provider(where, name, value) for where, name, value in _entries("providers.toml", file)}


def split_spec(argument: str | None, known: Mapping[str, Provider]) -> tuple[Provider, str]:
    """Provider and model of ``provider/model``; a model's name may itself hold ``/`` and ``:``.

    >>> split_spec("openrouter/meta-llama/llama-3.3-70b", providers())[1]
    'meta-llama/llama-3.3-70b'
    """
    name, _, model = (argument or "").partition("/")
    if not name or not model or any(mark.isspace() or mark < " " or mark == "\x7f" for mark in model):
        raise ObserverError(
            "the llm observer needs a provider and a model, such as llm:openai/gpt-4.1-mini or llm:ollama/qwen3:8b"
        )
    if name not in known:
        raise UnknownNameError("provider", name, known, all_shown=True, hint=_OWN_SERVER)
    return known[name], model


def _provider(where: str, name: str, value: object) -> Provider:
    given = entry(where, name, value, _PROVIDER_KEYS)
    place = f"{where}: [{name}]"
    for key, kind in (("base_url", str), ("key_variable", str), ("key_optional", bool)):
        if key in given and not isinstance(given[key], kind):
            raise ObserverError(f"{place} {key} must be {'text' if kind is str else 'true or false'}")
    for key, choices in (("structured", STRUCTURED), ("token_limit", _LIMITS)):
        if key in given and given[key] not in choices:
            raise ObserverError(f"{place} {key} must be one of {', '.join(choices)}")
    if not name or not _NAME.issuperset(name):
        raise ObserverError(f"{place} the name of a provider has letters, digits, '_', '-' and '.' only")
    variable = given.get("key_variable", "")
    if variable and not (variable.isascii() and variable.isidentifier()):
        # Whoever writes the key itself here should not read it in a log.
        raise ObserverError(f"{place} key_variable must be the name of an environment variable, not a key")
    try:
        url = check_url(given.get("base_url", ""), f"{place} base_url")
    except UsageError as error:
        raise ObserverError(str(error)) from error
    return Provider(name=name, **{**given, "base_url": url})


_PRICE_KEYS = ("input", "output", "as_of", "batch")
_SNAPSHOT = LinearRegex(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""What providers append to the name of a model to fix its date; the price is that of the model."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of request and reply; `batch` is the share that one in a batch costs.

    >>> Price(0.40, 1.60, date(2026, 2, 23)).cost(1_000_000, 500_000)
    1.2
    """

    input: float
    output: float
    as_of: date
    batch: float = 1.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by ``provider/model``; ``provider/*`` stands for all other models of a provider."""

    entries: Mapping[str, Price]

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a model, or None; a name with a date at its end has the price of the name without.

        >>> prices().find("openai", "gpt-4.1-mini-2025-04-14").output
        1.6
        """
        names = (model, _SNAPSHOT.sub(lambda _: "", model), "*")
        found = (self.entries.get(f"{provider}/{name}") for name in names)
        return next((price for price in found if price is not None), None)


def prices(file: Path | None = None) -> PriceTable:
    """The prices that ship, overridden by those of the user's TOML file; None for `user_file`."""
    return PriceTable({name: _price(where, name, value) for where, name, value in _entries("prices.toml", file)})


def _price(where: str, name: str, value: object) -> Price:
    given = entry(where, name, value, _PRICE_KEYS)
    place = f'{where}: ["{name}"]'
    if "/" not in name:
        raise ObserverError(f'{place} must be named after provider and model, such as ["openai/gpt-4.1-mini"]')
    for key in ("input", "output"):
        number = given.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ObserverError(f"{place} {key} must be US dollars per million tokens, at least 0")
    if type(given.get("as_of")) is not date:
        raise ObserverError(f"{place} as_of must be the day of the price, such as 2026-04-30")
    batch = given.get("batch", 1.0)
    if isinstance(batch, bool) or not isinstance(batch, int | float) or not 0 <= batch <= 1:
        raise ObserverError(f"{place} batch must be the share of the price that batches cost, from 0 to 1")
    return Price(float(given["input"]), float(given["output"]), given["as_of"], float(batch))


def user_file(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where a user's own table would be: in ``~/.config/turnwise``, or under ``XDG_CONFIG_HOME``."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(home) / "turnwise" / name


def _entries(name: str, file: Path | None) -> Iterator[tuple[str, str, Any]]:
    """The entries of the table that ships and of the user's, each with where it is from and its name."""
    shipped = tomllib.loads(resources.files("turnwise.observers.llm").joinpath(name).read_text("utf-8"))
    yield from ((name, key, value) for key, value in shipped.items())
    own = user_file(name) if file is None else file
    if file is None and not own.exists():
        return
    try:
        yield from ((str(own), key, value) for key, value in tomllib.loads(own.read_text("utf-8")).items())
    except OSError as error:
        raise ObserverError(f"can't read {own}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ObserverError(f"{own} is not valid TOML: {error}") from error


def entry(where: str, name: str, value: object, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ObserverError(f"{where}: [{name}] must be a table with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ObserverError(f"{where}: [{name}] has no key {key!r}; known: {', '.join(known)}")
    return value
