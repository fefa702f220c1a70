"""Scores that cost money: none is lost, none is bought twice, and the rows say what was spent."""

from __future__ import annotations

import _thread
import json
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from turnwise.conversation import Sequence, Side
from turnwise.errors import ObserverError
from turnwise.observers import (
    ChatError,
    ChatRequest,
    Context,
    FaultKind,
    LlmObserver,
    LlmSettings,
    ScriptedClient,
)
from turnwise.observers.llm.chat import by_text
from turnwise.principles import Principle
from turnwise.runs import Plan, Task, TaskWork, ThreadEngine, evaluate, make_task
from turnwise.scoring import Score
from turnwise.store import Store

Principles = tuple[Principle, ...]
MODEL = "openai/gpt-4.1-mini"
KEY = "sk-planted-4hT8wQzN1v"
SEQUENCES, TURNS = 8, 3


@pytest.fixture(autouse=True)
def _no_tables_of_the_developer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the price table of whoever runs the tests out of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def client() -> ScriptedClient:
    """Return a client that answers every request by the hash of its text; set `script` to change that."""
    return ScriptedClient()


@pytest.fixture
def judge(client: ScriptedClient) -> Callable[..., LlmObserver]:
    """Return a function from settings to an observer that asks the client and never waits."""

    def make(**settings: Any) -> LlmObserver:
        return LlmObserver(
            MODEL,
            LlmSettings(**settings),
            client=client,
            environ={"OPENAI_API_KEY": KEY},
            wait=lambda seconds: None,
            jitter=Random(1),
        )

    return make


@pytest.fixture
def filled(store: Store, make_sequence: Callable[..., Sequence]) -> Store:
    """Return a store with conversations that all differ."""
    store.add_sequences(
        make_sequence(f"s{number}", *((f"{number} asks {turn}", f"reply {turn}") for turn in range(TURNS)))
        for number in range(SEQUENCES)
    )
    return store


def sent(client: ScriptedClient) -> Counter[str]:
    """Return how often each request was sent, told apart by what it asks and not by its nonce."""
    return Counter(by_text(request) for request in client.requests)


@pytest.mark.parametrize("jobs", [1, 6])
def test_every_score_keeps_its_call_and_what_it_cost(
    filled: Store, judge: Callable[..., LlmObserver], principles: Principles, jobs: int
) -> None:
    summary = evaluate(filled, "r", judge(), principles=principles, jobs=jobs)
    wanted = SEQUENCES * TURNS * len(principles)
    assert (summary.evaluations, summary.calls, summary.cached, summary.failures) == (wanted, wanted, 0, 0)
    assert filled.run("r").observer == f"llm:{MODEL}"
    rows = [e for _, t in filled.trajectories("r", replies=True) for e in t.evaluations]
    assert len(rows) == wanted
    for row in rows:
        (call,) = row.calls
        assert call.reply is not None
        assert json.loads(call.reply.text)["F"] == row.score.F
        assert row.raw_reply == call.reply.text
        assert row.cost_usd == call.cost_usd == call.reply.cost_usd
    ((_, tally),) = filled.tallies()
    total = sum(row.cost_usd or 0.0 for row in rows)
    assert total > 0
    assert tally.cost_usd == pytest.approx(total)
    assert summary.cost_usd == pytest.approx(total)
    assert (tally.prompt_tokens, tally.completion_tokens) == (summary.prompt_tokens, summary.completion_tokens)
    assert summary.prompt_tokens == sum(c.reply.prompt_tokens or 0 for row in rows for c in row.calls if c.reply)


def test_a_run_that_was_begun_under_the_bare_name_goes_on(
    filled: Store, path: Path, judge: Callable[..., LlmObserver], principles: Principles
) -> None:
    evaluate(filled, "r", judge(), principles=principles[:1])
    filled.close()
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("UPDATE runs SET observer = 'llm'")
    with Store(path) as old:
        summary = evaluate(old, "r", judge(), principles=principles)
        assert summary.evaluations == summary.skipped == SEQUENCES * TURNS
        assert old.run("r").observer == "llm"


def test_order_of_work_changes_no_score(
    path: Path,
    filled: Store,
    judge: Callable[..., LlmObserver],
    principles: Principles,
) -> None:
    # The scripted score hangs on every character of the request, and so on every earlier turn.
    for name, jobs in (("one", 1), ("six", 6)):
        evaluate(filled, name, judge(cache=False), principles=principles, jobs=jobs)

    def scores(run: str) -> list[tuple[object, ...]]:
        return [(e.key[1:], e.score) for _, t in filled.trajectories(run) for e in t.evaluations]

    assert scores("one") == scores("six")


