"""What reads texts in a conversation, whatever its network is like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnwise.conversation import Side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.observers.local.tokens import Speech

SIDES = (Side.PROMPT, Side.RESPONSE)
"""The sides of a turn in the order of the networks' outputs."""

FAMILIAR = 3.6
"""Bytes of a token from which a text counts as read in full; English has 4 to 5, other languages 1 to 3."""

BOUND = 256_000_000
"""Bytes that the caches of all live conversations may take together."""

ENOUGH = 32
"""Tokens from which the fit of the vocabulary counts in full."""


class Reading(NamedTuple):
    """What a network makes of a text.

    `logits` has a row for each part of the text, one of a short text; shape (rows, outputs), T, I and F of each
    principle first. `hidden` tells whether the text hid words, `misfit` how far the vocabulary does not fit it, in
    [0, 1], and `left_out` what of it was not read, in words; empty where all of it was. `states` are what the
    logits are made of, shape (rows, width), for what was taught; None where nobody asked for them.
    """

    side: Side
    logits: NDArray[np.float32]
    hidden: bool
    misfit: float
    left_out: str
    states: NDArray[np.float32] | None = None


class Utterance(NamedTuple):
    """What somebody says; `said` is not blank, `scored` tells whether a score is wanted of it."""

    side: Side
    said: str
    scored: bool


class Reader(Protocol):
    """Reads one text after what was said before. What was said before is a place, which nobody changes."""

    speech: Speech
    """Makes tokens of texts."""

    def start(self) -> Any:
        """The place at which nothing was said yet."""

    def read(self, place: Any, said: str, side: Side, *, lasts: bool) -> Reading:
        """What the network makes of a text that is not blank; `lasts` tells whether more may be read after it."""

    def after(self, place: Any, said: str, side: Side) -> Any:
        """The place behind a text that is not blank."""

    def read_many(
        self, conversations: Sequence[Sequence[Utterance]], *, states: bool = False
    ) -> list[list[Reading | None]]:
        """What `read` makes of each text of whole conversations; None of those that are not scored.

        `states` tells whether the states are wanted, where the network has any.
        """

    def pack(self, place: Any) -> bytes:
        """A place as bytes, at most 4 kB."""

    def unpack(self, data: bytes) -> Any:
        """The place that `pack` wrote; `ValueError` for other bytes."""


def vocabulary_misfit(bytes_per_token: float, tokens: int) -> float:
    """How far the vocabulary does not fit a text, in [0, 1]; a short text says little of its language.

    >>> vocabulary_misfit(4.5, 100), vocabulary_misfit(1.8, 100), vocabulary_misfit(1.8, 16)
    (0.0, 0.5, 0.25)
    """
    return max(0.0, 1 - bytes_per_token / FAMILIAR) * min(1.0, tokens / ENOUGH)
