"""Batches of a stream: all of it, in order, taken as it is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise._support.batches import batched


@given(st.lists(st.integers(), max_size=60), st.integers(1, 20))
def test_batches_put_together_are_the_stream(items: list[int], size: int) -> None:
    batches = list(batched(items, size))
    assert [item for batch in batches for item in batch] == items
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(1 <= len(batch) <= size for batch in batches)


def test_no_more_is_taken_than_the_batch_needs() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    assert next(batched(numbers(), 3)) == [0, 1, 2]
    assert taken == [0, 1, 2]


def test_what_was_taken_before_an_error_is_not_lost() -> None:
    def numbers() -> Iterator[int]:
        yield from range(5)
        raise OSError("the file breaks off")

    batches = batched(numbers(), 3)
    assert [next(batches), next(batches)] == [[0, 1, 2], [3, 4]]
    with pytest.raises(OSError, match="breaks off"):
        next(batches)
