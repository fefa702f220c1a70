"""The reader whose network is a language model: word by word, as far back as its window reaches."""

from __future__ import annotations

import struct
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import Cache, Caches, Network, Outputs, beginning, spans_of
from turnwise.observers.local.reading import SIDES, Reading, Speech, Text, Utterance, vocabulary_misfit
from turnwise.observers.local.weights import CACHE_BYTES, UNSAID, Reach

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_TYPE = "H"


@dataclass(frozen=True, slots=True)
class Window:
    """The latest texts of a conversation as token ids, two bytes each; a function of the texts alone.

    When a text no longer fits, the oldest go until at most as many tokens are left with it as are to be kept, so
    that the window moves seldom, and always at the same places of the same conversation.
    """

    ids: bytes = b""
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids) // array(_TYPE).itemsize

    def after(self, text: list[int], reach: Reach) -> Window:
        """The window after a further text: its ids, at most `reach.kept` of them, each below 65,536."""
        size = array(_TYPE).itemsize
        added = array(_TYPE, text).tobytes()
        if len(self) + len(text) <= reach.limit:
            return Window(self.ids + added, (*self.ends, len(self) + len(text)))
        from_ = next((end for end in self.ends if len(self) - end + len(text) <= reach.kept), len(self))
        ends = tuple(end - from_ for end in self.ends if end > from_)
        kept = len(self) - from_
        return Window(self.ids[from_ * size :] + added, (*ends, kept + len(text)))

    def tokens(self, start: int = 0) -> list[int]:
        """The ids from a place on."""
        return array(_TYPE, self.ids).tolist()[start:]

    def until(self, end: int) -> bytes:
        """The ids before a place, as bytes."""
        return self.ids[: end * array(_TYPE).itemsize]

    def to_lengths(self) -> tuple[int, ...]:
        """How many ids each text has."""
        return tuple(b - a for a, b in zip((0, *self.ends), self.ends, strict=False))

    @classmethod
    def of(cls, ids: bytes, lengths: tuple[int, ...], reach: Reach) -> Window:
        """The window of some ids and the lengths of their texts; `ValueError` where they don't fit one another."""
        window = cls(ids, tuple(accumulate(lengths)))
        if (
            len(ids) % array(_TYPE).itemsize
            or (window.ends[-1:] or (0,))[0] != len(window)
            or len(window) > reach.limit
        ):
            raise ValueError("its texts don't fit its tokens")
        return window


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
        cache_bytes: int = CACHE_BYTES,
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


_TYPE = "H"


class Pass(NamedTuple):
    """A window as it stands before it moves, or at its last scored text: what the network reads at once.

    `sides` tells who says each of its texts. `apart` has, of each scored text of which not all stays, where it
    begins in the window, who says it, and the ids of the whole.
    """

    window: Window
    sides: tuple[Side, ...]
    apart: tuple[tuple[int, Side, bytes], ...]


class _Place(NamedTuple):
    """Where the rows of a scored text are found once all passes are over."""

    rows: bytes
    side: Side
    hidden: bool
    misfit: float
    left_out: str


