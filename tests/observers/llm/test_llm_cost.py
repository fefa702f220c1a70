"""What is spent: counted on every call, bounded by the budget, known before it is spent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.observers import (
    ChatError,
    ChatReply,
    Context,
    FaultKind,
    LlmObserver,
    LlmSettings,
    Observation,
    ObservationFailure,
    Request,
    ScriptedClient,
    build_cost_estimator,
)
from turnwise.principles import load_principle
from turnwise.scoring import MemoryJournal

PRINCIPLE = load_principle("reciprocity")
GOOD = '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'


def ask(observer, number):
    state = observer.start("s", Context.parse("turn"))
    return observer.observe(state, Turn(number, f"prompt {number}"), [Request(PRINCIPLE, Side.PROMPT)])[0]


def usage(prompt, completion):
    return ChatReply(GOOD, "m", "stop", None, prompt, completion)


def spender(script, budget, **settings):
    given = LlmSettings(budget_usd=budget, **settings)
    return LlmObserver("openai/gpt-4.1-mini", given, client=ScriptedClient(script), wait=lambda seconds: None)


def test_every_row_says_what_it_cost_and_the_total_is_their_sum(server, make):
    observer = make(repeats=2)
    given = [ask(observer, number) for number in range(1, 6)]
    for one in given:
        assert one.cost_usd == sum(call.cost_usd for call in one.calls) > 0
        assert one.latency_s == sum(call.reply.latency_s for call in one.calls) > 0
    assert observer.spent_usd == pytest.approx(sum(one.cost_usd for one in given), rel=1e-12)


def test_a_reply_that_can_t_be_read_was_paid_for_too(server, make):
    server.plan("malformed")
    given = ask(make(), 1)
    assert isinstance(given, ObservationFailure)
    assert given.cost_usd == given.calls[0].reply.cost_usd > 0


def test_a_model_without_price_has_no_cost(make):
    given = ask(make("openai/gpt-nonesuch"), 1)
    assert (given.cost_usd, given.calls[0].reply.cost_usd) == (None, None)
    assert given.calls[0].reply.prompt_tokens > 0


def test_a_model_on_ones_own_machine_costs_nothing(make):
    given = ask(make("vllm/some/model:tag"), 1)
    assert given.cost_usd == 0.0


class TestBudget:
    def test_is_never_passed(self):
        # A call costs $0.01 at most by its estimate, and really $0.005.
        observer = spender(lambda request: usage(1_000, 2_875), 0.05, max_tokens=4_096)
        spent = 0.0
        with pytest.raises(ObserverError, match=r"the budget of \$0\.05 is used up: \$0\.0\d+ are spent"):
            for number in range(1, 100):
                spent += ask(observer, number).cost_usd
        assert observer.spent_usd == pytest.approx(spent)
        assert 0.04 < spent <= 0.05

    def test_is_never_passed_by_many_threads_either_and_is_used_to_the_end(self):
        observer = spender(lambda request: usage(1_000, 2_875), 0.5, max_tokens=4_096)

        def one(number):
            try:
                return ask(observer, number).cost_usd
            except ObserverError:
                return None

        with ThreadPoolExecutor(16) as pool:
            costs = list(pool.map(one, range(1, 301)))
        spent = sum(cost for cost in costs if cost is not None)
        assert spent == pytest.approx(observer.spent_usd)
        assert 0.49 < spent <= 0.5
        assert None in costs

    def test_too_small_for_one_call_makes_none(self):
        client = ScriptedClient(lambda request: usage(1, 1))
        observer = LlmObserver("openai/gpt-4.1-mini", LlmSettings(budget_usd=0), client=client)
        with pytest.raises(ObserverError, match="a larger --budget continues"):
            ask(observer, 1)
        assert client.requests == []

    def test_lets_replies_that_were_kept_through(self):
        journal = MemoryJournal()
        paid = ask(spender(lambda request: usage(1, 1), 1.0).with_journal(journal), 1)
        again = ask(spender(lambda request: usage(1, 1), 0.0).with_journal(journal), 1)
        assert again.score == paid.score
        assert again.cost_usd == 0.0

    def test_of_nothing_suffices_where_nothing_costs(self):
        client = ScriptedClient(lambda request: usage(10, 10))
        assert isinstance(ask(LlmObserver("ollama/m", LlmSettings(budget_usd=0), client=client), 1), Observation)

    def test_counts_what_a_reply_without_usage_may_have_cost(self):
        observer = spender(lambda request: ChatReply(GOOD, "m"), 0.02)
        with pytest.raises(ObserverError, match="used up"):
            for number in range(1, 100):
                assert ask(observer, number).cost_usd is None
        assert 0.015 < observer.spent_usd <= 0.02

    @pytest.mark.parametrize(
        ("kind", "counted"),
        [
            (FaultKind.TRUNCATED, True),
            (FaultKind.TIMEOUT, True),
            (FaultKind.THROTTLED, False),
            (FaultKind.SERVER, False),
        ],
    )
    def test_counts_replies_that_were_lost_on_the_way(self, kind, counted):
        observer = spender(lambda request: ChatError(kind, "lost"), 1.0, max_retries=2)
        given = ask(observer, 1)
        assert given.cost_usd == 0.0
        assert (observer.spent_usd > 0) is counted

    def test_a_call_waits_for_money_that_others_may_not_need(self):
        threads = 8
        at_the_till = threading.Barrier(threads)

        class Queues(MemoryJournal):
            def find(self, request_key, repeat):
                at_the_till.wait(10)  # all have come before the first has paid
                return super().find(request_key, repeat)

        under_way, most = [], []

        def script(request):
            under_way.append(request)
            most.append(len(under_way))
            threading.Event().wait(0.005)
            under_way.pop()
            return usage(100, 10)

        # Two calls don't fit at once by their estimates of about a cent each, but all do by their real cost.
        observer = spender(script, 0.012, max_tokens=6_000).with_journal(Queues())
        with ThreadPoolExecutor(threads) as pool:
            given = list(pool.map(lambda number: ask(observer, number), range(1, threads + 1)))
        assert all(isinstance(one, Observation) for one in given)
        assert max(most) == 1

    def test_for_a_model_without_price_is_refused(self):
        with pytest.raises(
            UsageError, match="no price is known for openai/gpt-nonesuch, so a budget can't be kept"
        ):
            build_cost_estimator("llm:openai/gpt-nonesuch", budget_usd=1)


class TestEstimate:
    def test_needs_no_key_and_no_network(self, turns):
        once, given = (
            build_cost_estimator("llm:openai/gpt-4.1-mini", repeats=repeats).estimate(
                [PRINCIPLE], turns, 3, Side.PROMPT, Context.parse("history")
            )
            for repeats in (1, 3)
        )
        assert given.prompt_tokens == 3 * once.prompt_tokens
        assert given.completion_tokens == 3 * 160
        assert given.cost_usd == pytest.approx(3 * once.cost_usd)
        assert given.most_usd == pytest.approx(3 * once.most_usd)
        assert 0 < given.cost_usd < given.most_usd < 0.01

    def test_is_near_what_the_server_counts(self, server, make, score, turns):
        observer = make()
        expected = observer.endpoint.estimate([PRINCIPLE], turns, 3, Side.PROMPT, Context.parse("history"))
        reply = score(observer, turns).calls[0].reply
        assert expected.prompt_tokens == pytest.approx(reply.prompt_tokens, rel=0.02)

    def test_grows_with_what_is_shown(self, turns):
        endpoint = build_cost_estimator("llm:openai/gpt-4.1-mini")
        tokens = [
            endpoint.estimate([PRINCIPLE], turns, 3, Side.PROMPT, Context.parse(mode)).prompt_tokens
            for mode in ("turn", "window:2", "history")
        ]
        assert tokens == sorted(set(tokens))

    def test_without_price_has_tokens_alone(self, turns):
        given = build_cost_estimator("llm:openai/gpt-nonesuch").estimate(
            [PRINCIPLE], turns, 1, Side.PROMPT, Context.parse("turn")
        )
        assert (given.cost_usd, given.most_usd) == (None, None)
        assert given.prompt_tokens > 500

    def test_a_price(self):
        given = ask(spender(lambda request: usage(1_000, 100), 1.0), 1)
        assert given.cost_usd == pytest.approx(0.00056)  # $0.40 and $1.60 a million
