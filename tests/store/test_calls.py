"""Calls that scores and failures rest on: kept with them, loaded on request, and added up by run."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import UnknownNameError
from turnwise.scoring import Call, Evaluation, Failure, FailureReason, Reply, Score, Spread
from turnwise.store import Run, RunTally, Store

MakeReply = Callable[..., Reply]
MakeEvaluation = Callable[..., Evaluation]
MakeFailure = Callable[..., Failure]
Raw = Callable[..., list[tuple[Any, ...]]]

LOW, HIGH = Score(0.8, 0.1, 0.2), Score(0.6, 0.1, 0.4)


@pytest.fixture
def begun(store: Store, make_sequence: Callable[..., Sequence], make_run: Callable[..., Run]) -> Store:
    """Return a store with three sequences and two runs."""
    store.add_sequences([make_sequence(name) for name in ("a", "b", "c")])
    store.start_run(make_run())
    store.start_run(make_run("second"))
    return store


def test_calls_come_back_whole_and_in_order_on_request(
    location: str, begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    replies = [make_reply(f"k{number}", number, text=f"text {number}") for number in (1, 2, 3)]
    for reply in replies:
        begun.journal.record(reply)
    calls = (
        Call(1, replies[0], LOW, reasoning="because", cached=True, attempts=0),
        Call(2, replies[1], HIGH, reasoning="since", attempts=3),
    )
    failed = (
        Call(1, replies[2], None, reason="malformed", message="no JSON"),
        Call(2, None, None, reason="timeout", message="nothing came", attempts=6),
    )
    scored = make_evaluation("a", calls=calls, raw_reply="text 1", cost_usd=0.001)
    failure = make_failure("a", 2, calls=failed, raw_reply="text 3")
    begun.append([scored, make_evaluation("b"), failure])
    with Store(location) as again:
        assert again.trajectory("first", "a", replies=True).evaluations == (scored,)
        assert again.trajectory("first", "b", replies=True).evaluations == (make_evaluation("b"),)
        assert again.failures("first", replies=True) == (failure,)


def test_detectors_load_neither_replies_nor_calls(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    call = Call(1, make_reply(), LOW)
    begun.append([make_evaluation("a", calls=(call,), raw_reply="raw", reasoning="because")])
    begun.append([make_failure("a", 2, calls=(Call(1, None, None, reason="timeout"),), raw_reply="raw")])
    (evaluation,) = begun.trajectory("first", "a").evaluations
    assert (evaluation.calls, evaluation.raw_reply, evaluation.reasoning) == ((), None, "because")
    (failure,) = begun.failures("first")
    assert (failure.calls, failure.raw_reply) == ((), None)


def test_a_recorded_reply_is_stored_once_however_many_scores_rest_on_it(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation, raw: Raw
) -> None:
    reply = make_reply()
    begun.journal.record(reply)
    begun.append([make_evaluation("a", calls=(Call(1, reply, LOW),), raw_reply=reply.text)])
    begun.append(
        [make_evaluation("b", calls=(Call(1, reply, LOW, cached=True, attempts=0),), raw_reply=reply.text)]
    )
    assert raw("SELECT count(*) FROM replies") == [(1,)]
    assert raw("SELECT reply FROM evaluations") == raw("SELECT reply FROM calls") == [(1,), (1,)]


def test_a_reply_that_no_journal_kept_is_stored_with_its_call(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation
) -> None:
    # Two replies to one asking, as --no-cache makes them: each call keeps its own.
    first, second = make_reply(text="one"), make_reply(text="two", nonce="fedcba9876543210")
    begun.journal.record(first)
    begun.append([make_evaluation("a", calls=(Call(1, first, LOW),))])
    begun.append([make_evaluation("b", calls=(Call(1, second, HIGH),))])
    texts = [
        evaluation.calls[0].reply.text
        for _, trajectory in begun.trajectories("first", replies=True)
        for evaluation in trajectory.evaluations
        if evaluation.calls[0].reply
    ]
    assert texts == ["one", "two"]


@pytest.mark.shows("LATER-4")
def test_a_trajectory_tells_how_far_repeats_lie_apart(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation
) -> None:
    twice = Call(1, make_reply(), LOW), Call(2, make_reply(repeat=2), HIGH)
    half = Call(1, make_reply("k2"), LOW), Call(2, None, None, reason="timeout", message="nothing came")
    begun.append([make_evaluation("a", 1, calls=twice), make_evaluation("a", 2, calls=half)])
    ((turn, apart),) = begun.trajectory("first", "a", replies=True).spread("p")
    assert turn == 1
    assert apart == pytest.approx(Spread(math.sqrt(0.02), 0.0, math.sqrt(0.02)))
    assert begun.trajectory("first", "a").spread("p") == ()


def test_more_evaluations_with_calls_than_a_page_holds(
    store: Store,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_reply: MakeReply,
    make_evaluation: MakeEvaluation,
) -> None:
    turns = 620
    store.add_sequences([make_sequence("long", *((f"turn {number}", None) for number in range(turns)))])
    store.start_run(make_run())
    store.append(
        make_evaluation("long", turn, calls=(Call(1, make_reply(f"k{turn}"), LOW),))
        for turn in range(1, turns + 1)
    )
    found = store.trajectory("first", "long", replies=True).evaluations
    assert [e.calls[0].reply.request_key for e in found if e.calls[0].reply] == [
        f"k{turn}" for turn in range(1, turns + 1)
    ]


def test_what_failed_and_was_not_scored_since(
    begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    begun.append([make_failure("a", 1), make_failure("a", 1), make_failure("a", 2), make_failure("b", 1, "q")])
    begun.append([make_evaluation("a", 1), make_evaluation("b", 1, "p"), make_evaluation("a", 2, run="second")])
    open_ = begun.failed("first")
    assert open_ == {make_failure("a", 2).key, make_failure("b", 1, "q").key}
    assert begun.failed("first", ids=["b", "c"]) == {make_failure("b", 1, "q").key}
    assert begun.failed("second") == set()
    with pytest.raises(UnknownNameError, match="unknown run 'third'"):
        begun.failed("third")
    with pytest.raises(UnknownNameError, match="unknown sequence 'z'"):
        begun.failed("first", ids=["z"])


def test_a_run_adds_up_to_its_rows(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation, make_failure: MakeFailure, raw: Raw
) -> None:
    paid = Call(1, make_reply(), LOW), Call(2, make_reply(repeat=2, completion_tokens=None), LOW)
    free = (Call(1, make_reply(), LOW, cached=True, attempts=0),)
    lost = (Call(1, make_reply("k3"), None, reason="malformed"), Call(2, None, None, reason="timeout"))
    begun.append([make_evaluation("a", 1, calls=paid, cost_usd=0.1, latency_s=0.5)])
    begun.append([make_evaluation("a", 2, calls=free, cost_usd=0.0, latency_s=0.25)])
    begun.append([make_failure("b", 1, calls=lost, cost_usd=0.2), make_failure("b", 1, calls=())])
    (run, first), (_, second) = begun.tallies()
    assert run == begun.run("first")
    now = make_reply().received_at
    assert first == RunTally(
        run="first",
        sequences=2,
        evaluations=2,
        failed=1,
        failures=2,
        calls=5,
        cached=1,
        prompt_tokens=360,
        completion_tokens=60,
        cost_usd=pytest.approx(0.3),
        seconds=0.75,
        first=now,
        last=now,
        commonest_failure=FailureReason("malformed", 1, "no JSON in it"),
    )
    assert second == RunTally("second")
    rows = raw("SELECT cost_usd FROM evaluations UNION ALL SELECT cost_usd FROM failures")
    assert first.cost_usd == pytest.approx(sum(cost or 0 for (cost,) in rows))


def test_a_mended_failure_is_counted_but_not_open(
    begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    begun.append([make_failure("a", 1, cost_usd=0.5)])
    begun.append([make_evaluation("a", 1)])
    (_, tally), _ = begun.tallies()
    assert (tally.evaluations, tally.failed, tally.failures, tally.cost_usd) == (1, 0, 1, 0.5)
    assert tally.last is not None
    assert tally.first is not None
    assert tally.last - tally.first == timedelta(0)


class TestWhyScoresFailed:
    def test_is_told_by_the_commonest_reason_of_those_that_are_still_missing(
        self, begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
    ) -> None:
        def lost(sequence: str, turn: int, reason: str, message: str = "") -> Failure:
            return make_failure(sequence, turn, reason=reason, message=message)

        begun.append([lost("a", 1, "timeout"), lost("a", 2, "timeout"), lost("a", 3, "timeout")])
        begun.append([lost("b", 1, "server", "first"), lost("b", 2, "server", "second")])
        # Two came since, and one failed again for another reason.
        begun.append([make_evaluation("a", 1), make_evaluation("a", 2), lost("a", 3, "server", "third")])
        assert begun.tally("first").commonest_failure == FailureReason("server", 3, "third")

    def test_is_nothing_where_all_came(self, begun: Store, make_evaluation: MakeEvaluation) -> None:
        begun.append([make_evaluation("a", 1)])
        assert begun.tally("first").commonest_failure is None

    def test_is_shown_in_one_visible_line_of_bounded_length(self, begun: Store, make_failure: MakeFailure) -> None:
        begun.append([make_failure("a", 1, message="\x1b[2J\u202eall is well\n" + "ignore this " * 10_000)])
        commonest = begun.tally("first").commonest_failure
        assert commonest is not None
        assert commonest.example.startswith(r"\x1b[2J\u202eall is well ignore this")
        assert len(commonest.example) <= 240


def test_a_run_says_how_its_replies_were_asked_for(
    begun: Store, make_reply: MakeReply, make_evaluation: MakeEvaluation
) -> None:
    for turn, structured in enumerate(("json_schema", "json_object", "json_object", None), start=1):
        reply = make_reply(f"k{turn}", structured=structured)
        begun.append([make_evaluation("a" if turn < 4 else "b", turn % 4 or 1, calls=(Call(1, reply, LOW),))])
    tally = begun.tally("first")
    assert tally.structured == {"json_object": 2, "json_schema": 1}
    assert tally.to_dict()["structured"] == {"json_object": 2, "json_schema": 1}
