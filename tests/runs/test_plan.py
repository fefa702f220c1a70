"""What a run lacks of a sequence, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.observers import Context
from turnwise.principles import Principle
from turnwise.runs import Plan
from turnwise.runs.plan import Task, make_task
from turnwise.scoring import EvaluationKey

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
