"""API keys and whose they are: read from file or environment, kept as digests; and how often each may ask."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, Self

from turnwise._support.locations import to_path
from turnwise.errors import GuardError, UsageError
from turnwise.guard.config import Config
from turnwise.guard.validation import read_yaml, settings_of

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


class KeyRates:
    """Counts requests by key. Each key has a bucket for ten seconds' worth of requests, which fills evenly.

    There is no limit where `per_minute` is None. `seconds` gives seconds that never go back.

    >>> now = [0.0]
    >>> rates = KeyRates(60, lambda: now[0])
    >>> [rates.wait("web") for _ in range(11)][-2:]
    [0.0, 1.0]
    >>> now[0] = 1.0
    >>> rates.wait("web")
    0.0
    """

    def __init__(self, per_minute: int | None, seconds: Callable[[], float] = monotonic) -> None:
        self._rate = None if per_minute is None else per_minute / 60
        self._most = 0.0 if self._rate is None else max(1.0, 10 * self._rate)
        self._seconds = seconds
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, key: str) -> float:
        """Count a request of a key, by name, and return 0; if it is one too many, the seconds until it is not."""
        if self._rate is None:
            return 0.0
        now = self._seconds()
        left, at = self._buckets.get(key, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        if left < 1.0:
            self._buckets[key] = (left, now)
            return (1.0 - left) / self._rate
        self._buckets[key] = (left - 1.0, now)
        return 0.0
