"""API keys: read from file or environment, compared in constant time, kept as digests; how often each may ask."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Final, Self

from turnwise.errors import UsageError
from turnwise.paths import to_path

VARIABLE: Final = "TURNWISE_API_KEYS"
"""The environment variable that holds keys, apart by commas or spaces."""

SHORTEST: Final = 16
"""Characters of a key at least: a shorter one is guessed."""


class ApiKeys:
    """The keys that open the service. Only digests are kept, and every key takes equally long to compare.

    Args:
        keys: the keys, at least one, each of at least 16 visible ASCII characters. ``name:key`` gives a key the
            name under which its requests are counted; else it is ``key-1``, ``key-2`` and so on.

    Raises:
        UsageError: no key, a key that is too short or has other characters, or a name that is given twice; the
            message never shows a key.

    >>> keys = ApiKeys(["web:0123456789abcdef"])
    >>> keys.name_of("0123456789abcdef"), keys.name_of("0123456789abcdeF")
    ('web', None)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests: dict[str, bytes] = {}
        for place, entry in enumerate(keys, start=1):
            name, colon, key = entry.partition(":")
            if not colon:
                name, key = f"key-{place}", entry
            if len(key) < SHORTEST or not all("!" <= character <= "~" for character in key):
                raise UsageError(f"API key {place}: use at least {SHORTEST} visible ASCII characters, no spaces")
            if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise UsageError(f"API key {place}: its name is made of letters, digits, - and _")
            if name in self._digests:
                raise UsageError(f"API key {place}: another key has the name {name}; choose another one")
            self._digests[name] = _digest(key)
        if not self._digests:
            raise UsageError("there is no API key; give one a line")

    @classmethod
    def read(cls, file: str | None, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Return the keys of a file and of the variable ``TURNWISE_API_KEYS``; None where neither has any.

        Args:
            file: a file with a key a line; empty lines and those with ``#`` first are left out. None for none.
            environment: the environment.

        Raises:
            UsageError: the file can't be read, or as for the constructor.
        """
        found = environment.get(VARIABLE, "").replace(",", " ").split()
        if file is not None:
            try:
                lines = to_path(file).read_text(encoding="utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{file}: the API keys can't be read: {error}") from error
            found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
            if not found:
                raise UsageError(f"{file}: there is no API key; give one a line")
        return cls(found) if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(self._digests)

    def name_of(self, key: str) -> str | None:
        """Return the name of a key; None for one that opens nothing. The time does not tell how near it was."""
        digest, found = _digest(key), None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found

    def __repr__(self) -> str:
        return f"ApiKeys({', '.join(self._digests)})"


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


class KeyRates:
    """Counts requests by key. Each key has a bucket for ten seconds' worth of requests, which fills evenly.

    Args:
        per_minute: requests a minute of one key, at least 1; None for no limit.
        seconds: gives seconds that never go back.

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
        """Count a request of a key, and return 0; where it is one too many, the seconds until it would not be.

        Args:
            key: name of the key; there are as many buckets as names.
        """
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
