"""The store in memory: bounded, used from many threads, and it never loses a terminated session in silence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from turnwise.errors import SessionError
from turnwise.sessions import (
    SESSION,
    Change,
    Evicted,
    MemoryStateStore,
    SessionMemory,
    Sessions,
    SessionState,
    StateKind,
    StateStore,
)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock(now):
    return Hand(now)


def live(store: StateStore, clock, memory=None) -> Sessions:
    return Sessions(store, clock, memory)


def end(sessions, turn, name):
    for _ in range(4):
        stance = sessions.take(name, turn(0.9))
    assert stance.mode == "terminated"


def test_a_session_begins_with_its_first_turn_and_goes_on(clock, turn):
    store = MemoryStateStore()
    sessions = live(store, clock)
    assert store.get(SESSION, "user-1") is None
    assert sessions.stance("user-1") is None
    stance = sessions.take("user-1", turn(0.1), response="I can't help with that.", conversation_id="chat-1")
    assert stance.interactions == 1
    state = store.get(SESSION, "user-1")
    assert (state.refusals, state.conversation_ids) == (1, ("chat-1",))
    assert sessions.take("user-1", turn(0.1)).interactions == 2
    assert sessions.stance("user-1").interactions == 2
    assert len(store) == 1


def test_a_response_that_comes_later_is_taken_into_its_turn(clock, turn):
    store = MemoryStateStore()
    sessions = live(store, clock)
    sessions.take("user-1", turn(0.1))
    stance = sessions.answered("user-1", "I can't help with that.")
    assert stance.interactions == 1
    assert store.get(SESSION, "user-1").refusals == 1
    assert sessions.answered("user-2", "I can't help with that.").interactions == 0


def test_the_least_recently_used_session_makes_room(clock, turn):
    events = []
    store = MemoryStateStore(limit=2, on_evict=events.append)
    sessions = live(store, clock)
    for name in ("a", "b", "a", "c"):
        sessions.take(name, turn(0.1))
    assert events == [Evicted("session", "b", lasting=False, remembered=False)]
    assert store.get(SESSION, "b") is None
    assert store.get(SESSION, "a").interactions == 2
    sessions.take("d", turn(0.1))
    assert [event.key for event in events] == ["b", "c"], "reading a session counts as use"


def test_a_terminated_session_stays_terminated_when_it_makes_room(clock, turn):
    events = []
    store = MemoryStateStore(limit=1, on_evict=events.append)
    sessions = live(store, clock)
    end(sessions, turn, "bad")
    sessions.take("good", turn(0.1))
    assert events == [Evicted("session", "bad", lasting=True, remembered=True)]
    assert sessions.stance("bad").mode == "terminated"
    stance = sessions.take("bad", turn(0.0))
    assert (stance.mode, stance.interactions) == ("terminated", 5)
    assert store.get(SESSION, "good").interactions == 1, "it was not pushed out by the ended one"
    assert len(store) == 2


def test_ends_are_never_forgotten_in_silence(clock, turn):
    store = MemoryStateStore(limit=1, ended_limit=1)
    sessions = live(store, clock)
    end(sessions, turn, "bad-1")
    end(sessions, turn, "bad-2")
    with pytest.raises(
        SessionError, match="the end of 2 terminated sessions can't be remembered within ended_limit=1"
    ):
        sessions.take("good", turn(0.1))
    assert sessions.stance("bad-1").mode == "terminated"
    assert sessions.stance("bad-2").mode == "terminated"
    assert store.get(SESSION, "good") is None


@pytest.mark.parametrize(("ended_limit", "told"), [(1, "bad-1"), (0, "bad-2")])
def test_somebody_is_told_of_an_end_that_is_forgotten(clock, turn, ended_limit, told):
    events = []
    store = MemoryStateStore(limit=1, ended_limit=ended_limit, on_evict=events.append)
    sessions = live(store, clock)
    end(sessions, turn, "bad-1")
    end(sessions, turn, "bad-2")
    sessions.take("good", turn(0.1))
    assert told in [event.key for event in events if event.lasting and not event.remembered]
    assert store.get(SESSION, "good") is not None


def test_a_store_may_be_used_from_what_it_tells(clock, turn):
    seen = []
    store = MemoryStateStore(limit=1, on_evict=lambda event: seen.append(len(store)))
    sessions = live(store, clock)
    sessions.take("a", turn(0.1))
    sessions.take("b", turn(0.1))
    assert seen == [1]


def begun(now, names):
    return [Change(SESSION, name, lambda _, name=name: (SessionState(name, now, now), name)) for name in names]


def test_several_changes_without_room_change_nothing(clock, turn, now):
    store = MemoryStateStore(limit=2, ended_limit=0)
    sessions = live(store, clock)
    end(sessions, turn, "bad")
    with pytest.raises(SessionError, match="ended_limit=0"):
        store.change_all(begun(now, "ab"))
    assert store.keys(SESSION) == ["bad"]
    assert sessions.stance("bad").mode == "terminated"


def test_what_changes_together_is_kept_together(now):
    store = MemoryStateStore(limit=1)
    assert store.change_all(begun(now, "ab")) == ("a", "b")
    assert store.keys(SESSION) == ["a", "b"]
    store.change_all(begun(now, "c"))
    assert store.keys(SESSION) == ["c"]


@pytest.mark.parametrize("ended_limit", [0, 1])
def test_parts_are_forgotten_with_their_state(ended_limit):
    kind = StateKind("p", 1, repr, repr, remnant=lambda state: state, parts=lambda state: state)
    store = MemoryStateStore(limit=1, ended_limit=ended_limit, on_evict=lambda event: None)
    for key, state in (("a", {"one": b"1"}), ("b", {}), ("c", {}), ("a", {})):
        store.change(kind, key, lambda _, state=state: (state, None))
    assert store.parts(kind, "a") == {}


def test_somebody_is_told_of_what_is_past_its_time(clock, turn):
    events = []
    store = MemoryStateStore(ended_limit=1, on_evict=events.append, ttl=timedelta(days=1), clock=clock)
    sessions = live(store, clock)
    sessions.take("good", turn(0.1))
    end(sessions, turn, "bad-1")
    end(sessions, turn, "bad-2")
    clock.now += timedelta(days=2)
    assert store.get(SESSION, "good") is None
    assert store.get(SESSION, "bad-1").terminated
    assert store.get(SESSION, "bad-2").terminated
    assert events == [
        Evicted("session", "good", lasting=False, remembered=False),
        Evicted("session", "bad-1", lasting=True, remembered=True),
        Evicted("session", "bad-1", lasting=True, remembered=False),
        Evicted("session", "bad-2", lasting=True, remembered=True),
    ]


def test_a_look_at_a_session_past_its_time_forgets_no_end_in_silence(clock, turn):
    store = MemoryStateStore(ended_limit=1, ttl=timedelta(days=1), clock=clock)
    sessions = live(store, clock)
    end(sessions, turn, "bad-1")
    end(sessions, turn, "bad-2")
    clock.now += timedelta(days=2)
    assert store.get(SESSION, "bad-1").terminated
    with pytest.raises(SessionError, match="ended_limit=1"):
        store.get(SESSION, "bad-2")


def test_sessions_are_forgotten_on_request(clock, turn):
    store = MemoryStateStore(limit=1, on_evict=lambda event: None)
    sessions = live(store, clock)
    end(sessions, turn, "bad")
    sessions.take("good", turn(0.1))
    assert store.remove(SESSION, "bad")
    assert store.remove(SESSION, "good")
    assert not store.remove(SESSION, "good")
    assert len(store) == 0
    assert sessions.take("bad", turn(0.1)).mode == "cautious"


def test_expired_sessions_are_let_go_and_terminated_ones_remembered(clock, turn):
    events = []
    store = MemoryStateStore(on_evict=events.append)
    sessions = live(store, clock)
    end(sessions, turn, "bad")
    sessions.take("old", turn(0.1))
    clock.now += timedelta(days=20)
    sessions.take("young", turn(0.1))
    clock.now += timedelta(days=11)
    assert sessions.purge() == 2
    assert {event.key for event in events} == {"bad", "old"}
    assert store.get(SESSION, "old") is None
    assert store.get(SESSION, "young").interactions == 1
    assert sessions.stance("bad").mode == "terminated"


def test_sessions_that_do_not_expire_are_not_let_go(clock, turn):
    from turnwise.sessions import preset

    sessions = live(MemoryStateStore(), clock, SessionMemory(preset("original")))
    sessions.take("old", turn(0.1))
    clock.now += timedelta(days=3_650)
    assert sessions.purge() == 0


def test_no_turn_is_lost_between_threads(clock, turn):
    store = MemoryStateStore()
    sessions = live(store, clock)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: sessions.take(f"user-{number % 3}", turn(0.1)), range(600)))
    assert [store.get(SESSION, f"user-{number}").interactions for number in range(3)] == [200, 200, 200]


def test_many_threads_keep_the_bound(clock, turn):
    store = MemoryStateStore(limit=10)
    sessions = live(store, clock)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: sessions.take(f"user-{number % 50}", turn(0.1)), range(500)))
    assert len(store) == 10


def test_an_error_in_a_change_leaves_the_state(clock, turn):
    store = MemoryStateStore()
    sessions = live(store, clock)
    sessions.take("user-1", turn(0.1))
    with pytest.raises(SessionError, match="conversation_id"):
        sessions.take("user-1", turn(0.1), conversation_id="")
    assert store.get(SESSION, "user-1").interactions == 1
    assert sessions.take("user-1", turn(0.1)).interactions == 2


@pytest.mark.parametrize(("changed", "named"), [({"limit": 0}, "limit"), ({"ended_limit": -1}, "ended_limit")])
def test_limits_out_of_range_are_refused(changed, named):
    with pytest.raises(SessionError, match=f"^{named} must be"):
        MemoryStateStore(**changed)


def test_an_operator_may_bring_a_session_back(clock, turn, now):
    store = MemoryStateStore(limit=1)
    sessions = live(store, clock)
    end(sessions, turn, "bad")
    sessions.take("good", turn(0.1))
    store.change(SESSION, "bad", lambda state: (SessionState("bad", now, now), None))
    assert not store.get(SESSION, "bad").terminated
    assert store.get(SESSION, "good") is None, "one session is kept, and it is the other"
    assert len(store) == 1
