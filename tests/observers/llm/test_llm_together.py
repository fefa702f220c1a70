"""One request for all principles of a side: what is asked, what each principle gets, and what it costs."""

from __future__ import annotations

import json
import re

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import Context, LlmSettings, Observation, ObservationFailure, Request, build_cost_estimator
from turnwise.principles import load_principle
from turnwise.runs import Plan, evaluate, forecast_evaluation
from turnwise.scoring import MemoryJournal, Score
from turnwise.store import Store

NAMES = ("reciprocity", "context_integrity", "third_party_harm")
PRINCIPLES = [load_principle(name) for name in NAMES]
TURN = Turn(1, "Which river is the longest?", "The Nile.")


def reply(*names: str, **changes) -> str:
    """Return a reply that scores these principles."""
    fields = {}
    for number, name in enumerate(names):
        scores = {"T": 0.1 * number, "I": 0.2, "F": 0.3 + 0.1 * number}
        fields |= {f"{name}_reasoning": f"on {name}", **{f"{name}_{key}": value for key, value in scores.items()}}
    return json.dumps({**fields, **changes})


@pytest.fixture
def ask(server, make):
    """Return a function to what all principles get of a turn."""
    server.answer = lambda body: reply(*NAMES)

    def observe(journal=None, sides=(Side.PROMPT,), principles=PRINCIPLES, **settings):
        observer = make("openai/gpt-4.1-mini", journal, **{"together": True, **settings})
        state = observer.start("s", Context.parse("history"))
        wanted = [Request(principle, side) for principle in principles for side in sides]
        return observer.observe(state, TURN, wanted), observer

    return observe


def test_one_request_scores_all_principles(ask, server):
    given, _ = ask()
    assert server.calls == 1
    assert [one.principle for one in given] == list(NAMES)
    assert [one.score for one in given] == [Score(0.1 * number, 0.2, 0.3 + 0.1 * number) for number in range(3)]
    assert [one.reasoning for one in given] == [f"on {name}" for name in NAMES]
    assert len({one.calls[0].reply for one in given}) == 1
    assert {one.raw_reply for one in given} == {reply(*NAMES)}


def test_the_costs_add_up_to_what_was_spent(ask):
    given, observer = ask(repeats=3)
    assert all(len(one.calls) == 3 for one in given)
    assert sum(one.cost_usd for one in given) == pytest.approx(observer.spent_usd)
    assert observer.spent_usd > 0


def test_the_request_asks_for_each_field_of_each_principle(ask, server):
    ask()
    (body,) = server.requests
    schema = body["response_format"]["json_schema"]["schema"]
    fields = [f"{name}_{field}" for name in NAMES for field in ("reasoning", "T", "I", "F")]
    assert schema["required"] == list(schema["properties"]) == fields
    system, user = (message["content"] for message in body["messages"])
    places = [system.index(f"# The principle: {name}") for name in NAMES]
    assert places == sorted(places)
    assert re.findall(r'"(\w+)": "?<', system) == fields
    asked = (
        "Judge the prompt of turn 1 by each of the principles reciprocity, context_integrity and third_party_harm."
    )
    assert asked in user


def test_each_side_is_a_request_of_its_own(ask, server):
    given, _ = ask(sides=(Side.PROMPT, Side.RESPONSE))
    assert server.calls == 2
    assert len(given) == 6
    assert sum("Judge the response" in body["messages"][1]["content"] for body in server.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        reply("reciprocity", "third_party_harm"),
        reply(*NAMES, context_integrity_T=1.5),
        reply(*NAMES, context_integrity_reasoning=""),
    ],
)
def test_a_principle_that_a_reply_lacks_fails_alone(ask, server, text):
    server.answer = lambda body: text
    given, observer = ask()
    assert [type(one) for one in given] == [Observation, ObservationFailure, Observation]
    assert given[1].reason == "malformed"
    assert "context_integrity_" in given[1].message
    assert given[1].raw_reply == text
    assert sum(one.cost_usd for one in given) == pytest.approx(observer.spent_usd)


