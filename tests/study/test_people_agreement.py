"""How far people agree: on each principle, on labels, and on the turn where it turned."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnwise.conversation import Label, Seen, Side
from turnwise.scoring import Score
from turnwise.store import HumanScore, LabelCorrection
from turnwise.study import agreement

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def score(author: str, turn: int, F: float, sequence_id: str = "a") -> HumanScore:
    given = Score(1 - F, 0.25, F)
    return HumanScore(
        sequence_id, turn, Side.PROMPT, "reciprocity", "1", given, Seen.PROMPTS, "0" * 16, author, "", NOW
    )


def label(author: str, sequence_id: str, given: Label) -> LabelCorrection:
    return LabelCorrection(sequence_id, "label", given, None, author, "", NOW)


def turned(author: str, sequence_id: str, turn: int) -> LabelCorrection:
    return LabelCorrection(sequence_id, "turn", None, turn, author, "", NOW)


def test_scores_agree_by_principle_and_component() -> None:
    said = [score("ann", turn, F) for turn, F in ((1, 0.1), (2, 0.5), (3, 0.9))]
    said += [score("ben", turn, F) for turn, F in ((1, 0.1), (2, 0.6), (3, 0.9))]
    found = {one.component: one for one in agreement(said, (), {}, replicates=50)}
    assert found["F"].alpha is not None
    assert found["T"].alpha is not None
    assert found["F"].alpha.value == pytest.approx(0.987146529562982)  # as the package krippendorff has it
    assert found["F"].alpha.value == pytest.approx(found["T"].alpha.value)
    assert (found["F"].units, found["F"].authors) == (3, ("ann", "ben"))
    assert (found["I"].alpha, found["I"].reason) == (None, "everybody gave the same everywhere")


def test_labels_agree_where_people_give_the_same() -> None:
    names = "abcd"
    same = [
        label(who, name, Label.ATTACK if name in "ab" else Label.BENIGN)
        for who in ("ann", "ben")
        for name in names
    ]
    (found,) = agreement((), same, {}, replicates=50)
    assert (found.what, found.units) == ("label", 4)
    assert found.alpha is not None
    assert found.alpha.value == 1.0
    differing = [*same[:-1], label("ben", "d", Label.ATTACK)]
    (found,) = agreement((), differing, {}, replicates=50)
    assert found.alpha is not None
    assert found.alpha.value == pytest.approx(1 - 7 * 2 / (2 * 5 * 3))  # 5 attacks and 3 benign among 8 labels


def test_turns_agree_turn_by_turn() -> None:
    said = [turned("ann", "a", 2), turned("ben", "a", 3), turned("ann", "b", 0), turned("ben", "b", 0)]
    (found,) = agreement((), said, {"a": 4, "b": 4}, replicates=50)
    assert (found.what, found.units) == ("turned", 8)
    assert found.alpha is not None
    assert found.alpha.value == pytest.approx(1 - 15 * 2 / (2 * 5 * 11))  # one of 8 turns differs


def test_one_person_agrees_with_nobody() -> None:
    found = agreement([score("ann", turn, 0.5) for turn in (1, 2)], (), {})
    assert [one.alpha for one in found] == [None, None, None]
    assert found[0].reason == "agreement needs at least 2 units with 2 ratings each, not 0"


def test_an_unlabelled_conversation_is_no_rating() -> None:
    said = [label("ann", "a", Label.UNLABELLED), label("ben", "a", Label.ATTACK)]
    (found,) = agreement((), said, {})
    assert (found.units, found.alpha) == (0, None)


def test_the_same_words_give_the_same_interval_in_any_order() -> None:
    said = [
        score(who, turn, F, name) for name in "abcde" for who in ("ann", "ben") for turn, F in ((1, 0.2), (2, 0.7))
    ]
    said[3] = score("ben", 2, 0.3)
    assert agreement(said, (), {}, replicates=50) == agreement(said[::-1], (), {}, replicates=50)
