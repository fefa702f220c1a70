"""The network of the local observer, in numpy: a vector per turn, a recurrent state, logits per principle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from turnwise.errors import ObserverError
from turnwise.observers.local.tokens import Encoder

if TYPE_CHECKING:
    from turnwise.observers.local.weights import Weights

Floats = NDArray[np.float32]

CHUNK = 256
"""Turns read at once: enough for large matrix products, few enough to stay in the cache of the processor."""


BEND = 3.0
"""Logits beyond which a logit can weigh differently: the surest outputs are the most often overdone."""


class Reading(NamedTuple):
    """What is known of a text before any state comes in.

    Args:
        vector: unit mean vector of the turn followed by its strongest phrases, shape (dimensions + phrases,);
            zeros where the text has no token.
        features: distance from the training data, share of tokens that are word fragments or unknown, evasion
            (0 or 1) and brevity, each in [0, 1] except the distance, in [0, 2].
    """

    vector: Floats
    features: Floats


ONE_THREAD = 1 << 18
"""Multiplications of a matrix product up to which OpenBLAS uses one thread, by its defaults."""


class Patience(NamedTuple):
    """By how much the logit of F falls as a conversation goes on.

    It falls with the logarithm of the number of turns once they exceed a start: a conversation of hundreds of
    turns has hundreds of occasions for a false alarm.

    Args:
        weight: fall for e times as many turns.
        start: turns after which it begins.
    """

    weight: float
    start: float

    def at(self, turns: NDArray[Any] | int) -> Floats | float:
        """Return the fall at a turn, with a last axis of one for an array of turns.

        >>> Patience(1.0, 5.0).at(4), Patience(1.0, 5.0).at(np.array([5, 50])).round(2).astype(str).tolist()
        (0.0, [['0.0'], ['2.3']])
        """
        if isinstance(turns, int):
            return self.weight * math.log(max(turns / self.start, 1.0))
        beyond = np.maximum(turns / self.start, 1.0)
        return np.asarray(self.weight * np.log(beyond), np.float32)[..., None]


class Network:
    """Scores turn vectors with an ensemble that shares one token table.

    Args:
        weights: checked weights.

    Raises:
        ObserverError: the tokeniser file can't be used or has another vocabulary than the table.
    """

    def __init__(self, weights: Weights) -> None:
        arrays = weights.arrays
        try:
            tokenizer = Tokenizer.from_str(weights.tokenizer)
        except Exception as error:
            raise ObserverError(
                f"the tokeniser file can't be read: {error}; copy the weights folder again"
            ) from error
        if tokenizer.get_vocab_size() != len(arrays["table"]):
            raise ObserverError(
                f"the tokeniser has {tokenizer.get_vocab_size()} tokens, the table {len(arrays['table'])}: "
                "the files do not belong together; copy the weights folder again"
            )
        self._encoder = Encoder(tokenizer)
        self._table = arrays["table"]
        scale = arrays["table_scale"].astype(np.float32)
        self._weight = scale * arrays["token_weight"].astype(np.float32)
        # Looked up instead of computed at every turn; the last row stands between turns.
        narrow = arrays["table"].astype(np.float32) @ arrays["phrase.project"].astype(np.float32)
        narrow *= scale[:, None]
        self._narrow = np.concatenate((narrow, np.zeros((1, narrow.shape[1]), np.float32)))
        taps = arrays["phrase.taps"].astype(np.float32)
        self._taps = taps.reshape(-1, taps.shape[2])
        self._phrase_bias = arrays["phrase.bias"].astype(np.float32)
        self._centroids = arrays["centroids"].astype(np.float32)
        fragments = [_is_fragment(str(tokenizer.id_to_token(index))) for index in range(len(self._table))]
        self._fragment = np.array(fragments, np.float32)
        self._arms = {arm: Arm(weights, arm) for arm in ("history", "turn")}
        self.dimensions = self._table.shape[1]

    def arm(self, name: str) -> Arm:
        """Return the recurrent part for a context mode, ``history`` or ``turn``."""
        return self._arms[name]

    def count_tokens(self, text: str) -> int:
        """Return how many tokens of a text the network reads."""
        return len(self._encoder.encode(text).ids)

    def read(self, text: str) -> Reading:
        """Return the vector and features of one turn's text."""
        tokens, hidden = self._encoder.encode(text)
        count = len(tokens)
        if count == 0:
            return _empty(len(self._centroids[0]) + len(self._phrase_bias), hidden)
        ids = np.array(tokens, np.int64)
        vector = np.empty(len(self._centroids[0]) + len(self._phrase_bias), np.float32)
        mean, phrases = vector[: len(self._centroids[0])], vector[len(self._centroids[0]) :]
        np.matmul(self._weight[ids], self._table[ids].astype(np.float32), out=mean)
        mean /= max(math.sqrt(mean @ mean), 1e-12)
        empty = len(self._narrow) - 1
        rows = self._narrow[[empty, *tokens, empty]]
        np.maximum.reduce(_product(_triples(rows), self._taps), axis=0, out=phrases)
        phrases += self._phrase_bias
        np.maximum(phrases, 0, out=phrases)
        distance = 1.0 - float(np.maximum.reduce(self._centroids @ mean))
        fragments = float(np.add.reduce(self._fragment[ids])) / count
        return Reading(vector, np.array([distance, fragments, hidden, 1.0 / math.sqrt(count)], np.float32))

    def read_many(self, texts: Sequence[str]) -> Reading:
        """Return vectors and features of many turns, a row each: the same as `read`, with larger products.

        Args:
            texts: the turns, of any conversations.
        """
        parts = [self._read_chunk(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK)]
        vectors, features = zip(*parts, strict=True)
        return Reading(np.concatenate(vectors), np.concatenate(features))

    def _read_chunk(self, texts: Sequence[str]) -> Reading:
        tokens = [self._encoder.encode(text) for text in texts]
        counts = np.array([len(one.ids) for one in tokens])
        vectors = np.zeros((len(texts), len(self._centroids[0]) + len(self._phrase_bias)), np.float32)
        hidden = np.array([one.hidden for one in tokens], np.float32)
        features = np.stack((np.ones_like(hidden), np.ones_like(hidden), hidden, np.ones_like(hidden)), axis=1)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return Reading(vectors, features)
        kept = counts[filled]
        ids = np.array([index for one in tokens for index in one.ids], np.int64)
        starts = np.cumsum(kept) - kept
        rows, weights = self._table[ids].astype(np.float32), self._weight[ids]
        # An empty row before, between and after the turns keeps their phrases apart.
        spaced = np.full(len(ids) + len(kept) + 1, len(self._narrow) - 1)
        spaced[np.arange(len(ids)) + np.repeat(np.arange(1, len(kept) + 1), kept)] = ids
        found = _triples(self._narrow[spaced]) @ self._taps
        total = np.empty((len(kept), rows.shape[1]), np.float32)
        phrases = np.empty((len(kept), found.shape[1]), np.float32)
        # A product a turn is several times as fast as one reduction over all.
        for turn, (start, count) in enumerate(zip(starts.tolist(), kept.tolist(), strict=True)):
            np.matmul(weights[start : start + count], rows[start : start + count], out=total[turn])
            np.maximum.reduce(found[start + turn : start + turn + count], axis=0, out=phrases[turn])
        mean = total / np.maximum(np.sqrt((total * total).sum(axis=1, keepdims=True)), 1e-12)
        phrases = np.maximum(phrases + self._phrase_bias, 0)
        vectors[filled] = np.concatenate((mean, phrases), axis=1)
        features[filled, 0] = 1.0 - (mean @ self._centroids.T).max(axis=1)
        features[filled, 1] = np.add.reduceat(self._fragment[ids], starts) / kept
        features[filled, 3] = 1.0 / np.sqrt(kept)
        return Reading(vectors, features)


