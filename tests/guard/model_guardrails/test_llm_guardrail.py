"""A language model as a guardrail, asked over real HTTP."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import ChatServer

from turnwise.conversation import Conversation, Side, Turn
from turnwise.errors import BudgetError, GuardError, ObserverError, UnknownNameError, UsageError
from turnwise.guard import GUARDRAILS, Action, Check, Guardrail, GuardrailPipeline
from turnwise.observers import Context, LastingLlmObserver, Request, build_live_observer
from turnwise.principles import load_principle


def by_word(body: dict) -> str:
    """Return a score that hangs on a word in what is to be judged."""
    said = body["messages"][-1]["content"].rpartition("\n== TURN ")[2]
    F = next((value for word, value in (("vile", 0.9), ("odd", 0.6)) if word in said), 0.1)
    unsure = 0.8 if "murky" in said else 0.1
    return json.dumps({"reasoning": f"F is {F}", "T": 1 - F, "I": unsure, "F": F})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Return a server that scores by words, with a key for it in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    with ChatServer(by_word) as server:
        yield server


def guardrail(server: ChatServer, **settings: object) -> Guardrail:
    given = {"observer": "llm:openai/gpt-4.1-mini", "base_url": server.url, "max_retries": 0, **settings}
    return GUARDRAILS.get("llm")(**given)


def talk() -> Conversation:
    conversation = Conversation.human_ai("u", "m")
    for number in range(1, 4):
        conversation.add_prompt(f"question {number}")
        conversation.add_response(f"answer {number}")
    return conversation


def shown(server: ChatServer) -> str:
    """Return what the last request quoted."""
    return str(server.requests[-1]["messages"][-1]["content"])


def test_the_gravest_principle_decides(server: ChatServer, check, verdict) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server)
    assert verdict(llm, "A vile request.") == "block"
    assert verdict(llm, "An odd request.") == "warn"
    assert verdict(llm, "A request.") == "clean"
    assert server.calls == 6
    finding = llm.check(check("An odd request."))
    assert finding.reason == "perhaps context_integrity is violated: F 0.60 above 0.50"
    assert finding.confidence == 0.6
    assert finding.data is not None
    assert set(finding.data["scores"]) == {"context_integrity", "third_party_harm"}
    assert finding.data["reasoning"]["third_party_harm"] == "F is 0.6"


def test_what_can_not_be_told_is_a_warning_where_that_is_asked_for(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    assert not guardrail(server).check(check("A murky request.")).found
    finding = guardrail(server, uncertain_above=0.5).check(check("A murky request."))
    assert finding.action is Action.WARN
    assert finding.reason == "context_integrity can't be told: I 0.80 above 0.50"


def test_a_response_is_judged_as_a_response(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server, principles=("third_party_harm",))
    assert llm.check(check("A vile answer.", Side.RESPONSE)).found
    assert "Judge the response of turn 1" in shown(server)
    assert "Go on." in shown(server)


@pytest.mark.parametrize(
    ("context", "seen"), [("turn", []), ("window:2", [3]), ("history", [1, 2, 3]), ("transcript", [1, 2, 3])]
)
def test_the_model_sees_as_much_of_the_conversation_as_it_may(
    server: ChatServer, check, context: str, seen: list[int]
) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server, context=context, principles=("third_party_harm",))
    llm.check(check("question 4", conversation=talk()))
    for number in range(1, 4):
        assert (f"answer {number}" in shown(server)) is (number in seen)
    assert "question 4" in shown(server)


def test_only_the_redacted_text_is_sent(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    one = check("My name is Ann.")
    one.text = "My name is [NAME]."
    guardrail(server).check(one)
    sent = json.dumps(server.requests)
    assert "[NAME]" in sent
    assert "Ann" not in sent


def test_a_failed_call_is_a_failure_and_the_next_check_tries_anew(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server, principles=("third_party_harm",))
    for fault in ("malformed", "refusal", "500", "401", "quota"):
        server.plan(fault)
        with pytest.raises(ObserverError):
            llm.check(check("A request."))
        assert not llm.check(check("A request.")).found


def test_a_failure_beside_a_sure_finding_does_not_hide_it(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server)
    server.plan(None, "malformed")
    assert llm.check(check("A vile request.")).action is None
    server.plan(None, "malformed")
    with pytest.raises(ObserverError, match="third_party_harm could not be scored: malformed"):
        llm.check(check("An odd request."))
    server.plan("malformed", None)
    with pytest.raises(ObserverError, match="context_integrity"):
        llm.check(check("A request."))


def test_in_a_pipeline_a_failed_call_ends_as_on_error_says(server: ChatServer) -> None:
    settings = {"observer": "llm:openai/gpt-4.1-mini", "base_url": server.url, "max_retries": 0}
    closed = GuardrailPipeline({"guardrails": [{"llm": settings}]})
    opened = GuardrailPipeline({"guardrails": [{"llm": {**settings, "on_error": "allow"}}]})
    assert closed.check_input("A vile request.").blocked
    server.plan("500", "500")
    assert closed.check_input("A request.").blocked
    server.plan("500", "500")
    result = opened.check_input("A request.")
    assert not result.blocked
    assert result.details["llm"].status == "failed"


def test_a_server_that_hangs_ends_by_its_time_limit(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    release = threading.Event()
    answer = server.answer
    server.answer = lambda body: str(release.wait(20)) and answer(body)
    llm = guardrail(server, request_seconds=0.2, principles=("third_party_harm",))
    try:
        with ThreadPoolExecutor(4) as pool:
            ends = [pool.submit(llm.check, check("A request.")) for _ in range(4)]
            for end in ends:
                with pytest.raises(ObserverError, match="timeout"):
                    end.result(10)
    finally:
        release.set()


def test_many_threads_get_the_scores_of_their_own(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server, context="history", budget_usd=1.0, principles=("third_party_harm",))
    conversation = talk()
    checks = [check("vile" if number % 2 else "fine", conversation=conversation) for number in range(32)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: llm.check(one).found, checks))
    assert found == [bool(number % 2) for number in range(32)]


def lasting_observer(server: ChatServer) -> LastingLlmObserver:
    observer = build_live_observer("llm:openai/gpt-4.1-mini", base_url=server.url, max_retries=0, budget_usd=1.0)
    assert isinstance(observer, LastingLlmObserver)
    return observer


def test_a_budget_that_is_used_up_stays_so(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server, budget_usd=0.0)
    for _ in range(2):
        with pytest.raises(ObserverError, match="the budget of"):
            llm.check(check("A request."))
    assert server.calls == 0


def test_an_end_is_told_from_a_budget_by_its_type_not_by_its_words(server: ChatServer, check) -> None:  # type: ignore[no-untyped-def]
    server.plan("401")
    llm = guardrail(server, budget_usd=0.0)
    with pytest.raises(BudgetError):
        llm.check(check("A request."))
    lasting = lasting_observer(server)
    before = lasting._observer
    before.stop("the budget is not the reason")
    wanted = [Request(load_principle("reciprocity"), Side.PROMPT)]
    with pytest.raises(ObserverError, match="the budget is not the reason") as ended:
        lasting.observe(lasting.start("c", Context.parse("turn")), Turn(1, "A request."), wanted)
    assert not isinstance(ended.value, BudgetError)
    assert lasting._observer is not before


def test_what_was_spent_counts_on_after_an_end(server: ChatServer) -> None:
    observer = lasting_observer(server)
    wanted = [Request(load_principle("reciprocity"), Side.PROMPT)]

    def ask() -> None:
        observer.observe(observer.start("c", Context.parse("turn")), Turn(1, "A request."), wanted)

    ask()
    spent = observer.spent_usd
    assert spent > 0
    server.plan("401")
    with pytest.raises(ObserverError):
        ask()
    assert observer.spent_usd == spent
    ask()
    assert observer.spent_usd == pytest.approx(2 * spent)
    assert "gpt-4.1-mini" in repr(observer)
    assert observer.parameters["model"] == "gpt-4.1-mini"


def test_what_can_not_work_is_refused_when_it_is_built(server: ChatServer, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(GuardError, match="give a language model"):
        GUARDRAILS.get("llm")("local")
    with pytest.raises(GuardError, match="principles is empty"):
        guardrail(server, principles=())
    with pytest.raises(GuardError, match="warn_above"):
        guardrail(server, warn_above=0.9, block_above=0.1)
    with pytest.raises(GuardError, match="uncertain_above"):
        guardrail(server, uncertain_above=1.5)
    with pytest.raises(UsageError, match="unknown context"):
        guardrail(server, context="all")
    with pytest.raises(UsageError, match="timeout"):
        guardrail(server, request_seconds=0.0)
    with pytest.raises(UsageError, match="no price is known"):
        guardrail(server, observer="llm:openai/nonesuch", budget_usd=1.0)
    with pytest.raises(UnknownNameError, match="provider"):
        guardrail(server, observer="llm:opnai/gpt-4.1-mini")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ObserverError, match="OPENAI_API_KEY"):
        guardrail(server)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ObserverError, match=r'pip install "turnwise\[llm\]"'):
        guardrail(server)


def test_a_blank_text_is_not_sent(server: ChatServer) -> None:
    conversation = Conversation.human_ai("u", "m")
    turn = conversation.add_prompt(" ")
    assert not guardrail(server).check(Check(" ", Side.PROMPT, turn, conversation, "s")).found
    assert server.calls == 0
