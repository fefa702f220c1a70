"""The reader whose network is a language model: word by word, as far back as its window reaches."""

from __future__ import annotations

import struct
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from turnwise.conversation import Side
from turnwise.observers.local.network import Cache, Caches, Network, Outputs, beginning, spans_of
from turnwise.observers.local.passes import Passes
from turnwise.observers.local.protocol import BOUND, SIDES, Reading, Utterance, vocabulary_misfit
from turnwise.observers.local.tokens import Speech, Text
from turnwise.observers.local.window import UNSAID, Reach, Window

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_RECENT = 4
"""Readings that are kept for who asks for the same soon: guardrails of one check do."""


_FIRST = 1_000
"""Outputs of texts without anything before them that are kept, some 5 kB each: many users say the same."""


_Key = tuple[Side, bytes, tuple[int, ...], bytes]
"""A side, the window behind its text, and the whole text."""


class _Recent(NamedTuple):
    """A reading, and the cache behind it; None where that is among those of live conversations."""

    outputs: Outputs
    cache: Cache | None


class _Remembered:
    """The latest outputs by what was read, for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outputs: OrderedDict[bytes, Outputs] = OrderedDict()

    def find(self, key: _Key) -> Outputs | None:
        digest = _digest(key)
        with self._lock:
            if digest in self._outputs:
                self._outputs.move_to_end(digest)
            return self._outputs.get(digest)

    def keep(self, key: _Key, outputs: Outputs) -> None:
        with self._lock:
            self._outputs[_digest(key)] = outputs
            if len(self._outputs) > _FIRST:
                self._outputs.popitem(last=False)


def _digest(key: _Key) -> bytes:
    return blake2b(repr(key).encode(), digest_size=16).digest()


class LanguageModelReader:
    """Holds network, tokeniser and the caches of live conversations, for many conversations and threads."""

    def __init__(
        self,
        model: bytes,
        tokenizer: Tokenizer,
        reach: Reach = UNSAID,
        cache_bytes: int = BOUND,
        device: str = "cpu",
    ) -> None:
        self.speech = Speech(tokenizer, reach)
        self._reach = reach
        self.caches = Caches(cache_bytes)
        self._network = Network(model, device)
        self._recent: OrderedDict[_Key, _Recent] = OrderedDict()
        self._first = _Remembered()
        self._lock = threading.Lock()

    def start(self) -> Window:
        """The empty window."""
        return Window()

    def read(self, place: Window, said: str, side: Side, *, lasts: bool) -> Reading:
        """What the network makes of a text; of the window only what its cache lacks is read again.

        A text of which not all stays is read whole here; of the form that stays of it, what is behind the common
        beginning is read with the text that follows. `lasts` tells whether anything may be read after it, so that
        the cache is worth keeping.
        """
        text = self.speech.encode(said)
        after = place.after(self.speech.remembered(text, side), self._reach)
        # What stands between the ends of a long text is in no window.
        key = (side, after.ids, after.ends, array("H", text.ids).tobytes())
        outputs = self._first.find(key) if not lasts and len(after.ends) == 1 else None
        if outputs is None:
            outputs = self._read(key, text, after, side, lasts=lasts)
            if not lasts and len(after.ends) == 1:
                self._first.keep(key, outputs)
        misfit = vocabulary_misfit(text.bytes_per_token, len(text.ids))
        logits, states = outputs
        return Reading(side, logits[:, SIDES.index(side)], text.hidden, misfit, text.left_out, states)

    def _read(self, key: _Key, text: Text, after: Window, side: Side, *, lasts: bool) -> Outputs:
        """The outputs of a text at the end of a window, from the latest readings where they are there."""
        with self._lock:
            known = self._recent.pop(key, None)
        if known is None:
            known = _Recent(*self._outputs(text, after, side))
        if lasts and known.cache is not None:
            length = known.cache.length
            ends = [*(end for end in after.ends if end < length), length]
            self.caches.keep(known.cache, [(after.until(end), end) for end in ends])
            known = known._replace(cache=None)
        with self._lock:
            self._recent[key] = known
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
        return known.outputs

    def _outputs(self, text: Text, after: Window, side: Side) -> tuple[Outputs, Cache]:
        """Read a text at the end of a window; return a row of outputs for each part, and the window's cache."""
        start = after.ends[-2] if len(after.ends) > 1 else 0
        found = self.caches.find(map(after.until, self._read_before(after)))
        before = beginning(*found) if found else None
        behind = before.length if before else 0
        whole = self.speech.whole(text, side)
        ids = after.tokens(start) if whole is None else whole
        spans = spans_of(self.speech.parts(len(ids), side), start - behind)
        outputs, cache = self._network.run(after.tokens(behind)[: start - behind] + ids, spans, before)
        if whole is not None:
            cache = beginning(cache, start + self.speech.shared(side))  # further on another form stays
        return outputs, cache

    def _read_before(self, after: Window) -> list[int]:
        """Where a cache of a window may end, the longest first: behind a text before its last, or within the
        latest of these, where that was read whole and stays in another form."""
        ends = after.ends[:-1]
        if not ends:
            return []
        start = ends[-2] if len(ends) > 1 else 0
        within = sorted({start + self.speech.shared(side) for side in SIDES}, reverse=True)
        return [ends[-1], *(place for place in within if place < ends[-1]), *reversed(ends[:-1])]

    def after(self, place: Window, said: str, side: Side) -> Window:
        """The window behind a text."""
        return place.after(self.speech.remembered(self.speech.encode(said), side), self._reach)

    def read_many(
        self, conversations: Sequence[Sequence[Utterance]], *, states: bool = False
    ) -> list[list[Reading | None]]:
        """What `read` makes of each text; one pass reads what a window holds before it moves.

        The caches of live conversations are left alone.
        """
        return Passes(self.speech, self._network, states=states).read(conversations)

    def pack(self, place: Window) -> bytes:
        """A window as bytes: how many texts, their lengths, their ids, two bytes each."""
        lengths = place.to_lengths()
        return struct.pack(f"<{len(lengths) + 1}H", len(lengths), *lengths) + place.ids

    def unpack(self, data: bytes) -> Window:
        """The window that `pack` wrote; `ValueError` for other bytes."""
        try:
            (count,) = struct.unpack_from("<H", data)
            lengths = struct.unpack_from(f"<{count}H", data, 2)
        except struct.error as error:
            raise ValueError("it is cut off") from error
        return Window.of(data[2 * (count + 1) :], lengths, self._reach)
