"""How random a text looks."""

from __future__ import annotations

import math
from collections import Counter


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters of a text, in bits a character; 0 for an empty one.

    Source: C. E. Shannon, A Mathematical Theory of Communication (1948), section 6.

    >>> bits_per_character("aaaa"), bits_per_character("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts) if len(counts) > 1 else 0.0
