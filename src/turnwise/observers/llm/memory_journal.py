"""Replies kept in memory: for a program that scores without a store, and for tests."""

from __future__ import annotations

import threading

from turnwise.scoring import Reply


class MemoryJournal:
    """A `turnwise.scoring.ReplyJournal` that lasts as long as the program.

    >>> MemoryJournal().find("a key", 1) is None
    True
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self._newest: dict[tuple[str, int], Reply] = {}
        self._lock = threading.Lock()

    def find(self, request_key: str, repeat: int) -> Reply | None:
        """Return the newest reply to this asking of a request, or None."""
        return self._newest.get((request_key, repeat))

    def record(self, reply: Reply) -> None:
        """Keep a reply."""
        with self._lock:
            self.replies.append(reply)
            self._newest[reply.request_key, reply.repeat] = reply
