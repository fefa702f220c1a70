"""Two readings side by side: two runs of a conversation, or two conversations, from where they part."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.errors import UnknownNameError
from turnwise.explorer import lay_beside, partners
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store of twins that part at turn 2, scored by two runs."""
    chats = {
        "turns": (["Hello", "Now my neighbour's lock", "And his alarm"], Label.ATTACK, {"pair": "p1"}),
        "stays": (["Hello", "Now my own lock"], Label.BENIGN, {"pair": "p1"}),
        "alone": (["Hello"], Label.BENIGN, {"pair": 7}),
    }
    with Store(tmp_path_factory.mktemp("beside") / "work.db", create=True) as opened:
        for name, (prompts, label, metadata) in chats.items():
            chat = Conversation.from_turns([(prompt, "All right.") for prompt in prompts], conversation_id=name)
            opened.add_sequences([Sequence(name, label, "made", chat, metadata)])
        for run, falsities in (("first", (0.1, 0.5, 0.9)), ("second", (0.1, 0.55, 0.4))):
            opened.start_run(Run(run, "made", "1", "history", {}, {}, "0", NOW))
            source = Provenance("made", "1", "1", "history", {}, "0")
            for turn, F in enumerate(falsities, start=1):
                key = EvaluationKey(run, "turns", turn, Side.PROMPT, "reciprocity")
                opened.append([Evaluation(key, Score(0.5, 0.1, F), source, NOW)])
        yield opened


def test_twins_are_laid_beside_each_other_turn_by_turn(store: Store) -> None:
    found = lay_beside(store, ("turns", "first"), ("stays", "first"))
    assert (found.parts_at, found.differs_at) == (2, None)
    assert [(row.turn, row.same) for row in found.rows] == [(1, True), (2, False), (3, False)]
    assert found.rows[2].texts[1] is None
    assert found.rows[1].texts[1] is not None
    assert found.rows[1].texts[1].prompt == "Now my own lock"
    assert found.principles == ("reciprocity",)
    assert found.curve(0, "reciprocity") == [0.1, 0.5, 0.9]
    assert found.curve(1, "reciprocity") == [None, None, None]


def test_two_runs_of_one_conversation_part_in_their_scores(store: Store) -> None:
    found = lay_beside(store, ("turns", "first"), ("turns", "second"))
    assert (found.parts_at, found.differs_at) == (None, 3)
    assert [row.apart for row in found.rows] == pytest.approx([0.0, 0.05, 0.5])
    assert [half.observer for half in found.halves] == ["made, history", "made, history"]


def test_texts_can_be_compared_without_scores(store: Store) -> None:
    found = lay_beside(store, ("turns", None), ("stays", None))
    assert found.parts_at == 2
    assert all(row.apart is None for row in found.rows)


def test_a_conversation_knows_its_twin(store: Store) -> None:
    assert partners(store, "turns") == [("stays", "pair")]
    assert partners(store, "alone") == []


def test_what_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(UnknownNameError, match="unknown sequence 'turn'"):
        lay_beside(store, ("turn", None), ("stays", None))
    with pytest.raises(UnknownNameError, match="unknown run 'third'"):
        lay_beside(store, ("turns", "third"), ("stays", None))
