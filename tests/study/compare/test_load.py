"""What a study reads of a store: the same conversations in every run, and what is missing of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.errors import UnknownNameError
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Provenance, Score
from turnwise.store import Run, Store
from turnwise.study import Settings, compare_data, load_study_data, strata_of
from turnwise.study.compare import compared_runs

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
CALLS = {"latency_s": 0.5, "cost_usd": 0.01}


def sequence(name: str, label: Label, **metadata: object) -> Sequence:
    conversation = Conversation(conversation_id=name)
    for turn in (1, 2):
        conversation.add_turn(f"{name} {turn}")
    return Sequence(name, label, "made", conversation, metadata)


def outcome(run: str, name: str, turn: int, F: float | None) -> Evaluation | Failure:
    key = EvaluationKey(run, name, turn, Side.PROMPT, "reciprocity")
    source = Provenance("made", "1", "1", "turn", {}, "0")
    if F is None:
        return Failure(key, "refused", "no", source, WHEN)
    return Evaluation(key, Score(1 - F, 0.1, F), source, WHEN, **CALLS)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "work.db", create=True) as opened:
        opened.add_sequences(
            [
                sequence("a", Label.ATTACK, goal="open it", tactic="slow"),
                sequence("b", Label.BENIGN),
                sequence("c", Label.BENIGN),
                sequence("never", Label.BENIGN),
                sequence("who", Label.UNLABELLED),
            ]
        )
        for name, context in (("t", "turn"), ("h", "history"), ("w", "window:2"), ("x", "transcript")):
            opened.start_run(Run(name, "made", "1", context, {}, {}, "0", WHEN))
        opened.start_run(Run("other", "another", "1", "transcript", {}, {}, "0", WHEN))
        scored = [outcome("t", name, turn, 0.5) for name in ("a", "b", "who") for turn in (1, 2)]
        opened.append([*scored, outcome("t", "c", 1, None)])
        opened.append([outcome("h", "a", 1, 0.25)])
        yield opened


def test_every_run_has_the_same_conversations_missing_ones_included(store):
    found = load_study_data(store, ["t", "h"])
    assert [one.sequence_id for one in found.known] == ["a", "b", "c"]
    assert (found.untried, found.unlabelled) == (1, 1)
    assert [one.group for one in found.known] == ["open it", "b", "c"]
    for data in found.runs:
        assert [one.sequence_id for one in data.examples] == ["a", "b", "c"]
        assert all(len(one.turns) == 2 for one in data.examples)
    first, second = found.runs
    assert [bool(turn.scores) for turn in first.examples[2].turns] == [False, False]
    assert [bool(turn.scores) for turn in second.examples[0].turns] == [True, False]
    assert first.failed == {"c"}
    assert first.cost_usd == pytest.approx({"a": 0.02, "b": 0.02})
    assert first.latency_ms == pytest.approx({"a": 1000.0, "b": 1000.0})


def test_hashes_change_with_what_they_are_of(store):
    before = load_study_data(store, ["t", "h"])
    assert load_study_data(store, ["t", "h"]) == before
    store.append([outcome("h", "b", 1, 0.5)])
    after = load_study_data(store, ["t", "h"])
    assert after.sha256 == before.sha256
    assert after.runs[0].scores_sha256 == before.runs[0].scores_sha256
    assert after.runs[1].scores_sha256 != before.runs[1].scores_sha256


def test_runs_with_a_window_or_transcript_of_the_same_observer_come_in(store):
    assert compared_runs(store.runs(), ["t", "h"]) == (["t", "h"], ["w", "x"])
    assert compared_runs(store.runs(), ["t", "w"]) == (["t", "w"], ["x"])
    with pytest.raises(UnknownNameError, match="unknown run 'z'"):
        load_study_data(store, ["z"])


def test_what_is_not_stated_is_said_to_be_so():
    assert strata_of("s", {}, 12) == {
        "source": "s",
        "category": "not stated",
        "tactic": "not stated",
        "length": "9 turns and more",
    }


def test_an_observer_that_was_asked_several_times_agrees_with_itself_or_not(store):
    store.start_run(Run("repeated", "made", "1", "turn", {"repeats": 2}, {}, "0", WHEN))
    asked = []
    for number, name in enumerate(("a", "b", "c")):
        for turn in (1, 2):
            F = 0.1 + 0.2 * number + 0.1 * turn
            calls = tuple(Call(repeat, None, Score(0.5, 0.2 * repeat, F)) for repeat in (1, 2))
            key = EvaluationKey("repeated", name, turn, Side.PROMPT, "reciprocity")
            source = Provenance("made", "1", "1", "turn", {"repeats": 2}, "0")
            asked.append(Evaluation(key, Score(0.5, 0.3, F), source, WHEN, calls=calls))
    store.append(asked)
    settings = Settings(("t", "repeated"), thresholds="given", replicates=10)
    data = load_study_data(store, ["t", "repeated"])
    found = compare_data(data, settings, store=store).checks.repeats_agreement
    assert {one.run for one in found} == {"repeated"}
    by_component = {one.component: one.icc for one in found}
    assert by_component["F"].value == pytest.approx(1.0)
    assert by_component["F"].units == 6
    assert by_component["I"].value < 0


def test_labels_of_people_hold_where_they_agree_and_the_digest_says_so(store):
    before = load_study_data(store, ["t"])
    store.people.correct_label("a", "benign", "ann")
    store.people.correct_label("b", "attack", "ann")
    store.people.correct_label("b", "benign", "ben")
    store.people.correct_label("who", "attack", "ben")
    assert load_study_data(store, ["t"]) == before
    found = load_study_data(store, ["t"], ["ann", "ben"])
    assert {one.sequence_id: one.attack for one in found.known} == {"a": False, "c": False, "who": True}
    assert (found.corrected, found.disputed) == (2, 1)
    assert found.sha256 != before.sha256
    with pytest.raises(UnknownNameError, match="unknown author of corrections 'eve'"):
        load_study_data(store, ["t"], ["eve"])
