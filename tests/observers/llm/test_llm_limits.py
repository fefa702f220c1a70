"""Limits on requests: of one process, and one allowance for several."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from typing import Any

import pytest
from chat_server import ChatServer

from turnwise.conversation import Side, Turn
from turnwise.errors import BudgetError, ObserverError, UsageError
from turnwise.observers import (
    BoundsRequests,
    Context,
    LlmObserver,
    LlmSettings,
    Request,
    SharesAllowance,
    observe_conversations,
)
from turnwise.observers.llm.limits import Halt, Ledger, RequestLimits, SharedLimits, Ticket, serve
from turnwise.principles import load_principle


def test_no_more_than_the_bound_are_under_way_and_all_get_a_ticket():
    limits, inside, most = RequestLimits(Halt()), 0, 0
    limits.bound(3)
    lock, full = threading.Lock(), threading.Event()

    def request() -> None:
        nonlocal inside, most
        ticket = limits.take(0.0)
        with lock:
            inside += 1
            most = max(most, inside)
            if inside == 3:
                full.set()
        assert full.wait(10)
        with lock:
            inside -= 1
        limits.settle(ticket)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(request) for _ in range(30)]:
            future.result()
    assert most == 3


def test_a_throttled_request_halves_below_the_bound_and_replies_never_lift_it_above():
    limits = RequestLimits(Halt())
    assert limits.limit == float("inf")
    limits.bound(8)
    assert limits.limit == 8
    tickets = [limits.take(0.0) for _ in range(4)]
    for ticket in tickets[:2]:
        ticket.throttled = True
    for ticket in tickets:
        limits.settle(ticket)
    assert limits.limit == 2
    for _ in range(100):
        ticket = limits.take(0.0)
        ticket.replied = True
        limits.settle(ticket)
    assert limits.limit == 8


def test_a_request_waits_for_money_that_others_may_leave_and_ends_the_run_where_none_do():
    limits = RequestLimits(Halt(), budget_usd=1.0)
    first = limits.take(0.7)
    assert limits.try_take(0.7) is None
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(limits.take, 0.7)
        first.spent_usd = 0.2
        limits.settle(first)
        assert second.result(10).most_usd == 0.7
        limits.settle(second.result())
    with pytest.raises(BudgetError, match=r"the budget of \$1\.00 is used up: \$0\.2000 are spent"):
        limits.take(0.9)


def test_the_observer_takes_a_bound():
    assert isinstance(LlmObserver("ollama/x"), BoundsRequests)


WANTED = [Request(load_principle("reciprocity"), Side.PROMPT)]
TALKS = [[Turn(1, f"Question {number}", None)] for number in range(10)]


class Clock:
    """Seconds that pass only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def settle(ledger: Ledger, worker: str, ticket: Ticket | None, spent: float = 0.0, **ended: bool) -> None:
    assert ticket is not None
    ticket.spent_usd = spent
    for name, value in ended.items():
        setattr(ticket, name, value)
    ledger.call(worker, "settle", ticket)


