"""One call scores many conversations, with whatever observer."""

from __future__ import annotations

import logging
import threading

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import (
    Context,
    ContextMode,
    ObservedMany,
    ObserverInfo,
    Request,
    ScriptedObserver,
    check_observer,
    observe_conversations,
)
from turnwise.principles import load_principle
from turnwise.scoring import Score

HISTORY = Context.parse("history")
WANTED = [Request(load_principle(name), side) for side in Side for name in ("reciprocity", "context_integrity")]
TALKS = [[Turn(1, "a", "b"), Turn(2, "c", None)], [], [Turn(5, "d", "e")]]


def keys(found: ObservedMany) -> list[tuple[int, int, int]]:
    return list(zip(found.conversation.tolist(), found.turn.tolist(), found.request.tolist(), strict=True))


def test_rows_come_by_conversation_turn_and_request() -> None:
    found = observe_conversations(ScriptedObserver("0.1,0.2,0.3,0.4,0.5"), TALKS, HISTORY, WANTED)
    assert keys(found) == [(0, 1, n) for n in range(4)] + [(0, 2, 0), (0, 2, 1)] + [(2, 5, n) for n in range(4)]
    assert found.scores[:, 2].tolist() == [0.1] * 4 + [0.2] * 2 + [0.5] * 4


def test_a_transcript_is_scored_at_its_last_turn() -> None:
    found = observe_conversations(ScriptedObserver("0.1,0.2"), TALKS[:2], Context.parse("transcript"), WANTED)
    assert keys(found) == [(0, 2, 0), (0, 2, 1)]


def test_a_conversation_that_an_observer_raises_on_fails_alone() -> None:
    def script(conversation: str, turn: Turn, request: Request) -> Score:
        if conversation == "bad":
            raise ZeroDivisionError("by 0")
        return Score(1, 0, 0)

    found = observe_conversations(ScriptedObserver(script), TALKS, HISTORY, WANTED, ids=["bad", "empty", "good"])
    assert keys(found) == [(2, 5, n) for n in range(4)]
    assert {(talk, turn) for talk, turn, _ in found.failures} == {(0, 1), (0, 2)}
    assert "ZeroDivisionError" in found.failures[0][2].message


def test_threads_give_the_same_rows_and_wait_together() -> None:
    together = threading.Barrier(2, timeout=30)

    def script(conversation: str, turn: Turn, request: Request) -> Score:
        together.wait()
        return Score(1, 0, turn.number / 10)

    talks = [[Turn(1, "a")], [Turn(2, "b")]]
    found = observe_conversations(ScriptedObserver(script), talks, HISTORY, WANTED[:1], threads=2)
    assert found.scores[:, 2].tolist() == [0.1, 0.2]


class Batched(ScriptedObserver):
    """An observer that takes many at once, in its own way."""

    def __init__(self, scores: str, fault: Exception | None = None, more: float = 0.0) -> None:
        super().__init__(scores)
        self.fault, self.more = fault, more

    @property
    def info(self) -> ObserverInfo:
        return ObserverInfo("batched", "1", (ContextMode.HISTORY,), "of a test")

    def start(self, conversation_id, context):
        if context.mode is not ContextMode.HISTORY:
            raise ObserverError("history only")
        return super().start(conversation_id, context)

    def observe_many(self, conversations, context, wanted):
        if self.fault:
            raise self.fault
        found = observe_conversations(ScriptedObserver(self.parameters["script"]), conversations, context, wanted)
        found.scores[:, 2] = (found.scores[:, 2] + self.more).clip(0, 1)
        return found


def test_an_observer_that_takes_many_is_asked_once() -> None:
    found = observe_conversations(Batched("0.1,0.2", more=0.5), TALKS[:1], HISTORY, WANTED)
    assert found.scores[:, 2].tolist() == [0.6] * 4 + [0.7] * 2


def test_where_many_at_once_fail_each_is_scored_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "turnwise.observers"):
        found = observe_conversations(Batched("0.1,0.2", RuntimeError("too many")), TALKS[:1], HISTORY, WANTED)
    assert len(found) == 6
    assert "'batched' failed on 1 conversations at once (RuntimeError: too many)" in caplog.text


def test_an_observer_that_can_t_go_on_ends_it() -> None:
    with pytest.raises(ObserverError, match="used up"):
        observe_conversations(Batched("0.1", ObserverError("used up")), TALKS, HISTORY, WANTED)


def test_the_kit_compares_many_at_once_with_turn_by_turn() -> None:
    check_observer(lambda: Batched("0.1,0.4,0.9"))
    with pytest.raises(AssertionError, match="many at once: turn 1 gets another score"):
        check_observer(lambda: Batched("0.1,0.4,0.9", more=0.01))