class Arm:
    """The ensemble for one context mode: linear, GELU, GRU, and heads over turn vector and state.

    The GRU is that of Cho et al. 2014 in the form of Chung et al. 2014, gates in the order reset, update, new.

    Args:
        weights: checked weights.
        name: ``history`` or ``turn``.
    """

    def __init__(self, weights: Weights, name: str) -> None:
        def get(part: str) -> Floats:
            return weights.arrays[f"{name}.{part}"].astype(np.float32)

        def columns(part: str) -> Floats:
            # Rows times a column is the fastest product of a stack of matrices with one vector each.
            return np.ascontiguousarray(get(part).transpose(0, 2, 1))

        self.carries = name == "history"
        self._members, self._width = weights.members, weights.width
        self._project = columns("project").reshape(-1, weights.arrays[f"{name}.project"].shape[1])
        self._project_bias = get("project_bias")
        self._input, self._input_bias = columns("input"), get("input_bias")
        self._recurrent, self._recurrent_bias = columns("recurrent"), get("recurrent_bias")
        self._heads, self._heads_bias = columns("heads"), get("heads_bias")
        self._mean = np.full(self._members, 1 / self._members, np.float32)
        self._slope, self._bent, self._offset = get("calibration").T.copy()
        indeterminacy = get("indeterminacy")
        self._spread = indeterminacy[:, 0].copy()
        self._features = indeterminacy[:, 1:-1].T.copy()
        self._features_offset = indeterminacy[:, -1].copy()
        self._patience = Patience(*map(float, get("patience")))

    def initial(self) -> Floats:
        """Return the state before the first turn, shape (members, width)."""
        return np.zeros((self._members, self._width), np.float32)

    def step(self, vector: Floats, state: Floats) -> tuple[Floats, Floats]:
        """Take one turn.

        Args:
            vector: vector of the turn, shape (dimensions + phrases,).
            state: shape (members, width).

        Returns:
            Logits of shape (members, 2 · principles), first those of F, then those of T; and the next state.
        """
        width = self._width
        turn = _gelu((self._project @ vector).reshape(self._members, width) + self._project_bias)
        gates = (self._input @ turn[:, :, None])[:, :, 0] + self._input_bias
        recurrent = (self._recurrent @ state[:, :, None])[:, :, 0] + self._recurrent_bias
        following = _gru(gates, recurrent, state)
        joint = np.concatenate((turn, following), axis=1)
        logits = (self._heads @ joint[:, :, None])[:, :, 0] + self._heads_bias
        return logits, following

    def turn_numbers(self, lengths: Sequence[int]) -> NDArray[np.int64]:
        """Return the number of every turn in its conversation, as far as this arm may know it: 1 without memory.

        Args:
            lengths: turns of each conversation.
        """
        if not self.carries:
            return np.ones(sum(lengths), np.int64)
        return np.concatenate([np.arange(1, length + 1) for length in lengths])

    def run(self, vectors: Floats, lengths: Sequence[int]) -> Floats:
        """Take all turns of many conversations: the same as `step`, conversations side by side.

        Args:
            vectors: vectors of the turns, conversation after conversation, shape (turns, dimensions + phrases).
            lengths: turns of each conversation, at least one.

        Returns:
            Logits of shape (turns, members, 2 · principles), in the order of the vectors.
        """
        width, counts = self._width, np.asarray(lengths)
        turns = (vectors @ self._project.T).reshape(len(vectors), self._members, width).transpose(1, 0, 2)
        turns = _gelu(turns + self._project_bias[:, None])
        gates = turns @ self._input.transpose(0, 2, 1) + self._input_bias[:, None]
        if self.carries:
            states = self._carry(gates, counts)
        else:
            states = _gru(gates, self._recurrent_bias[:, None], np.zeros_like(turns))
        joint = np.concatenate((turns, states), axis=2)
        logits = joint @ self._heads.transpose(0, 2, 1) + self._heads_bias[:, None]
        return np.ascontiguousarray(logits.transpose(1, 0, 2))

    def _carry(self, gates: Floats, counts: NDArray[np.int64]) -> Floats:
        """Return the states after every turn; longest conversations first, so that those left are a slice."""
        order = np.argsort(-counts, kind="stable")
        starts = (np.cumsum(counts) - counts)[order]
        recurrent = np.ascontiguousarray(self._recurrent.transpose(0, 2, 1))
        states = np.zeros((*gates.shape[:2], self._width), np.float32)
        state = np.zeros((self._members, len(counts), self._width), np.float32)
        for turn in range(int(counts.max(initial=0))):
            rows = starts[: int((counts > turn).sum())] + turn
            state = state[:, : len(rows)]
            state = _gru(gates[:, rows], state @ recurrent + self._recurrent_bias[:, None], state)
            states[:, rows] = state
        return states

    def scores(self, logits: Floats, features: Floats, turns: NDArray[np.int64] | int) -> Floats:
        """Turn logits into T, I and F.

        F and T are the mean logits of the ensemble, that of F less the `Patience` of the arm, after a calibration
        like that of Platt (1999) whose slope changes at `BEND`. I is a logistic function of how far the
        probabilities of the members disagree and of how unlike the training data the text is; the mean logits are
        no part of it.

        Args:
            logits: shape (..., members, 2 · principles).
            features: those of a `Reading`, shape (..., features).
            turns: number of the turn, from 1, shape (...) or one for all.

        Returns:
            Shape (..., 3, principles), rows T, I and F, each value in [0, 1].
        """
        principles = len(self._spread)
        mean = self._mean @ logits
        mean[..., :principles] -= self._patience.at(turns)
        scaled = mean * self._slope + np.minimum(np.maximum(mean, -BEND), BEND) * self._bent + self._offset
        each = _sigmoid(logits[..., :principles])
        apart = each - (self._mean @ each)[..., None, :]
        spread = disagreement(np.sqrt(self._mean @ (apart * apart)))
        unsure = self._spread * spread + features @ self._features + self._features_offset
        parts = (scaled[..., principles:], unsure, scaled[..., :principles])
        return _sigmoid(np.concatenate(parts, axis=-1)).reshape(*mean.shape[:-1], 3, principles)