def test_the_turns_of_one_conversation_are_scored_at_the_same_time(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    together = threading.Barrier(TURNS * len(principles))

    def script(request: ChatRequest) -> str:
        together.wait(timeout=30)  # breaks, and so fails the call, unless all are under way at once
        return by_text(request)

    client.script = script
    summary = evaluate(filled, "r", judge(), principles=principles, jobs=together.parties, ids=["s0"])
    assert (summary.evaluations, summary.failures) == (together.parties, 0)


def test_a_repeated_score_is_the_mean_and_keeps_each_call(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    falsities = iter([0.2, 0.4, 0.9])
    lock = threading.Lock()

    def script(request: ChatRequest) -> str:
        with lock:
            return json.dumps({"reasoning": "so", "T": 0.5, "I": 0.0, "F": next(falsities)})

    client.script = script
    evaluate(filled, "r", judge(repeats=3), principles=principles[:1], ids=["s0"], context="transcript")
    trajectory = filled.trajectory("r", "s0", replies=True)
    (evaluation,) = trajectory.evaluations
    assert pytest.approx(0.5) == evaluation.score.F
    assert [call.score for call in evaluation.calls] == [Score(0.5, 0.0, f) for f in (0.2, 0.4, 0.9)]
    ((turn, spread),) = trajectory.spread("p")
    assert (turn, spread.T) == (TURNS, 0.0)
    assert pytest.approx(0.3605551) == spread.F
    assert evaluation.cost_usd == pytest.approx(sum(call.cost_usd or 0 for call in evaluation.calls))


def test_what_was_paid_for_is_free_for_another_run(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    first = evaluate(filled, "first", judge(), principles=principles, jobs=4)
    second = evaluate(filled, "second", judge(), principles=principles, jobs=4)
    assert (second.evaluations, second.cached, second.cost_usd) == (first.evaluations, first.calls, 0.0)
    assert (second.prompt_tokens, second.completion_tokens) == (0, 0)
    assert set(sent(client).values()) == {1}
    rows = [e for _, t in filled.trajectories("second", replies=True) for e in t.evaluations]
    assert all(call.cached and call.attempts == 0 for row in rows for call in row.calls)
    evaluate(filled, "third", judge(cache=False), principles=principles, jobs=4)
    assert set(sent(client).values()) == {2}


@pytest.mark.shows("SC-007", "EDGE-3")
def test_sc_007_a_further_principle_costs_its_own_calls_alone(
    filled: Store,
    judge: Callable[..., LlmObserver],
    client: ScriptedClient,
    principles: Principles,
    make_principle: Callable[..., Principle],
) -> None:
    evaluate(filled, "r", judge(), principles=principles, jobs=4)
    before = len(client.requests)
    summary = evaluate(filled, "r", judge(), principles=[*principles, make_principle("third")], jobs=4)
    assert len(client.requests) - before == summary.evaluations == SEQUENCES * TURNS
    assert summary.skipped == before


def test_failures_at_random_leave_every_score_made_or_explained(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    faults: list[Any] = [
        ChatError(FaultKind.TIMEOUT, "no reply within 1 seconds"),
        ChatError(FaultKind.REJECTED, "the provider rejects this request (400)"),
        "no JSON at all",
        '{"reasoning": "so", "T": 2, "I": 0, "F": 0}',
        '{"reasoning": "so", "T": NaN, "I": 0, "F": 0}',
        "I'm sorry, but I can't help with that.",
    ]
    chance, lock = Random(5), threading.Lock()

    def script(request: ChatRequest) -> Any:
        with lock:
            return chance.choice(faults) if chance.random() < 0.3 else by_text(request)

    client.script = script
    summary = evaluate(filled, "r", judge(max_retries=0), principles=principles, jobs=4)
    wanted = SEQUENCES * TURNS * len(principles)
    assert summary.evaluations + summary.failures == wanted
    assert 5 < summary.failures < wanted / 2
    failures = filled.failures("r", replies=True)
    assert {failure.reason for failure in failures} <= {"timeout", "rejected", "malformed", "refused"}
    assert len({failure.reason for failure in failures}) >= 3
    assert all(failure.message and failure.calls for failure in failures)
    assert len(filled.failed("r")) == summary.failures

    client.script, before = by_text, len(client.requests)
    again = evaluate(filled, "r", judge(), principles=principles, jobs=4)
    assert (again.evaluations, again.failures, again.skipped) == (summary.failures, 0, summary.evaluations)
    assert len(client.requests) - before == summary.failures
    assert filled.failed("r") == set()
    ((_, tally),) = filled.tallies()
    assert tally.cost_usd == pytest.approx((summary.cost_usd or 0) + (again.cost_usd or 0))


def test_only_what_is_named_is_scored(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    evaluate(filled, "r", judge(), principles=principles, ids=["s0"])
    keys = {e.key for e in filled.trajectory("r", "s0").evaluations if e.key.turn == 2}
    summary = evaluate(
        filled, "copy", judge(cache=False), principles=principles, only={k._replace(run="copy") for k in keys}
    )
    assert summary.evaluations == len(keys) == 2
    assert {e.key.turn for e in filled.trajectory("copy", "s0").evaluations} == {2}


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_stop_loses_nothing_and_the_same_call_continues(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles, jobs: int
) -> None:
    replies, lock = 0, threading.Lock()

    def script(request: ChatRequest) -> Any:
        nonlocal replies
        with lock:
            replies += 1
            if replies > 10:
                return ChatError(FaultKind.FATAL, "the key in OPENAI_API_KEY is refused: check it")
        return by_text(request)

    client.script = script
    with pytest.raises(ObserverError, match="the key in OPENAI_API_KEY is refused: check it"):
        evaluate(filled, "r", judge(), principles=principles, jobs=jobs)
    assert filled.counts()["evaluations"] == 10
    assert filled.counts()["failures"] == 0
    client.script = by_text
    summary = evaluate(filled, "r", judge(), principles=principles, jobs=jobs)
    assert (summary.skipped, summary.evaluations) == (10, SEQUENCES * TURNS * len(principles) - 10)
    assert summary.cached == 0


def test_a_run_that_fails_again_and_again_stops_by_itself(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    client.script = lambda request: ChatError(FaultKind.REJECTED, "rejected (400)")
    with pytest.raises(ObserverError, match="20 calls in a row failed, so the run stops"):
        evaluate(filled, "r", judge(), principles=principles, jobs=4)
    # Each failure is stored; those that were under way when the twentieth came may be among them.
    assert 20 <= filled.counts()["failures"] <= 24
    assert filled.counts()["evaluations"] == 0


def test_a_budget_is_a_clean_stop(
    filled: Store, judge: Callable[..., LlmObserver], principles: Principles
) -> None:
    whole = evaluate(filled, "whole", judge(cache=False), principles=principles)
    budget = (whole.cost_usd or 0) / 2
    with pytest.raises(ObserverError, match=r"the budget of \$[0-9.]+ is used up"):
        evaluate(filled, "half", judge(cache=False, budget_usd=budget), principles=principles, jobs=4)
    (_, tally) = filled.tallies()[1]
    assert tally.cost_usd is not None
    assert 0 < tally.cost_usd <= budget
    assert tally.failures == 0


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let an interrupt raise, also where the tests run in the background of a shell, which ignores them there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_stores_what_is_under_way(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    under_way = threading.Barrier(4)
    replies, lock = 0, threading.Lock()

    def script(request: ChatRequest) -> str:
        nonlocal replies
        with lock:
            replies += 1
            number = replies
        if 9 <= number <= 12:
            under_way.wait(timeout=30)
            if number == 9:
                _thread.interrupt_main()
        return by_text(request)

    client.script = script
    with pytest.raises(KeyboardInterrupt):
        evaluate(filled, "r", judge(), principles=principles, jobs=4)
    stored = filled.counts()["evaluations"]
    assert 8 <= stored < SEQUENCES * TURNS * len(principles)
    client.script = by_text
    evaluate(filled, "r", judge(), principles=principles, jobs=4)
    assert set(sent(client).values()) == {1}
    assert filled.counts()["evaluations"] == SEQUENCES * TURNS * len(principles)


def test_work_is_taken_only_as_there_is_room(
    judge: Callable[..., LlmObserver], make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    context = Context.parse("history")
    taken = 0

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for number in range(500):
            taken += 1
            yield make_task("r", make_sequence(f"s{number}"), (), Plan(principles, context))

    with closing(ThreadEngine(4).run(TaskWork(judge(), context), ([task] for task in tasks()))) as results:  # type: ignore[type-var]  # a generator
        assert taken == 0
        next(results)
        assert taken < 10


def test_both_sides_may_be_scored(
    filled: Store, judge: Callable[..., LlmObserver], client: ScriptedClient, principles: Principles
) -> None:
    sides = Side.PROMPT, Side.RESPONSE
    summary = evaluate(filled, "r", judge(), principles=principles, sides=sides, ids=["s1"], jobs=4)
    assert summary.evaluations == TURNS * len(principles) * 2
    assert set(sent(client).values()) == {1}
    assert len(filled.trajectory("r", "s1").series("p", Side.RESPONSE)) == TURNS


def test_the_key_is_nowhere_in_the_store(
    path: Path, filled: Store, judge: Callable[..., LlmObserver], principles: Principles
) -> None:
    evaluate(filled, "r", judge(), principles=principles, jobs=4)
    filled.close()
    files = list(path.parent.glob(f"{path.name}*"))
    assert files
    assert not any(KEY.encode() in file.read_bytes() for file in files)
