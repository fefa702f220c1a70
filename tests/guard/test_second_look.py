"""A second look of ``drift``: a judge is asked where the observer points, and what counts without its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from turnwise.conversation import Conversation, Turn
from turnwise.errors import GuardError, ObserverError, UsageError
from turnwise.guard import GuardrailPipeline, build_guardrail, check_guardrail
from turnwise.guard.config import Config, with_observer
from turnwise.observers import OBSERVERS, Context, Request, ScriptedObserver
from turnwise.scoring import Score
from turnwise.sessions import MemoryStateStore

ASK = "F >= 0.2 or peak(F) >= 0.5"


class Judge(ScriptedObserver):
    """Flags what holds the word "really", and remembers what it heard; it may be late, or break."""

    heard: ClassVar[list[tuple[int, str]]] = []
    seconds = 0.0
    broken = False

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(self._judged)

    def observe(self, state: str, turn: Turn, wanted: Any) -> Any:
        type(self).heard.append((turn.number, turn.prompt))
        return super().observe(state, turn, wanted)

    def start(self, conversation_id: str, context: Context) -> str:
        type(self).heard = []
        return super().start(conversation_id, context)

    def _judged(self, name: str, turn: Turn, request: Request) -> Score:
        time.sleep(type(self).seconds)
        if type(self).broken:
            raise ObserverError("no answer")
        F = 0.9 if "really" in turn.prompt else 0.0
        return Score(T=1 - F, I=0.0, F=F)


class Screen(ScriptedObserver):
    """F .3 for what holds "maybe", .6 for what holds "surely", else nothing."""

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(self._screened)

    @staticmethod
    def _screened(name: str, turn: Turn, request: Request) -> Score:
        F = 0.6 if "surely" in turn.prompt else 0.3 if "maybe" in turn.prompt else 0.0
        return Score(T=1 - F, I=0.0, F=F)


@pytest.fixture(autouse=True)
def observers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(OBSERVERS._parts, "screen", Screen)
    monkeypatch.setitem(OBSERVERS._parts, "judge", Judge)
    monkeypatch.setattr(Judge, "seconds", 0.0)
    monkeypatch.setattr(Judge, "broken", False)
    yield


def pipeline(**settings: Any) -> GuardrailPipeline:
    drift = {"observer": "screen", "second_look": "judge", "ask": ASK, "session": None, **settings}
    return GuardrailPipeline({"name": "test", "guardrails": [{"drift": drift}]})


def looked(result: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = result.details["drift"].data.to_dict().get("second_look")
    return found


def test_the_judge_is_asked_where_the_screen_points_and_its_scores_count() -> None:
    guard, chat = pipeline(), Conversation.human_ai("ann", "model")
    assert looked(guard.check_input("hello", conversation=chat)) is None
    guard.check_output("hi", conversation=chat)
    cleared = guard.check_input("maybe", conversation=chat)
    assert not cleared.blocked
    assert (looked(cleared) or {})["path"] == "judge"
    assert (looked(cleared) or {})["screen"]["reciprocity"]["F"] == 0.3
    assert Judge.heard == [(1, "hello"), (2, "maybe")]
    blocked = guard.check_input("maybe really", conversation=chat)
    assert blocked.blocked
    assert "second look of judge: screen F 0.30, asked where" in blocked.reasons[0]


def test_a_clear_sign_of_the_screen_is_overruled_and_later_texts_are_asked_about() -> None:
    guard, chat = pipeline(), Conversation.human_ai("ann", "model")
    assert not guard.check_input("surely", conversation=chat).blocked
    guard.check_output("ok", conversation=chat)
    assert (looked(guard.check_input("hello", conversation=chat)) or {})["path"] == "judge"


@pytest.mark.parametrize("trouble", ["late", "broken", "used up"])
@pytest.mark.parametrize("unanswered", ["screen", "hold", "block"])
def test_without_an_answer_the_named_path_is_taken_and_said(
    trouble: str, unanswered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Judge, "seconds", 0.4 if trouble == "late" else 0.0)
    monkeypatch.setattr(Judge, "broken", trouble == "broken")
    most = {"second_looks": 0} if trouble == "used up" else {}
    guard = pipeline(unanswered=unanswered, second_look_wait=0.05 if trouble == "late" else 5.0, **most)
    result = guard.check_input("maybe", conversation=Conversation.human_ai("ann", "model"))
    detail = result.details["drift"]
    if unanswered == "hold":
        assert detail.status == "failed"
        assert "no second look of judge" in detail.reason
        return
    told = looked(result) or {}
    assert (result.blocked, told["path"]) == (unanswered == "block", unanswered)
    assert {"late": "no answer within", "broken": "no answer", "used up": "used up"}[trouble] in told["trouble"]


def test_a_state_store_keeps_whom_the_rule_has_under_suspicion() -> None:
    drift = {"observer": "screen", "second_look": "judge", "ask": ASK, "session": None, "second_looks": 2}
    store, results = MemoryStateStore(), []
    for text in ("surely", "hello", "hello"):
        guard = GuardrailPipeline({"name": "test", "guardrails": [{"drift": drift}]}, state_store=store)
        results.append(guard.check_input(text, conversation=guard.find_conversation("c1") or _new("c1")))
    assert [(looked(one) or {})["path"] for one in results] == ["judge", "judge", "screen"]
    assert "used up" in (looked(results[2]) or {})["trouble"]


def _new(name: str) -> Conversation:
    return Conversation.human_ai("ann", "model", conversation_id=name)


def test_async_checks_ask_as_well() -> None:
    assert asyncio.run(pipeline().acheck_input("maybe really", conversation=_new("c"))).blocked


def test_settings_that_do_not_fit_are_refused() -> None:
    for wrong, told in (
        ({"ask": None}, "say where the judge is asked"),
        ({"second_look_wait": 0.0}, "second_look_wait"),
        ({"second_looks": -1}, "second_looks"),
        ({"ask": 'run("x").F > 1'}, "not by those of runs"),
    ):
        with pytest.raises(GuardError, match=told):
            pipeline(**wrong)


def test_an_observer_in_two_stages_is_set_as_both(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_observer(
        Config.read({"name": "t", "guardrails": ["length", "drift"]}), "second_look:screen+judge"
    )
    assert [dict(entry.settings) for entry in config.entries] == [
        {},
        {"observer": "screen", "second_look": "judge"},
    ]
    with pytest.raises(UsageError, match="add drift"):
        with_observer(Config.read({"name": "t", "guardrails": ["length"]}), "screen")


def test_it_keeps_the_contract_of_guardrails() -> None:
    check_guardrail(lambda: build_guardrail("drift", observer="screen", second_look="judge", ask=ASK))
