"""Sessions drive observers, in contexts that say what they may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import turnwise
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.guard import GuardrailPipeline
from turnwise.observers import (
    OBSERVERS,
    Context,
    ContextMode,
    ObservationFailure,
    ObserverSession,
    Request,
    ScriptedObserver,
    build_observer,
    check_supported,
)
from turnwise.principles import Principle, builtin_principles, load_principle
from turnwise.scoring import Score
from turnwise.store import Store


@pytest.mark.parametrize("text", ["turn", "history", "transcript", "window:1", "window:12"])
def test_a_context_prints_as_it_reads(text: str) -> None:
    assert str(Context.parse(text)) == text
    assert Context.parse(str(Context.parse(text))) == Context.parse(text)


def test_a_window_has_a_size_and_nothing_else_has() -> None:
    assert Context.parse("window:3") == Context(ContextMode.WINDOW, 3)
    assert Context.parse("window:03") == Context(ContextMode.WINDOW, 3)
    assert [Context.parse(str(mode)).size for mode in ContextMode if mode is not ContextMode.WINDOW] == [None] * 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "window",
        "window:",
        "window:0",
        "window:-1",
        "window:2.5",
        "window:²",
        "window:many",
        "window:" + "9" * 5_000,
        "turn:1",
        "history:",
        "History",
        " turn",
        "everything",
    ],
)
def test_what_is_no_context_is_wrong_use(text: str) -> None:
    with pytest.raises(UsageError, match=r"unknown context .*: use turn, window:k"):
        Context.parse(text)


@pytest.mark.parametrize(
    ("mode", "size"),
    [(ContextMode.WINDOW, None), (ContextMode.WINDOW, 0), (ContextMode.WINDOW, -2), (ContextMode.TURN, 1)],
)
def test_a_size_that_does_not_fit_its_mode_is_wrong_use(mode: ContextMode, size: int | None) -> None:
    with pytest.raises(UsageError, match="a window has a size, at least 1"):
        Context(mode, size)


HISTORY = Context.parse("history")
WANTED = [Request(load_principle("reciprocity"), Side.PROMPT)]
TOLD = "observer 'scripted' failed at turn 2: ZeroDivisionError: in a plug-in"


class Stumbles(ScriptedObserver):
    """Raises at the second turn, as foreign code may."""

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(self._stumble)

    @staticmethod
    def _stumble(conversation_id: str, turn: Turn, request: Request) -> Score:
        if turn.number == 2:
            raise ZeroDivisionError("in a plug-in")
        return Score(T=0.9, I=0.0, F=0.1)


def reasons(session: ObserverSession, turns: int) -> list[str]:
    given = (session.observe(Turn(number, "text"), WANTED).given for number in range(1, turns + 1))
    return [one.reason if isinstance(one, ObservationFailure) else "score" for (one,) in given]


def test_what_an_observer_raises_fails_later_turns_too_unless_it_goes_on() -> None:
    assert reasons(ObserverSession(Stumbles(), HISTORY, "c"), 4) == ["score", "error", "error", "error"]
    live = ObserverSession(Stumbles(), HISTORY, "c", goes_on=True)
    assert reasons(live, 4) == ["score", "error", "score", "score"]


def test_what_an_observer_raises_is_told_in_a_short_line_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "planted-token")

    class Leaks(ScriptedObserver):
        def start(self, conversation_id: str, context: Context) -> Any:
            raise ValueError(f"401 for planted-token\nBearer abcdefgh {'z' * 10_000}")

    session = ObserverSession(Leaks("0.1"), HISTORY, "c")
    (failure,) = session.observe(Turn(1, "text"), WANTED).given
    assert isinstance(failure, ObservationFailure)
    assert failure.message.startswith(
        "observer 'scripted' failed before turn 1: ValueError: 401 for [key] Bearer [key] zzz"
    )
    assert len(failure.message) < 400


def test_a_plug_in_that_raises_is_named_wherever_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OBSERVERS._parts, "stumbles", Stumbles)
    chat = Conversation.from_turns([("one", None), ("two", None)], conversation_id="c")
    judged = [WANTED[0].principle]
    assert [one.failure.message for one in turnwise.score(chat, "stumbles", principles=judged).failures] == [TOLD]
    with Store(tmp_path / "work.db", create=True) as store:
        store.add_sequences([Sequence("c", Label.BENIGN, "made", chat)])
        turnwise.evaluate(store, "r", "stumbles", principles=judged)
        assert [failure.message for failure in store.failures("r")] == [TOLD]
    guard = GuardrailPipeline({"guardrails": [{"drift": {"observer": "stumbles"}}]})
    talk = Conversation.human_ai("u", "m")
    results = [guard.check_input(text, conversation=talk) for text in ("one", "two", "three")]
    assert [bool(result.failures) for result in results] == [False, True, False]
    assert TOLD in results[1].failures[0]


def test_a_copy_goes_on_by_itself() -> None:
    heard: list[Any] = []

    class Hears(ScriptedObserver):
        def start(self, conversation_id: str, context: Context) -> Any:
            return []

        def observe(self, state: Any, turn: Turn, wanted: Any) -> Any:
            state.append(turn.prompt)
            heard.append(list(state))
            return []

    session = ObserverSession(Hears("0.1"), HISTORY, "c")
    session.observe(Turn(1, "one"))
    other = session.copy()
    session.observe(Turn(2, "two"))
    assert other.observe(Turn(2, "other"), WANTED).gaps == tuple(WANTED)
    assert heard == [["one"], ["one", "two"], ["one", "other"]]


def test_what_is_not_supported_is_said_before_anything_is_scored() -> None:
    info = build_observer("local-small").info
    with pytest.raises(UsageError, match="'local-small' can't score in context 'window:2'; use one of turn"):
        check_supported(info, Context.parse("window:2"), builtin_principles())
    with pytest.raises(UsageError, match="can't score principle 'candour'; it scores only reciprocity"):
        check_supported(info, HISTORY, [*builtin_principles(), Principle("candour", "1", "s", "t", "i", "f", "p")])
