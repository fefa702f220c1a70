"""What a sequence shares with others, so that they never stand on two sides of a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP_KEYS = ("group", "goal", "intent", "pair")
"""Keys of the metadata that say what a sequence shares with others, the first that is there."""


def group_of(metadata: Mapping[str, Any], sequence_id: str) -> str:
    """Return the group of a sequence: what its metadata say it shares with others, else its id.

    Args:
        metadata: what the data set says of the sequence.
        sequence_id: its id.

    >>> group_of({"goal": "open the lock", "kind": "test"}, "a-1"), group_of({}, "a-1")
    ('open the lock', 'a-1')
    """
    for key in GROUP_KEYS:
        value = metadata.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return sequence_id
