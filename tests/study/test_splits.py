from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.study import Example, split_by_group

examples = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=60).map(
    lambda rows: [Example(f"s{n}", f"g{group}", attack, ()) for n, (group, attack) in enumerate(rows)]
)

SHARES = {"train": 0.5, "calibrate": 0.25, "test": 0.25}


@given(given_examples=examples, seed=st.integers(0, 5))
def test_no_group_crosses_and_nothing_is_lost(given_examples, seed):
    parts = split_by_group(given_examples, SHARES, seed)
    assert list(parts) == list(SHARES)
    groups = [{example.group for example in part} for part in parts.values()]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert sorted(e.sequence_id for part in parts.values() for e in part) == sorted(
        e.sequence_id for e in given_examples
    )


@given(given_examples=examples)
def test_the_order_of_the_examples_does_not_matter(given_examples):
    def names(parts):
        return {name: {e.sequence_id for e in part} for name, part in parts.items()}

    assert names(split_by_group(given_examples, SHARES)) == names(split_by_group(given_examples[::-1], SHARES))


def test_both_labels_are_divided_in_the_shares():
    rows = [Example(f"{label}{n}", f"{label}{n}", label == "a", ()) for label in "ab" for n in range(100)]
    parts = split_by_group(rows, SHARES, seed=3)
    assert [sum(e.attack for e in part) for part in parts.values()] == [50, 25, 25]
    assert [len(part) for part in parts.values()] == [100, 50, 50]
    assert {e.group for e in split_by_group(rows, SHARES, 4)["train"]} != {e.group for e in parts["train"]}


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {}])
def test_shares_are_positive_and_add_up(shares):
    with pytest.raises(UsageError, match="add up to 1"):
        split_by_group([], shares)
