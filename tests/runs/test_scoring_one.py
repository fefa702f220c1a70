"""What a run lacks of a sequence, and scoring it: what fails costs what comes after it, never what came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import Context, Observation, ObservationFailure, Observer, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.runs import Plan, Task, TaskWork, make_task
from turnwise.scoring import EvaluationKey, Score

HISTORY = Context.parse("history")
BOTH = (Side.PROMPT, Side.RESPONSE)
Principles = tuple[Principle, ...]


def wanted(task: Task) -> dict[int, list[tuple[str, str]]]:
    return {
        turn: [(request.principle.name, str(request.side)) for request in requests]
        for turn, requests in task.wanted.items()
    }


def test_everything_is_wanted_of_a_sequence_that_was_never_scored(
    make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    task = make_task("r", make_sequence("a"), set(), Plan(principles, HISTORY))
    assert wanted(task) == {turn: [("p", "prompt"), ("q", "prompt")] for turn in (1, 2, 3)}
    assert (task.missing, task.present) == (6, 0)


def test_a_side_that_did_not_speak_is_not_wanted(
    make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    silent = make_sequence("a", ("", "the responder began"), ("two", None), ("three", ""))
    task = make_task("r", silent, set(), Plan(principles[:1], HISTORY, (Side.RESPONSE,)))
    assert wanted(task) == {1: [("p", "response")], 3: [("p", "response")]}
    task = make_task("r", silent, set(), Plan(principles[:1], HISTORY, BOTH))
    assert wanted(task) == {
        1: [("p", "prompt"), ("p", "response")],
        2: [("p", "prompt")],
        3: [("p", "prompt"), ("p", "response")],
    }


def test_what_is_recorded_is_present_and_leaves_gaps_between(
    make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    recorded = {
        EvaluationKey("r", "a", 1, Side.PROMPT, "p"),
        EvaluationKey("r", "a", 1, Side.PROMPT, "q"),
        EvaluationKey("r", "a", 3, Side.PROMPT, "q"),
        # None of these is what is asked for.
        EvaluationKey("other", "a", 2, Side.PROMPT, "p"),
        EvaluationKey("r", "b", 2, Side.PROMPT, "p"),
        EvaluationKey("r", "a", 2, Side.RESPONSE, "p"),
        EvaluationKey("r", "a", 2, Side.PROMPT, "third"),
    }
    task = make_task("r", make_sequence("a"), recorded, Plan(principles, HISTORY))
    assert wanted(task) == {2: [("p", "prompt"), ("q", "prompt")], 3: [("p", "prompt")]}
    assert (task.missing, task.present) == (3, 3)


def test_nothing_is_wanted_of_what_is_complete(
    make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    keys = {EvaluationKey("r", "a", turn, Side.PROMPT, name) for turn in (1, 2, 3) for name in "pq"}
    task = make_task("r", make_sequence("a"), keys, Plan(principles, HISTORY))
    assert (wanted(task), task.missing, task.present) == ({}, 0, 6)


def test_a_transcript_is_scored_once_at_its_last_turn(
    make_sequence: Callable[..., Sequence], principles: Principles
) -> None:
    transcript = Context.parse("transcript")
    task = make_task("r", make_sequence("a"), set(), Plan(principles[:1], transcript, BOTH))
    assert wanted(task) == {3: [("p", "prompt")]}
    # Earlier turns are no part of what there is to do, recorded or not.
    earlier = {EvaluationKey("r", "a", 1, Side.PROMPT, "p")}
    task = make_task("r", make_sequence("a"), earlier, Plan(principles[:1], transcript))
    assert (task.missing, task.present) == (1, 0)


def test_the_work_carries_all_texts_but_nothing_that_gives_the_answer_away(principles: Principles) -> None:
    turns = [Turn(1, "one", "first", metadata={"tactic": "flattery"}), Turn(2, "two")]
    chat = Conversation.from_turns(turns, metadata={"goal": "harm"})
    given = Sequence("a", Label.ATTACK, "a set of attacks", chat, {"goal": "harm"})
    task = make_task("r", given, set(), Plan(principles, HISTORY))
    assert task.turns == (Turn(1, "one", "first"), Turn(2, "two"))
    assert task.sequence_id == "a"


HISTORY = Context.parse("history")
FINE = Score(0.9, 0.1, 0.2)


@pytest.fixture
def task(make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]) -> Task:
    """Return the work of a sequence of three turns and two principles."""
    return make_task("r", make_sequence("a"), set(), Plan(principles, HISTORY))


def score(observer: Observer, task: Task) -> Any:
    """Score a task in this process."""
    [scored] = TaskWork(observer, HISTORY).open()([task])
    return scored


def outcomes(scored: Any) -> list[tuple[int, Observation | ObservationFailure]]:
    return [(observed.turn, given) for observed in scored.turns for given in observed.given]


def summary(scored: Any) -> list[tuple[int, str, str]]:
    return [
        (turn, given.principle, "score" if isinstance(given, Observation) else given.reason)
        for turn, given in outcomes(scored)
    ]


def test_every_wanted_score_comes_in_order(task: Task) -> None:
    scored = score(ScriptedObserver("0.1,0.2,0.3"), task)
    assert summary(scored) == [(turn, name, "score") for turn in (1, 2, 3) for name in "pq"]
    assert (scored.sequence_id, scored.wanted) == ("a", 6)


def test_a_gap_is_no_outcome(task: Task) -> None:
    scored = score(ScriptedObserver("0.1,0.2"), task)
    assert {turn for turn, _, _ in summary(scored)} == {1, 2}
    assert [request.principle.name for request in scored.turns[2].gaps] == ["p", "q"]
    assert scored.wanted == 6


def test_an_exception_makes_this_turn_and_later_ones_failures(task: Task) -> None:
    observed = []

    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        observed.append(turn.number)
        if turn.number == 2:
            raise ValueError("no network today")
        return FINE

    scored = score(ScriptedObserver(script), task)
    assert summary(scored) == [
        (1, "p", "score"),
        (1, "q", "score"),
        (2, "p", "error"),
        (2, "q", "error"),
        (3, "p", "error"),
        (3, "q", "error"),
    ]
    messages = {given.message for _, given in outcomes(scored) if isinstance(given, ObservationFailure)}
    assert messages == {"observer 'scripted' failed at turn 2: ValueError: no network today"}
    assert observed == [1, 1, 2]


def test_a_failure_that_the_observer_reports_costs_nothing_else(task: Task) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score | ObservationFailure:
        if (turn.number, request.principle.name) == (1, "q"):
            return ObservationFailure("q", request.side, "refused", "would not say")
        return FINE

    scored = score(ScriptedObserver(script), task)
    assert [row for row in summary(scored) if row[2] != "score"] == [(1, "q", "refused")]
    assert len(outcomes(scored)) == 6


def test_an_observer_error_is_not_swallowed(task: Task) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        raise ObserverError("the key is wrong: set it again")

    with pytest.raises(ObserverError, match="the key is wrong"):
        score(ScriptedObserver(script), task)


class Odd(ScriptedObserver):
    """Gives whatever it is told to."""

    def __init__(self, given: Callable[[Turn], Any], begin: Callable[[], Any] = lambda: None) -> None:
        super().__init__("0.1")
        self._given = given
        self._begin = begin

    def start(self, conversation_id: str, context: Context) -> Any:
        self._begin()
        return conversation_id

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
            "a score for p, prompt at turn 1 that was not asked for, or gave it twice; it must give each once",
        ),
        ([score_of("p"), ObservationFailure("p", Side.PROMPT, "r", "m")], "or gave it twice"),
        ([FINE], r"gave Score\(T=0.9, I=0.1, F=0.2\) at turn 1, not a score"),
    ],
)
def test_what_was_not_asked_for_is_refused(task: Task, given: list[Any], what: str) -> None:
    with pytest.raises(ObserverError, match=f"observer 'scripted' .*{what}"):
        score(Odd(lambda turn: given), task)


def test_an_answer_that_is_a_generator_counts_whole(task: Task) -> None:
    def generate(turn: Turn) -> Any:
        yield score_of("p")
        if turn.number == 2:
            raise ValueError("broke off")
        yield score_of("q")

    assert summary(score(Odd(generate), task)) == [
        (1, "p", "score"),
        (1, "q", "score"),
        *((turn, name, "error") for turn in (2, 3) for name in "pq"),
    ]


def test_no_answer_at_all_is_a_failure_not_a_gap(task: Task) -> None:
    scored = score(Odd(lambda turn: None), task)
    assert {row[2] for row in summary(scored)} == {"error"}
    assert len(outcomes(scored)) == 6


def test_an_exception_before_the_first_turn_fails_the_whole_sequence(task: Task) -> None:
    def stumble() -> None:
        raise KeyError("goal")

    scored = score(Odd(lambda turn: [], stumble), task)
    assert summary(scored) == [(turn, name, "error") for turn in (1, 2, 3) for name in "pq"]
    _, first = outcomes(scored)[0]
    assert isinstance(first, ObservationFailure)
    assert first.message == "observer 'scripted' failed before turn 1: KeyError: 'goal'"

    def refuse() -> None:
        raise ObserverError("this context is not supported")

    with pytest.raises(ObserverError, match="this context is not supported"):
        score(Odd(lambda turn: [], refuse), task)


def test_turns_before_the_wanted_one_are_read_and_those_after_it_are_not(
    make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]
) -> None:
    turns = [(f"turn {number}", None) for number in range(1, 6)]
    recorded = {EvaluationKey("r", "a", turn, Side.PROMPT, "p") for turn in (1, 2, 4, 5)}
    task = make_task("r", make_sequence("a", *turns), recorded, Plan(principles[:1], HISTORY))
    read: list[tuple[int, int]] = []

    class Reader(ScriptedObserver):
        def observe(self, state: str, turn: Turn, wanted: Any) -> Any:
            read.append((turn.number, len(wanted)))
            return super().observe(state, turn, wanted)

    scored = score(Reader("0.1,0.2,0.3,0.4,0.5"), task)
    assert read == [(1, 0), (2, 0), (3, 1)]
    assert summary(scored) == [(3, "p", "score")]
    assert scored.wanted == 1


def test_an_observer_is_not_even_started_where_nothing_is_wanted(
    make_sequence: Callable[..., Sequence], principles: tuple[Principle, ...]
) -> None:
    keys = {EvaluationKey("r", "a", turn, Side.PROMPT, name) for turn in (1, 2, 3) for name in "pq"}
    task = make_task("r", make_sequence("a"), keys, Plan(principles, HISTORY))

    def stumble() -> None:
        raise AssertionError("started")

    assert score(Odd(lambda turn: [], stumble), task) == ("a", (), 0)
