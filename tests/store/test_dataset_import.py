"""An import keeps what is good, names what is bad, and stops where it was told to be strict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import pytest

from turnwise.conversation import Label, Sequence
from turnwise.datasets import BadRecord
from turnwise.errors import DatasetError
from turnwise.store import Imported, OtherLabel, Store, import_sequences

MakeSequence = Callable[..., Sequence]
Records = Iterable[Sequence | BadRecord]


@pytest.fixture
def records(make_sequence: MakeSequence) -> list[Sequence | BadRecord]:
    """Return the records of a file of seven lines: of two there is nothing to read, one takes an id again."""
    lines = {"a": 1, "b": 2, "c": 5, "d": 7}
    a, b, c, d = (dataclasses.replace(make_sequence(name), line=line) for name, line in lines.items())
    other = dataclasses.replace(make_sequence("a", ("other words", None)), line=4)
    return [a, b, BadRecord(3, "no JSON"), other, c, BadRecord(6, "no turns"), d]


def names(store: Store) -> list[str]:
    return [head.sequence_id for head in store.heads()]


def test_what_is_good_is_kept_and_what_is_bad_is_named_in_the_order_of_the_file(
    store: Store, records: Records
) -> None:
    result = import_sequences(store, records, where="chats.jsonl")
    assert (result.imported, result.skipped) == (4, 0)
    assert [error.line for error in result.errors] == [3, 4, 6]
    assert result.errors[0] == BadRecord(3, "no JSON")
    assert "duplicate id 'a'" in result.errors[1].reason
    assert names(store) == ["a", "b", "c", "d"]
    assert next(iter(store.sequence("a").conversation)).prompt == "first of a"


def test_importing_again_skips_what_is_there(store: Store, records: Records) -> None:
    first = import_sequences(store, records, where="chats.jsonl")
    again = import_sequences(store, records, where="chats.jsonl")
    assert (again.imported, again.skipped) == (0, 4)
    assert again.errors == first.errors


def test_a_line_that_is_there_twice_is_skipped(store: Store, make_sequence: MakeSequence) -> None:
    result = import_sequences(store, [make_sequence("a"), make_sequence("a")], where="chats.jsonl")
    assert result == Imported(1, 1, ())


@pytest.mark.parametrize("conflict", [False, True], ids=["bad line", "duplicate id"])
def test_strict_stops_at_the_first_bad_line_and_keeps_what_came_before(
    store: Store, records: list[Sequence | BadRecord], conflict: bool
) -> None:
    if conflict:
        del records[2]
    what = "line 4: duplicate id 'a'" if conflict else "line 3: no JSON"
    with pytest.raises(DatasetError, match=rf"chats\.jsonl, {what}.*; --strict stops here"):
        import_sequences(store, records, where="chats.jsonl", strict=True)
    assert names(store) == ["a", "b"]


def test_strict_is_content_with_a_good_file(store: Store, make_sequence: MakeSequence) -> None:
    good = [make_sequence("a"), make_sequence("b")]
    assert import_sequences(store, good, where="chats.jsonl", strict=True) == Imported(2, 0, ())


def test_a_text_that_can_not_be_stored_is_a_bad_line(store: Store, make_sequence: MakeSequence) -> None:
    broken = dataclasses.replace(make_sequence("b", ("cut off \ud83d", None)), line=2)
    result = import_sequences(store, [make_sequence("a"), broken, make_sequence("c")], where="chats.jsonl")
    assert (result.imported, names(store)) == (2, ["a", "c"])
    (error,) = result.errors
    assert (error.line, "half of a surrogate pair" in error.reason) == (2, True)


def test_a_conflict_without_a_line_is_named_by_its_place(store: Store, make_sequence: MakeSequence) -> None:
    given = [make_sequence("a"), make_sequence("b"), make_sequence("a", ("other words", None))]
    assert [error.line for error in import_sequences(store, given, where="w").errors] == [3]


def test_other_labels_are_told_and_taken_where_that_is_asked(
    store: Store, make_sequence: MakeSequence, records: list[Sequence | BadRecord]
) -> None:
    import_sequences(store, [make_sequence("a"), make_sequence("b"), make_sequence("c")], where="w")
    relabelled: list[Sequence | BadRecord] = [
        dataclasses.replace(one, label=Label.BENIGN) if isinstance(one, Sequence) else one for one in records
    ]
    changed = tuple(OtherLabel(name, Label.ATTACK, Label.BENIGN) for name in "abc")
    first = import_sequences(store, relabelled, where="w")
    assert (first.imported, first.skipped, first.relabelled, first.other_labels) == (1, 3, (), changed)
    assert [error.line for error in first.errors] == [3, 4, 6]
    assert [str(head.label) for head in store.heads()] == ["attack"] * 3 + ["benign"]
    second = import_sequences(store, relabelled, where="w", relabel=True)
    assert (second.imported, second.skipped, second.relabelled, second.other_labels) == (0, 4, changed, ())
    assert [error.line for error in second.errors] == [3, 4, 6]
    assert "'a'" in second.errors[1].reason and "its turns differ" in second.errors[1].reason
    assert {head.label for head in store.heads()} == {Label.BENIGN}
    assert import_sequences(store, relabelled, where="w", relabel=True).relabelled == ()


def test_records_are_taken_as_they_are_needed(store: Store, make_sequence: MakeSequence) -> None:
    seen: list[int] = []

    def many() -> Iterator[Sequence]:
        for number in range(600):
            if number % 256 == 0:
                seen.append(store.counts()["sequences"])
            yield make_sequence(f"s{number}", ("hi", None))

    assert import_sequences(store, many(), where="big.jsonl").imported == 600
    assert seen == [0, 256, 512]


def test_an_empty_file_imports_nothing(store: Store) -> None:
    assert import_sequences(store, [], where="empty.jsonl") == Imported(0, 0, ())
