"""Scoring one sequence: what fails costs what comes after it, never what came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnwise.conversation import Sequence, Side, Turn
from turnwise.errors import ObserverError
from turnwise.evaluation.plan import Work, plan
from turnwise.evaluation.worker import Scored, score_sequence
from turnwise.observers import Context, Observation, ObservationFailure, Request, Scene
from turnwise.observers.scripted import ScriptedObserver
from turnwise.principles import Principle
from turnwise.scoring import EvaluationKey, Score

HISTORY = Context.parse("history")
FINE = Score(0.9, 0.1, 0.2)


@pytest.fixture
def work(make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]) -> Work:
    """Return the work of a sequence of three turns and two principles."""
    return plan("r", make_sequence("a"), set(), principles=principles, context=HISTORY)


def summary(scored: Scored) -> list[tuple[int, str, str]]:
    return [
        (turn, given.principle, "score" if isinstance(given, Observation) else given.reason)
        for turn, given in scored.outcomes
    ]


def test_every_wanted_score_comes_in_order(work: Work) -> None:
    scored = score_sequence(ScriptedObserver("0.1,0.2,0.3"), HISTORY, work)
    assert summary(scored) == [(turn, name, "score") for turn in (1, 2, 3) for name in "pq"]
    assert (scored.sequence_id, scored.wanted) == ("a", 6)


def test_a_gap_is_no_outcome(work: Work) -> None:
    scored = score_sequence(ScriptedObserver("0.1,0.2"), HISTORY, work)
    assert {turn for turn, _, _ in summary(scored)} == {1, 2}
    assert scored.wanted == 6


def test_an_exception_makes_this_turn_and_later_ones_failures(work: Work) -> None:
    observed = []

    def script(scene: Scene, turn: Turn, request: Request) -> Score:
        observed.append(turn.number)
        if turn.number == 2:
            raise ValueError("no network today")
        return FINE

    scored = score_sequence(ScriptedObserver(script), HISTORY, work)
    assert summary(scored) == [
        (1, "p", "score"),
        (1, "q", "score"),
        (2, "p", "error"),
        (2, "q", "error"),
        (3, "p", "error"),
        (3, "q", "error"),
    ]
    messages = {given.message for _, given in scored.outcomes if isinstance(given, ObservationFailure)}
    assert messages == {"turn 2: ValueError: no network today"}
    assert observed == [1, 1, 2]


def test_a_failure_that_the_observer_reports_costs_nothing_else(work: Work) -> None:
    def script(scene: Scene, turn: Turn, request: Request) -> Score | ObservationFailure:
        if (turn.number, request.principle.name) == (1, "q"):
            return ObservationFailure("q", request.side, "refused", "would not say")
        return FINE

    scored = score_sequence(ScriptedObserver(script), HISTORY, work)
    assert [row for row in summary(scored) if row[2] != "score"] == [(1, "q", "refused")]
    assert len(scored.outcomes) == 6


def test_an_observer_error_is_not_swallowed(work: Work) -> None:
    def script(scene: Scene, turn: Turn, request: Request) -> Score:
        raise ObserverError("the key is wrong: set it again")

    with pytest.raises(ObserverError, match="the key is wrong"):
        score_sequence(ScriptedObserver(script), HISTORY, work)


class Odd(ScriptedObserver):
    """Gives whatever it is told to."""

    def __init__(self, given: Callable[[Turn], Any], begin: Callable[[], Any] = lambda: None) -> None:
        super().__init__("0.1")
        self._given = given
        self._begin = begin

    def start(self, scene: Scene, context: Context) -> Any:
        self._begin()
        return scene

    def observe(self, state: Any, turn: Turn, wanted: Any) -> Any:
        return self._given(turn)


def score_of(principle: str, side: Side = Side.PROMPT) -> Observation:
    return Observation(principle, side, FINE)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([score_of("stranger")], "gave a score for stranger, prompt at turn 1 that was not asked for"),
        ([score_of("p", Side.RESPONSE)], "a score for p, response at turn 1 that was not asked for"),
        (
            [score_of("p"), score_of("p")],
            "a score for p, prompt at turn 1 that was not asked for, or gave it twice",
        ),
        ([score_of("p"), ObservationFailure("p", Side.PROMPT, "r", "m")], "or gave it twice"),
        ([FINE], r"gave Score\(T=0.9, I=0.1, F=0.2\) at turn 1, not a score"),
    ],
)
def test_what_was_not_asked_for_is_refused(work: Work, given: list[Any], what: str) -> None:
    with pytest.raises(ObserverError, match=f"observer 'scripted' .*{what}"):
        score_sequence(Odd(lambda turn: given), HISTORY, work)


def test_an_answer_that_is_a_generator_counts_whole(work: Work) -> None:
    def generate(turn: Turn) -> Any:
        yield score_of("p")
        if turn.number == 2:
            raise ValueError("broke off")
        yield score_of("q")

    assert summary(score_sequence(Odd(generate), HISTORY, work)) == [
        (1, "p", "score"),
        (1, "q", "score"),
        *((turn, name, "error") for turn in (2, 3) for name in "pq"),
    ]


def test_no_answer_at_all_is_a_failure_not_a_gap(work: Work) -> None:
    scored = score_sequence(Odd(lambda turn: None), HISTORY, work)
    assert {row[2] for row in summary(scored)} == {"error"}
    assert len(scored.outcomes) == 6


def test_an_exception_before_the_first_turn_fails_the_whole_sequence(work: Work) -> None:
    def stumble() -> None:
        raise KeyError("goal")

    scored = score_sequence(Odd(lambda turn: [], stumble), HISTORY, work)
    assert summary(scored) == [(turn, name, "error") for turn in (1, 2, 3) for name in "pq"]
    first = scored.outcomes[0].given
    assert isinstance(first, ObservationFailure)
    assert first.message == "before turn 1: KeyError: 'goal'"

    def refuse() -> None:
        raise ObserverError("this context is not supported")

    with pytest.raises(ObserverError, match="this context is not supported"):
        score_sequence(Odd(lambda turn: [], refuse), HISTORY, work)


def test_turns_before_the_wanted_one_are_read_and_those_after_it_are_not(
    make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]
) -> None:
    turns = [(f"turn {number}", None) for number in range(1, 6)]
    recorded = {EvaluationKey("r", "a", turn, Side.PROMPT, "p") for turn in (1, 2, 4, 5)}
    work = plan("r", make_sequence("a", *turns), recorded, principles=principles[:1], context=HISTORY)
    read: list[tuple[int, int]] = []

    class Reader(ScriptedObserver):
        def observe(self, state: Scene, turn: Turn, wanted: Any) -> Any:
            read.append((turn.number, len(wanted)))
            return super().observe(state, turn, wanted)

    scored = score_sequence(Reader("0.1,0.2,0.3,0.4,0.5"), HISTORY, work)
    assert read == [(1, 0), (2, 0), (3, 1)]
    assert summary(scored) == [(3, "p", "score")]
    assert scored.wanted == 1


def test_an_observer_is_not_even_started_where_nothing_is_wanted(
    make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]
) -> None:
    keys = {EvaluationKey("r", "a", turn, Side.PROMPT, name) for turn in (1, 2, 3) for name in "pq"}
    work = plan("r", make_sequence("a"), keys, principles=principles, context=HISTORY)

    def stumble() -> None:
        raise AssertionError("started")

    assert score_sequence(Odd(lambda turn: [], stumble), HISTORY, work) == Scored("a", (), 0)
