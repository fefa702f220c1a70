"""A second look of ``drift`` that comes after its check: what it corrects and tells, and that none is lost."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from turnwise.conversation import Conversation, Turn
from turnwise.errors import GuardError, ObserverError
from turnwise.guard import Correction, GuardrailPipeline
from turnwise.observers import OBSERVERS, Request, ScriptedObserver
from turnwise.scoring import Score
from turnwise.sessions import MemoryStateStore

ASK = "F >= 0.2"


class Screen(ScriptedObserver):
    """F .3 for what holds "maybe", .7 for what holds "surely", else nothing."""

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(self._screened)

    @staticmethod
    def _screened(name: str, turn: Turn, request: Request) -> Score:
        F = 0.7 if "surely" in turn.prompt else 0.3 if "maybe" in turn.prompt else 0.0
        return Score(T=1 - F, I=0.0, F=F)


class Judge(ScriptedObserver):
    """Flags what holds the word "really"; answers only while `free` is set, and may break."""

    free: ClassVar[threading.Event] = threading.Event()
    asked: ClassVar[list[str]] = []
    broken = False

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(self._judged)

    def _judged(self, name: str, turn: Turn, request: Request) -> Score:
        if request.principle.name == "reciprocity":
            type(self).asked.append(turn.prompt)
        type(self).free.wait(20.0)
        if type(self).broken:
            raise ObserverError("no answer today")
        F = 0.9 if "really" in turn.prompt else 0.0
        return Score(T=1 - F, I=0.0, F=F)


@pytest.fixture(autouse=True)
def observers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(OBSERVERS._parts, "later_screen", Screen)
    monkeypatch.setitem(OBSERVERS._parts, "later_judge", Judge)
    monkeypatch.setattr(Judge, "free", threading.Event())
    monkeypatch.setattr(Judge, "asked", [])
    monkeypatch.setattr(Judge, "broken", False)
    yield
    Judge.free.set()


def pipeline(heard: list[Correction] | None = None, **given: Any) -> GuardrailPipeline:
    options = {name: given.pop(name) for name in ("audit", "state_store") if name in given}
    drift = {
        "observer": "later_screen",
        "second_look": "later_judge",
        "ask": ASK,
        "block_at": 0.5,
        "second_look_when": "afterwards",
        **given,
    }
    tell = None if heard is None else heard.append
    return GuardrailPipeline({"name": "test", "guardrails": [{"drift": drift}]}, on_correction=tell, **options)


def chat(name: str = "c1") -> Conversation:
    return Conversation.human_ai("ann", "model", conversation_id=name)


def audited(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10.0
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def said(guard: GuardrailPipeline, talk: Conversation, text: str) -> Any:
    result = guard.check_input(text, conversation=talk)
    if not result.blocked:
        guard.check_output("Fine.", conversation=talk)
    return result


def looked(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = result.details["drift"].data.to_dict().get("second_look") or {}
    return found


def test_the_check_ends_at_once_and_the_answer_corrects_the_next_one() -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard), chat()
    first = said(guard, talk, "maybe really")
    assert not first.blocked
    assert not first.warnings
    assert looked(first)["path"] == "later"
    before = first.stance.trust
    Judge.free.set()
    until(lambda: heard)
    (one,) = heard
    assert (one.conversation_id, one.turn_number, one.guardrail, one.would_block) == ("c1", 1, "drift", True)
    assert one.detail.data is not None
    assert one.detail.data["scores"]["reciprocity"]["F"] == 0.9
    assert one.stance is not None
    assert one.stance.trust < before
    json.dumps(one.to_dict())
    second = said(guard, talk, "hello")
    assert "turn 1 would have been blocked by what the second look said since" in second.warnings[0]
    assert second.stance.trust < before
    kept = talk.turn(1).metadata["guardrail_results"]["input"]["details"]["drift"]["data"]
    assert (kept["second_look"]["path"], kept["active"]) == ("afterwards", True)
    assert kept["scores"]["reciprocity"]["F"] == 0.9
    assert "would have been blocked" not in str(said(guard, talk, "hello again").warnings)


def _heard(heard: list[Correction], asked: int) -> bool:
    return len(heard) == asked


def stance_of(texts: list[str], **settings: Any) -> dict[str, Any]:
    """The stance after some texts, each of whose answers came before the next."""
    heard: list[Correction] = []
    guard, talk = pipeline(heard, **settings), chat()
    Judge.free.set()
    for text in texts:
        asked = len(heard) + ("maybe" in text or "surely" in text)
        said(guard, talk, text)
        if settings.get("second_look_when") != "inline":
            until(partial(_heard, heard, asked))
    found: dict[str, Any] = said(guard, talk, "bye").stance.to_dict()
    return found


def test_the_session_is_as_though_the_judge_had_been_waited_for() -> None:
    texts = ["hello", "surely", "maybe", "hello", "maybe really", "fine", "surely"]
    later, waited = stance_of(texts), stance_of(texts, second_look_when="inline")
    assert later == waited


def test_a_false_alarm_of_the_screen_is_taken_back() -> None:
    guard, talk = pipeline(block_at=0.9), chat()
    alarmed = said(guard, talk, "maybe surely")
    Judge.free.set()
    until(lambda: Judge.asked)
    time.sleep(0.05)
    assert said(guard, talk, "hello").stance.trust > alarmed.stance.trust


def test_turns_that_came_meanwhile_are_taken_again() -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard, detector="f_ema", block_at=1.0), chat()
    for text in ("maybe really", "hello", "hello"):
        assert not said(guard, talk, text).blocked
    Judge.free.set()
    until(lambda: heard)
    result = said(guard, talk, "maybe")
    assert any("turn 1 would have been blocked" in warning for warning in result.warnings)


def test_the_audit_has_the_correction_beside_the_check(tmp_path: Path) -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard, audit=tmp_path / "audit.jsonl"), chat()
    said(guard, talk, "maybe really")
    Judge.free.set()
    until(lambda: heard)
    guard.close()
    events = audited(tmp_path / "audit.jsonl")
    assert [event["kind"] for event in events].count("correction") == 1
    (event,) = (one for one in events if one["kind"] == "correction")
    assert (event["turn"], event["outcome"], event["would_block"]) == (1, "corrected", True)
    assert event["guardrails"]["drift"]["data"]["second_look"]["path"] == "afterwards"
    assert "text" not in event


def test_a_guard_that_is_closed_tells_what_was_not_answered(tmp_path: Path) -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard, audit=tmp_path / "audit.jsonl"), chat()
    said(guard, talk, "maybe really")
    until(lambda: Judge.asked)
    guard.close()
    (one,) = heard
    assert one.detail.status == "failed"
    assert "closed before it answered" in one.detail.reason
    assert not one.would_block
    Judge.free.set()
    time.sleep(0.05)
    assert len(heard) == 1
    events = audited(tmp_path / "audit.jsonl")
    assert [event["outcome"] for event in events if event["kind"] == "correction"] == ["unanswered"]


def test_a_judge_that_breaks_leaves_the_check_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "broken", True)
    heard: list[Correction] = []
    guard, talk = pipeline(heard), chat()
    first = said(guard, talk, "maybe really")
    Judge.free.set()
    until(lambda: heard)
    assert "no answer today" in heard[0].detail.reason
    second = said(guard, talk, "hello")
    assert not second.warnings
    assert second.stance.trust >= first.stance.trust
    kept = talk.turn(1).metadata["guardrail_results"]["input"]["details"]["drift"]["data"]["second_look"]
    assert kept["path"] == "later"
    assert "no answer today" in kept["trouble"]


def test_a_callback_that_raises_breaks_nothing() -> None:
    def broken(_: Correction) -> None:
        raise ValueError("an error of the application")

    drift = {"observer": "later_screen", "second_look": "later_judge", "ask": ASK, "block_at": 0.5}
    config = {"name": "t", "guardrails": [{"drift": {**drift, "second_look_when": "afterwards"}}]}
    guard, talk = GuardrailPipeline(config, on_correction=broken), chat()
    Judge.free.set()
    said(guard, talk, "maybe really")
    until(lambda: said(guard, talk, "hello").warnings)


def test_another_worker_takes_the_answer_from_the_state_store() -> None:
    store, heard = MemoryStateStore(), list[Correction]()
    here, there = pipeline(heard, state_store=store), pipeline(state_store=store)
    said(here, chat(), "maybe really")
    Judge.free.set()
    until(lambda: heard)
    asked = len(Judge.asked)
    result = said(there, there.load_conversation("c1"), "hello")
    assert "turn 1 would have been blocked" in result.warnings[0]
    assert len(Judge.asked) == asked
    kept = pipeline(state_store=store).load_conversation("c1").turn(1)
    assert kept.metadata["guardrail_results"]["input"]["details"]["drift"]["data"]["active"]


def test_a_question_of_a_process_that_died_is_asked_again() -> None:
    store, heard = MemoryStateStore(), list[Correction]()
    died = pipeline(state_store=store, second_look_wait=0.01)
    said(died, chat(), "maybe really")
    until(lambda: Judge.asked)  # and it never answers
    time.sleep(0.02)
    next_one = pipeline(heard, state_store=store, second_look_wait=0.01)
    talk = next_one.load_conversation("c1")
    assert not said(next_one, talk, "hello").warnings
    until(lambda: len(Judge.asked) == 2)
    Judge.free.set()
    until(lambda: heard)
    assert "asked at turn 1 by a process that has no answer" in heard[0].detail.reason
    assert "turn 1 would have been blocked" in said(next_one, talk, "hello").warnings[0]


def test_an_answer_that_is_too_late_is_given_up() -> None:
    guard, talk = pipeline(), chat()
    said(guard, talk, "maybe really")
    for _ in range(17):
        said(guard, talk, "hello")
    Judge.free.set()
    time.sleep(0.1)
    assert not said(guard, talk, "hello").warnings
    kept = talk.turn(1).metadata["guardrail_results"]["input"]["details"]["drift"]["data"]["second_look"]
    assert "no answer for 16 turns" in kept["trouble"]


def test_what_was_forgotten_is_not_told_of() -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard), chat()
    said(guard, talk, "maybe really")
    until(lambda: Judge.asked)
    guard.forget_conversation("c1")
    Judge.free.set()
    time.sleep(0.1)
    assert not heard


def test_limits_by_conversation_and_by_minute_are_said() -> None:
    Judge.free.set()
    limits: list[tuple[dict[str, Any], str]] = [
        ({"second_looks": 1}, "its 1 second looks are used up"),
        ({"second_looks_a_minute": 1}, "1 second looks were asked for within a minute"),
    ]
    for settings, told in limits:
        guard, talk = pipeline(**settings), chat()
        assert looked(said(guard, talk, "maybe"))["path"] == "later"
        assert (looked(said(guard, talk, "maybe"))["path"], looked(said(guard, talk, "maybe"))["trouble"]) == (
            "screen",
            told,
        )


@pytest.mark.parametrize("unanswered", ["hold", "block"])
def test_what_needs_an_answer_can_not_come_afterwards(unanswered: str) -> None:
    with pytest.raises(GuardError, match="second_look_when: inline"):
        pipeline(unanswered=unanswered)


def test_async_checks_and_streams_hear_of_it_as_well() -> None:
    heard: list[Correction] = []
    guard, talk = pipeline(heard, judge="both"), chat()

    async def talked() -> Any:
        await guard.acheck_input("maybe", conversation=talk)
        stream = guard.stream_output(conversation=talk)
        for piece in ("maybe ", "really"):
            stream.feed(piece)
        stream.end()
        Judge.free.set()
        await asyncio.to_thread(until, lambda: len(heard) == 2)
        await guard.acheck_input("hello", conversation=talk)
        return await guard.acheck_output("Fine.", conversation=talk)

    result = asyncio.run(talked())
    assert {one.pipeline_type.value for one in heard} == {"input", "output"}
    assert any("turn 1 would have been blocked" in warning for warning in result.warnings)


def test_the_service_answers_at_once_and_is_corrected(tmp_path: Path) -> None:
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    from turnwise.serve import ServeSettings, create_app

    heard: list[Correction] = []
    guard = pipeline(heard, audit=tmp_path / "audit.jsonl")
    with client_of(create_app(guard, ServeSettings(explain=True))) as client:

        def asked(text: str) -> Any:
            return client.post("/v1/check", json={"text": text, "conversation_id": "c1"}).json()

        first = asked("maybe really")
        assert first["details"]["drift"]["data"]["second_look"]["path"] == "later"
        Judge.free.set()
        until(lambda: heard)
        assert "turn 1 would have been blocked" in asked("hello")["warnings"][0]
        Judge.free.clear()
        asked("maybe")
    guard.close()
    events = audited(tmp_path / "audit.jsonl")
    found = [event["outcome"] for event in events if event["kind"] == "correction"]
    assert found == ["corrected", "unanswered"]


def test_many_questions_at_once_are_each_answered_once() -> None:
    heard: list[Correction] = []
    guard = pipeline(heard, session=None)
    talks = [chat(f"c{number}") for number in range(40)]
    for talk in talks:
        said(guard, talk, "maybe really")
    Judge.free.set()
    until(lambda: len(heard) == 40)
    assert len({one.conversation_id for one in heard}) == 40
    for talk in talks:
        assert "turn 1 would have been blocked" in said(guard, talk, "hello").warnings[0]


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_an_answer_that_comes_late_counts_against_the_person(store: Callable[[], Any]) -> None:
    heard: list[Correction] = []
    guard = pipeline(heard, state_store=store())
    said(guard, chat(), "maybe really")
    assert not guard.session("ann").persons
    Judge.free.set()
    until(lambda: heard)
    assert [one.incidents for one in guard.session("ann").persons.values()] == [1]
    assert said(guard, chat("c2"), "maybe").stance.strikes == 1
    until(lambda: len(heard) == 2)
    assert [one.incidents for one in guard.session("ann").persons.values()] == [1]
