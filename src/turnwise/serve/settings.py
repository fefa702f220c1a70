"""What may be set of the service, and where its configuration is read, now and at each reload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from turnwise.clock import utc_now
from turnwise.errors import StateError, UsageError
from turnwise.guard.config import Config, with_observer
from turnwise.guard.setup import Given, Setup
from turnwise.guard.state.settings import StateSettings
from turnwise.serve.keys import ApiKeys

MOST_BODY = 1 << 30
"""Bytes that a body may have at most, whatever is set."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What may be set of the service.

    Args:
        keys: the API keys, one of which every request carries; None serves everybody as one.
        max_body: bytes of a request, at least 1,024 and at most 1 GiB.
        conversations: conversations of a key that a worker holds, at least 1; the one least recently used makes
            room. With a state store it is read again when it goes on, without one it begins anew.
        rate: requests a minute of one API key in one worker, at least 1; None for no limit.
        in_flight: requests that a worker has under way, at least 1; more are refused with 503.
        threads: threads of a worker in which texts of fewer than 2,000 characters are checked, at least 1. Longer
            ones have as many as there are cores, and where guardrails wait for a service at least this many. More
            than a few help only there.
        queue_seconds: how long a text may be expected to wait before its check begins, above 0, at most 3,600;
            more are refused with 503.
        check_seconds: how long a check may take, waiting included, above 0, at most 3,600; then 503 is the answer.
        body_seconds: how long a body may take to arrive, and a pause in a stream may last, above 0, at most 3,600.
        body_bytes: bytes of the bodies that a worker has at once, at least 1,024; where there would be more, the
            one is dropped that has taken most room for the longest without going on.
        read_config: reads the configuration anew, for a reload on request; None where there is nothing to read.
        read_keys: reads the keys anew likewise; None where they stay.
        reloaded: is told after a reload on request, so that other workers reload as well.
        explain: whether every caller is told reasons, warnings, scores and stances, which help whoever writes the
            texts to write around the guard; without it operators and tenants that say ``explain`` are.
        metrics_folder: folder in which workers share what they count; None for one worker.

    Raises:
        UsageError: a value out of range.
    """

    keys: ApiKeys | None = None
    max_body: int = 4 << 20
    conversations: int = 10_000
    rate: int | None = 60_000
    in_flight: int = 256
    threads: int = 4
    queue_seconds: float = 5.0
    check_seconds: float = 30.0
    body_seconds: float = 30.0
    body_bytes: int = 64 << 20
    read_config: Callable[[], Config] | None = None
    read_keys: Callable[[], ApiKeys | None] | None = None
    reloaded: Callable[[], None] | None = None
    metrics_folder: str | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        if not 1_024 <= self.max_body <= MOST_BODY:
            raise UsageError(f"max_body is {self.max_body}; use bytes from 1024 to {MOST_BODY}")
        if self.body_bytes < 1_024:
            raise UsageError(f"body_bytes is {self.body_bytes}; use at least 1024")
        for name in ("conversations", "in_flight", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; use at least 1")
        if self.rate is not None and self.rate < 1:
            raise UsageError(f"rate is {self.rate}; use at least 1 request a minute, or None")
        for name in ("queue_seconds", "check_seconds", "body_seconds"):
            if not 0.0 < getattr(self, name) <= 3_600.0:
                raise UsageError(f"{name} is {getattr(self, name)}; use seconds above 0, at most 3600")


DEFAULT_PRESET: Final = "basic"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the configuration is read from; a process that is given one reads it by itself.

    It is a preset, ``basic`` by default, or a YAML `file`. `state` and `observer` stand in place of what it says.

    >>> ConfigSource(preset="basic", state="guard.db").read().state.sqlite
    'guard.db'
    """

    preset: str | None = None
    file: str | None = None
    state: str | None = None
    observer: str | None = None
    keys: str | None = None

    def read(self) -> Config:
        """The configuration as it is now."""
        if self.preset is not None and self.file is not None:
            raise UsageError("a preset and a file name a configuration each: give one of them")
        config = Config.preset(self.preset or DEFAULT_PRESET) if self.file is None else Config.read(self.file)
        if self.observer is not None:
            config = with_observer(config, self.observer)
        if self.state is not None:
            try:
                config = replace(config, state=(config.state or StateSettings()).at(self.state))
            except StateError as error:
                raise UsageError(str(error)) from None
        return config

    def read_keys(self) -> ApiKeys | None:
        """The API keys as they are now; None where there are none."""
        return ApiKeys.read(self.keys)

    def check(self) -> None:
        """Build the configurations once, and keep nothing of them; `GuardError` where one can't be built."""
        keys = self.read_keys()
        for tenant in () if keys is None else keys.tenants.values():
            own = tenant.read_config()
            if own is not None:
                own.build()
        setup = Setup.of(replace(self.read(), audit=None), utc_now, Given())
        for one in setup.opened:
            one.close()
