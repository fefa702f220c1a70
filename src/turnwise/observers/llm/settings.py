"""How a language model is asked: what a person may set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from turnwise.conversation.json_values import json_object
from turnwise.errors import ConversationError, UsageError

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
