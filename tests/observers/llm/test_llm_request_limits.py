from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnwise.errors import BudgetError
from turnwise.observers import BoundsRequests, LlmObserver
from turnwise.observers.llm.limits import Halt, RequestLimits


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
