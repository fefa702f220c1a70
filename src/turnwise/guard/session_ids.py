"""Ids that a session memory takes: at most so many bytes."""

from __future__ import annotations

from hashlib import sha256

from turnwise.sessions.state import ID_BYTES


def short_id(text: str) -> str:
    """Return an id as it is, or its hash where it is longer than a session memory takes.

    >>> short_id("user-1"), len(short_id("x" * 100))
    ('user-1', 64)
    """
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= ID_BYTES else sha256(raw).hexdigest()
