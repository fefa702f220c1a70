"""The language model that reads a conversation, run by onnxruntime on one thread, and the caches of live ones.

The wheels of onnxruntime (from 1.32 on, and earlier ones on Windows) report the process, its models and a lasting
id of the device to their maker unless they are told not to. The variables count when the library is loaded, the
call where somebody else loaded it before.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.deadline import check_deadline
from turnwise.errors import ObserverError, UsageError
from turnwise.observers.local.weights import CACHE_BYTES

for _name in ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"):
    os.environ[_name] = "1"

import onnxruntime  # noqa: E402 - the variables come first

onnxruntime.disable_telemetry_events()

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUIET = 3
"""Level of onnxruntime's log from which it speaks: errors."""


class TokenSpan(NamedTuple):
    """Where a text lies among the new tokens, without the mark of its speaker and with the mark of its end."""

    start: int
    stop: int


CHUNK = 512
"""Tokens that are read at once where no text is cut by it: what attention takes grows with them."""


def spans_of(parts: Iterable[tuple[int, int]], offset: int) -> list[TokenSpan]:
    """The spans of the parts of a text that begins at an offset."""
    return [TokenSpan(offset + start, offset + stop) for start, stop in parts]


def chunks_of(length: int, spans: Sequence[TokenSpan]) -> list[tuple[int, int]]:
    """Where tokens are cut into chunks of at most `CHUNK`; spans, given in order, are not cut.

    >>> chunks_of(1000, [TokenSpan(500, 700)])
    [(0, 500), (500, 1000)]
    """
    found, start = [], 0
    while start < length:
        stop = start + CHUNK
        if stop + 1 < length:  # the graph takes no single token behind a chunk
            cut = next((span for span in spans if span.start < stop < span.stop), None)
            if cut is not None:
                stop = cut.start if cut.start > start + 1 else cut.stop
        else:
            stop = length
        found.append((start, stop))
        start = stop
    return found


STATES = "both"
"""What the graph calls the mean of a text's states and the last of them, one behind the other."""


def with_output(model: bytes, name: str) -> bytes:
    """A graph that also gives a value, of floats, which it makes on the way.

    Two messages of Protocol Buffers in a row are merged: what follows is a model whose graph (field 7) has nothing
    but an output (12) with its name (1) and type (2: a tensor, 1, of floats, 1).

    >>> with_output(b"", "x")
    b':\\x0bb\\t\\n\\x01x\\x12\\x04\\n\\x02\\x08\\x01'
    """

    def message(field: int, content: bytes) -> bytes:
        return bytes([field << 3 | 2, len(content)]) + content  # of fewer than 128 bytes

    kind = message(1, b"\x08\x01")
    return model + message(7, message(12, message(1, name.encode()) + message(2, kind)))


class Outputs(NamedTuple):
    """`logits` of shape (texts, 2, outputs), as prompt and as reply, and `states`, shape (texts, width)."""

    logits: NDArray[np.float32]
    states: NDArray[np.float32] | None


class Network:
    """Reads tokens after others; each row of a product is quantised by itself, so none depends on another."""

    def __init__(self, model: bytes, device: str = "cpu") -> None:
        self._session = session_of(with_output(model, STATES), device)
        past = [one for one in self._session.get_inputs() if one.name.startswith("past_")]
        self._past = [one.name for one in past]
        self._nothing = [np.zeros((1, int(one.shape[1]), 0, int(one.shape[3])), np.float32) for one in past]

    def run(
        self, tokens: Sequence[int], spans: Sequence[TokenSpan], before: Cache | None = None
    ) -> tuple[Outputs, Cache]:
        """Read tokens, at least two, after those of a cache; `spans` of the texts come in order, apart."""
        rows, states, cache = [], [], before
        for start, stop in chunks_of(len(tokens), spans):
            check_deadline()
            inside = [TokenSpan(a - start, b - start) for a, b in spans if start <= a and b <= stop]
            logits, state, cache = self._run(tokens[start:stop], inside, cache)
            rows.append(logits)
            states.append(state)
        assert cache is not None
        return Outputs(np.concatenate(rows), np.concatenate(states)), cache

    def _run(
        self, tokens: Sequence[int], spans: Sequence[TokenSpan], before: Cache | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], Cache]:
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
        logits, *arrays, states = self._session.run(None, feed)
        return logits[: len(spans)], states[: len(spans)], Cache(arrays, length)


