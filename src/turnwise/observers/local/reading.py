"""From a text to tokens, and what a reader makes of them: the protocol of both readers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnwise.conversation import Side
from turnwise.observers.local.normalise import normalise
from turnwise.observers.local.weights import UNSAID, Reach

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


SIDES = (Side.PROMPT, Side.RESPONSE)
"""The sides of a turn in the order of the networks' outputs."""

FAMILIAR = 3.6
"""Bytes of a token from which a text counts as read in full; English has 4 to 5, other languages 1 to 3."""

ENOUGH = 32
"""Tokens from which the fit of the vocabulary counts in full."""


class Reading(NamedTuple):
    """What a network makes of a text.

    `logits` has a row for each part of the text, shape (rows, outputs), T, I and F of each principle first.
    `hidden` tells whether the text hid words, `misfit` how far the vocabulary does not fit it, in [0, 1], and
    `left_out` in words what of it was not read. `states`, for taught heads, are what the logits are made of, shape
    (rows, width); None where nobody asked for them.
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
        """What `read` makes of each text of whole conversations; None of those that are not scored."""

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


# A text at a time needs no threads of the library's own, which would warn of every process that is forked.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HEAD_SHARE = 5 / 8
"""Share of the head in what is kept of a long text."""

HEAD_BYTES, TAIL_BYTES = 8_000, 4_800
"""Bytes of UTF-8 at both ends of a longer text that are tokenised: enough for all that is read in any language."""

RECENT = 32
"""Texts whose tokens are kept, since several checks may ask for the same."""

LETTERS = 4
"""Letters of a word that leetspeak may stand for, at least."""

_WORD = "Ġ"
"""What begins a token that begins a word, in the byte-level vocabulary of Radford et al. 2019."""

_BEGIN, _END = "<|im_start|>", "<|im_end|>"
_SPEAKERS = {Side.PROMPT: "user\n", Side.RESPONSE: "assistant\n"}


class TokenisedText(NamedTuple):
    """A text as tokens; `bytes_per_token`, of UTF-8, is low in other languages, ciphers and gibberish."""

    ids: list[int]
    hidden: bool
    bytes_per_token: float
    left_out: str

    def reading(
        self, side: Side, logits: NDArray[np.float32], states: NDArray[np.float32] | None = None
    ) -> Reading:
        misfit = vocabulary_misfit(self.bytes_per_token, len(self.ids))
        return Reading(side, logits, self.hidden, misfit, self.left_out, states)


class Speech:
    """Ids of texts in the form in which the base model reads chats; no text can say a mark of the form."""

    def __init__(self, tokenizer: Tokenizer, reach: Reach = UNSAID) -> None:
        self._tokenizer = tokenizer
        self.reach = reach
        self._stays = {Side.PROMPT: reach.prompt, Side.RESPONSE: reach.reply}
        self._recent = lru_cache(RECENT)(self._encode)
        vocabulary = tokenizer.get_vocab()
        self._begin = {side: [vocabulary[_BEGIN], *self._ids(said)] for side, said in _SPEAKERS.items()}
        self._end = [vocabulary[_END], *self._ids("\n")]
        self._gap = self._ids(" ... ")
        words = (token[1:] for token in vocabulary if token.startswith(_WORD))
        self.known = frozenset(
            word for word in words if len(word) >= LETTERS and word.isalpha() and word.islower()
        )
        self.tail = len(self._end)
        """Ids at the end of each piece that belong to its marks."""

    def head(self, side: Side) -> int:
        """How many ids at the beginning of a piece belong to its marks."""
        return len(self._begin[side])

    def encode(self, text: str) -> TokenisedText:
        """A text as tokens, with what hides words in it undone; a lone surrogate is read as a question mark."""
        most = HEAD_BYTES + TAIL_BYTES
        # A character has at least a byte, so of a very long text no more is encoded than may be kept.
        ends = text if len(text) <= 2 * most else text[:most] + text[-most:]
        data = ends.encode("utf-8", "replace")
        if ends is text and len(data) <= most:
            return self._recent(data.decode("utf-8"))
        # Cut here, so that what is kept of recent texts is bounded too.
        head, tail = data[:HEAD_BYTES].decode("utf-8", "ignore"), data[-TAIL_BYTES:].decode("utf-8", "ignore")
        found = self._recent(f"{head}\n{tail}")
        left_out = f"read the first {len(head):,} and the last {len(tail):,} of {len(text):,} characters"
        return found._replace(left_out=found.left_out or left_out)

    def _encode(self, text: str) -> TokenisedText:
        plain, evasions = normalise(text, self.known)
        ids = self._ids(plain)
        size = len(plain.encode("utf-8"))
        left_out = ""
        bytes_per_token = size / max(len(ids), 1)
        most = self.reach.most
        if len(ids) > most:
            left_out = f"read the first and the last tokens of the text, {most:,} together"
            ids = self._ends(ids, most)
        return TokenisedText(ids, bool(evasions), bytes_per_token, left_out)

    def remembered(self, text: TokenisedText, side: Side) -> list[int]:
        """The ids that stay in the window for later texts, with the marks of their speaker."""
        return self._marked(self.ends(text, self._stays[side]), side)

    def whole(self, text: TokenisedText, side: Side) -> list[int] | None:
        """The ids of all that is read of a text, with the marks of its speaker; None where all of it stays."""
        return self._marked(text.ids, side) if len(text.ids) > self._stays[side] else None

    def shared(self, side: Side) -> int:
        """How many ids at the beginning of a text of which not all stays are the same in what does."""
        return self.head(side) + self._kept(self._stays[side])[0]

    def parts(self, length: int, side: Side) -> list[tuple[int, int]]:
        """Where the parts of a text begin and end among its `length` ids, the mark of the end included."""
        head = self.head(side)
        size = length - head - self.tail
        count = max(1, -(-size // self.reach.part))
        cuts = [head + size * number // count for number in range(count)]
        return list(pairwise([*cuts, length - self.tail + 1]))

    def ends(self, text: TokenisedText, size: int) -> list[int]:
        """The ids of a text, or of a longer one head and tail with a gap between, `size` in all."""
        return text.ids if len(text.ids) <= size else self._ends(text.ids, size)

    def stretches(self, text: TokenisedText, size: int) -> list[list[int]]:
        """A text that is longer than `size` ids in parts of at most `size`, about equal; none of a shorter one."""
        count = -(-len(text.ids) // size)
        cuts = [len(text.ids) * number // count for number in range(count + 1)] if count > 1 else []
        return [text.ids[a:b] for a, b in pairwise(cuts)]

    def _marked(self, ids: list[int], side: Side) -> list[int]:
        return [*self._begin[side], *ids, *self._end]

    def _ends(self, ids: list[int], size: int) -> list[int]:
        head, tail = self._kept(size)
        return [*ids[:head], *self._gap, *ids[len(ids) - tail :]]

    def _kept(self, size: int) -> tuple[int, int]:
        """How many ids of head and of tail are kept where `size` are, those of the gap among them."""
        head = round(size * HEAD_SHARE)
        return head, size - head - len(self._gap)

    def _ids(self, text: str) -> list[int]:
        # For a batch the library lets other threads go on meanwhile, an event loop among them.
        ids: list[int] = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids
