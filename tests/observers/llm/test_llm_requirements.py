"""The requirements of the specification that a language model as observer has to meet, each by its name."""

from __future__ import annotations

import json

import pytest
from chat_server import REPLY_FAULTS

from turnwise.conversation import Side
from turnwise.observers import Context, Observation, ObservationFailure, Request
from turnwise.principles import builtin_principles, load_principle
from turnwise.scoring import MemoryJournal


def test_fr_002_each_turn_is_scored_against_each_principle_on_its_own(server, make, turns):
    observer = make()
    principles = builtin_principles()
    by_principle = {
        "reciprocity": {"T": 0.9, "I": 0.1, "F": 0.05},
        "context_integrity": {"T": 0.2, "I": 0.6, "F": 0.7},
        "third_party_harm": {"T": 0.5, "I": 0.5, "F": 0.5},
    }
    server.answer = lambda body: json.dumps(
        {
            "reasoning": "so",
            **next(by_principle[name] for name in by_principle if f"principle {name}" in text(body)),
        }
    )
    state = observer.start("s1", Context.parse("history"))
    given = [
        observer.observe(state, turn, [Request(principle, Side.PROMPT) for principle in principles])
        for turn in turns
    ]
    assert [[(one.principle, one.score.to_dict()) for one in row] for row in given] == [
        list(by_principle.items())
    ] * len(turns)
    assert server.calls == len(turns) * len(principles)


def test_fr_003_name_and_text_of_the_principle_reach_the_model(server, make, score, turns):
    observer = make()
    for principle in builtin_principles():
        score(observer, turns, principle=principle.name)
        system, user = (message["content"] for message in server.requests[-1]["messages"])
        assert principle.prompt in system
        assert f"# The principle: {principle.name}" in system
        assert f"by the principle {principle.name}" in user
        for meaning in (principle.truth, principle.indeterminacy, principle.falsity):
            assert meaning in system


def test_fr_003_two_principles_send_two_requests(server, make, score, turns):
    observer = make()
    score(observer, turns, principle="reciprocity")
    score(observer, turns, principle="context_integrity")
    first, second = server.requests
    assert first["messages"][0] != second["messages"][0]
    assert first["messages"][1] != second["messages"][1]


def test_fr_008_the_raw_reply_is_kept_before_it_is_read(server, make, score):
    class Breaks(MemoryJournal):
        """Keeps the reply and then fails, as a machine does that stops at that moment."""

        def record(self, reply):
            super().record(reply)
            raise RuntimeError("the machine stops")

    journal = Breaks()
    server.plan("malformed")
    with pytest.raises(RuntimeError, match="the machine stops"):
        score(make(journal=journal))
    assert [reply.text for reply in journal.replies] == ["The score is high, I would say."]


def test_fr_008_a_score_tells_all_that_it_came_from(server, make, score, turns):
    journal = MemoryJournal()
    observer = make(journal=journal, temperature=0.3, max_tokens=300, extra={"seed": 7})
    given = score(observer, turns)
    assert isinstance(given, Observation)
    (call,) = given.calls
    reply = call.reply
    assert reply == journal.replies[0]
    assert given.raw_reply == reply.text == server.answer(server.requests[0])
    assert reply.nonce in server.requests[0]["messages"][1]["content"]
    assert reply.model == "gpt-4.1-mini-2025-01-01"
    assert reply.finish_reason == "stop"
    assert reply.prompt_tokens > 500
    assert reply.completion_tokens > 5
    assert reply.cost_usd == pytest.approx(
        (reply.prompt_tokens * 0.40 + reply.completion_tokens * 1.60) / 1e6, rel=1e-12
    )
    assert given.cost_usd == reply.cost_usd == observer.spent_usd
    assert given.latency_s == reply.latency_s > 0
    assert reply.received_at.tzinfo is not None
    assert (call.repeat, call.attempts, call.cached) == (1, 1, False)
    assert observer.parameters == {
        "provider": "openai",
        "model": "gpt-4.1-mini",
        "base_url": server.url,
        "temperature": 0.3,
        "max_tokens": 300,
        "structured": "json_schema",
        "extra": {"seed": 7},
        "repeats": 1,
        "frame_version": observer.parameters["frame_version"],
    }
    assert observer.info.version.endswith(observer.parameters["frame_version"])
    sent = server.requests[0]
    assert (sent["temperature"], sent["max_completion_tokens"], sent["seed"]) == (0.3, 300, 7)


@pytest.mark.parametrize("fault", [*REPLY_FAULTS, "400", "500", "drop"])
def test_fr_009_a_failure_is_a_failure_and_never_a_score(server, make, score, fault):
    server.plan(fault)
    given = score(make(max_retries=0, structured="none"))
    assert isinstance(given, ObservationFailure)
    assert given.reason in {"malformed", "refused", "rejected", "server", "connection"}
    assert given.message
    assert not hasattr(given, "score")
    assert [call.score for call in given.calls] == [None]
    assert (given.calls[0].reply is not None) == (fault in REPLY_FAULTS)


def test_fr_009_one_failure_leaves_the_other_scores_of_a_turn(server, make, turns):
    observer = make()
    server.plan(None, "malformed", None)
    state = observer.start("s1", Context.parse("turn"))
    names = ("reciprocity", "context_integrity", "third_party_harm")
    given = observer.observe(state, turns[0], [Request(load_principle(name), Side.PROMPT) for name in names])
    assert [type(one) for one in given] == [Observation, ObservationFailure, Observation]
    assert [one.principle for one in given] == list(names)


def text(body):
    return body["messages"][1]["content"]
