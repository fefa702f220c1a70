"""Caches of live conversations: found by what was said, bounded, the least recently used dropped first."""

from __future__ import annotations

import threading

import numpy as np

from turnwise.observers.local.network import Cache, Caches


def cache(tokens: int) -> Cache:
    return Cache([np.zeros((1, 1, tokens, 1), np.float32)] * 2, tokens)


def test_a_cache_is_found_by_any_beginning_that_it_serves() -> None:
    caches = Caches()
    assert caches.find([b"ab", b"a"]) is None
    caches.keep(cache(2), [(b"a", 1), (b"ab", 2)])
    found = caches.find([b"abc", b"ab", b"a"])
    assert found is not None
    assert (found[0].length, found[1]) == (2, 2)
    shorter = caches.find([b"a"])
    assert shorter is not None
    assert shorter[1] == 1


def test_a_longer_cache_takes_the_place_of_the_one_that_it_continues() -> None:
    caches = Caches()
    for end in (1, 2, 3):
        caches.keep(cache(end), [(b"abc"[:n], n) for n in range(1, end + 1)])
    assert len(caches) == 1
    assert caches.size == cache(3).size


def test_two_conversations_that_begin_alike_keep_both_ends() -> None:
    caches = Caches()
    caches.keep(cache(2), [(b"a", 1), (b"ab", 2)])
    caches.keep(cache(2), [(b"a", 1), (b"ac", 2)])
    assert len(caches) == 2
    for end in (b"ab", b"ac"):
        found = caches.find([end])
        assert found is not None
        assert found[1] == 2


def test_the_bound_holds_and_what_was_used_last_stays() -> None:
    caches = Caches(bound=3 * cache(10).size)
    for name in (b"a", b"b", b"c"):
        caches.keep(cache(10), [(name, 10)])
    assert caches.find([b"a"]) is not None
    caches.keep(cache(10), [(b"d", 10)])
    assert [name for name in (b"a", b"b", b"c", b"d") if caches.find([name])] == [b"a", b"c", b"d"]
    assert caches.size == 3 * cache(10).size
    caches.keep(cache(1_000), [(b"too large", 1_000)])
    assert caches.find([b"too large"]) is None
    assert len(caches) == 3


def test_threads_leave_the_sums_right() -> None:
    caches = Caches(bound=20 * cache(8).size)

    def work(thread: int) -> None:
        for turn in range(200):
            said = b"%d" % (thread * 7 + turn % 13)
            caches.find([said + b"x", said])
            caches.keep(cache(8), [(said, 4), (said + b"x", 8)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caches.size == len(caches) * cache(8).size <= 20 * cache(8).size
