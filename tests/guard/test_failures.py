"""A guardrail that raises, hangs or returns nonsense ends as its ``on_error`` says, and the result tells."""

import asyncio
import gc
import math
import os
import threading
import weakref
from time import monotonic

import pytest
from guard_rails import Asks, Contains, Hangs, Nonsense, Raises, Waits

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import Cost, Finding, Redaction, Step, build_guardrail
from turnwise.guard.threads import TimedThreads, TookTooLongError


def both_ways(guard, text):
    """Check a text in a sync and an async pipeline, and return both results."""
    talk = Conversation.human_ai("u", "m")
    return guard.check_input(text, conversation=talk), asyncio.run(guard.acheck_input(text, conversation=talk))


def broken():
    bad_confidence = Finding(found=False)
    object.__setattr__(bad_confidence, "confidence", math.nan)
    return {
        "raises": Raises(),
        "hangs": Hangs(),
        "none": Nonsense(None),
        "text": Nonsense("blocked"),
        "true": Nonsense(True),
        "outside": Nonsense(Finding(True, "x", 1.0, (Redaction(0, 99, "word"),))),
        "overlap": Nonsense(Finding(True, "x", 1.0, (Redaction(0, 2, "word"), Redaction(1, 3, "word")))),
    }


@pytest.mark.parametrize("kind", sorted(broken()))
@pytest.mark.parametrize(
    ("on_error", "blocked", "path", "warned"),
    [("block", True, "closed", False), ("warn", False, "open", True), ("allow", False, "open", False)],
)
def test_a_failure_ends_as_on_error_says(kind, on_error, blocked, path, warned):
    guard = GuardrailPipeline({"guardrails": [{"use": broken()[kind], "name": "odd", "on_error": on_error}]})
    for result in both_ways(guard, "hello"):
        detail = result.details["odd"]
        assert (detail.status, detail.path, result.blocked) == ("failed", path, blocked)
        assert bool(result.warnings) == warned
        assert result.failures == [f"odd: {detail.reason}"]
        assert detail.reason.startswith("failed: ")
        assert "\n" not in detail.reason


@pytest.mark.parametrize(
    ("action", "on_error"), [("block", "block"), ("redact", "block"), ("warn", "warn"), ("log", "allow")]
)
def test_on_error_follows_the_action_where_it_is_not_said(action, on_error):
    guard = GuardrailPipeline({"guardrails": [{"use": Contains(), "action": action}]})
    assert guard.steps[0].on_error == on_error


def test_other_guardrails_still_run():
    rails = [{"use": Raises(), "on_error": "allow"}, {"use": Contains(), "action": "warn"}]
    for result in both_ways(GuardrailPipeline({"guardrails": rails}), "bad"):
        assert result.warnings == ["contains: has bad"]
        assert len(result.failures) == 1


def test_sync_and_async_say_the_same():
    rails = [
        {"use": Contains(), "action": "redact"},
        {"use": Waits("odd"), "name": "odd"},
        {"use": Hangs(), "on_error": "warn"},
    ]
    guard = GuardrailPipeline({"guardrails": rails})
    for text in ("fine", "bad", "odd", "bad and odd", "x" * 50_000):
        sync, awaited = (result.to_dict() for result in both_ways(guard, text))
        for result in (sync, awaited):
            del result["seconds"], result["turn_number"], result["conversation_id"]
            for detail in result["details"].values():
                del detail["seconds"]
        assert sync == awaited


def test_an_async_check_leaves_the_event_loop_free():
    hangs = Hangs()
    guard = GuardrailPipeline({"guardrails": [{"use": hangs, "timeout": 30}]})

    async def talk():
        check = asyncio.create_task(guard.acheck_input("hello"))
        while not hangs.release.is_set():
            await asyncio.sleep(0)
            hangs.release.set()  # only a free loop gets here
        return await check

    assert not asyncio.run(talk()).blocked


