"""Whole conversations read in as few passes as their windows allow, and nothing in a batch read twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import Cache, Network, Span, beginning
from turnwise.observers.local.protocol import SIDES, Reading, Utterance, unread
from turnwise.observers.local.tokens import Speech
from turnwise.observers.local.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE = "H"


class Pass(NamedTuple):
    """A window as it stands before it moves, or at its last scored text: what the network reads at once.

    Args:
        window: the window.
        sides: who says each of its texts.
        scored: places of the texts with pieces of their own that are scored here, with these pieces.
    """

    window: Window
    sides: tuple[Side, ...]
    scored: tuple[tuple[int, tuple[bytes, ...]], ...]


class _Place(NamedTuple):
    """Where the rows of a scored text are found once all passes are over."""

    text: bytes
    pieces: bytes | None
    side: Side
    hidden: bool
    unread: float
    left_out: str


class Passes:
    """Reads the texts of many conversations.

    A pass reads a window from its beginning with a span for each text. The passes are ordered by their tokens, so
    that those that begin alike are neighbours: the texts that a pass shares with the one before it are not read
    again, and one cache at a time is enough. What a text gets hangs on the tokens up to its end alone.

    Args:
        speech: gives the ids of texts.
        network: reads them.
    """

    def __init__(self, speech: Speech, network: Network) -> None:
        self._speech = speech
        self._network = network
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        self.tokens_read = 0
        """Tokens that the network was given."""

    def read(self, conversations: Iterable[Sequence[Utterance]]) -> list[list[Reading | None]]:
        """Return a reading of each text; None of those that are not scored.

        Args:
            conversations: what is said in each, none of it blank.
        """
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
        scored: list[tuple[int, tuple[bytes, ...]]] = []
        places: list[_Place | None] = []
        for side, words, is_scored in said:
            text = self._speech.encode(words)
            remembered = self._speech.remembered(text, side)
            after = window.after(remembered)
            start = len(after) - len(remembered)
            if start != len(window):  # it moved
                passes += [latest] if latest else []
                latest, scored = None, []
            window, sides = after, (*sides, side)[-len(after.ends) :]
            if not is_scored:
                places.append(None)
                continue
            pieces = tuple(array(_TYPE, piece).tobytes() for piece in self._speech.pieces(text, side))
            if pieces:
                scored.append((len(after.ends) - 1, pieces))
            latest = Pass(window, sides, tuple(scored))
            fit = unread(text.bytes_per_token, len(text.ids))
            of_pieces = _key(window.until(start), pieces) if pieces else None
            places.append(_Place(_key(window.ids), of_pieces, side, text.hidden, fit, text.left_out))
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
            spans = [
                Span(start - behind + self._speech.head(side), end - behind - self._speech.tail + 1)
                for start, end, side in zip(starts[known:], window.ends[known:], one.sides[known:], strict=True)
            ]
            tokens = window.tokens(behind)
            past = beginning(cache, behind) if cache and behind else None
            logits, cache = self._network.run(tokens, spans, past)
            self.tokens_read += len(tokens)
            self._rows |= zip(keys[known:], logits[:, None], strict=True)
            before = window.ids
        for place, pieces in one.scored:
            key = _key(window.until(starts[place]), pieces)
            if key not in self._rows:
                context = beginning(cache, starts[place]) if cache and starts[place] else None
                self._rows[key] = self._read_pieces(pieces, one.sides[place], context)
        return before, cache

    def _read_pieces(self, pieces: Sequence[bytes], side: Side, context: Cache | None) -> NDArray[np.float32]:
        head, tail = self._speech.head(side), self._speech.tail
        rows = []
        for piece in pieces:
            ids = array(_TYPE, piece).tolist()
            rows.append(self._network.run(ids, [Span(head, len(ids) - tail + 1)], context)[0])
            self.tokens_read += len(ids)
        return np.concatenate(rows)

    def _reading(self, place: _Place) -> Reading:
        rows = self._rows[place.text]
        if place.pieces is not None:
            rows = np.concatenate((rows, self._rows[place.pieces]))
        outputs = rows[:, SIDES.index(place.side)]
        return Reading(place.side, outputs, place.hidden, place.unread, place.left_out)


def _key(ids: bytes, pieces: Sequence[bytes] = ()) -> bytes:
    """Return what stands for a beginning, or for pieces that are read behind one."""
    found = blake2b(ids, digest_size=16)
    for piece in pieces:
        found.update(len(piece).to_bytes(4, "little") + piece)
    return found.digest()