def test_a_principle_that_fails_in_one_repeat_has_no_score_and_the_costs_still_add_up(ask, server):
    answers = iter([reply("reciprocity", "context_integrity"), reply(*NAMES), reply(*NAMES)])
    server.answer = lambda body: next(answers)
    given, observer = ask(repeats=3)
    assert [len(one.calls) for one in given] == [3, 3, 1]
    assert isinstance(given[2], ObservationFailure)
    assert sum(one.cost_usd for one in given) == pytest.approx(observer.spent_usd)


@pytest.mark.parametrize("text", ["no", "{}", reply(*NAMES)[:-9], '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'])
def test_a_reply_that_gives_nothing_fails_all_and_is_asked_for_again(ask, server, text):
    journal = MemoryJournal()
    server.answer = lambda body: text
    given, _ = ask(journal)
    assert {one.reason for one in given} == {"malformed"}
    server.answer = lambda body: reply(*NAMES)
    again, _ = ask(journal)
    assert all(isinstance(one, Observation) for one in again)
    assert server.calls == 2


def test_a_kept_reply_answers_the_same_principles_and_no_separate_requests(ask, server):
    journal = MemoryJournal()
    first, _ = ask(journal)
    again, observer = ask(journal)
    assert [one.score for one in again] == [one.score for one in first]
    assert (server.calls, observer.spent_usd) == (1, 0.0)
    server.answer = lambda body: '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'
    ask(journal, together=False)
    assert server.calls == 4


def test_one_principle_is_asked_for_as_without_the_setting(ask, server):
    server.answer = lambda body: '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'
    journal = MemoryJournal()
    ask(journal, principles=PRINCIPLES[:1])
    ask(journal, principles=PRINCIPLES[:1], together=False)
    assert server.calls == 1


def test_the_estimate_counts_one_request(ask):
    _, observer = ask()
    about = ([TURN], 1, Side.PROMPT, Context.parse("history"))
    whole = observer.endpoint.estimate(PRINCIPLES, *about)
    single = [observer.endpoint.estimate([principle], *about) for principle in PRINCIPLES]
    assert whole.completion_tokens == sum(one.completion_tokens for one in single)
    assert whole.prompt_tokens < sum(one.prompt_tokens for one in single)
    assert observer.endpoint.requests(PRINCIPLES, *about) == [
        (observer.endpoint.request_key(PRINCIPLES, *about), 1)
    ]


def test_versions_and_parameters_tell_it_apart():
    together = build_cost_estimator("llm:ollama/m", together=True).parameters
    assert together["together"] is True
    assert together["together_version"].startswith("1+")
    assert "together" not in build_cost_estimator("llm:ollama/m").parameters
    with pytest.raises(UsageError, match="one verdict a request"):
        LlmSettings(together=True, format="llama-guard")


def test_a_run_costs_the_sum_of_its_rows_and_only_what_failed_is_asked_for_again(tmp_path, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", server.key)
    server.answer = lambda body: reply("reciprocity", "context_integrity")
    settings = {"base_url": server.url, "together": True}
    plan = Plan(PRINCIPLES, Context.parse("history"))
    spec = "llm:openai/gpt-4.1-mini"
    with Store(tmp_path / "s.db", create=True) as store:
        store.add_sequences(
            [Sequence("one", Label.BENIGN, "made", Conversation.from_turns([(TURN.prompt, TURN.response)]))]
        )
        cost = forecast_evaluation(store, "r", build_cost_estimator(spec, **settings), plan)
        assert (cost.scores, cost.calls) == (3, 1)
        done = evaluate(store, "r", spec, principles=PRINCIPLES, settings=settings)
        assert (done.evaluations, done.failures, done.calls, server.calls) == (2, 1, 1, 1)
        (kept,) = store.journal.stats()
        ((_, tally),) = store.tallies()
        for counted in (done, tally):
            assert counted.cost_usd == pytest.approx(kept.cost_usd)
            assert (counted.prompt_tokens, counted.completion_tokens) == (
                kept.prompt_tokens,
                kept.completion_tokens,
            )
        assert tally.calls == 1
        server.answer = lambda body: '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'
        again = evaluate(store, "r", spec, principles=PRINCIPLES, settings=settings)
        assert (again.evaluations, again.failures, server.calls) == (1, 0, 2)
        assert "Judge the prompt of turn 1 by the principle third_party_harm" in str(server.requests[-1])
