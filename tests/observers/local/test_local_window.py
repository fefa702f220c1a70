"""The window: bounded, moved in blocks, and a function of the texts alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.observers.local.language_model_reader import Window
from turnwise.observers.local.weights import Reach

REACH = Reach()
LENGTHS = st.lists(st.integers(1, 400), max_size=60)


def window_of(lengths: list[int]) -> Window:
    window = Window()
    for number, length in enumerate(lengths):
        window = window.after([number] * length, REACH)
    return window


@given(LENGTHS)
def test_it_holds_the_latest_texts_whole_and_never_more_than_its_limit(lengths: list[int]) -> None:
    window = window_of(lengths)
    kept = window.to_lengths()
    assert list(kept) == lengths[len(lengths) - len(kept) :]
    assert len(window) == sum(kept) <= REACH.limit
    first = len(lengths) - len(kept)
    assert window.tokens() == [n for n in range(first, len(lengths)) for _ in range(lengths[n])]


@given(LENGTHS.filter(bool))
def test_it_moves_only_when_the_next_text_does_not_fit_and_then_far(lengths: list[int]) -> None:
    before, after = window_of(lengths[:-1]), window_of(lengths)
    if len(before) + lengths[-1] <= REACH.limit:
        assert after.ids.startswith(before.ids)
    else:
        assert len(after) <= REACH.kept
        dropped = len(before.to_lengths()) + 1 - len(after.to_lengths())
        assert len(after) + before.to_lengths()[dropped - 1] > REACH.kept  # no text went that could have stayed


@given(LENGTHS)
def test_it_is_the_same_from_its_ids_and_lengths(lengths: list[int]) -> None:
    window = window_of(lengths)
    assert Window.of(window.ids, window.to_lengths(), REACH) == window


def test_a_beginning_and_a_rest_make_the_whole() -> None:
    window = window_of([3, 4, 5])
    assert window.ends == (3, 7, 12)
    assert window.tokens(7) == [2] * 5
    assert window.until(7) == window_of([3, 4]).ids


@pytest.mark.parametrize(
    ("ids", "lengths"),
    [(b"\0", ()), (b"\0\0", ()), (b"\0\0", (2,)), (bytes(2 * REACH.limit + 2), (REACH.limit + 1,))],
)
def test_what_can_be_no_window_is_refused(ids: bytes, lengths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="don't fit"):
        Window.of(ids, lengths, REACH)
