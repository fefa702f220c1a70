"""Checks off the event loop, with a time budget, and ended when nobody waits for them; a text is read once."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from guard_rails import Told

from turnwise import Conversation, GuardrailPipeline
from turnwise.deadline import Deadline, WorkStopped, check_deadline, within
from turnwise.errors import GuardError
from turnwise.guard import Check, Cost, Finding, Guardrail
from turnwise.guard.scorer import shared_observer

PROSE = "The garden needs water in the evening, and the roses want some shade as well. "


@dataclass(frozen=True)
class Reads(Guardrail):
    """Computes until it is stopped, in small steps, as the embedded observer does."""

    cost: ClassVar[Cost] = Cost.MODEL
    default_timeout: ClassVar[float | None] = None

    begun: Any = field(default_factory=threading.Event)
    ended: Any = field(default_factory=threading.Event)

    def check(self, check: Check) -> Finding:
        """Compute for at most half a minute."""
        self.begun.set()
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                check_deadline()
                time.sleep(0.001)
        finally:
            self.ended.set()
        return Finding(found=False)


@dataclass(frozen=True)
class Threads(Guardrail):
    """Keeps the threads that it was asked in."""

    cost: ClassVar[Cost] = Cost.TEXT
    default_timeout: ClassVar[float | None] = None

    seen: list[int] = field(default_factory=list)

    def check(self, check: Check) -> Finding:
        """Keep the thread."""
        self.seen.append(threading.get_ident())
        return Finding(found=False)


@dataclass(frozen=True)
class Holds(Guardrail):
    """Computes on a long text until it is let go."""

    cost: ClassVar[Cost] = Cost.MODEL
    default_timeout: ClassVar[float | None] = None

    release: Any = field(default_factory=threading.Event)

    def check(self, check: Check) -> Finding:
        """Wait where the text is long."""
        if len(check.text) > 5_000:
            self.release.wait(30)
        return Finding(found=False)


class OutOfTime(Guardrail):
    """Raises a `TimeoutError` of its own."""

    default_timeout: ClassVar[float | None] = 20.0

    def check(self, check: Check) -> Finding:
        """Raise it."""
        raise TimeoutError("the server said 504")


class AwaitsOutOfTime(OutOfTime):
    """The same, awaited."""

    async def acheck(self, check: Check) -> Finding:
        """Raise it."""
        return self.check(check)


@contextmanager
def counted_runs() -> Iterator[list[int]]:
    """Count the tokens of each run of the embedded observer's network."""
    network: Any = shared_observer("local")._reader._network  # type: ignore[attr-defined]
    runs: list[int] = []
    plain = type(network).run

    def run(tokens: Any, spans: Any, before: Any = None) -> Any:
        runs.append(len(tokens))
        return plain(network, tokens, spans, before)

    network.run = run
    try:
        yield runs
    finally:
        del network.run


@pytest.mark.parametrize("characters", [200, 4_000])
def test_guardrails_that_read_the_same_text_share_one_reading(characters: int) -> None:
    text = (PROSE * 60)[:characters]
    with counted_runs() as together:
        GuardrailPipeline.from_preset("basic").check_input(text)
    with counted_runs() as alone:
        GuardrailPipeline({"guardrails": ["drift"]}).check_input(f"So {text}")  # what was read is known
    assert len(together) == len(alone)
    assert sum(together) <= sum(alone) + 2


def test_a_long_message_is_read_up_to_a_bound_whatever_its_script() -> None:
    for sign in ("word ", "wörd ", "\U0001f600"):
        with counted_runs() as runs:
            GuardrailPipeline({"guardrails": ["drift"]}).check_input(sign * 5_000)
        assert 0 < sum(runs) < 2_200


def test_a_text_over_the_size_limit_is_read_by_no_guardrail() -> None:
    told, pipeline = Told(), GuardrailPipeline.from_preset("basic")
    with counted_runs() as runs:
        result = pipeline.check_input("a" * 40_000)
    assert result.reasons == ["length: 40,000 characters, at most 32,000 are allowed"]
    assert not runs
    assert {name for name, detail in result.details.items() if detail.status == "skipped"} == {
        step.name for step in pipeline.steps if step.name != "length"
    }
    limited = GuardrailPipeline({"guardrails": [{"use": told}, {"length": {"max_characters": 10}}]})
    assert limited.check_input("a" * 11).blocked
    assert told.texts == []


def test_a_text_whose_time_is_up_takes_the_named_path() -> None:
    for path, blocked in (("block", True), ("warn", False), ("allow", False)):
        reads = Reads()
        pipeline = GuardrailPipeline(
            {"max_seconds": 0.02, "on_timeout": path, "guardrails": [{"use": reads}, {"use": Told()}]}
        )
        result = pipeline.check_input("hello")
        late = result.details["timed_out"]
        assert result.blocked is blocked
        assert (late.status, late.path) == ("failed", "closed" if blocked else "open")
        assert late.reason == "failed: not done within 0.02 s; not checked by reads, told"
        assert {result.details[name].status for name in ("reads", "told")} == {"skipped"}
        assert reads.ended.is_set()
        assert asyncio.run(pipeline.acheck_input("hello")).blocked is blocked


