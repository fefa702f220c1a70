"""A server that refuses the way in which JSON is asked for: asked in a weaker way, and what came is recorded."""

from __future__ import annotations

import pytest
from chat_server import REFUSALS

from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.observers import Observation, ObservationFailure
from turnwise.scoring import MemoryJournal

SCHEMA = ("json_schema",)
BOTH = ("json_schema", "json_object")


def asked(server) -> list[str]:
    """Return how each request asked for JSON, in the order of their arrival."""
    return [body.get("response_format", {}).get("type", "none") for body in server.requests]


class TestAServerThatRefusesAStructure:
    @pytest.mark.parametrize("refusal", REFUSALS)
    def test_is_asked_with_the_next_weaker_one(self, server, make, score, refusal):
        server.refused, server.refusal = SCHEMA, refusal
        given = score(make())
        assert isinstance(given, Observation), given
        assert asked(server) == ["json_schema", "json_object"]
        assert given.calls[0].reply.structured == "json_object"
        assert given.calls[0].attempts == 2

    @pytest.mark.parametrize("refusal", REFUSALS)
    def test_is_asked_in_words_alone_where_it_takes_none(self, server, make, score, refusal):
        server.refused, server.refusal = BOTH, refusal
        given = score(make())
        assert asked(server) == ["json_schema", "json_object", "none"]
        assert given.calls[0].reply.structured == "none"

    @pytest.mark.parametrize("refusal", ["500", "400", "422", "400:bare", "422:bare"])
    def test_is_asked_so_from_then_on(self, server, make, score, turns, refusal):
        server.refused, server.refusal = SCHEMA, refusal
        observer = make()
        for _ in range(3):
            score(observer, (Turn(1, "Which river is the longest?", None),))
        assert asked(server) == ["json_schema", "json_object", "json_object", "json_object"]

    def test_that_says_nothing_but_500_is_asked_so_after_the_second_time(self, server, make, score):
        server.refused, server.refusal = SCHEMA, "500:bare"
        observer = make()
        for _ in range(3):
            score(observer)
        assert asked(server) == ["json_schema", "json_object", "json_schema", "json_object", "json_object"]

    @pytest.mark.parametrize("refusal", ["500", "400", "422", "400:bare", "422:bare"])
    def test_is_not_waited_for_and_needs_no_retry(self, server, make, score, waits, refusal):
        server.refused, server.refusal = BOTH, refusal
        assert isinstance(score(make(max_retries=0)), Observation)
        assert waits == []

    def test_that_says_nothing_but_500_is_waited_for_as_one_that_fails(self, server, make, score, waits):
        server.refused, server.refusal = SCHEMA, "500:bare"
        assert isinstance(score(make(max_retries=1)), Observation)
        assert len(waits) == 1

    def test_is_believed_too_where_the_structure_was_asked_for_by_name(self, server, make, score):
        server.refused = SCHEMA
        assert score(make(structured="json_schema")).calls[0].reply.structured == "json_object"

    def test_answers_the_same_request_from_its_kept_reply(self, server, make, score):
        server.refused = SCHEMA
        journal = MemoryJournal()
        score(make(journal=journal))
        again = score(make(journal=journal)).calls[0]
        assert (again.cached, again.reply.structured, server.calls) == (True, "json_object", 2)

    def test_keeps_the_settings_of_the_run(self, server, make, score):
        server.refused = SCHEMA
        observer = make()
        score(observer)
        assert observer.parameters["structured"] == "json_schema"


class TestAServerThatTakesIt:
    def test_and_fails_at_the_first_request_is_asked_so_again(self, server, make, score):
        server.plan("500")
        observer = make()
        assert [score(observer).calls[0].reply.structured for _ in range(3)] == [
            "json_object",
            "json_schema",
            "json_schema",
        ]

    def test_is_asked_so_and_the_reply_says_it(self, server, make, score):
        assert score(make()).calls[0].reply.structured == "json_schema"
        assert score(make(structured="none")).calls[0].reply.structured == "none"

    @pytest.mark.parametrize("fault", ["400", "500"])
    def test_keeps_being_asked_so_whatever_fails_later(self, server, make, score, fault):
        observer = make(max_retries=1)
        score(observer)
        server.plan(fault, fault)
        assert isinstance(score(observer), ObservationFailure)
        assert set(asked(server)) == {"json_schema"}

    def test_is_asked_otherwise_for_the_one_request_that_it_refuses(self, server, make, score):
        observer = make()
        score(observer)
        server.refused = SCHEMA  # as a router that passes this request to another server
        assert score(observer).calls[0].reply.structured == "json_object"
        server.refused = ()
        assert score(observer).calls[0].reply.structured == "json_schema"

    @pytest.mark.parametrize("fault", ["429", "503", "drop", "truncate"])
    def test_is_not_suspected_for_faults_that_pass(self, server, make, score, fault):
        server.plan(fault)
        assert score(make()).calls[0].reply.structured == "json_schema"

    @pytest.mark.parametrize("fault", ["401", "404", "no_model"])
    def test_is_not_suspected_for_what_stops_the_run(self, server, make, score, fault):
        server.plan(fault)
        with pytest.raises(ObserverError):
            score(make())
        assert server.calls == 1


def test_a_request_that_is_refused_in_every_way_says_why_and_scores_nothing(server, make, score):
    server.plan(*["400"] * 3)
    given = score(make())
    assert (given.reason, given.calls[0].attempts, given.calls[0].reply) == ("rejected", 3, None)
    assert asked(server) == ["json_schema", "json_object", "none"]


def test_the_words_of_a_refusal_name_the_field_and_not_its_value(server, make, score):
    server.refused, server.refusal = (*BOTH, None), "422"
    with pytest.raises(
        ObserverError, match=r"422: body\.response_format\.type: Input should be 'text' or 'json_object'"
    ) as caught:
        score(make())
    assert asked(server) == ["json_schema", "json_object", "none"]
    assert "json_schema" not in str(caught.value)
