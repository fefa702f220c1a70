"""What may be set of the service, whose the API keys are, and where all of it is read, now and at each reload."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Self

from turnwise._support.locations import to_path
from turnwise.clock import utc_now
from turnwise.errors import GuardError, StateError, UsageError
from turnwise.guard.config import Config, with_observer
from turnwise.guard.setup import Overrides, Setup
from turnwise.guard.state.settings import StateSettings
from turnwise.guard.written_values import read_yaml, settings_of

VARIABLE: Final = "TURNWISE_API_KEYS"
"""The environment variable that holds keys, apart by commas or spaces."""

SHORTEST: Final = 16
"""Characters of a key at least: a shorter one is guessed."""

_YAML: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Whose a key is: the settings of a tenant in a file of keys. The key itself is not kept.

    `name` is by default made of a digest of the key. The key is given as `key` or as `key_sha256`, in hexadecimal
    digits. `preset` or `config`, a YAML file, is its configuration; with neither it has that of the service. An
    `operator` may see metrics, reload, and change the modes of all. With `one_person` all initiators without a
    name are one person, of whom `drift` remembers over conversations, from the next start on. `explain`: it is
    told reasons and scores, as operators are. Errors never show a key.
    """

    name: str = ""
    key: Any = field(default=None, repr=False)
    key_sha256: str | None = field(default=None, repr=False)
    preset: str | None = None
    config: str | None = None
    mode: Literal["on", "off", "log"] = "on"
    operator: bool = False
    one_person: bool = False
    explain: bool = False

    def __post_init__(self) -> None:
        if (self.key is None) == (self.key_sha256 is None):
            raise GuardError("give key or key_sha256, one of them")
        if self.preset is not None and self.config is not None:
            raise GuardError("preset and config name a configuration each: give one of them")
        digest = self.key_sha256 or ""
        if self.key is not None:
            key = self.key
            if not isinstance(key, str) or len(key) < SHORTEST or not all("!" <= sign <= "~" for sign in key):
                raise GuardError(f"use at least {SHORTEST} visible ASCII characters, no spaces, in quotes")
            digest = _digest(key)
        elif len(digest) != len(_digest("")) or not set(digest) <= set("0123456789abcdef"):
            raise GuardError("key_sha256 is no SHA-256: give 64 digits from 0 to 9 and a to f")
        # Two digests, so that a name tells nothing of what is compared.
        name = self.name or f"key-{_digest(digest)[:8]}"
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise GuardError("its name must be made of letters, digits, - and _")
        for attribute, value in (("key", None), ("key_sha256", digest), ("name", name)):
            object.__setattr__(self, attribute, value)

    def read_config(self) -> Config | None:
        """Its own configuration as it is now; None where it has that of the service."""
        if self.preset is not None:
            return Config.preset(self.preset)
        return None if self.config is None else Config.read(self.config)


class ApiKeys:
    """The keys that open the service. Only digests are kept, and every key takes equally long to compare.

    Args:
        keys: the keys, at least one, each of at least 16 visible ASCII characters. ``name:key`` gives a key its
            name; otherwise its name is made of a digest of the key. Or `TenantSettings`, which say more.

    Raises:
        UsageError: no key, a key that is too short or has other characters, or a name or a key that is given
            twice; the message never shows a key.

    >>> keys = ApiKeys(["web:0123456789abcdef"])
    >>> keys.name_of("0123456789abcdef"), keys.name_of("0123456789abcdeF")
    ('web', None)
    """

    def __init__(self, keys: Iterable[str | TenantSettings]) -> None:
        self.tenants: dict[str, TenantSettings] = {}
        """Whose the keys are, by name."""
        for place, entry in enumerate(keys, start=1):
            try:
                tenant = entry if isinstance(entry, TenantSettings) else _plain(entry)
            except GuardError as error:
                raise UsageError(f"API key {place}: {error}") from None
            if tenant.name in self.tenants:
                raise UsageError(f"API key {place}: another key has the name {tenant.name}; choose another one")
            if any(tenant.key_sha256 == other.key_sha256 for other in self.tenants.values()):
                raise UsageError(f"API key {place}: {tenant.name} has the key of another name; give it its own")
            self.tenants[tenant.name] = tenant
        if not self.tenants:
            raise UsageError("there is no API key; give one a line")

    @classmethod
    def read(cls, file: str | None, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Return the keys of a file and of the variable ``TURNWISE_API_KEYS``; None where neither has any.

        Args:
            file: a YAML file with a list ``tenants``, each with the settings of `TenantSettings`; or a file with a
                key a line, of which empty lines and those with ``#`` first are left out. None for none.
            environment: the environment.

        Raises:
            UsageError: the file can't be read, or as for the constructor.
        """
        found: list[str | TenantSettings] = [*environment.get(VARIABLE, "").replace(",", " ").split()]
        if file is not None:
            try:
                text = to_path(file).read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{file}: the API keys can't be read: {error}") from error
            if file.endswith(_YAML):
                found += _tenants(text, file)
            else:
                lines = [line.strip() for line in text.splitlines()]
                found += [line for line in lines if line and not line.startswith("#")]
            if not found:
                raise UsageError(f"{file}: there is no API key; give one a line")
        return cls(found) if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(self.tenants)

    def name_of(self, key: str) -> str | None:
        """Return the name of a key; None for one that opens nothing. The time does not tell how near it was."""
        digest, found = _digest(key), None
        for name, tenant in self.tenants.items():
            if hmac.compare_digest(digest, str(tenant.key_sha256)):
                found = name
        return found

    def __repr__(self) -> str:
        return f"ApiKeys({', '.join(self.tenants)})"


def _plain(entry: str) -> TenantSettings:
    name, colon, key = entry.partition(":")
    if colon and not name:
        raise GuardError("its name must be made of letters, digits, - and _")
    return TenantSettings(name, key) if colon else TenantSettings(key=entry)


def _tenants(text: str, file: str) -> list[TenantSettings]:
    """The tenants of a YAML file; the configurations that it names are relative to it."""
    data, lines = read_yaml(text, file)
    listed = data.get("tenants") if isinstance(data, Mapping) and len(data) == 1 else None
    if not isinstance(listed, list) or not listed:
        raise lines.error((), "give tenants: a list of tenants, each with name and key")
    found: list[TenantSettings] = []
    for at, item in enumerate(listed):
        if not isinstance(item, Mapping) or not item.get("name"):
            raise lines.error(("tenants", at), "a tenant has settings, among them its name")
        own = dict(item)
        if isinstance(own.get("config"), str):
            own["config"] = str(Path(to_path(file)).absolute().parent / own["config"])
        found.append(settings_of(TenantSettings, own, ("tenants", at), lines))
    return found


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


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
    """Where a process reads the configuration: a preset, ``basic`` by default, or a YAML `file`.

    `state` and `observer` stand in place of what it says.

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
        setup = Setup.of(replace(self.read(), audit=None), utc_now, Overrides())
        for one in setup.opened:
            one.close()