class Passes:
    """Reads the texts of many conversations.

    A pass reads a window from its beginning with a span for each text. The passes are ordered by their tokens, so
    that those that begin alike are neighbours: the texts that a pass shares with the one before it are not read
    again, and one cache at a time is enough. What a text gets depends on the tokens up to its end alone. `states`
    tells whether the readings have them: they take far more memory than logits.
    """

    def __init__(self, speech: Speech, network: Network, *, states: bool = False) -> None:
        self._speech = speech
        self._network = network
        self._states = states
        self._rows: dict[bytes, Outputs] = {}
        self.tokens_read = 0
        """Tokens that the network was given."""

    def read(self, conversations: Iterable[Sequence[Utterance]]) -> list[list[Reading | None]]:
        """A reading of each text, none of them blank; None of those that are not scored."""
        passes: list[Pass] = []
        places = [self._plan(said, passes) for said in conversations]
        passes.sort(key=lambda one: one.window.ids, reverse=True)
        before, cache = b"", None
        for one in passes:
            before, cache = self._run(one, before, cache)
        return [[None if place is None else self._reading(place) for place in said] for said in places]

    def _plan(self, said: Sequence[Utterance], passes: list[Pass]) -> list[_Place | None]:
        """Add the passes of a conversation; return where its rows will be."""
        window, sides = Window(), tuple[Side, ...]()
        latest: Pass | None = None
        apart: list[tuple[int, Side, bytes]] = []
        places: list[_Place | None] = []
        for side, words, is_scored in said:
            text = self._speech.encode(words)
            remembered = self._speech.remembered(text, side)
            after = window.after(remembered, self._speech.reach)
            start = len(after) - len(remembered)
            if start != len(window):  # it moved
                passes += [latest] if latest else []
                latest, apart = None, []
            window, sides = after, (*sides, side)[-len(after.ends) :]
            if not is_scored:
                places.append(None)
                continue
            read, key = window, _key(window.ids)
            if (whole := self._speech.whole(text, side)) is not None:
                read = Window(window.until(start), window.ends[:-1])
                ids = array(_TYPE, whole).tobytes()
                apart.append((start, side, ids))
                key = _key(read.ids, ids)
            latest = Pass(read, sides[: len(read.ends)], tuple(apart))
            misfit = vocabulary_misfit(text.bytes_per_token, len(text.ids))
            places.append(_Place(key, side, text.hidden, misfit, text.left_out))
        passes += [latest] if latest else []
        return places

    def _run(self, one: Pass, before: bytes, cache: Cache | None) -> tuple[bytes, Cache | None]:
        """Read what of a pass was not read yet; return ids and cache for the pass behind it."""
        window = one.window
        starts = (0, *window.ends[:-1])
        keys = [_key(window.until(end)) for end in window.ends]
        known = 0
        while (
            known < len(keys) and keys[known] in self._rows and before.startswith(window.until(window.ends[known]))
        ):
            known += 1
        behind = window.ends[known - 1] if known else 0
        if known < len(keys):
            parts = [
                spans_of(self._speech.parts(end - start, side), start - behind)
                for start, end, side in zip(starts[known:], window.ends[known:], one.sides[known:], strict=True)
            ]
            tokens = window.tokens(behind)
            past = beginning(cache, behind) if cache and behind else None
            (logits, states), cache = self._network.run(tokens, [span for some in parts for span in some], past)
            self.tokens_read += len(tokens)
            cuts = np.cumsum([len(some) for some in parts])[:-1]
            kept = np.split(states, cuts) if self._states and states is not None else [None] * len(parts)
            self._rows |= zip(keys[known:], map(Outputs, np.split(logits, cuts), kept), strict=True)
            before = window.ids
        for start, side, text in one.apart:
            key = _key(window.until(start), text)
            if key not in self._rows:
                context = beginning(cache, start) if cache and start else None
                self._rows[key] = self._read_apart(text, side, context)
        return before, cache

    def _read_apart(self, text: bytes, side: Side, context: Cache | None) -> Outputs:
        ids = array(_TYPE, text).tolist()
        self.tokens_read += len(ids)
        outputs = self._network.run(ids, spans_of(self._speech.parts(len(ids), side), 0), context)[0]
        return outputs if self._states else outputs._replace(states=None)

    def _reading(self, place: _Place) -> Reading:
        logits, states = self._rows[place.rows]
        own = logits[:, SIDES.index(place.side)]
        return Reading(place.side, own, place.hidden, place.misfit, place.left_out, states)


def _key(ids: bytes, whole: bytes = b"") -> bytes:
    """Stands for a beginning, or for a text that is read whole behind one."""
    return blake2b(len(ids).to_bytes(4, "little") + ids + whole, digest_size=16).digest()
