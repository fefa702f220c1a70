"""Guardrails that are plain functions, and those that only await: both in sync and in async pipelines."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from turnwise.guard import (
    CLEAN,
    GUARDRAILS,
    AsyncGuardrail,
    Check,
    Finding,
    Guardrail,
    GuardrailPipeline,
    describe_guardrails,
    guardrail,
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GUARDRAILS, "_parts", dict(GUARDRAILS._parts))


def shouting(check: Check) -> Finding:
    """Finds texts in capitals."""
    return Finding(True, "capitals") if check.text.isupper() else CLEAN


async def shouting_later(check: Check) -> Finding:
    """Finds texts in capitals, later."""
    await asyncio.sleep(0)
    return shouting(check)


class Asking(AsyncGuardrail):
    """Awaits, and says where."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    async def acheck(self, check: Check) -> Finding:
        self.threads.append(threading.get_ident())
        return await shouting_later(check)


def verdicts(pipeline: GuardrailPipeline) -> list[bool]:
    """Return what is blocked: in sync code, in sync code on an event loop, and awaited."""

    async def on_a_loop() -> list[bool]:
        here = [pipeline.check_input(text).blocked for text in ("stop", "STOP")]
        return here + [(await pipeline.acheck_input(text)).blocked for text in ("stop", "STOP")]

    return [pipeline.check_input(text).blocked for text in ("stop", "STOP")] + asyncio.run(on_a_loop())


@pytest.mark.parametrize("rail", [shouting, shouting_later, Asking()])
@pytest.mark.parametrize("timeout", ["default", None])
def test_it_is_used_as_it_is_everywhere(rail, timeout) -> None:
    assert verdicts(GuardrailPipeline({"guardrails": [{"use": rail, "timeout": timeout}]})) == [False, True] * 3
    assert verdicts(GuardrailPipeline({"guardrails": [rail]})) == [False, True] * 3


@pytest.mark.parametrize("rail", [shouting, shouting_later, Asking])
def test_it_is_registered_under_a_name(rail) -> None:
    assert guardrail("loud")(rail) is rail
    assert guardrail("loud")(rail) is rail  # the same one once more is no slip
    pipeline = GuardrailPipeline({"guardrails": [{"loud": {"action": "warn"}}]})
    assert pipeline.check_input("STOP").warnings == ["loud: capitals"]
    [told] = [one for one in describe_guardrails() if one.name == "loud"]
    assert (told.summary, told.settings) == (rail.__doc__, {})


def test_a_function_that_builds_a_guardrail_still_does() -> None:
    class Loud(Guardrail):
        def __init__(self, share: float) -> None:
            self.share = share

        def check(self, check: Check) -> Finding:
            return shouting(check)

    @guardrail("built")
    def build(share: float = 0.5) -> Guardrail:
        return Loud(share)

    [step] = GuardrailPipeline({"guardrails": [{"built": {"share": 0.7}}]}).steps
    assert step.guardrail.share == 0.7


def test_a_sync_pipeline_awaits_in_another_thread() -> None:
    rail = Asking()
    GuardrailPipeline({"guardrails": [{"use": rail, "timeout": None}]}).check_input("Hi")
    assert rail.threads and threading.get_ident() not in rail.threads


def test_a_coroutine_whose_time_is_up_is_cancelled() -> None:
    ended = threading.Event()

    async def hanging(check: Check) -> Finding:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return CLEAN

    begun = time.monotonic()
    result = GuardrailPipeline({"guardrails": [{"use": hanging, "timeout": 0.05}]}).check_input("Hi")
    assert result.blocked and "no answer within 0.05 s" in result.reasons[0]
    assert ended.wait(10) and time.monotonic() - begun < 30


def test_what_a_function_raises_is_a_failed_check() -> None:
    async def broken(check: Check) -> Finding:
        raise LookupError("no list")

    result = GuardrailPipeline({"guardrails": [{"use": broken, "on_error": "warn"}]}).check_input("Hi")
    assert not result.blocked and "LookupError: no list" in result.warnings[0]
