"""Whole conversations read in as few passes as their windows allow, and nothing in a batch read twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import Cache, Network, Outputs, beginning, spans_of
from turnwise.observers.local.protocol import SIDES, Reading, Utterance, vocabulary_misfit
from turnwise.observers.local.tokens import Speech
from turnwise.observers.local.window import Window

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
