"""The runs of a store: listed, renamed and deleted, and never changed while they are written."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import StoreLockedError, UnknownNameError, UsageError
from turnwise.scoring import Call, Evaluation, Failure, Reply, Score
from turnwise.store import Run, Store

MakeRun = Callable[..., Run]


def test_a_run_is_stored_whole(location: str, store: Store, make_run: MakeRun) -> None:
    given = make_run()
    assert store.start_run(given) == given
    with Store(location) as again:
        assert again.run("first") == given
        assert again.runs() == (given,)


def test_runs_are_listed_oldest_first(store: Store, make_run: MakeRun) -> None:
    assert store.runs() == ()
    for name in ("b", "c", "a"):
        store.start_run(make_run(name))
    assert [run.name for run in store.runs()] == ["b", "c", "a"]


def test_starting_a_run_again_gives_the_first_one(store: Store, make_run: MakeRun) -> None:
    first = store.start_run(make_run())
    later = make_run(
        code_version="0.2.0", created_at=datetime(2030, 1, 1, tzinfo=UTC), operating_points={"cusum": 9.0}
    )
    assert store.start_run(later) == first
    assert store.counts()["runs"] == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"observer": "other"}, "observer 'probe:fast', not 'other'"),
        ({"observer_version": "4"}, "observer version '3', not '4'"),
        ({"context": "turn"}, "context 'history', not 'turn'"),
        ({"parameters": {"depth": 3}}, "parameters .*'depth': 2.*, not .*'depth': 3"),
    ],
    ids=["observer", "version", "context", "parameters"],
)
def test_a_run_never_mixes_configurations(
    store: Store,
    make_run: MakeRun,
    make_sequence: Callable[..., Sequence],
    make_evaluation: Callable[..., Evaluation],
    change: dict[str, Any],
    what: str,
) -> None:
    first = store.start_run(make_run())
    store.add_sequences([make_sequence("a")])
    store.append([make_evaluation("a")])
    with pytest.raises(UsageError, match=rf"run 'first' was made with {what}.*: .* use another --run"):
        store.start_run(make_run(**change))
    assert store.runs() == (first,)


def test_a_run_in_which_nothing_was_scored_leaves_its_name_to_the_next(store: Store, make_run: MakeRun) -> None:
    """A mistyped model, say."""
    store.start_run(make_run())
    second = store.start_run(make_run(observer="other"))
    assert store.runs() == (second,)
    assert second.observer == "other"


def test_an_unknown_run_is_named(store: Store, make_run: MakeRun) -> None:
    store.start_run(make_run("second"))
    for read in (store.run, lambda name: list(store.trajectories(name)), store.failures):
        with pytest.raises(UnknownNameError, match="unknown run 'secnd'; did you mean 'second'"):
            read("secnd")
    with pytest.raises(UnknownNameError, match="unknown run 'secnd'"):
        store.recorded("secnd", [])


Raw = Callable[..., list[tuple[Any, ...]]]
PATTERN = "any(p.F > 0.1)"
WRITER = """
import sys
from turnwise.store import Store
with Store(sys.argv[1]) as store:
    store.start_run(store.run("first"))
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def filled(
    store: Store,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
    make_failure: Callable[..., Failure],
    make_reply: Callable[..., Reply],
) -> Store:
    """Return a store with two runs of scores, calls and a failure; the journal keeps one reply."""
    store.add_sequences([make_sequence("a"), make_sequence("b")])
    bought = make_reply()
    store.journal.record(bought)
    call = Call(1, bought, Score(0.5, 0.25, 0.125))
    for run in ("first", "second"):
        store.start_run(make_run(run))
        store.append([make_evaluation("a", run=run, calls=(call,)), make_evaluation("b", run=run, raw_reply=run)])
    store.append([make_failure("a", 2)])
    return store