class TestLedger:
    def test_workers_hold_money_together_and_are_told_to_ask_again(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        ticket = ledger.call("a", "take", 0.6).ticket
        assert ledger.call("b", "take", 0.6) == (None, None)
        settle(ledger, "a", ticket, 0.1)
        assert ledger.call("b", "take", 0.6).ticket is not None
        assert ledger.spent_usd == pytest.approx(0.1)

    def test_a_budget_that_is_used_up_ends_it_for_all_and_what_was_under_way_is_counted(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        first = ledger.call("a", "take", 0.5).ticket
        second = ledger.call("b", "take", 0.5).ticket
        settle(ledger, "a", first, 0.9)
        assert ledger.call("a", "take", 0.2) == (None, None)
        settle(ledger, "b", second, 0.05)
        stopped = ledger.call("a", "take", 0.2).stopped
        assert isinstance(stopped, BudgetError)
        assert "the budget of $1.00 is used up: $0.9500 are spent" in str(stopped)
        again = ledger.call("b", "take", 0.0).stopped
        assert (type(again), str(again)) == (BudgetError, str(stopped))

    def test_what_is_under_way_when_it_ends_is_counted(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        ticket = ledger.call("a", "take", 0.5).ticket
        ledger._halt.now(ObserverError("the end"))
        settle(ledger, "a", ticket, 0.4)
        assert str(ledger.call("a", "take", 0.1).stopped) == "the end"
        assert ledger.spent_usd == pytest.approx(0.4)

    def test_a_worker_that_is_gone_leaves_its_places_and_has_spent_what_it_held(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        ledger.call("a", "bound", 1)
        assert ledger.call("a", "take", 0.4).ticket is not None
        assert ledger.call("b", "take", 0.4) == (None, None)
        ledger.gone("a")
        assert ledger.spent_usd == pytest.approx(0.4)
        assert ledger.call("b", "take", 0.4).ticket is not None

    def test_a_throttled_request_of_one_worker_slows_all(self) -> None:
        ledger = Ledger()
        tickets = {name: ledger.call(name, "take", 0.0).ticket for name in "abcd"}
        settle(ledger, "a", tickets["a"], throttled=True)
        settle(ledger, "b", tickets["b"], throttled=True)  # sent before the halving
        assert ledger.call("b", "take", 0.0) == (None, None)
        settle(ledger, "c", tickets["c"])
        assert ledger.call("b", "take", 0.0).ticket is not None

    def test_requests_of_all_workers_are_sent_at_even_distances(self) -> None:
        clock = Clock()
        ledger = Ledger(per_minute=60, monotonic=clock)
        tickets = [ledger.call(name, "take", 0.0).ticket for name in "abc"]
        assert [ticket.delay for ticket in tickets if ticket] == [0, 1, 2]
        clock.now = 10
        assert ledger.call("a", "take", 0.0).ticket == Ticket(0.0)


def test_the_pace_holds_for_one_process_too() -> None:
    limits = RequestLimits(Halt(), None, 120, Clock())
    delays = []
    for _ in range(3):
        ticket = limits.take(0.0)
        delays.append(ticket.delay)
        limits.settle(ticket)
    assert delays == [0, 0.5, 1]
    with pytest.raises(UsageError, match="requests_per_minute must be a number"):
        LlmSettings(requests_per_minute=0)


class TestSocket:
    def test_an_allowance_travels_and_one_without_the_key_is_not_let_in(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        with serve(ledger) as allowance:
            other = pickle.loads(pickle.dumps(allowance))
            ticket = other.call("take", 0.9).ticket
            assert ticket == Ticket(0.9)
            assert allowance.call("take", 0.9) == (None, None)
            assert allowance.key.hex() not in repr(allowance)
            with pytest.raises(AuthenticationError):
                Client(allowance.address, authkey=b"a guess")
            ticket.spent_usd = 0.2
            other.call("settle", ticket)
            assert ledger.spent_usd == pytest.approx(0.2)

    def test_who_goes_away_leaves_what_it_had(self) -> None:
        ledger = Ledger(budget_usd=1.0)
        with serve(ledger) as allowance:
            other = pickle.loads(pickle.dumps(allowance))
            other.call("take", 0.9)
            other._connection.close()
            with pytest.raises(BudgetError, match=r"\$0\.9000 are spent"):
                SharedLimits(Halt(), allowance).take(0.5)

    def test_who_is_let_in_while_the_end_comes_does_not_keep_it_waiting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leaving, again = threading.Event(), threading.Event()

        class Slow(Listener):
            """Lets the first one in, and says so only when the end has come."""

            def accept(self) -> Any:
                if leaving.is_set():
                    again.set()
                    return super().accept()
                connection = super().accept()
                leaving.wait(30)
                return connection

        def wake(*arguments: Any, **settings: Any) -> Any:
            leaving.set()
            assert again.wait(30), "nobody accepts"
            return Client(*arguments, **settings)

        monkeypatch.setattr("turnwise.observers.llm.limits.Listener", Slow)
        with serve(Ledger()) as allowance:
            connection = Client(allowance.address, authkey=allowance.key)
            monkeypatch.setattr("turnwise.observers.llm.limits.Client", wake)
        connection.close()

    def test_a_ledger_that_is_gone_is_told(self) -> None:
        with serve(Ledger()) as allowance:
            pass
        with pytest.raises(ObserverError, match="keeps the common budget is gone"):
            allowance.call("take", 0.0)

    def test_threads_of_several_workers_get_their_places(self) -> None:
        ledger, inside, most, lock = Ledger(), 0, 0, threading.Lock()
        ledger.call("driver", "bound", 2)

        def request(limits: SharedLimits) -> None:
            nonlocal inside, most
            ticket = limits.take(0.0)
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            limits.settle(ticket)

        with serve(ledger) as allowance, ThreadPoolExecutor(6) as pool:
            workers = [SharedLimits(Halt(), pickle.loads(pickle.dumps(allowance))) for _ in range(3)]
            for future in [pool.submit(request, limits) for limits in workers * 4]:
                future.result()
        assert most <= 2


def test_observers_with_one_allowance_spend_at_most_the_budget_and_what_was_under_way(
    make: Callable[..., LlmObserver], server: ChatServer
) -> None:
    alone = make()
    observe_conversations(alone, TALKS[:1], Context.parse("turn"), WANTED)
    one = alone.spent_usd
    # What may be set aside for a request is more than it costs; so much beyond the budget is never spent.
    ledger = Ledger(budget_usd=one * 60)
    with serve(ledger) as allowance:
        workers = [make().with_allowance(pickle.loads(pickle.dumps(allowance))) for _ in range(3)]
        assert all(isinstance(worker, SharesAllowance) for worker in workers)

        def scan(number: int) -> None:
            talks = [[Turn(1, f"{number} asks {count}", None)] for count in range(40)]
            observe_conversations(workers[number], talks, Context.parse("turn"), WANTED, threads=2)

        with ThreadPoolExecutor(3) as pool:
            ends = [pool.submit(scan, number) for number in range(3)]
            errors = [future.exception(60) for future in ends]
    assert any(isinstance(error, BudgetError) for error in errors)
    assert one < ledger.spent_usd <= one * 60
    assert ledger.spent_usd == pytest.approx(sum(worker.spent_usd for worker in workers))
