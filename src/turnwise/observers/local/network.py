"""The language model that reads a conversation, run by onnxruntime on one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.errors import ObserverError
from turnwise.observers.local.caches import Cache
from turnwise.observers.local.runtime import onnxruntime

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUIET = 3
"""Level of onnxruntime's log from which it speaks: errors."""


class Span(NamedTuple):
    """Where a text lies in what is read, without the mark of its speaker and with the mark of its end.

    Args:
        start: index of its first token among the new ones.
        stop: index behind its last.
    """

    start: int
    stop: int


class Network:
    """Reads tokens after others and says what it makes of the texts among them.

    The graph takes token ids, keys and values of the tokens before, and the places of the texts; it gives a row of
    logits for each text, from the mean of its states and from the last of them, and keys and values. Every row
    of every product is quantised by itself, so no score depends on what is read beside it.

    Args:
        model: the graph, as bytes in the ONNX format.

    Raises:
        ObserverError: it can't be run.
    """

    def __init__(self, model: bytes) -> None:
        self._session = session_of(model)
        past = [one for one in self._session.get_inputs() if one.name.startswith("past_")]
        self._past = [one.name for one in past]
        self._nothing = [np.zeros((1, int(one.shape[1]), 0, int(one.shape[3])), np.float32) for one in past]

    def run(
        self, tokens: Sequence[int], spans: Sequence[Span], before: Cache | None = None
    ) -> tuple[NDArray[np.float32], Cache]:
        """Read tokens after those that a cache was made of.

        Args:
            tokens: ids, at least two.
            spans: where the texts lie that logits are wanted of.
            before: the cache; None at the beginning of a window.

        Returns:
            Logits of shape (spans, 2, outputs), a row for a text read as a prompt and one for a reply; and the
            cache of all tokens so far.
        """
        length = (before.length if before else 0) + len(tokens)
        mean = np.zeros((max(len(spans), 1), len(tokens)), np.float32)
        last = np.zeros(max(len(spans), 1), np.int64)
        for row, (start, stop) in enumerate(spans):
            mean[row, start:stop] = 1 / (stop - start)
            last[row] = stop - 1
        feed = {
            "ids": np.array([tokens], np.int64),
            "mean": mean,
            "last": last,
            "length_less_one": np.array([length - 1], np.int32),
            "length": np.array([length], np.int32),
        }
        feed |= zip(self._past, before.arrays if before else self._nothing, strict=True)
        logits, *arrays = self._session.run(None, feed)
        return logits[: len(spans)], Cache(arrays, length)


def session_of(model: bytes) -> onnxruntime.InferenceSession:
    """Return a graph made ready to run, on one thread.

    Args:
        model: the graph, as bytes in the ONNX format.

    Raises:
        ObserverError: it can't be run.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    # Conversations of any length take turns: an arena that grows with the longest is never given back.
    options.enable_cpu_mem_arena = False
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a type of its own for every cause, and no common one
        raise ObserverError(
            f"onnxruntime {onnxruntime.__version__} can't run the reader's graph: {error}"
        ) from error


def beginning(cache: Cache, length: int) -> Cache:
    """Return the cache of the first tokens of another.

    Args:
        cache: the cache.
        length: how many of its tokens.
    """
    if length == cache.length:
        return cache
    return Cache([np.ascontiguousarray(array[:, :, :length]) for array in cache.arrays], length)