def _left(raw: Raw) -> dict[str, int]:
    tables = ("sequences", "turns", "runs", "provenances", "evaluations", "failures", "calls", "replies")
    return {table: raw(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def test_a_run_is_deleted_with_all_that_was_scored_in_it(filled: Store, raw: Raw) -> None:
    tally = filled.delete_run("first")
    assert (tally.run, tally.sequences, tally.evaluations, tally.failures, tally.calls) == ("first", 2, 2, 1, 1)
    assert [run.name for run in filled.runs()] == ["second"]
    assert _left(raw) == {
        "sequences": 2,
        "turns": 4,
        "runs": 1,
        "provenances": 1,
        "evaluations": 2,
        "failures": 0,
        "calls": 1,
        "replies": 2,  # the one that was paid for, and the raw reply of the other run
    }
    assert raw("SELECT text FROM replies WHERE request_key IS NULL") == [("second",)]
    assert len(filled.trajectory("second", "a", replies=True).evaluations[0].calls) == 1


def test_a_deleted_run_can_be_made_anew_with_another_configuration(
    filled: Store, make_run: Callable[..., Run], make_evaluation: Callable[..., Evaluation]
) -> None:
    filled.delete_run("second")
    filled.delete_run("first")
    filled.start_run(make_run("first", context="turn"))
    filled.append([make_evaluation("a", version="2")])
    assert len(filled.scores("first")) == 1
    assert filled.principle_versions("first") == {"p": "2"}


def test_another_store_does_not_write_to_a_run_that_is_gone(
    filled: Store, location: str, make_run: Callable[..., Run], make_evaluation: Callable[..., Evaluation]
) -> None:
    filled.close()
    with Store(location) as one, Store(location) as other:
        one.append([make_evaluation("a", 2, run="second")])
        with pytest.raises(StoreLockedError, match="run 'second' is being written by another process"):
            other.delete_run("second")
        other.delete_run("first")
        with pytest.raises(UnknownNameError, match="unknown run 'first'"):
            one.append([make_evaluation("a", 2)])


def test_a_store_sees_what_another_is_writing(
    filled: Store, location: str, path: Path, make_evaluation: Callable[..., Evaluation]
) -> None:
    filled.close()
    with Store(location) as reader:
        assert not reader.is_being_written("first") and not reader.is_being_written("second")
        there = set(path.parent.iterdir())
        with Store(location) as writer:
            writer.append([make_evaluation("a", 2, run="second")])
            assert reader.is_being_written("second") and not reader.is_being_written("first")
            assert not writer.is_being_written("second")
        assert not reader.is_being_written("second")
        assert {file.name for file in path.parent.iterdir()} <= {file.name for file in there}
        with pytest.raises(UnknownNameError):
            reader.is_being_written("third")


@pytest.mark.parametrize("change", [lambda s: s.delete_run("first"), lambda s: s.rename_run("first", "old")])
def test_a_run_that_another_process_writes_is_left_alone(
    filled: Store, location: str, path: Path, change: Callable[[Store], object]
) -> None:
    filled.close()
    command = [sys.executable, "-c", WRITER, location]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer,
        Store(location) as store,
    ):
        assert writer.stdin and writer.stdout
        assert writer.stdout.readline() == "writing\n"
        with pytest.raises(StoreLockedError, match="wait for it to finish, or close the store there"):
            change(store)
        assert len(store.scores("first")) == 2
        writer.kill()
        writer.wait()
        deadline = time.monotonic() + 10
        while True:  # a server may take a moment to see that the other end is gone
            try:
                change(store)
                break
            except StoreLockedError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert "first" not in [run.name for run in store.runs()]
    if path.exists():
        assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_run_is_renamed(filled: Store, make_evaluation: Callable[..., Evaluation]) -> None:
    before = filled.trajectory("first", "a").evaluations[0]
    assert filled.rename_run("first", "pilot").name == "pilot"
    after = filled.trajectory("pilot", "a").evaluations[0]
    assert after.score == before.score
    assert after.key == before.key._replace(run="pilot")
    filled.append([make_evaluation("a", 2, run="pilot")])
    with pytest.raises(UnknownNameError, match="unknown run 'first'"):
        filled.append([make_evaluation("b", 2)])


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("third", "x", UnknownNameError, "unknown run 'third'"),
        ("first", "second", UsageError, "a run 'second' already exists: choose another name"),
        ("first", " ", UsageError, "a run needs a name that is not empty"),
    ],
)
def test_what_can_not_be_renamed_stays(
    filled: Store, old: str, new: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        filled.rename_run(old, new)
    assert [run.name for run in filled.runs()] == ["first", "second"]


def test_questions_follow(filled: Store, location: str, make_run: Callable[..., Run]) -> None:
    with Store(location) as asking:
        assert len(asking.query(PATTERN, "first")) == 2
        filled.close()
        with Store(location) as store:
            store.rename_run("first", "pilot")
            assert len(asking.query(PATTERN, "pilot")) == 2
            with pytest.raises(UnknownNameError, match="unknown run 'first'"):
                asking.query(PATTERN, "first")
            store.delete_run("second")
            store.delete_run("pilot")
            with pytest.raises(UnknownNameError, match="unknown run 'pilot'"):
                asking.query(PATTERN, "pilot")
            # The same keys, name and times again, and nothing scored.
            store.start_run(make_run("first"))
        with pytest.raises(UsageError, match="has no evaluation yet"):
            asking.query(PATTERN, "first")