def disagreement(deviation: NDArray[Any]) -> NDArray[Any]:
    """Return the part of indeterminacy that rests on the members: a root, since most of them hardly differ.

    Args:
        deviation: standard deviation of the members' probabilities.

    >>> disagreement(np.array([0.0, 0.16])).tolist()
    [0.0, 0.4]
    """
    return np.asarray(np.sqrt(deviation))


def _product(rows: Floats, matrix: Floats) -> Floats:
    """Return a matrix product, in blocks of rows so small that BLAS leaves each of them to one thread.

    Two threads would save some microseconds where nothing else runs, but they wait for each other: where anything
    else does, tens of milliseconds.

    Args:
        rows: shape (rows, width).
        matrix: shape (width, columns).
    """
    size = max(1, ONE_THREAD // matrix.size)
    product = np.empty((len(rows), matrix.shape[1]), np.float32)
    for start in range(0, len(rows), size):
        np.matmul(rows[start : start + size], matrix, out=product[start : start + size])
    return product


def _triples(rows: Floats) -> Floats:
    """Return each inner row between its neighbours, side by side, without copying them.

    Args:
        rows: shape (rows, width), contiguous.

    >>> _triples(np.arange(4, dtype=np.float32).reshape(4, 1)).tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    """
    count, width = rows.shape
    return np.ndarray((count - 2, 3 * width), np.float32, rows, strides=rows.strides)


def _empty(size: int, hidden: bool) -> Reading:
    return Reading(np.zeros(size, np.float32), np.array([1, 1, hidden, 1], np.float32))


def _is_fragment(token: str) -> bool:
    return token.startswith("##") or token == "[UNK]"


def _gru(gates: Floats, recurrent: Floats, state: Floats) -> Floats:
    """Return the next state from what turn and state send to the gates."""
    width = state.shape[-1]
    both = _sigmoid(gates[..., : 2 * width] + recurrent[..., : 2 * width])
    reset, update = both[..., :width], both[..., width:]
    candidate = np.tanh(gates[..., 2 * width :] + reset * recurrent[..., 2 * width :])
    return np.asarray(candidate + update * (state - candidate), np.float32)


def _gelu(x: Floats) -> Floats:
    """Return GELU in its tanh form (Hendrycks and Gimpel 2016)."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x))), np.float32)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1.0), np.float32)
