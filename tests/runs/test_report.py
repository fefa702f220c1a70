"""One conversation, scored and judged: what Python gets is what the command line prints."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from tests.cli.conftest import outcome

import turnwise
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.datasets import examples
from turnwise.detectors import load_detector, run_detector
from turnwise.errors import ConversationError, ObserverError
from turnwise.observers import ObservationFailure, Request, ScriptedObserver, build_observer
from turnwise.principles import Principle
from turnwise.runs import detect, evaluate
from turnwise.scoring import Score
from turnwise.store import Store

DETECTORS = ("any_turn", "cusum", "slope", "trust_ema", "cusum:drift=0.25", "any_of:members=[any_turn; slope]")


def test_the_same_verdicts_in_python_on_the_command_line_and_in_a_run(tmp_path: Path) -> None:
    sequences = examples()
    with Store(tmp_path / "s.db", create=True) as store:
        store.add_sequences(sequences)
        evaluate(store, "r", "local-small")
        stored = {}
        for found in detect(store, "r", DETECTORS):
            assert found.verdict is not None
            stored[found.head.sequence_id, found.detector] = found.verdict.to_dict()
    compared = 0
    observer = build_observer("local-small")
    for number, sequence in enumerate(sequences):
        report = turnwise.check(sequence.conversation, observer, DETECTORS)
        for verdict in report.verdicts:
            assert verdict.to_dict() == stored[sequence.sequence_id, verdict.detector]
            compared += 1
        if number % 16:  # the command loads the observer each time
            continue
        file = tmp_path / "chat.json"
        file.write_text(json.dumps(sequence.conversation.to_dict()), encoding="utf-8")
        out = io.StringIO()
        with redirect_stdout(out):
            options = [word for one in DETECTORS for word in ("--detector", one)]
            assert outcome("check", file, "--observer", "local-small", *options, "--json") == 0
        assert json.loads(out.getvalue()) == json.loads(json.dumps(report.to_dict()))
    assert compared == len(sequences) * len(DETECTORS) >= 100


def test_a_report_reads_well(principles: tuple[Principle, ...]) -> None:
    messages = [
        {"role": "user", "content": "one <b>"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "two"},
    ]
    report = turnwise.check(messages, ScriptedObserver("0.1,0.6"), ["any_turn"], principles=principles)
    assert report.fired
    assert report.scored
    assert repr(report) == "<Report of 2 turns by scripted 1 (history): fired: any_turn>"
    assert str(report).split("\n") == [
        "2 turns, scored by scripted 1 (history)",
        "any_turn: fired at turn 2, highest score 0.600 (threshold 0.500, default): p F 0.600 ≥ 0.500 at turn 2",
    ]
    frame = report.to_frame()
    assert list(frame.columns) == ["turn", "side", "principle", "T", "I", "F", "text"]
    assert list(frame[frame.principle == "p"].F) == [0.1, 0.6]
    assert "one &lt;b&gt;" in report._repr_html_()
    assert turnwise.score(messages, ScriptedObserver("0.1"), principles=principles).verdicts == ()


def test_curves_are_drawn_and_written(principles: tuple[Principle, ...], tmp_path: Path) -> None:
    pytest.importorskip("altair")
    chat = Conversation.from_turns([("one", None), ("two", None)])
    report = turnwise.check(chat, ScriptedObserver("0.1,0.6"), principles=principles)
    chart = report.plot(tmp_path / "curves.html")
    assert {"spec", "facet"} <= set(chart.to_dict())
    assert "two" in (tmp_path / "curves.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("sides", [(Side.PROMPT,), (Side.PROMPT, Side.RESPONSE)])
def test_one_conversation_gets_the_scores_that_a_run_would_store(
    store: Store,
    make_sequence: Callable[..., Sequence],
    principles: tuple[Principle, ...],
    sides: tuple[Side, ...],
) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score | None:
        value = (turn.number + len(request.principle.name + request.side)) / 20
        return None if (turn.number, request.principle.name) == (2, "q") else Score(T=0.2, I=0.3, F=value)

    observer = ScriptedObserver(script)
    store.add_sequences([make_sequence("a", label=Label.ATTACK)])
    evaluate(store, "r", observer, principles=principles, sides=sides)
    chat = store.sequence("a").conversation
    turns = turnwise.score(chat, observer, principles=principles, sides=sides).turns
    trajectory = store.trajectory("r", "a")
    assert turns == tuple(trajectory)
    assert run_detector(load_detector("any_turn"), turns) == run_detector(load_detector("any_turn"), trajectory)


def test_failures_of_one_conversation_are_told(principles: tuple[Principle, ...]) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        if turn.number == 2:
            raise TimeoutError("too slow")
        return Score(1, 0, 0)

    chat = Conversation.from_turns([("one", "1"), ("two", None), ("three", None)])
    report = turnwise.score(chat, ScriptedObserver(script), principles=principles)
    assert [len(turn.scores) for turn in report.turns] == [2, 0, 0]
    assert [(turn.length, turn.response_length) for turn in report.turns] == [(3, 1), (3, 0), (5, 0)]
    assert [failure.turn for failure in report.failures] == [2, 2, 3, 3]
    assert all(isinstance(failure.failure, ObservationFailure) for failure in report.failures)
    assert "not scored: turn 2, p, prompt" in str(report)


def test_a_conversation_without_turns_can_not_be_scored(principles: tuple[Principle, ...]) -> None:
    with pytest.raises(ConversationError, match="has no turns"):
        turnwise.score(Conversation(), ScriptedObserver("0.1"), principles=principles)


def test_an_observer_that_can_not_go_on_says_so(principles: tuple[Principle, ...]) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        raise ObserverError("no credit left: add some")

    chat = Conversation.from_turns([("one", None)])
    with pytest.raises(ObserverError, match="no credit left"):
        turnwise.score(chat, ScriptedObserver(script), principles=principles)


def test_a_text_is_one_prompt() -> None:
    report = turnwise.check("After all I did for you, you owe me this.", "scripted:0.8", ["any_turn"])
    assert [turn.prompt for turn in report.conversation] == ["After all I did for you, you owe me this."]
    assert (report.verdicts[0].turn, report.verdicts[0].score) == (1, 0.8)
    assert turnwise.score("Hi", "scripted:0.3").turns[0].scores["reciprocity"].F == 0.3
    messages = [{"role": "user", "content": "Hi"}]
    assert turnwise.score("Hi").turns == turnwise.score(messages).turns
