"""Work that readers do on many conversations, spread over processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from tokenizers import Tokenizer

from turnwise.observers.local.language_model_reader import LanguageModelReader
from turnwise.observers.local.reading import Reader
from turnwise.observers.local.small_reader import SmallReader
from turnwise.observers.local.weights import Reach

CHUNK = 8
"""Conversations that a process takes at a time."""

T = TypeVar("T")
R = TypeVar("R")


class Spread(Protocol):
    """Does the same work on each of some things, with a reader."""

    def __call__(self, work: Callable[[Reader, T], R], on: Sequence[T]) -> Iterable[R]:
        """Yield what the work gives, in order; for several processes it is a function of a module."""


def with_reader(reader: Reader) -> Spread:
    """Return what does the work here, one thing after the other."""

    def spread(work: Callable[[Reader, T], R], on: Sequence[T]) -> Iterator[R]:
        return (work(reader, one) for one in on)

    return spread


def reader_of(kind: str, model: bytes, tokenizer: str, reach: Reach) -> Reader:
    """Return the reader of a trained network."""
    known = Tokenizer.from_str(tokenizer)
    return SmallReader(model, known) if kind == "small" else LanguageModelReader(model, known, reach)


@contextmanager
def over_processes(kind: str, model: bytes, tokenizer: str, reach: Reach, jobs: int) -> Iterator[Spread]:
    """Give what does the work in processes, each with a reader of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _begin, (kind, model, tokenizer, reach)) as pool:

        def spread(work: Callable[[Reader, T], R], on: Sequence[T]) -> Iterator[R]:
            return pool.map(partial(_work, work), on, chunksize=CHUNK)

        yield spread


_reader: Reader | None = None


def _begin(kind: str, model: bytes, tokenizer: str, reach: Reach) -> None:
    global _reader  # noqa: PLW0603 - each process has one
    _reader = reader_of(kind, model, tokenizer, reach)


def _work(work: Callable[[Reader, Any], R], on: Any) -> R:
    if _reader is None:
        raise RuntimeError("the process was not set up")
    return work(_reader, on)
