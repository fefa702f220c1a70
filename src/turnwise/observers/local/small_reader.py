"""The small reader: token vectors, phrases, and a state that every text changes. For screening."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.conversation import Side
from turnwise.observers.local.network import session_of
from turnwise.observers.local.reading import SIDES, Reading, Speech, TokenisedText, Utterance

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

STRETCH = 128
"""Tokens that are taken in at once: of a longer text head and tail change the state, and its parts are read."""


class _TextState(NamedTuple):
    """The state behind a text, and the text's logits; `number` names the texts so far, 0 the empty beginning."""

    number: int
    state: NDArray[np.float32]
    logits: NDArray[np.float32]


class SmallReader:
    """Holds network and tokeniser, for many conversations and threads."""

    def __init__(self, model: bytes, tokenizer: Tokenizer, device: str = "cpu") -> None:
        self.speech = Speech(tokenizer)
        self._session = session_of(model, device)
        state = next(one for one in self._session.get_inputs() if one.name == "state")
        self._width = int(state.shape[2])

    def start(self) -> NDArray[np.float32]:
        return np.zeros((1, 1, self._width), np.float32)

    def read(self, place: NDArray[np.float32], said: str, side: Side, *, lasts: bool) -> Reading:
        """What the network makes of a text; `lasts` makes no difference."""
        text = self.speech.encode(said)
        logits = self._run(place, self.speech.ends(text, STRETCH), side)[0]
        return self._reading(side, text, self._with_stretches(logits, place, text, side))

    def after(self, place: NDArray[np.float32], said: str, side: Side) -> NDArray[np.float32]:
        return self._run(place, self.speech.ends(self.speech.encode(said), STRETCH), side)[1]

    def read_many(
        self, conversations: Sequence[Sequence[Utterance]], *, states: bool = False
    ) -> list[list[Reading | None]]:
        """What `read` makes of each text: what repeats is read once; there are no states to give."""
        steps: dict[tuple[int, Side, bytes], _TextState] = {}
        whole: dict[tuple[int, Side, bytes], NDArray[np.float32]] = {}
        found: list[list[Reading | None]] = []
        start, empty = self.start(), np.zeros((0, len(SIDES), 0), np.float32)
        for said in conversations:
            step = _TextState(0, start, empty)
            readings: list[Reading | None] = []
            for side, words, scored in said:
                text = self.speech.encode(words)
                place, ids = step, self.speech.ends(text, STRETCH)
                key = place.number, side, _packed(ids)
                if key not in steps:
                    logits, after = self._run(place.state, ids, side)
                    steps[key] = _TextState(len(steps) + 1, after, logits)
                step = steps[key]
                if not scored:
                    readings.append(None)
                    continue
                key = place.number, side, _packed(text.ids)
                if key not in whole:
                    whole[key] = self._with_stretches(step.logits, place.state, text, side)
                readings.append(self._reading(side, text, whole[key]))
            found.append(readings)
        return found

    def _with_stretches(
        self, logits: NDArray[np.float32], place: NDArray[np.float32], text: TokenisedText, side: Side
    ) -> NDArray[np.float32]:
        """The logits of a text's ends, and of its stretches where it is longer."""
        stretches = self.speech.stretches(text, STRETCH)
        return np.concatenate((logits, *(self._run(place, ids, side)[0] for ids in stretches)))

    def _reading(self, side: Side, text: TokenisedText, logits: NDArray[np.float32]) -> Reading:
        return text.reading(side, logits[:, SIDES.index(side)])

    def pack(self, place: NDArray[np.float32]) -> bytes:
        return place.astype("<f4").tobytes()

    def unpack(self, data: bytes) -> NDArray[np.float32]:
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


def _packed(ids: list[int]) -> bytes:
    return array("H", ids).tobytes()