DEVICES = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
"""What onnxruntime calls that which runs a graph on a device."""

_OPTIONS = {"CUDAExecutionProvider": {"use_tf32": "0"}}
"""Full precision: with the ten bits of TF32 scores would differ in the third digit."""


def session_of(model: bytes, device: str = "cpu") -> onnxruntime.InferenceSession:
    """A graph made ready to run, on one thread; what the device can't do of it is done by the processor."""
    if device not in DEVICES:
        raise UsageError(f"device must be one of {', '.join(DEVICES)}, not {device!r}")
    provider = DEVICES[device]
    known = onnxruntime.get_available_providers()
    if provider not in known:
        here = ", ".join(name for name, one in DEVICES.items() if one in known)
        raise ObserverError(
            f"device {device}: the installed onnxruntime {onnxruntime.__version__} runs on {here} only; install "
            "the package of onnxruntime for this device in its place, such as onnxruntime-gpu for cuda"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    # Conversations of any length take turns: an arena that grows with the longest is never given back.
    options.enable_cpu_mem_arena = False
    providers = [(one, _OPTIONS.get(one, {})) for one in dict.fromkeys((provider, DEVICES["cpu"]))]
    try:
        session = onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # onnxruntime has a type of its own for every cause, and no common one
        raise ObserverError(
            f"onnxruntime {onnxruntime.__version__} can't run the model on {device} ({error}); use device cpu"
        ) from error
    if session.get_providers()[0] != provider:  # it goes on with the processor where a driver is missing
        raise ObserverError(
            f"device {device}: onnxruntime could not start it (driver or libraries missing, or of another "
            "version) and would run on the processor; use device cpu, or mend that"
        )
    # The wrapper keeps the bytes for a session that is made again, which none of ours is: 82 MB of `local`.
    session._model_bytes = None
    return session


def beginning(cache: Cache, length: int) -> Cache:
    """The cache of the first `length` tokens of another."""
    if length == cache.length:
        return cache
    return Cache([np.ascontiguousarray(array[:, :, :length]) for array in cache.arrays], length)


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys and values of every layer for the first `length` tokens, each of shape (1, heads, tokens, width)."""

    arrays: Sequence[NDArray[np.float32]]
    length: int

    @property
    def size(self) -> int:
        return sum(array.nbytes for array in self.arrays)


class Caches:
    """The caches of live conversations by their token ids, `bound` bytes in all; the least used goes first."""

    def __init__(self, bound: int = CACHE_BYTES) -> None:
        self._bound = bound
        self._lock = threading.Lock()
        self._caches: OrderedDict[int, tuple[Cache, list[bytes]]] = OrderedDict()
        self._known: dict[bytes, tuple[int, int]] = {}
        self._size = 0
        self._next = 0

    def __len__(self) -> int:
        return len(self._caches)

    @property
    def size(self) -> int:
        return self._size

    def find(self, beginnings: Iterable[bytes]) -> tuple[Cache, int] | None:
        """The cache of the first beginning that is known, and how many tokens that has; give the longest first."""
        with self._lock:
            for ids in beginnings:
                found = self._known.get(_key(ids))
                if found is not None:
                    number, length = found
                    self._caches.move_to_end(number)
                    return self._caches[number][0], length
        return None

    def keep(self, cache: Cache, beginnings: Sequence[tuple[bytes, int]]) -> None:
        """Keep a cache in the place of those that it continues, for beginnings with their number of tokens."""
        if cache.size > self._bound:
            return
        keys = [_key(ids) for ids, _ in beginnings]
        with self._lock:
            number, self._next = self._next, self._next + 1
            for key, (_, length) in zip(keys, beginnings, strict=True):
                before = self._known.get(key)
                self._known[key] = (number, length)
                if before is not None:
                    self._forget(before[0], key)
            self._caches[number] = (cache, keys)
            self._size += cache.size
            while self._size > self._bound:
                oldest = next(iter(self._caches))
                for key in list(self._caches[oldest][1]):
                    del self._known[key]
                    self._forget(oldest, key)

    def _forget(self, number: int, key: bytes) -> None:
        """Take a beginning from a cache, and drop the cache that serves none any more."""
        cache, keys = self._caches[number]
        keys.remove(key)
        if not keys:
            del self._caches[number]
            self._size -= cache.size


def _key(ids: bytes) -> bytes:
    return blake2b(ids, digest_size=16).digest()
