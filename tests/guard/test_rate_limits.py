"""Rate limits: of a conversation, of a key, and over all keys."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from guard_rails import Contains

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import MemoryStateStore
from turnwise.guard.rate_limits import KeyLimits, RateLimits


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def guard(clock, **limits):
    return GuardrailPipeline({"guardrails": [Contains()], "rate_limits": limits}, clock=clock)


@pytest.mark.shows("PLAN-10")
def test_a_conversation_has_its_own_limit_and_a_refused_try_is_no_turn(clock):
    talk = Conversation.human_ai("u", "m", rate_limit={"turns_per_minute": 2}, clock=clock)
    pipeline = guard(clock)
    results = [pipeline.check_input(f"prompt {n}", conversation=talk) for n in range(4)]
    assert [result.blocked for result in results] == [False, False, True, True]
    refused = results[-1]
    assert (refused.turn_number, refused.rate_limited, refused.details["rate_limit"].blocked) == (
        None,
        True,
        True,
    )
    assert refused.reasons == ["rate_limit: more than 2 turns per minute in this conversation"]
    assert len(talk.turns) == 2
    events = talk.metadata["rate_limit_events"]
    assert events["count"] == 2
    assert events["latest"][0]["after_turn"] == 2
    assert "prompt 2" not in json.dumps(talk.to_dict())
    # Responses don't count.
    assert not pipeline.check_output("answer", conversation=talk).blocked
    clock.now += timedelta(minutes=1)
    assert not pipeline.check_input("later", conversation=talk).blocked


def test_events_of_a_flood_are_bounded(clock):
    talk = Conversation.human_ai("u", "m", rate_limit={"turns_per_minute": 1}, clock=clock)
    pipeline = guard(clock)
    for n in range(2_500):
        pipeline.check_input(f"prompt {n}", conversation=talk)
    events = talk.metadata["rate_limit_events"]
    assert events["count"] == 2_499
    assert 1_000 <= len(events["latest"]) < 2_000


def test_keys_have_limits_by_role_and_exempt_roles_have_none(clock):
    pipeline = guard(clock, per_key={"minute": 1}, roles={"paying": {"minute": 3}}, exempt_roles=["admin"])

    def admitted(key, role=None):
        return sum(not pipeline.check_input("hi", key=key, role=role).blocked for _ in range(5))

    assert [admitted("ann"), admitted("ben"), admitted("eve", "paying"), admitted("root", "admin")] == [1, 1, 3, 5]
    assert admitted("zoe", "unheard of") == 1


def test_a_key_has_one_count_whatever_the_role_says(clock):
    roles = {"paying": {"minute": 4}, "trial": {"hour": 3}, "free": {}}
    pipeline = guard(clock, per_key={"minute": 2}, roles=roles, exempt_roles=["admin"])

    def passes(*said):
        return [not pipeline.check_input("hi", key="ann", role=role).blocked for role in said]

    assert sum(passes(*(f"role {n}" for n in range(20)))) == 2
    assert passes(None, "", "paying", "trial", "paying", "paying") == [False, False, True, False, True, False]
    assert passes("free", "admin", "trial") == [True, True, False]
    clock.now += timedelta(minutes=1)
    assert passes("trial", "paying", None, None) == [False, True, True, False]


def test_the_limit_over_all_keys_is_looked_at_first_and_refusals_count_for_neither(clock):
    pipeline = guard(clock, everyone={"hour": 2}, per_key={"minute": 1})

    def refused(key):
        return pipeline.check_input("hi", key=key).reasons

    assert [refused("ann"), refused("ann"), refused("ben")] == [
        [],
        ["rate_limit: more than 1 per minute for this key"],
        [],
    ]
    assert refused("ann") == refused(None) == ["rate_limit: more than 2 per hour over all keys"]
    clock.now += timedelta(hours=1)
    assert refused("ann") == []


@pytest.mark.parametrize("window", ["minute", "hour", "day"])
def test_every_window_slides(clock, window):
    length = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}[window]
    pipeline = guard(clock, per_key={window: 1})
    assert not pipeline.check_input("hi", key="ann").rate_limited
    clock.now += length - timedelta(seconds=1)
    assert pipeline.check_input("hi", key="ann").rate_limited
    clock.now += timedelta(seconds=1)
    assert not pipeline.check_input("hi", key="ann").rate_limited


def test_a_clock_that_is_set_neither_lifts_a_limit_nor_keeps_it_exceeded(clock):
    pipeline = guard(clock, per_key={"minute": 2})

    def passed(tries):
        return sum(not pipeline.check_input("hi", key="ann").blocked for _ in range(tries))

    assert passed(1) == 1
    clock.now -= timedelta(hours=1)
    assert passed(1_000) == 1
    clock.now += timedelta(minutes=1)
    assert passed(3) == 2
    clock.now += timedelta(days=30)
    assert passed(3) == 2
    clock.now -= timedelta(days=30)
    assert passed(3) == 0
    clock.now += timedelta(minutes=1)
    assert passed(3) == 2


def test_a_key_is_never_shown(clock):
    talk = Conversation.human_ai("u", "m")
    pipeline = guard(clock, per_key={"minute": 1})
    results = [pipeline.check_input("hi", conversation=talk, key="sk-my-token") for _ in range(2)]
    shown = f"{results!r} {[result.to_dict() for result in results]} {talk.to_dict()} {vars(pipeline)}"
    assert "sk-my-token" not in shown
    assert talk.metadata["rate_limit_events"]["latest"][0]["scope"] == "key"


def test_limits_before_and_after_a_reload_are_asked_one_at_a_time(clock):
    before, after = (KeyLimits(RateLimits(per_key={"day": 1})) for _ in range(2))
    after.take_over(before)
    begun, go_on = Event(), Event()

    class Slow(datetime):
        def __add__(self, other):
            begun.set()
            assert go_on.wait(30)
            return datetime.fromtimestamp(self.timestamp(), UTC) + other

    slow = Thread(target=before.refuse, args=("ann", None, Slow.fromtimestamp(clock.now.timestamp(), UTC)))
    other = Thread(target=after.refuse, args=("ben", None, clock.now))
    slow.start()
    assert begun.wait(30)
    other.start()
    other.join(0.1)
    assert other.is_alive()
    go_on.set()
    slow.join(30)
    other.join(30)
    assert after.refuse("ben", None, clock.now) is not None


def test_keys_are_bounded(clock):
    pipeline = guard(clock, per_key={"day": 1}, most_keys=2)
    keys = ("ann", "ben", "eve", "eve", "ann")
    refused = [pipeline.check_input("hi", key=key).rate_limited for key in keys]
    assert refused == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"per_key": {"minuet": 1}}, "unknown window 'minuet'; use minute, hour, day"),
        ({"everyone": {"day": 0}}, "global: day is 0"),
        ({"roles": {"x": {"day": 1}}, "exempt_roles": ["x"]}, "'x' is exempt and has limits"),
        ({"most_keys": 0}, "most_keys is 0"),
    ],
)
def test_limits_that_can_not_be_are_errors(clock, limits, told):
    with pytest.raises(GuardError, match=told):
        guard(clock, **limits)


def test_workers_of_one_process_share_a_count_under_threads() -> None:
    """The present of a shared limit never runs back, however many threads ask for it at once."""
    config = {"guardrails": [Contains()], "rate_limits": {"per_key": {"hour": 50}}}
    pipeline = GuardrailPipeline(config, state_store=MemoryStateStore())
    with ThreadPoolExecutor(16) as pool:
        refused = list(pool.map(lambda _: pipeline.check_input("hi", key="ann").rate_limited, range(400)))
    assert refused.count(False) == 50
