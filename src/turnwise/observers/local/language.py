"""The reader whose network is a language model: word by word, as far back as its window reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import Caches, Network, Span, beginning
from turnwise.observers.local.passes import Passes
from turnwise.observers.local.protocol import BOUND, SIDES, Reading, Utterance, unread
from turnwise.observers.local.tokens import Speech
from turnwise.observers.local.window import Window

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class LanguageReader:
    """Holds network, tokeniser and the caches of live conversations; one serves many conversations, and threads.

    Args:
        model: the network's graph.
        tokenizer: the tokeniser.
        cache_bytes: what the caches may take together.
        device: where the network is run.

    Raises:
        UsageError: no such device.
        ObserverError: the graph can't be run.
    """

    def __init__(self, model: bytes, tokenizer: Tokenizer, cache_bytes: int = BOUND, device: str = "cpu") -> None:
        self.speech = Speech(tokenizer)
        self.caches = Caches(cache_bytes)
        self._network = Network(model, device)

    def start(self) -> Window:
        """Return the empty window."""
        return Window()

    def read(self, place: Window, said: str, side: Side, *, lasts: bool) -> Reading:
        """Return what the network makes of a text; of the window only what its cache lacks is read again.

        Pieces of a long text are read one by one, each in its place.

        Args:
            place: the window before the text.
            said: the text; not blank.
            side: who says it.
            lasts: whether anything may be read after it, so that the cache is worth keeping.
        """
        text = self.speech.encode(said)
        head, tail = self.speech.head(side), self.speech.tail
        remembered = self.speech.remembered(text, side)
        after = place.after(remembered)
        start = len(after) - len(remembered)
        found = self.caches.find(after.until(end) for end in reversed(after.ends[:-1]))
        before = beginning(*found) if found else None
        behind = before.length if before else 0
        span = Span(start - behind + head, len(after) - behind - tail + 1)
        logits, cache = self._network.run(after.tokens(behind), [span], before)
        rows = [logits]
        pieces = self.speech.pieces(text, side)
        if pieces:
            context = beginning(cache, start) if start else None
            for piece in pieces:
                rows.append(self._network.run(piece, [Span(head, len(piece) - tail + 1)], context)[0])
        if lasts:
            self.caches.keep(cache, [(after.until(end), end) for end in after.ends])
        outputs = np.concatenate(rows)[:, SIDES.index(side)]
        return Reading(side, outputs, text.hidden, unread(text.bytes_per_token, len(text.ids)), text.left_out)

    def after(self, place: Window, said: str, side: Side) -> Window:
        """Return the window behind a text.

        Args:
            place: the window before it.
            said: the text; not blank.
            side: who says it.
        """
        return place.after(self.speech.remembered(self.speech.encode(said), side))

    def read_many(self, conversations: Sequence[Sequence[Utterance]]) -> list[list[Reading | None]]:
        """Return what `read` makes of each text; one pass reads what a window holds before it moves.

        The caches of live conversations are left alone.

        Args:
            conversations: what is said in each, from its beginning.
        """
        return Passes(self.speech, self._network).read(conversations)

    def pack(self, place: Window) -> bytes:
        """Return a window as bytes: how many texts, their lengths, their ids."""
        lengths = place.to_lengths()
        return bytes((len(lengths), *lengths)) + place.ids

    def unpack(self, data: bytes) -> Window:
        """Return the window that `pack` wrote.

        Raises:
            ValueError: the bytes are no window.
        """
        if not data or len(data) <= data[0]:
            raise ValueError("it is cut off")
        texts = 1 + data[0]
        return Window.of(data[texts:], tuple(data[1:texts]))
