"""The scripted observer does what its script says, and nothing else."""

from __future__ import annotations

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import Context, ContextMode, Observation, ObservationFailure, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.scoring import Score

P, Q = (Principle(name, "1", "s", "t", "i", "f", "judge it") for name in "pq")
BOTH = [Request(P, Side.PROMPT), Request(Q, Side.RESPONSE)]


def ask(observer: ScriptedObserver, turn: int, wanted: list[Request]) -> list[Observation | ObservationFailure]:
    state = observer.start("a", Context(ContextMode.TURN))
    return list(observer.observe(state, Turn(turn, "hi"), wanted))


def test_a_text_gives_falsity_turn_by_turn() -> None:
    observer = ScriptedObserver("0.25, 1,0")
    assert ask(observer, 1, BOTH) == [
        Observation("p", Side.PROMPT, Score(0.75, 0.0, 0.25)),
        Observation("q", Side.RESPONSE, Score(0.75, 0.0, 0.25)),
    ]
    assert ask(observer, 2, BOTH[:1]) == [Observation("p", Side.PROMPT, Score(0.0, 0.0, 1.0))]
    assert ask(observer, 3, BOTH[:1]) == [Observation("p", Side.PROMPT, Score(1.0, 0.0, 0.0))]


def test_past_its_end_there_are_gaps() -> None:
    assert ask(ScriptedObserver("0.1"), 2, BOTH) == []


def test_a_function_gives_scores_failures_and_gaps() -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score | ObservationFailure | None:
        if request.side is Side.RESPONSE:
            return ObservationFailure(request.principle.name, request.side, "refused", conversation_id)
        return Score(1, 0, 0) if turn.number == 1 else None

    observer = ScriptedObserver(script)
    failure = ObservationFailure("q", Side.RESPONSE, "refused", "a")
    assert ask(observer, 1, BOTH) == [Observation("p", Side.PROMPT, Score(1, 0, 0)), failure]
    assert ask(observer, 2, BOTH) == [failure]
    assert observer.parameters == {"script": "script"}


def test_what_a_script_raises_the_observer_raises() -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        raise TimeoutError("too slow")

    with pytest.raises(TimeoutError, match="too slow"):
        ask(ScriptedObserver(script), 1, BOTH)


def test_its_version_can_be_chosen() -> None:
    assert ScriptedObserver("0.1").info == ScriptedObserver.describe()
    assert ScriptedObserver("0.1", version="9").info.version == "9"
    assert ScriptedObserver.describe().contexts == tuple(ContextMode)


@pytest.mark.parametrize("script", [None, ""])
def test_a_script_is_needed(script: str | None) -> None:
    with pytest.raises(ObserverError, match=r"needs a script, such as scripted:0\.1,0\.4,0\.9"):
        ScriptedObserver(script)


@pytest.mark.parametrize("script", ["high", "0.1;0.2", "0.1,", "1.5", "-0.1", "nan", "inf"])
def test_a_script_is_made_of_numbers_from_0_to_1(script: str) -> None:
    with pytest.raises(ObserverError, match=f"scripted:{script}: falsities must be numbers in"):
        ScriptedObserver(script)
