"""Token ids of what is said in a conversation, and what of a long text is kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from turnwise.conversation import Side
from turnwise.observers.local.normalise import HEAD, TAIL, normalise

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE = 128
"""Tokens of a text that the network takes in at once; a longer one is read in pieces of at most so many."""

REMEMBERED = {Side.PROMPT: PIECE, Side.RESPONSE: 48}
"""Tokens of a text that stay in the window for later turns: of a longer one its head and its tail."""

HEAD_SHARE = 5 / 8
"""Share of the head in what is kept of a long text."""

WHOLE = 4_000
"""Tokens of a text that are read at all; of a longer one its head and its tail."""

LETTERS = 4
"""Letters of a word that leetspeak may stand for, at least."""

_WORD = "Ġ"
"""What begins a token that begins a word, in the byte-level vocabulary of Radford et al. 2019."""

_BEGIN, _END = "<|im_start|>", "<|im_end|>"
_SPEAKERS = {Side.PROMPT: "user\n", Side.RESPONSE: "assistant\n"}


class Text(NamedTuple):
    """A text as the network reads it.

    Args:
        remembered: ids of what stays in the window, with the marks of its speaker.
        pieces: ids of the pieces that are read beside it, each with the marks of its speaker; empty unless the
            text is longer than what is remembered.
        hidden: whether the text hid words.
        bytes_per_token: length of the text in bytes of UTF-8 by the number of its tokens: low where the vocabulary
            does not fit, as in other languages, ciphers and gibberish.
        left_out: what of the text was not read, in words; empty where all of it was.
    """

    remembered: list[int]
    pieces: list[list[int]]
    hidden: bool
    bytes_per_token: float
    left_out: str


class Speech:
    """Gives the ids of texts in the form in which the base model was taught to read chats.

    No text can say a mark of the form: the tokeniser knows them as ids only, not as text.

    Args:
        tokenizer: the byte-level tokeniser of the weights; its added tokens are not looked for in texts.

    Raises:
        KeyError: the tokeniser lacks one of the marks.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
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
        """Return how many ids at the beginning of a piece belong to its marks."""
        return len(self._begin[side])

    def encode(self, text: str, side: Side) -> Text:
        """Return the ids of a text, after what hides words in it has been undone.

        Args:
            text: any text.
            side: who says it.
        """
        plain, evasions = normalise(text, self.known)
        ids = self._ids(plain)
        size = len(plain.encode("utf-8", "surrogatepass"))
        left_out = ""
        if len(text) > HEAD + TAIL:
            left_out = f"read the first {HEAD:,} and the last {TAIL:,} of {len(text):,} characters"
        if len(ids) > WHOLE:
            left_out = f"read the first and the last tokens of the text, {WHOLE:,} together"
            ids = self._ends(ids, WHOLE)
        kept = REMEMBERED[side]
        pieces: list[list[int]] = []
        if len(ids) > kept:
            count = -(-len(ids) // PIECE)
            cuts = [len(ids) * number // count for number in range(count + 1)]
            pieces = [self._marked(ids[a:b], side) for a, b in pairwise(cuts)]
        return Text(
            self._marked(self._clipped(ids, kept), side), pieces, bool(evasions), size / max(len(ids), 1), left_out
        )

    def _marked(self, ids: list[int], side: Side) -> list[int]:
        return [*self._begin[side], *ids, *self._end]

    def _clipped(self, ids: list[int], size: int) -> list[int]:
        return ids if len(ids) <= size else self._ends(ids, size)

    def _ends(self, ids: list[int], size: int) -> list[int]:
        """Return head and tail of a text with a gap between, `size` ids together with the gap."""
        head = round(size * HEAD_SHARE)
        return [*ids[:head], *self._gap, *ids[len(ids) - (size - head - len(self._gap)) :]]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids
