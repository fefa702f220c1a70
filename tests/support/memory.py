"""A limit on memory under which nothing that draws charts can start."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

_BYTES = 6 * 2**30


@contextmanager
def too_little_to_draw() -> Iterator[None]:
    """Limit the address space of this process, and of those that it starts, while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
