"""The small reader: token vectors, phrases, and a state that every text changes. For screening."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import session_of
from turnwise.observers.local.protocol import SIDES, Reading, unread
from turnwise.observers.local.tokens import Speech

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

STRETCH = 128
"""Tokens that are taken in at once: of a longer text head and tail change the state, and its parts are read."""


class SmallReader:
    """Holds network and tokeniser; one serves many conversations, and threads.

    Args:
        model: the network's graph.
        tokenizer: the tokeniser.

    Raises:
        ObserverError: the graph can't be run.
    """

    def __init__(self, model: bytes, tokenizer: Tokenizer) -> None:
        self.speech = Speech(tokenizer)
        self._session = session_of(model)
        state = next(one for one in self._session.get_inputs() if one.name == "state")
        self._width = int(state.shape[2])

    def start(self) -> NDArray[np.float32]:
        """Return the state before the first text."""
        return np.zeros((1, 1, self._width), np.float32)

    def read(self, place: NDArray[np.float32], said: str, side: Side, *, lasts: bool) -> Reading:
        """Return what the network makes of a text.

        Args:
            place: the state before the text.
            said: the text; not blank.
            side: who says it.
            lasts: makes no difference.
        """
        text = self.speech.encode(said)
        stretches = [self.speech.ends(text, STRETCH), *self.speech.stretches(text, STRETCH)]
        outputs = np.concatenate([self._run(place, ids, side)[0] for ids in stretches])
        fit = unread(text.bytes_per_token, len(text.ids))
        return Reading(side, outputs[:, SIDES.index(side)], text.hidden, fit, text.left_out)

    def after(self, place: NDArray[np.float32], said: str, side: Side) -> NDArray[np.float32]:
        """Return the state behind a text.

        Args:
            place: the state before it.
            said: the text; not blank.
            side: who says it.
        """
        return self._run(place, self.speech.ends(self.speech.encode(said), STRETCH), side)[1]

    def pack(self, place: NDArray[np.float32]) -> bytes:
        """Return a state as bytes."""
        return place.astype("<f4").tobytes()

    def unpack(self, data: bytes) -> NDArray[np.float32]:
        """Return the state that `pack` wrote.

        Raises:
            ValueError: the bytes are no state.
        """
        state = np.frombuffer(data, "<f4").astype(np.float32)
        if state.shape != (self._width,) or not np.isfinite(state).all():
            raise ValueError("its values are too few, too many or no numbers")
        return state.reshape(1, 1, self._width)

    def _run(
        self, place: NDArray[np.float32], ids: list[int], side: Side
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        feed = {"ids": np.array(ids or [0], np.int64), "side": np.array([SIDES.index(side)]), "state": place}
        logits, after = self._session.run(["logits", "after"], feed)
        return logits, after
