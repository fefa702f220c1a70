"""One thread, several threads, several processes: the same outcomes in the same order, one budget and pace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import ObserverError, PluginError, UnknownNameError, UsageError
from turnwise.observers import Context, build_observer, list_observers
from turnwise.principles import Principle
from turnwise.runs import (
    Engine,
    InlineEngine,
    Plan,
    ProcessEngine,
    Task,
    TaskWork,
    ThreadEngine,
    evaluate,
    make_engine,
    make_task,
    plan_scan,
)
from turnwise.runs.engines import shared_allowance
from turnwise.store import Store

HISTORY = Context.parse("history")
SEQUENCES = 50
"""More than three batches of a computing worker."""


@pytest.fixture
def tasks(make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]) -> list[Task]:
    """Return the work of many sequences."""
    given = [make_sequence(f"s{number}") for number in range(SEQUENCES)]
    return [make_task("r", sequence, set(), Plan(principles, HISTORY)) for sequence in given]


def scored(spec: str, tasks: list[Task], engine: Engine) -> list[Any]:
    """Score tasks, a few at a time."""
    results = engine.run(TaskWork(spec, HISTORY), [tasks[at : at + 7] for at in range(0, len(tasks), 7)])
    return [item for came in results for batch in came for item in batch]


def test_threads_give_what_one_thread_gives(tasks: list[Task]) -> None:
    serial = scored("scripted:0.1,0.2", tasks, InlineEngine())
    assert [item.sequence_id for item in serial] == [f"s{number}" for number in range(SEQUENCES)]
    assert all(sum(len(turn.given) for turn in item.turns) == 4 for item in serial)
    assert scored("scripted:0.1,0.2", tasks, ThreadEngine(4, ordered=True)) == serial
    as_they_come = scored("scripted:0.1,0.2", tasks, ThreadEngine(4))
    assert sorted(as_they_come, key=lambda item: int(item.sequence_id[1:])) == serial


def test_processes_give_what_one_thread_gives(probe: None, tasks: list[Task]) -> None:
    serial = scored("probe:x", tasks, InlineEngine())
    assert len({given for item in serial for turn in item.turns for given in turn.given}) > SEQUENCES
    assert scored("probe:x", tasks, ProcessEngine(2, ordered=True)) == serial


def test_an_observer_that_is_at_hand_stays_in_this_process(
    store: Store,
    probe: None,
    make_sequence: Callable[..., Sequence],
    principles: tuple[Principle, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.add_sequences([make_sequence("a"), make_sequence("b")])
    monkeypatch.setenv("PROBE_REFUSE", str(os.getpid()))
    evaluate(store, "r", build_observer("probe:sound"), principles=principles, jobs=2)
    assert {head.sequence_id for head, found in store.trajectories("r") if found} == {"a", "b"}


@pytest.mark.parametrize("engine", [ThreadEngine(2), ThreadEngine(2, ordered=True)], ids=["free", "ordered"])
def test_work_is_taken_as_it_is_needed(tasks: list[Task], engine: Engine) -> None:
    taken = 0

    def count() -> Any:
        nonlocal taken
        for task in tasks:
            taken += 1
            yield task

    results = engine.run(TaskWork("scripted:0.1", HISTORY), ([task] for task in count()))
    assert taken == 0
    next(results)
    assert taken < 10
    results.close()  # type: ignore[attr-defined]  # a generator, as an interrupt would close it


def test_a_worker_that_dies_is_an_error_and_the_rest_can_follow(
    store: Store,
    probe: None,
    make_sequence: Callable[..., Sequence],
    principles: tuple[Principle, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.add_sequences(make_sequence(f"s{number}") for number in range(SEQUENCES))
    with monkeypatch.context() as patched:
        patched.setenv("PROBE_KILL", "self:60")
        with pytest.raises(ObserverError, match="a worker process died; the same command continues"):
            evaluate(store, "r", "probe:x", principles=principles, jobs=2)
    before = store.counts()["evaluations"]
    summary = evaluate(store, "r", "probe:x", principles=principles, jobs=2)
    assert summary.skipped == before
    wanted = SEQUENCES * 3 * 2
    assert summary.evaluations + summary.skipped + summary.failures + summary.gaps == wanted


def test_what_a_worker_can_not_build_is_told_in_its_words(
    probe: None, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_REFUSE", str(os.getpid()))
    # An error with arguments of its own does not cross to this process as it is.
    with pytest.raises(ObserverError, match="unknown model 'x'; known: y"):
        scored("probe:x", tasks, ProcessEngine(2))


def test_an_installed_package_brings_an_observer(probe: None) -> None:
    info = build_observer("probe:anything").info
    assert (info.name, info.version) == ("probe", "5")
    with pytest.raises(PluginError, match=r"observer 'broken' \(probe_observer:Nothing\) failed to load"):
        build_observer("broken")
    with pytest.raises(PluginError, match="observer 'broken'"):
        list_observers()


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}]}))
    return file


def test_workers_of_a_free_observer_share_nothing(chats: Path, tmp_path: Path) -> None:
    work = plan_scan(chats, tmp_path / "found", observer="scripted:0.1").work
    assert work.limits is None
    with shared_allowance(work) as shared:
        assert shared is work


def test_workers_of_a_paid_observer_share_budget_and_pace(
    chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    work = plan_scan(
        chats,
        tmp_path / "found",
        observer="llm:openai/gpt-4.1-mini",
        settings={"budget_usd": 1.0, "requests_per_minute": 60},
    ).work
    assert work.limits == (1.0, 60)
    with shared_allowance(work) as shared:
        allowance = shared.allowance
        first, second = (allowance.call("take", 0.4).ticket for _ in range(2))
        assert first.delay == 0
        assert 0 < second.delay <= 1
        assert allowance.call("take", 0.4) == (None, None)


def test_engines_have_names_and_ray_alone_an_address() -> None:
    assert isinstance(make_engine("inline", 4), InlineEngine)
    assert isinstance(make_engine("process", 4), ProcessEngine)
    with pytest.raises(UnknownNameError, match="known: inline, process, ray"):
        make_engine("threads")
    with pytest.raises(UsageError, match="add --engine ray"):
        make_engine("process", 2, "auto")
