"""Keys and values of attention of live conversations, so that no turn is read twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BOUND = 256_000_000
"""Bytes that the caches of all live conversations may take together."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys and values that the network has made of a beginning.

    Args:
        arrays: keys and values of every layer, each of shape (1, heads, tokens, width).
        length: tokens of the beginning.
    """

    arrays: Sequence[NDArray[np.float32]]
    length: int

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return sum(array.nbytes for array in self.arrays)


class Caches:
    """The caches of live conversations by what they are caches of: the token ids from the window's beginning.

    A cache serves every beginning of its tokens that was asked for, so a conversation that grows keeps one, and
    two that begin alike share. The one that was not used for the longest time goes first. What goes is made again
    from the tokens when it is needed.

    Args:
        bound: bytes that all of them may take.
    """

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._lock = threading.Lock()
        self._caches: OrderedDict[int, tuple[Cache, list[bytes]]] = OrderedDict()
        self._known: dict[bytes, tuple[int, int]] = {}
        self._size = 0
        self._next = 0

    def __len__(self) -> int:
        return len(self._caches)

    @property
    def size(self) -> int:
        """Bytes that they take together."""
        return self._size

    def find(self, beginnings: Iterable[bytes]) -> tuple[Cache, int] | None:
        """Return the cache of the first beginning that is known, and how many of its tokens that beginning has.

        Args:
            beginnings: token ids as bytes, the longest first.
        """
        with self._lock:
            for ids in beginnings:
                found = self._known.get(_key(ids))
                if found is not None:
                    number, length = found
                    self._caches.move_to_end(number)
                    return self._caches[number][0], length
        return None

    def keep(self, cache: Cache, beginnings: Sequence[tuple[bytes, int]]) -> None:
        """Keep a cache, in the place of those that it continues.

        Args:
            cache: the cache; nobody changes its arrays any more.
            beginnings: the beginnings that it serves, as bytes, with their number of tokens.
        """
        if cache.size > self._bound:
            return
        keys = [_key(ids) for ids, _ in beginnings]
        with self._lock:
            number, self._next = self._next, self._next + 1
            for key, (_, length) in zip(keys, beginnings, strict=True):
                before = self._known.get(key)
                self._known[key] = (number, length)
                if before is not None:
                    self._forget(before[0], key)
            self._caches[number] = (cache, keys)
            self._size += cache.size
            while self._size > self._bound:
                oldest = next(iter(self._caches))
                for key in list(self._caches[oldest][1]):
                    del self._known[key]
                    self._forget(oldest, key)

    def _forget(self, number: int, key: bytes) -> None:
        """Take a beginning from a cache, and drop the cache that serves none any more."""
        cache, keys = self._caches[number]
        keys.remove(key)
        if not keys:
            del self._caches[number]
            self._size -= cache.size


def _key(ids: bytes) -> bytes:
    return blake2b(ids, digest_size=16).digest()
