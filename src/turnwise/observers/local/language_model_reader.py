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
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import Cache, Caches, Network, Outputs, beginning, spans_of
from turnwise.observers.local.reading import SIDES, Reading, Speech, TokenisedText, Utterance
from turnwise.observers.local.weights import CACHE_BYTES, UNSAID, Reach

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Value = TypeVar("Value")

_TYPE, _SIZE = "H", 2
"""Token ids as an `array`: two bytes each."""

_RECENT = 4
"""Readings that are kept for who asks for the same soon: guardrails of one check do."""

_FIRST = 1_000
"""Outputs of texts without anything before them that are kept, some 5 kB each: many users say the same."""


@dataclass(frozen=True, slots=True)
class Window:
    """The latest texts as token ids, two bytes each; it moves seldom, and at places that texts alone decide."""

    ids: bytes = b""
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids) // _SIZE

    def after(self, text: list[int], reach: Reach) -> Window:
        """The window after a further text: its ids, at most `reach.kept` of them, each below 65,536."""
        added = array(_TYPE, text).tobytes()
        if len(self) + len(text) <= reach.limit:
            return Window(self.ids + added, (*self.ends, len(self) + len(text)))
        from_ = next((end for end in self.ends if len(self) - end + len(text) <= reach.kept), len(self))
        ends = tuple(end - from_ for end in self.ends if end > from_)
        kept = len(self) - from_
        return Window(self.ids[from_ * _SIZE :] + added, (*ends, kept + len(text)))

    def tokens(self, start: int = 0) -> list[int]:
        """The ids from a place on."""
        return array(_TYPE, self.ids).tolist()[start:]

    def until(self, end: int) -> bytes:
        return self.ids[: end * _SIZE]

    def to_lengths(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip((0, *self.ends), self.ends, strict=False))

    @classmethod
    def of(cls, ids: bytes, lengths: tuple[int, ...], reach: Reach) -> Window:
        """The window of some ids and the lengths of their texts; `ValueError` where they don't fit one another."""
        window = cls(ids, tuple(accumulate(lengths)))
        last = window.ends[-1] if window.ends else 0
        if len(ids) % _SIZE or last != len(window) or len(window) > reach.limit:
            raise ValueError("its texts don't fit its tokens")
        return window


class _Latest(Generic[Value]):
    """The latest values by what they were made of, for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, Value] = OrderedDict()

    def get(self, key: bytes) -> Value | None:
        with self._lock:
            return self._values.get(key)

    def keep(self, key: bytes, value: Value) -> None:
        """Keep a value as the latest one."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


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
        # Outputs, and the cache behind them; None where that is among those of live conversations.
        self._recent = _Latest[tuple[Outputs, Cache | None]](_RECENT)
        self._first = _Latest[Outputs](_FIRST)

    def start(self) -> Window:
        return Window()

    def read(self, place: Window, said: str, side: Side, *, lasts: bool) -> Reading:
        """What the network makes of a text; with `lasts` the cache is worth keeping."""
        text = self.speech.encode(said)
        after = place.after(self.speech.remembered(text, side), self._reach)
        # What stands between the ends of a long text is in no window.
        key = _digest(repr((side, after.ids, after.ends, array(_TYPE, text.ids).tobytes())).encode())
        alone = not lasts and len(after.ends) == 1
        outputs = self._first.get(key) if alone else None
        if outputs is None:
            outputs = self._read(key, text, after, side, lasts=lasts)
        if alone:
            self._first.keep(key, outputs)
        return text.reading(side, outputs.logits[:, SIDES.index(side)], outputs.states)

    def _read(self, key: bytes, text: TokenisedText, after: Window, side: Side, *, lasts: bool) -> Outputs:
        """The outputs of a text at the end of a window, from the latest readings where they are there."""
        outputs, cache = self._recent.get(key) or self._outputs(text, after, side)
        if lasts and cache is not None:
            ends = [*(end for end in after.ends if end < cache.length), cache.length]
            self.caches.keep(cache, [(after.until(end), end) for end in ends])
            cache = None
        self._recent.keep(key, (outputs, cache))
        return outputs

    def _outputs(self, text: TokenisedText, after: Window, side: Side) -> tuple[Outputs, Cache]:
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
        """Where a cache of a window may end, the longest first; the latest text may stay in another form."""
        ends = after.ends[:-1]
        if not ends:
            return []
        start = ends[-2] if len(ends) > 1 else 0
        within = sorted({start + self.speech.shared(side) for side in SIDES}, reverse=True)
        return [ends[-1], *(place for place in within if place < ends[-1]), *reversed(ends[:-1])]

    def after(self, place: Window, said: str, side: Side) -> Window:
        return place.after(self.speech.remembered(self.speech.encode(said), side), self._reach)

    def read_many(
        self, conversations: Sequence[Sequence[Utterance]], *, states: bool = False
    ) -> list[list[Reading | None]]:
        """What `read` makes of each text; the caches of live conversations are left alone."""
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


class Pass(NamedTuple):
    """A window that the network reads at once, and the scored texts that only in part stay in it."""

    window: Window
    sides: tuple[Side, ...]
    apart: tuple[tuple[int, Side, bytes], ...]  # where each begins in the window, who says it, and its ids


class _ScoredText(NamedTuple):
    """The reading of a scored text, without logits until all passes are over, and where they are found then."""

    rows: bytes
    reading: Reading


_NOT_YET = np.zeros((0, 0), np.float32)


class Passes:
    """Reads the texts of many conversations in as few passes as their windows allow, and nothing twice.

    A pass reads a window from its beginning with a span for each text. The passes are ordered by their tokens, so
    that the texts that a pass shares with the one before it are not read again, and one cache at a time is enough.
    Without `states` the readings have none: they take far more memory than logits.
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

    def _plan(self, said: Sequence[Utterance], passes: list[Pass]) -> list[_ScoredText | None]:
        """Add the passes of a conversation; return where its rows will be."""
        window, sides = Window(), tuple[Side, ...]()
        latest: Pass | None = None
        apart: list[tuple[int, Side, bytes]] = []
        places: list[_ScoredText | None] = []
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
            places.append(_ScoredText(key, text.reading(side, _NOT_YET)))
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

    def _reading(self, place: _ScoredText) -> Reading:
        logits, states = self._rows[place.rows]
        return place.reading._replace(logits=logits[:, SIDES.index(place.reading.side)], states=states)


def _key(ids: bytes, whole: bytes = b"") -> bytes:
    """Stands for a beginning, or for a text that is read whole behind one."""
    return _digest(len(ids).to_bytes(4, "little") + ids + whole)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
