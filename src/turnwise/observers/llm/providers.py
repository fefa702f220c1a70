"""Providers of language models and prices of their tokens: the tables that ship, and the user's additions."""

from __future__ import annotations

import math
import os
import string
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from turnwise.errors import ObserverError, UnknownNameError, UsageError
from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.settings import STRUCTURED, check_url

_OWN_SERVER = "A server of your own: llm:vllm/MODEL with --base-url"

_PROVIDER_KEYS = ("base_url", "key_variable", "key_optional", "structured", "token_limit")
_NAME = frozenset(string.ascii_letters + string.digits + "_.-")
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where language models are reached.

    `key_variable` is the environment variable that holds the key, empty where none is needed; with `key_optional`
    the server may be run without one. `structured`, one of `STRUCTURED`, is how it can be made to answer in JSON,
    and `token_limit` the field of a request that limits the length of the reply.
    """

    name: str
    base_url: str
    key_variable: str = ""
    key_optional: bool = False
    structured: str = "none"
    token_limit: str = "max_tokens"


def providers(file: Path | None = None) -> Mapping[str, Provider]:
    """Every provider by name: those that ship, and those of the user's TOML file; None for `user_file`.

    >>> providers()["ollama"].base_url
    'http://localhost:11434/v1'
    """
    return {
        name: _provider(where, name, value)
        for where, table in read_tables("providers.toml", file)
        for name, value in table.items()
    }


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
    """What a model costs: US dollars per million tokens of request and reply, and the day of the last check.

    `batch` is the share of it that a request in a batch costs.

    >>> Price(0.40, 1.60, date(2026, 2, 23)).cost(1_000_000, 500_000)
    1.2
    """

    input: float
    output: float
    as_of: date
    batch: float = 1.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What a call costs, in US dollars."""
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
    return PriceTable(
        {
            name: _price(where, name, value)
            for where, table in read_tables("prices.toml", file)
            for name, value in table.items()
        }
    )


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


def read_tables(name: str, file: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """The table that ships and the user's, each with where it is from; only `user_file` may be absent."""
    shipped = tomllib.loads(resources.files("turnwise.observers.llm").joinpath(name).read_text("utf-8"))
    own = user_file(name) if file is None else file
    if file is None and not own.exists():
        return [(name, shipped)]
    try:
        return [(name, shipped), (str(own), tomllib.loads(own.read_text("utf-8")))]
    except OSError as error:
        raise ObserverError(f"can't read {own}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ObserverError(f"{own} is not valid TOML: {error}") from error


def entry(where: str, name: str, value: object, known: Collection[str]) -> dict[str, Any]:
    """Check that an entry of a table is one and has no unknown key."""
    if not isinstance(value, dict):
        raise ObserverError(f"{where}: [{name}] must be a table with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ObserverError(f"{where}: [{name}] has no key {key!r}; known: {', '.join(known)}")
    return value