def test_a_guardrail_that_waits_never_does_so_on_an_event_loop():
    asks, unlimited = Asks(), Asks()
    guard = GuardrailPipeline({"guardrails": [asks, {"use": unlimited, "name": "unlimited", "timeout": None}]})
    assert [step.timeout for step in guard.steps] == [30.0, None]
    asyncio.run(guard.acheck_input("hello"))
    assert threading.get_ident() not in {*asks.threads, *unlimited.threads}
    assert not guard.check_input("hello").failures


@pytest.mark.parametrize("guardrail", ["drift", "harm", "prompt_injection"])
def test_guardrails_wait_where_their_observer_does(guardrail):
    levels = {} if guardrail == "drift" else {"warn_above": 0.5, "block_above": 0.9}
    waiting = Step.of(build_guardrail(guardrail, observer="scripted:0.1", **levels), "x")
    assert (waiting.timeout, waiting.cost) == (30.0, Cost.REMOTE)
    local = Step.of(build_guardrail(guardrail), "x")
    assert (local.timeout, local.cost) == (None, Cost.MODEL)


def test_a_cancelled_check_is_not_clean():
    hangs = Hangs()
    guard = GuardrailPipeline({"guardrails": [{"use": hangs, "timeout": 30}]})
    talk = Conversation.human_ai("u", "m")

    async def cancel():
        check = asyncio.create_task(guard.acheck_input("hello", conversation=talk))
        while len(talk.turns) == 0:
            await asyncio.sleep(0)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check

    asyncio.run(cancel())
    hangs.release.set()
    kept = talk.turn(1).metadata["guardrail_results"]
    details = kept["details"]
    assert (kept["blocked"], details["hangs"]["status"]) == (True, "skipped")
    assert (details["cancelled"]["status"], details["cancelled"]["path"]) == ("failed", "closed")
    assert talk.to_messages() == []


def test_hanging_calls_are_bounded_and_ones_that_end_make_room():
    hangs, workers = Hangs(), TimedThreads(2)
    for _ in range(2):
        with pytest.raises(TookTooLongError, match="no answer within"):
            workers.run(lambda: hangs.check(None), timeout=0.01)
    with pytest.raises(TookTooLongError, match="2 earlier calls have not ended"):
        workers.run(lambda: 1, timeout=5)
    hangs.release.set()
    until = monotonic() + 30
    while True:
        try:
            assert workers.run(lambda: 1, timeout=30) == 1
            break
        except TookTooLongError:
            assert monotonic() < until, "no room was made"


def test_a_thread_whose_call_has_ended_takes_the_next_one():
    workers = TimedThreads()
    first = workers.run(threading.current_thread, timeout=30)
    assert {workers.run(threading.current_thread, timeout=30) for _ in range(20)} == {first}
    with pytest.raises(KeyError, match="x"):
        workers.run(lambda: {}["x"], timeout=30)
    assert workers.run(threading.current_thread, timeout=30) is first


def test_a_thread_that_nobody_needs_ends(monkeypatch):
    monkeypatch.setattr("turnwise.guard.threads.IDLE_SECONDS", 0.001)
    workers = TimedThreads()
    thread = workers.run(threading.current_thread, timeout=30)
    thread.join(30)
    assert not thread.is_alive()
    assert workers.run(threading.current_thread, timeout=30) is not thread


def test_nothing_of_a_call_is_kept_once_it_has_ended():
    class Text:
        pass

    workers, text = TimedThreads(), Text()
    gone = weakref.ref(text)
    workers.run(lambda kept=text: None, timeout=30)
    del text
    workers.run(lambda: None, timeout=30)
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    """A server may load the guard, check a text, and fork its workers only then."""
    workers = TimedThreads()
    assert workers.run(lambda: 1, timeout=30) == 1
    child = os.fork()
    if child == 0:
        os._exit(workers.run(lambda: 7, timeout=30))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
