"""Replies that were paid for are found again; repeats are asked for one by one, and all or none make a score."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from turnwise.conversation import Side, Turn
from turnwise.observers import (
    Context,
    KeepsReplies,
    LlmObserver,
    LlmSettings,
    Observation,
    ObservationFailure,
    Request,
    ScriptedClient,
    build_cost_estimator,
)
from turnwise.principles import load_principle
from turnwise.scoring import MemoryJournal, Score

PRINCIPLE = load_principle("reciprocity")


@pytest.fixture
def journal():
    return MemoryJournal()


class TestCache:
    def test_the_same_request_twice_costs_once(self, server, make, score, journal, turns):
        first = score(make(journal=journal), turns)
        second = score(make(journal=journal), turns)
        assert server.calls == 1
        assert (second.score, second.reasoning, second.raw_reply) == (
            first.score,
            first.reasoning,
            first.raw_reply,
        )
        (call,) = second.calls
        assert (call.cached, call.attempts, call.cost_usd) == (True, 0, 0.0)
        assert (second.cost_usd, second.latency_s) == (0.0, 0)
        assert call.reply == first.calls[0].reply

    def test_the_same_text_in_two_conversations_is_one_request(self, server, make, journal, turns):
        observer = make(journal=journal)
        for name in ("s1", "s2"):
            state = observer.start(name, Context.parse("history"))
            observer.observe(state, turns[0], [Request(PRINCIPLE, Side.PROMPT)])
        assert server.calls == 1

    def test_two_threads_that_ask_the_same_at_once_pay_once(self, server, make, score, journal):
        server.latency = 0.1
        observer = make(journal=journal)
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: score(observer), range(8)))
        assert server.calls == 1
        assert sorted(one.calls[0].cached for one in given) == [False, *[True] * 7]

    def test_a_cache_that_is_off_asks_again_and_keeps_the_reply_all_the_same(self, server, make, score, journal):
        for _ in range(2):
            assert not score(make(journal=journal, cache=False)).calls[0].cached
        assert server.calls == len(journal.replies) == 2

    def test_a_kept_reply_that_can_t_be_read_is_asked_for_again(self, server, make, score, journal):
        server.plan("malformed", "refusal")
        reasons = [getattr(score(make(journal=journal)), "reason", None) for _ in range(4)]
        assert reasons == ["malformed", "refused", None, None]
        assert server.calls == len(journal.replies) == 3

    def test_without_a_journal_every_score_is_asked_for(self, server, make, score):
        for _ in range(2):
            score(make())
        assert server.calls == 2

    def test_an_observer_with_another_journal_is_the_same_in_all_else(self, make, score, journal):
        observer = make()
        assert isinstance(observer, KeepsReplies)
        other = observer.with_journal(journal)
        score(other)
        assert len(journal.replies) == 1
        assert other.spent_usd == observer.spent_usd > 0
        score(observer)
        assert len(journal.replies) == 1


class TestKey:
    TURNS = (Turn(1, "one", "first"), Turn(2, "two", "second"))

    def key(
        self,
        argument="openai/gpt-4.1-mini",
        *,
        turns=TURNS,
        principle=PRINCIPLE,
        side=Side.PROMPT,
        context="history",
        **settings,
    ):
        endpoint = build_cost_estimator(f"llm:{argument}", **settings)
        return endpoint.request_key([principle], turns, 2, side, Context.parse(context))

    def test_is_a_hash_that_stays_the_same(self):
        assert self.key() == self.key()
        assert len(self.key()) == 64

    @pytest.mark.parametrize(
        "change",
        [
            {"base_url": "http://localhost:9/v1"},
            {"argument": "openai/gpt-4.1"},
            {"temperature": 0.5},
            {"temperature": None},
            {"max_tokens": 500},
            {"structured": "none"},
            {"extra": {"seed": 1}},
            {"principle": load_principle("context_integrity")},
            {"principle": replace(PRINCIPLE, version="2")},
            {"principle": replace(PRINCIPLE, falsity="other")},
            {"side": Side.RESPONSE},
            {"context": "turn"},
            {"context": "transcript"},
            {"turns": (Turn(1, "one", "other"), Turn(2, "two", "second"))},
        ],
        ids=str,
    )
    def test_changes_with_all_that_the_reply_may_depend_on(self, change):
        assert self.key(**change) != self.key()

    @pytest.mark.parametrize(
        "change",
        [
            {"max_retries": 1},
            {"timeout": 5.0},
            {"repeats": 3},
            {"budget_usd": 1.0},
            {"cache": False},
            {"turns": (*TURNS, Turn(3, "later", "later"))},
            {"turns": (TURNS[0], Turn(2, "two", "the response that follows"))},
        ],
        ids=str,
    )
    def test_does_not_change_with_what_it_can_t_depend_on(self, change):
        assert self.key(**change) == self.key()

    def test_is_that_of_the_reply(self, make, score, turns):
        observer = make()
        expected = observer.endpoint.request_key([PRINCIPLE], turns, 3, Side.PROMPT, Context.parse("history"))
        assert score(observer, turns).calls[0].reply.request_key == expected

    def test_takes_any_text(self):
        assert len(self.key(turns=(Turn(1, "\ud800"), Turn(2, "\x00é")))) == 64


class TestRepeats:
    @pytest.fixture
    def differing(self, server):
        values = itertools.cycle([0.1, 0.2, 0.6])
        lock = threading.Lock()

        def answer(body):
            with lock:
                F = next(values)
            return json.dumps({"reasoning": f"F is {F}", "T": 1 - F, "I": 0.3, "F": F})

        server.answer = answer
        return server

    def test_the_score_is_the_mean_and_all_calls_are_there(self, differing, make, score):
        given = score(make(repeats=3))
        assert given.score.to_dict() == pytest.approx({"T": 0.7, "I": 0.3, "F": 0.3})
        assert [call.repeat for call in given.calls] == [call.reply.repeat for call in given.calls] == [1, 2, 3]
        assert [call.score.F for call in given.calls] == [0.1, 0.2, 0.6]
        # The reason that is told belongs to the score nearest to the mean.
        assert given.reasoning == "F is 0.2"
        assert json.loads(given.raw_reply)["F"] == 0.2

    def test_repeats_are_kept_apart(self, differing, make, score, journal):
        first = score(make(repeats=2, journal=journal))
        second = score(make(repeats=3, journal=journal))
        assert differing.calls == 3
        assert [call.cached for call in second.calls] == [True, True, False]
        assert [call.score.F for call in second.calls[:2]] == [call.score.F for call in first.calls]

    def test_a_score_of_fewer_repeats_than_asked_for_is_none(self, differing, make, score, journal):
        differing.plan(None, "malformed")
        given = score(make(repeats=3, journal=journal))
        assert isinstance(given, ObservationFailure)
        assert given.reason == "malformed"
        assert given.message.startswith("repeat 2: the reply holds no JSON object")
        assert [call.score is None for call in given.calls] == [False, True]
        assert differing.calls == 2  # the third would have been paid for in vain
        again = score(make(repeats=3, journal=journal))
        assert isinstance(again, Observation)
        assert [call.cached for call in again.calls] == [True, False, False]
        assert differing.calls == 4

    def test_equal_replies_have_their_own_score_as_mean(self):
        client = ScriptedClient(lambda request: '{"reasoning": "x", "T": 0.1, "I": 0.7, "F": 0.3}')
        observer = LlmObserver("ollama/m", LlmSettings(repeats=3), client=client)
        state = observer.start("s", Context.parse("turn"))
        (given,) = observer.observe(state, Turn(1, "hello"), [Request(PRINCIPLE, Side.PROMPT)])
        assert given.score == Score(0.1, 0.7, 0.3)


class TestGaps:
    def ask(self, make, context, side, *turns):
        observer = make()
        state = observer.start("s", Context.parse(context))
        for turn in turns[:-1]:
            observer.observe(state, turn, ())
        return observer.observe(state, turns[-1], [Request(PRINCIPLE, side)])

    def test_a_side_that_said_nothing_is_a_gap(self, server, make):
        assert self.ask(make, "history", Side.PROMPT, Turn(1, "", "Hello!")) == []
        assert self.ask(make, "history", Side.PROMPT, Turn(1, " \n\t", "Hello!")) == []
        assert self.ask(make, "history", Side.RESPONSE, Turn(1, "Hello", "")) == []
        assert self.ask(make, "history", Side.RESPONSE, Turn(1, "Hello", None)) == []
        assert server.calls == 0

    def test_a_transcript_is_one_if_nobody_said_anything(self, server, make):
        assert self.ask(make, "transcript", Side.PROMPT, Turn(1, "", ""), Turn(2, " ", None)) == []
        assert server.calls == 0
        assert len(self.ask(make, "transcript", Side.PROMPT, Turn(1, "hello", ""), Turn(2, " ", None))) == 1

    def test_nothing_wanted_asks_nothing(self, server, make, turns):
        observer = make()
        state = observer.start("s", Context.parse("history"))
        assert [observer.observe(state, turn, ()) for turn in turns] == [[], [], []]
        assert server.calls == 0
