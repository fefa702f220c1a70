"""How JSON or log-probabilities are asked for, where a server may refuse to be asked so."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from turnwise.observers.llm.chat import ChatError, FaultKind
from turnwise.observers.llm.settings import STRUCTURED

_MAYBE_REFUSED = frozenset({400, 422, 500, 501})
"""Statuses that servers give to a structure which they don't know, mostly without saying so."""


class Structure:
    """What a server takes of the ways of asking, learned from its answers; for many threads.

    A server that refuses one is asked with the next weaker one of `ways`. The first reply that comes so
    settles it for all later requests; where the server merely failed, which may pass, the second one does. Once a
    reply came the way it was wanted, only a server that names the structure in its refusal is asked otherwise, and
    only for that request: a router may pass requests to several.

    >>> structure = Structure("json_schema")
    >>> structure.weaker("json_schema", ChatError(FaultKind.SERVER, "no such response_format", status=500))
    'json_object'
    >>> structure.replied("json_object")
    >>> structure.current
    'json_object'
    """

    def __init__(self, wanted: str, ways: Sequence[str] = STRUCTURED) -> None:
        self._lock = threading.Lock()
        self._ways = ways
        self._current = wanted
        self._settled = False
        self._suspected = False

    @property
    def current(self) -> str:
        """How the next request asks."""
        return self._current

    def weaker(self, asked: str, fault: ChatError) -> str | None:
        """How to ask again after a fault of a request that asked as `asked`; None where that would not help."""
        at = self._ways.index(asked)
        if at + 1 == len(self._ways) or not (fault.names_structure or self._may_be_refused(asked, fault)):
            return None
        # Another thread may have learned meanwhile what the server takes.
        return self._ways[max(at + 1, self._ways.index(self._current))]

    def is_plain_refusal(self, fault: ChatError) -> bool:
        """Whether the same request would surely fare no better again."""
        return fault.names_structure or fault.kind is FaultKind.REJECTED

    def replied(self, asked: str, *, refused: bool = True) -> None:
        """Learn that a reply came to a request that asked in the way `asked`.

        `refused` tells whether the stronger ways that it tried before were plainly refused, and did not merely
        fail.
        """
        if self._settled:
            return
        with self._lock:
            if self._settled:
                return
            if refused or self._suspected or asked == self._current:
                self._current, self._settled = asked, True
            else:
                self._suspected = True

    def _may_be_refused(self, asked: str, fault: ChatError) -> bool:
        kinds = (FaultKind.REJECTED, FaultKind.SERVER)
        unproven = not (self._settled and asked == self._current)
        return unproven and fault.kind in kinds and fault.status in _MAYBE_REFUSED
