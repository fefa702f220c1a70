"""Memory of this process, and the system that it came from."""

from __future__ import annotations

import ctypes
import sys


def give_back_memory() -> None:
    """Give memory that nobody uses any more back to the system; glibc would keep much of it for later.

    For after something large, or at times: some milliseconds. What loading weights leaves behind is 60 MB.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none, and need none
        if trim is not None:
            trim(0)
