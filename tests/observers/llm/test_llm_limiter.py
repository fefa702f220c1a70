from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from turnwise.observers import BoundsRequests
from turnwise.observers.llm.limits import Halt, Limiter
from turnwise.observers.llm.observer import LlmObserver


def test_no_more_than_the_bound_are_under_way_and_all_get_a_place():
    limiter, inside, most = Limiter(Halt()), 0, 0
    limiter.bound(3)
    lock, full = threading.Lock(), threading.Event()

    def request() -> None:
        nonlocal inside, most
        with limiter.place():
            with lock:
                inside += 1
                most = max(most, inside)
                if inside == 3:
                    full.set()
            assert full.wait(10)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(request) for _ in range(30)]:
            future.result()
    assert most == 3


def test_a_complaint_halves_below_the_bound_and_never_above_it():
    limiter = Limiter(Halt())
    assert limiter.limit == float("inf")
    limiter.bound(8)
    assert limiter.limit == 8
    with limiter.place() as first, limiter.place(), limiter.place(), limiter.place():
        limiter.complained(first)
    assert limiter.limit == 2
    for _ in range(100):
        limiter.replied()
    assert limiter.limit == 8


def test_the_observer_takes_a_bound():
    assert isinstance(LlmObserver("ollama/x"), BoundsRequests)