@pytest.mark.parametrize("seconds", [0, -1, True, "soon", 10_000])
def test_a_time_that_cannot_be_is_refused(seconds: object) -> None:
    with pytest.raises(GuardError, match="max_seconds"):
        GuardrailPipeline({"max_seconds": seconds, "guardrails": ["pii"]})


def test_every_preset_has_a_time_budget_and_names_the_path() -> None:
    for name in GuardrailPipeline.available_presets():
        config = GuardrailPipeline.from_preset(name).config
        assert config.max_seconds == 10
        assert config.on_timeout == ("allow" if name == "research" else "block")


def test_a_check_that_is_called_off_ends_and_is_kept_as_cancelled() -> None:
    reads, talk, ended = Reads(), Conversation.human_ai("u", "m"), []
    pipeline, deadline = GuardrailPipeline({"guardrails": [{"use": reads}]}), Deadline()

    def check() -> None:
        try:
            with within(deadline):
                pipeline.check_input("hello", conversation=talk)
        except WorkStopped as stopped:
            ended.append(stopped.reason)

    thread = threading.Thread(target=check)
    thread.start()
    assert reads.begun.wait(10)
    deadline.cancel("the client went away")
    thread.join(10)
    assert ended == ["the client went away"]
    kept = talk.turn(1).metadata["guardrail_results"]
    assert kept["blocked"]
    assert kept["reasons"] == ["cancelled: failed: the client went away"]
    assert talk.to_messages() == []


def test_an_awaited_check_that_is_cancelled_stops_computing() -> None:
    reads, talk = Reads(), Conversation.human_ai("u", "m")
    pipeline = GuardrailPipeline({"guardrails": [{"use": reads}]})

    async def cancel() -> None:
        check = asyncio.create_task(pipeline.acheck_input("hello", conversation=talk))
        await asyncio.to_thread(reads.begun.wait, 10)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check

    asyncio.run(cancel())
    assert reads.ended.wait(10)
    assert talk.turn(1).metadata["guardrail_results"]["reasons"][0].startswith("cancelled: ")


def test_the_embedded_observer_stops_where_nobody_waits_and_reads_the_turn_later() -> None:
    pipeline, talk = GuardrailPipeline({"guardrails": ["drift"]}), Conversation.human_ai("u", "m")
    deadline = Deadline()
    deadline.cancel("the client went away")
    with counted_runs() as runs, pytest.raises(WorkStopped), within(deadline):
        pipeline.check_input(PROSE * 40, conversation=talk)
    assert runs == []
    pipeline.check_input("And the tulips?", conversation=talk)
    followed, other = talk.turn(2), Conversation.human_ai("u", "m")
    fresh = GuardrailPipeline({"guardrails": ["drift"]})
    other.add_prompt(PROSE * 40)
    fresh.check_input("And the tulips?", conversation=other)
    scores = [
        turn.metadata["guardrail_results"]["details"]["drift"]["data"]["scores"]
        for turn in (followed, other.turn(2))
    ]
    assert scores[0] == scores[1]


def test_awaited_checks_of_what_takes_time_leave_the_event_loop() -> None:
    threads, models = Threads(), Told()
    pipeline = GuardrailPipeline({"guardrails": [{"use": threads}, {"use": models}, "drift"]})

    async def check() -> int:
        await pipeline.acheck_input("hello")
        await pipeline.acheck_input(PROSE * 50)
        return threading.get_ident()

    loop = asyncio.run(check())
    short, long = threads.seen
    assert short == loop
    assert long != loop


def test_short_texts_overtake_long_ones() -> None:
    holds = Holds()
    pipeline = GuardrailPipeline({"guardrails": [{"use": holds}]})

    async def check() -> bool:
        long = [asyncio.create_task(pipeline.acheck_input("a" * 15_000)) for _ in range(40)]
        await asyncio.sleep(0)
        try:
            result = await asyncio.wait_for(pipeline.acheck_input("hello"), 10)
        finally:
            holds.release.set()
        await asyncio.gather(*long)
        return result.blocked

    assert asyncio.run(check()) is False


@pytest.mark.parametrize("kind", [OutOfTime, AwaitsOutOfTime])
def test_a_timeout_error_of_a_guardrail_is_its_failure_in_sync_and_async(kind: type[Guardrail]) -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"use": kind(), "name": "late"}]})
    for result in (pipeline.check_input("hello"), asyncio.run(pipeline.acheck_input("hello"))):
        assert result.details["late"].reason == "failed: TimeoutError: the server said 504"
