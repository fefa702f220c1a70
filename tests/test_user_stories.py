"""The user stories, told through the public interface with scores that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

import turnwise
from turnwise import Conversation, Label, Score, Sequence, Store, evaluate
from turnwise.observers import ScriptedObserver
from turnwise.plots import save, trajectory_chart

DETECTORS = ["any_turn:threshold=0.5", "cusum:drift=0.2,limit=0.3", "trust_ema", "pattern:delta(F) > 0.4"]


def report(*falsities: float) -> turnwise.Report:
    chat = Conversation.human_ai("user", "model")
    for number in range(len(falsities)):
        chat.add_exchange(f"message {number}", "reply")
    return turnwise.check(chat, observer=f"scripted:{','.join(map(str, falsities))}", detectors=DETECTORS)


@pytest.mark.shows("US-1.1")
def test_a_gradual_attack_rises_and_is_flagged() -> None:
    told = report(0.08, 0.2, 0.35, 0.55, 0.75)
    falsity = [turn.scores["reciprocity"].F for turn in told.turns]
    assert falsity[0] < 0.1
    assert falsity[-1] > 0.7
    any_turn, cusum, _, jump = told.verdicts
    assert (any_turn.turn, cusum.turn) == (4, 4)
    assert not jump.fired  # no step of it is large


@pytest.mark.shows("US-1.2")
def test_a_harmless_talk_of_six_turns_is_not_flagged() -> None:
    told = report(0.05, 0.1, 0.22, 0.12, 0.18, 0.08)
    assert not told.fired


@pytest.mark.shows("US-1.3")
def test_a_sudden_turn_shows_as_a_jump() -> None:
    told = report(0.05, 0.05, 0.05, 0.9)
    jump = told.verdicts[-1]
    assert (told.verdicts[0].turn, jump.turn) == (4, 4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an attack and a harmless talk of five turns, scored as the names say."""
    path = tmp_path_factory.mktemp("stories") / "work.db"
    scores = {
        "reciprocity": [
            (0.9, 0.1, 0.05),
            (0.9, 0.2, 0.2),
            (0.8, 0.6, 0.3),
            (0.85, 0.7, 0.5),
            (0.2, 0.7, 0.7),
        ],
        "context_integrity": [
            (0.9, 0.1, 0.1),
            None,
            (0.7, 0.2, 0.3),
            (0.2, 0.2, 0.75),
            (0.3, 0.2, 0.8),
        ],
    }
    calm = [(0.9, 0.1, 0.05)] * 5

    def script(name, turn, request):
        rows = scores.get(request.principle.name, calm) if name == "attack" else calm
        score = rows[turn.number - 1]
        return score and Score(*score)

    with Store(path, create=True) as made:
        made.add_sequences(
            Sequence(name, Label(name), "stories", Conversation.from_turns([(f"m{k}", "r") for k in range(5)]))
            for name in ("attack", "benign")
        )
        evaluate(made, "first", ScriptedObserver(script))
    return path


@pytest.mark.shows("US-3.1", "FR-004")
def test_a_rise_between_two_turns_is_a_question_with_pictures(store: Path, tmp_path: Path) -> None:
    with Store(store) as opened:
        found = opened.query("rise(reciprocity.F, 1, 5) > 0.5", "first")
        assert [match.sequence_id for match in found] == ["attack"]
        (sequence,) = opened.sequences(ids=["attack"])
        scores = tuple(opened.trajectory("first", "attack"))
    save(trajectory_chart(scores, sequence.conversation.turns, title="attack"), tmp_path / "attack.svg")
    assert "reciprocity" in (tmp_path / "attack.svg").read_text(encoding="utf-8")


@pytest.mark.shows("US-3.2", "FR-004")
def test_two_principles_in_one_turn_are_a_question(store: Path) -> None:
    with Store(store) as opened:
        (found,) = opened.query("reciprocity.T > 0.8 and context_integrity.F > 0.7", "first")
    assert (found.sequence_id, found.turn) == ("attack", 4)


@pytest.mark.shows("EDGE-1")
def test_a_conversation_that_stops_early_is_judged_by_what_is_there() -> None:
    chat = Conversation.human_ai("user", "model")
    chat.add_exchange("one", "reply")
    chat.add_prompt("two")  # and then nobody spoke again
    told = turnwise.check(chat, observer="scripted:0.1,0.8,0.9,0.9", detectors=["any_turn:threshold=0.5"])
    assert (len(told.turns), told.verdicts[0].turn) == (2, 2)


@pytest.mark.shows("FR-008")
def test_what_was_not_evaluated_is_no_row_and_no_zero(store: Path) -> None:
    with Store(store) as opened:
        frame = opened.scores("first").to_frame()
    turns = frame[(frame.sequence_id == "attack") & (frame.principle == "context_integrity")].turn
    assert list(turns) == [1, 3, 4, 5]
