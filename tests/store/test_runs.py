"""A run is one observer with one configuration, or an error that says what differs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Evaluation
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
