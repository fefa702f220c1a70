"""Reads one text after what was said before, and gives the network's logits of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.reader.caches import BOUND, Caches
from turnwise.observers.reader.network import Network, Span, beginning
from turnwise.observers.reader.tokens import Speech, Text
from turnwise.observers.reader.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

SIDES = (Side.PROMPT, Side.RESPONSE)
"""The sides of a turn in the order of the network's outputs."""

FAMILIAR = 3.6
"""Bytes of a token from which a text counts as read in full; English has 4 to 5, other languages 1 to 3."""


class Reading(NamedTuple):
    """What the network makes of a text.

    Args:
        logits: a row for the text as the window remembers it, and one for each of its pieces, shape (rows,
            outputs).
        hidden: whether the text hid words.
        unread: how far the vocabulary does not fit the text, in [0, 1].
        left_out: what of the text was not read, in words; empty where all of it was.
    """

    logits: NDArray[np.float32]
    hidden: bool
    unread: float
    left_out: str


class Reader:
    """Holds network, tokeniser and the caches of live conversations; one serves many conversations, and threads.

    Args:
        model: the network's graph.
        tokenizer: the tokeniser.
        cache_bytes: what the caches may take together.

    Raises:
        ObserverError: the graph can't be run.
    """

    def __init__(self, model: bytes, tokenizer: Tokenizer, cache_bytes: int = BOUND) -> None:
        self.speech = Speech(tokenizer)
        self.caches = Caches(cache_bytes)
        self._network = Network(model)

    def read(self, window: Window, text: Text, side: Side, *, lasts: bool) -> Reading:
        """Return what the network makes of a text.

        Only what its cache lacks of the window is read again. Pieces of a long text are read one by one in its
        place.

        Args:
            window: what was said before.
            text: the text.
            side: who says it.
            lasts: whether anything may be read after it, so that the cache is worth keeping.
        """
        head, tail = self.speech.head(side), self.speech.tail
        after = window.after(text.remembered)
        start = len(after) - len(text.remembered)
        found = self.caches.find(after.until(end) for end in reversed(after.ends[:-1]))
        before = beginning(*found) if found else None
        behind = before.length if before else 0
        span = Span(start - behind + head, len(after) - behind - tail + 1)
        logits, cache = self._network.run(after.tokens(behind), [span], before)
        rows = [logits]
        if text.pieces:
            context = beginning(cache, start) if start else None
            for piece in text.pieces:
                rows.append(self._network.run(piece, [Span(head, len(piece) - tail + 1)], context)[0])
        if lasts:
            self.caches.keep(cache, [(after.until(end), end) for end in after.ends])
        unread = max(0.0, 1 - text.bytes_per_token / FAMILIAR)
        return Reading(np.concatenate(rows)[:, SIDES.index(side)], text.hidden, unread, text.left_out)
