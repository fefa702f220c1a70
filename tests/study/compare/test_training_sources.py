"""Benign conversations of data sets that an observer was trained on are no test of false positives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Turn
from turnwise.errors import UsageError
from turnwise.observers import OBSERVERS, ObserverInfo, Request, ScriptedObserver, describe_observer
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study import Settings, Study, as_text, record
from turnwise.study.compare import compare

SOURCES = {"attacks": 60, "known chats": 90, "new chats": 120}


def script(conversation_id: str, turn: Turn, request: Request) -> Score:
    """Return what an observer says that finds nothing at all in the chats that it was trained on."""
    number = random.Random(f"{conversation_id} {turn.number}").random()
    source = conversation_id.partition("-")[0]
    F = {"attacks": 0.3 + 0.6 * number, "known chats": 0.01 * number, "new chats": 0.6 * number}[source]
    return Score(1 - F, 0.1, F)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store that an observer scored which declares what it was trained on."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(OBSERVERS, "_parts", dict(OBSERVERS._parts))

    @OBSERVERS.register("taught")
    class Taught(ScriptedObserver):
        def __init__(self, argument: str | None = None) -> None:
            super().__init__(script)

        @classmethod
        def describe(cls) -> ObserverInfo:
            return replace(
                ScriptedObserver.describe(), name="taught", training_sources=("known chats", "elsewhere")
            )

    with Store(tmp_path_factory.mktemp("taught") / "work.db", create=True) as opened:
        sequences = []
        for source, count in SOURCES.items():
            for number in range(count):
                conversation = Conversation(conversation_id=f"{source}-{number}")
                for turn in range(3):
                    conversation.add_turn(f"{number} {turn}")
                label = Label.ATTACK if source == "attacks" else Label.BENIGN
                sequences.append(Sequence(f"{source}-{number}", label, source, conversation, {}))
        opened.add_sequences(sequences)
        for context in ("turn", "history"):
            evaluate(opened, context, Taught(), principles=builtin_principles(), context=context)
        yield opened
    monkeypatch.undo()


ASKED = Settings(("turn", "history"), ("cusum",), target_fpr=0.05, replicates=10, splits=1, seeds=1)


def sources_of(study: Study, part: str) -> set[str]:
    return {
        one.strata["source"]
        for one in study.data.known
        if any(one.sequence_id in getattr(fold, part) for fold in study.folds)
    }


@pytest.fixture(scope="module")
def left_out(store: Store) -> Study:
    return compare(store, ASKED)


def test_they_set_no_threshold_and_are_not_tested(left_out):
    found = left_out
    assert sources_of(found, "train") == {"attacks", "known chats", "new chats"}
    assert sources_of(found, "calibrate") == sources_of(found, "test") == {"attacks", "new chats"}
    assert all("known chats" not in one.sequence_id for arm in found.judgements for one in arm.judged)
    [told] = [warning for warning in found.warnings if "known chats" in warning]
    assert "known chats (90). They neither set a threshold nor are tested" in told
    assert record(found)["data"]["trained_benign"] == {"known chats": 90}
    assert "known chats (90)" in as_text(found)


def test_a_setting_keeps_them_and_says_so(store, left_out):
    kept = compare(store, replace(ASKED, keep_trained=True))
    assert "known chats" in sources_of(kept, "test")
    assert any("They were kept" in warning for warning in kept.warnings)
    low, high = (study.judgements[study.reference].threshold for study in (kept, left_out))
    assert low < high  # what it was trained on looks too harmless
    assert kept.folds[0].train == left_out.folds[0].train


def test_with_folds_and_given_thresholds_too(store):
    for settings in (replace(ASKED, folds=3), replace(ASKED, thresholds="given")):
        assert sources_of(compare(store, settings), "test") == {"attacks", "new chats"}


def test_where_nothing_is_left_it_is_said(store, tmp_path):
    others = [name for source, count in SOURCES.items() if source != "new chats" for name in (source, count)]
    with Store(tmp_path / "few.db", create=True) as few:
        few.add_sequences(s for s in store.sequences() if s.source in others)
        observer = OBSERVERS.get("taught")()
        evaluate(few, "turn", observer, principles=builtin_principles(), context="turn")
        with pytest.raises(UsageError, match=r"trained on known chats.*--keep-trained"):
            compare(few, replace(ASKED, runs=("turn",)))


def test_the_embedded_observers_name_their_training_data():
    for name in ("local", "local-small"):
        sources = describe_observer(name).training_sources
        assert {"safemt_1k", "arena_real_users", "advbench", "drills-01"} <= set(sources)
        assert not {"mtbench101", "safemt_attack600", "twins-01", "human-test-01"} & set(sources)
        assert json.dumps(sources)
