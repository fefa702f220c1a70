"""What the screen of a run in two stages missed: from a store with both stages, and on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Cli

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import StoreError, UsageError
from turnwise.observers import OBSERVERS, NotRead, ObservationFailure, Request, Script, ScriptedObserver
from turnwise.principles import load_principle
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study import SecondLookRates, second_look_rates

PRINCIPLE = load_principle("reciprocity")
CHATS, TURNS, SEED = 40, 5, 3


def score(F: float) -> Score:
    return Score(T=1 - F, I=0.0, F=F)


def screen(name: str, turn: Turn, request: Request) -> Score:
    """Points at the second turn of every other conversation."""
    return score(0.3 if turn.number == 2 and int(name) % 2 == 0 else 0.1)


def judge(name: str, turn: Turn, request: Request) -> Score:
    """Calls the second and third turn of every fourth conversation positive, and the last of every fifth."""
    number = int(name)
    return score(
        0.9 if (number % 4 == 0 and turn.number in (2, 3)) or (number % 5 == 0 and turn.number == 5) else 0.1
    )


def positive(name: int, turn: int) -> bool:
    return judge(str(name), Turn(turn, "text"), Request(PRINCIPLE, Side.PROMPT)).F >= 0.5


def evaluated(path: Path, judged_by: Script = judge, screened_by: Script = screen, **settings: object) -> Store:
    store = Store(path, create=True)
    for name in range(CHATS):
        chat = Conversation.from_turns([(f"text {n}", "yes") for n in range(TURNS)])
        label = Label.ATTACK if name % 4 == 0 else Label.BENIGN
        store.add_sequences([Sequence(str(name), label, "test", chat)])
    pair = ScriptedObserver(screened_by), ScriptedObserver(judged_by)
    given = {"ask": "F >= 0.2", "seed": SEED, **settings}
    evaluate(store, "first", OBSERVERS.get("second_look")(pair, **given), principles=[PRINCIPLE])
    return store


def drawn(store: Store) -> list[tuple[int, int]]:
    """Return conversation and turn of what the judge took though the screen did not point at it."""
    seen = [
        (int(head.sequence_id), one.key.turn)
        for head, trajectory in store.trajectories("first.judge")
        for one in trajectory.evaluations
    ]
    return [(name, turn) for name, turn in seen if (name % 2, turn) != (0, 2)]


def told(found: SecondLookRates) -> tuple[int, int, int, int, int, int]:
    one = found.rates
    return one.units, one.asked, one.certain, one.found, one.judged, one.missed


def test_turns_that_the_screen_passed_over_are_estimated_from_those_that_chance_drew(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db", sample=0.3) as store:
        found, seen = second_look_rates(store, "first"), drawn(store)
    missed = sum(positive(*one) for one in seen)
    assert missed > 0
    assert found.counted == "turns"
    assert told(found) == (200, 20, 20, 10, len(seen), missed)
    assert found.rates.prevalence is not None
    assert found.rates.prevalence.value == pytest.approx((10 + 180 * missed / len(seen)) / 200)
    recall = found.rates.screen.recall
    assert recall is not None
    truth = 10 / sum(positive(n, t) for n in range(CHATS) for t in range(1, TURNS + 1))
    assert recall.low < truth < recall.high


def test_with_all_judged_the_rates_are_known_and_have_no_width(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db", sample=1.0) as store:
        found = second_look_rates(store, "first")
    positives = sum(positive(n, t) for n in range(CHATS) for t in range(1, TURNS + 1))
    recall, wrong = found.rates.screen.recall, found.rates.screen.false_positive_rate
    assert recall is not None
    assert (recall.value, recall.low, recall.high) == pytest.approx((10 / positives,) * 3)
    assert wrong is not None
    assert wrong.value == pytest.approx(10 / (200 - positives))
    assert found.sentence.startswith("The judge saw everything")


def test_conversations_are_known_where_an_asked_turn_is_positive_or_chance_drew_them(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db", sample=0.5, sample_of="conversations") as store:
        found = second_look_rates(store, "first")
        seen = {n for n, _ in drawn(store) if n % 4 != 0}
    missed = sum(n % 5 == 0 for n in seen)
    assert missed > 0
    assert told(found) == (40, 20, 10, 10, len(seen), missed)
    both = found.rates.two_stages
    assert both.recall is not None
    assert both.recall.low < 10 / 16 < both.recall.high
    assert both.precision is not None
    assert both.precision.value == 1


def test_turns_of_drawn_conversations_count_for_less_where_they_are_alike(tmp_path: Path) -> None:
    def alike(name: str, turn: Turn, request: Request) -> Score:
        return score(0.9 if int(name) % 4 == 1 else 0.1)

    with evaluated(tmp_path / "s.db", alike, sample=0.5, sample_of="conversations") as store:
        found = second_look_rates(store, "first", counted="turns").rates
        chats = {n for n, _ in drawn(store)}
    assert (found.units, found.judged) == (200, sum(5 if n % 2 else 4 for n in chats))
    assert 3 < found.design_effect <= 5.5


def test_labels_say_what_either_stage_flags(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db", sample=0.0) as store:
        found = second_look_rates(store, "first").by_label
    counts = {name: {label: (one.count, one.of) for label, one in rates.items()} for name, rates in found.items()}
    assert counts == {
        "screen": {"attack": (10, 10), "benign": (10, 30)},
        "two stages": {"attack": (10, 10), "benign": (0, 30)},
        "judge": {"attack": (10, 10), "benign": (0, 10)},
    }


def test_without_a_sample_misses_are_unknown_and_that_is_said(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db") as store:
        found = second_look_rates(store, "first")
    assert found.rates.screen.recall is found.rates.two_stages.recall is found.rates.prevalence is None
    assert "can't be seen without a sample" in found.sentence
    assert dict(found.rows())["screen: recall"] == "not known"
    assert found.to_dict()["screen"]["recall"] is None


def test_a_judge_without_an_answer_is_counted_and_no_mismatch(tmp_path: Path) -> None:
    def silent(name: str, turn: Turn, request: Request) -> Score | ObservationFailure | None:
        if name == "0":
            return None
        if name == "2":
            return ObservationFailure(request.principle.name, request.side, "malformed", "no JSON")
        return judge(name, turn, request)

    with evaluated(tmp_path / "s.db", silent, sample=0.3, unanswered="fail") as store:
        found = second_look_rates(store, "first")
    assert found.unanswered == 2
    assert (found.rates.asked, found.rates.found) == (20, 9)
    assert "no score for 2 turns" in " ".join(found.cautions)


def test_a_text_that_the_screen_does_not_read_was_asked_about(tmp_path: Path) -> None:
    def foreign(name: str, turn: Turn, request: Request) -> Score | NotRead:
        unread = name == "1" and turn.number == 5
        return NotRead(request.principle.name, request.side, "fi") if unread else screen(name, turn, request)

    with evaluated(tmp_path / "asks.db", screened_by=foreign) as store:
        assert told(second_look_rates(store, "first"))[:2] == (200, 21)
    with evaluated(tmp_path / "leaves.db", screened_by=foreign, unread="leave") as store:
        found = second_look_rates(store, "first")
    assert (told(found)[:2], found.left_out) == ((199, 20), 1)


@pytest.mark.parametrize("changed", [{"ask": "F >= 0.05"}, {"ask": "F >= 0.5"}, {"seed": SEED + 1}])
def test_parameters_that_do_not_fit_what_the_judge_scored_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object]
) -> None:
    with evaluated(tmp_path / "s.db", sample=0.3) as store:
        run = store.run("first")
        other = replace(run, parameters={**run.parameters, **changed})
        monkeypatch.setattr(Store, "run", lambda self, name: other)
        with pytest.raises(StoreError, match="does not fit its stages: at turn"):
            second_look_rates(store, "first")


def test_what_can_not_be_answered_is_refused(tmp_path: Path) -> None:
    with evaluated(tmp_path / "s.db", sample=0.3) as store:
        with pytest.raises(UsageError, match="drew single turns"):
            second_look_rates(store, "first", counted="conversations")
        with pytest.raises(UsageError, match="turns or conversations, not chats"):
            second_look_rates(store, "first", counted="chats")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="not made by the observer second_look"):
            second_look_rates(store, "first.screen")


def test_the_command_prints_a_table_and_a_sentence(tmp_path: Path, cli: Cli) -> None:
    evaluated(tmp_path / "s.db", sample=0.3).close()
    options = ["study", "second-look", "--store", tmp_path / "s.db", "--run", "first"]
    done = cli(*options)
    assert done.code == 0
    for words in ("screen: recall", "two stages: false positive rate", "10/10 = 100.0 %", "the judge found 10"):
        assert words in done.out
    assert "this run's own conversations" in done.err
    assert '"missed":' in cli(*options, "--json").out
