"""Run against run: the verdicts are those of `detect`, and what one arm alone flags is told with both scores."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from found import conversation, make_findings
from hypothesis import given, settings
from random_stores import Content, contents, fill

from turnwise.conversation import Label, Sequence, Turn
from turnwise.detectors import detector_names
from turnwise.errors import UnknownNameError
from turnwise.observers import NotRead, ObservationFailure, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.rates import Rate
from turnwise.runs import Compared, arm_verdicts, compare_arms, detect, evaluate, flagged
from turnwise.scoring import Score
from turnwise.store import Store

Principles = tuple[Principle, ...]
NEEDING_MEMBERS = {"all_of", "any_of", "k_of", "weighted", "pattern", "learned"}
SPECS = [
    *(name for name in detector_names() if name not in NEEDING_MEMBERS),
    "any_turn:threshold=0.2",
    "pattern:F >= 0.5",
    "any_of:members=[cusum; slope]",
]


def said(store: Store, run: str, *specs: str) -> list[dict[str, tuple[float, bool]]]:
    """Return what `detect` says by each detector: score of each sequence with a verdict, and whether it fired."""
    told: dict[str, dict[str, tuple[float, bool]]] = {spec: {} for spec in specs}
    for number, one in enumerate(detect(store, run, specs)):
        if one.verdict is not None:
            score = -math.inf if one.verdict.score is None else one.verdict.score
            told[specs[number % len(specs)]][one.head.sequence_id] = score, one.verdict.fired
    return list(told.values())


def in_arrays(store: Store, run: str, spec: str) -> dict[str, tuple[float, bool]]:
    arm = arm_verdicts(store, run, spec)
    names = {one.number: one.head.sequence_id for page in store.source.pages() for one in page}
    assert (np.diff(arm.sequences) > 0).all()
    rows = zip(arm.sequences.tolist(), arm.scores.tolist(), arm.fired.tolist(), strict=True)
    return {names[number]: (score, fired) for number, score, fired in rows}


@settings(max_examples=40, deadline=None)
@given(content=contents())
def test_verdicts_are_those_of_detect_in_stores_of_every_shape(content: Content) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder, "any.db"), content)
        with Store(Path(folder, "any.db")) as store:
            for run in store.runs():
                specs = ("any_turn", "cusum", "length_only", "last_turn")
                assert [in_arrays(store, run.name, spec) for spec in specs] == said(store, run.name, *specs)


def patchy(conversation_id: str, turn: Turn, request: Request) -> Any:
    """Fails, does not read and scores, by conversation and turn."""
    about = request.principle.name, request.side
    if conversation_id == "unread" or (conversation_id == "gaps" and turn.number == 2):
        return NotRead(*about, "xx")
    if conversation_id == "failed":
        return ObservationFailure(*about, "server", "it is down")
    return Score(0.5, 0.1, min(1.0, turn.number * (0.3 if conversation_id == "rising" else 0.1)))


@pytest.fixture
def filled(store: Store, make_sequence: Callable[..., Sequence]) -> Iterator[Store]:
    given = {
        "rising": {"model": "m-1", "language": "en"},
        "gaps": {"model": "m-2", "lang": "de"},
        "unread": {},
        "failed": {},
        "calm": {"category": ["money", "travel"]},
    }
    for name, facts in given.items():
        label = Label.ATTACK if name == "rising" else Label.BENIGN
        store.add_sequences([make_sequence(name, label=label, **facts)])
    yield store


@pytest.mark.parametrize("spec", SPECS)
def test_verdicts_are_those_of_detect_with_gaps_failures_and_unread_turns(
    filled: Store, principles: Principles, spec: str
) -> None:
    evaluate(filled, "r", ScriptedObserver(patchy), principles=principles)
    evaluate(filled, "replies", ScriptedObserver(patchy), principles=principles, sides=("response",))
    assert set(in_arrays(filled, "r", spec)) == {"rising", "gaps", "calm"}
    for run in ("r", "replies"):
        assert [in_arrays(filled, run, spec)] == said(filled, run, spec)


def test_verdicts_are_those_of_the_inbox(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", ScriptedObserver(patchy), principles=principles)
    for spec in ("any_turn:threshold=0.3", "cusum:limit=0.1"):
        arm = arm_verdicts(filled, "r", spec)
        [flags] = flagged(filled, "r", [spec]).flags
        fired = zip(arm.sequences[arm.fired].tolist(), arm.scores[arm.fired].tolist(), strict=True)
        assert [(one.number, one.score) for one in flags] == list(fired)
        assert 1 <= len(flags) <= 3


@pytest.fixture
def compared(filled: Store, principles: Principles) -> Compared:
    """Two runs: the second flags `rising` a turn later, and `calm` alone, and could not judge `gaps`."""
    second = {"rising": (0.1, 0.2, 0.55), "calm": (0.1, 0.9, 0.1)}

    def later(conversation_id: str, turn: Turn, request: Request) -> Any:
        if conversation_id not in second:
            return ObservationFailure(request.principle.name, request.side, "server", "down")
        return Score(0.5, 0.1, second[conversation_id][turn.number - 1])

    evaluate(filled, "first", ScriptedObserver(patchy), principles=principles)
    evaluate(filled, "later", ScriptedObserver(later), principles=principles)
    return compare_arms(filled, arm_verdicts(filled, "first"), arm_verdicts(filled, "later"))


def test_a_flip_has_the_turn_both_scores_and_the_difference_of_f_there(filled: Store, compared: Compared) -> None:
    assert (len(compared), compared.only_a, compared.only_b) == (2, 1, 0)
    [flip] = compared.flips(filled, compared.flipped())
    assert (flip.sequence_id, flip.flagged_by, flip.turn) == ("calm", "b", 2)
    assert (flip.score_a, flip.score_b, flip.F_a, flip.F_b) == (pytest.approx(0.3), 0.9, 0.2, 0.9)
    assert flip.difference == pytest.approx(0.7)
    assert (flip.label, flip.source, flip.category) == ("benign", "made up", "money, travel")
    assert (flip.model, flip.language) == ("unknown", "unknown")
    assert flip.to_dict()["F_difference"] == flip.difference


def test_another_threshold_makes_other_flips_with_the_turn_at_that_threshold(
    filled: Store, compared: Compared
) -> None:
    first = compared.flips(filled, compared.flipped((0.6, 0.95)), (0.6, 0.95))
    assert [(one.sequence_id, one.flagged_by, one.turn) for one in first] == [("rising", "a", 2)]
    equal = compared.flips(filled, compared.flipped((0.9, 0.55)), (0.9, 0.55))
    # A score that equals the threshold is flagged, at its turn; the clearest comes first.
    assert [(one.sequence_id, one.flagged_by, one.turn) for one in equal] == [("calm", "b", 2), ("rising", "b", 3)]
    assert list(compared.flipped((0.95, 0.55))) == [1, 0]  # far from both thresholds first


def test_recall_and_false_alarms_move_with_thresholds(compared: Compared) -> None:
    found = compared.at()
    assert (found.a_alone, found.b_alone) == (0, 1)
    assert (found.rates_a, found.rates_b) == ((Rate(1, 1), Rate(0, 1)), (Rate(1, 1), Rate(1, 1)))
    moved = compared.at((0.3, 0.6))
    assert (moved.a_alone, moved.b_alone) == (1, 0)
    assert (moved.rates_a, moved.rates_b) == ((Rate(1, 1), Rate(1, 1)), (Rate(0, 1), Rate(1, 1)))


def test_flips_are_narrowed_by_facets(compared: Compared) -> None:
    assert len(compared.flipped(where={"label": "benign", "category": "money, travel"})) == 1
    assert len(compared.flipped(where={"label": "attack"})) == 0
    with pytest.raises(UnknownNameError, match="facet 'colour'"):
        compared.flipped(where={"colour": "red"})


def test_two_detectors_of_one_run(filled: Store, compared: Compared) -> None:
    detectors = "any_turn:threshold=0.85", "cusum:drift=0.25,limit=0.5"
    again = compare_arms(filled, *(arm_verdicts(filled, "first", one) for one in detectors))
    flips = again.flips(filled, again.flipped())
    assert all(one.F_a == one.F_b for one in flips)
    verdicts = said(filled, "first", *detectors)
    expected = {name for name in verdicts[0] if verdicts[0][name][1] != verdicts[1][name][1]}
    assert {one.sequence_id for one in flips} == expected
    for one in flips:
        spec = detectors["ab".index(one.flagged_by)]
        [found] = detect(filled, "first", [spec], ids=[one.sequence_id])
        assert found.verdict is not None and one.turn == found.verdict.turn is not None


def test_corrected_labels_take_the_place_of_imported_ones(filled: Store, compared: Compared) -> None:
    filled.people.correct_label("calm", "attack", "ann")
    filled.people.correct_label("rising", "attack", "ann")
    filled.people.correct_label("rising", "benign", "ben")
    for people, labels in {("ann",): ["attack", "attack"], ("ann", "ben"): ["disputed", "attack"]}.items():
        again = compare_arms(filled, compared.a, compared.b, people)
        assert again.facts["label"].tolist() == labels
    with pytest.raises(UnknownNameError, match="nobody"):
        compare_arms(filled, compared.a, compared.b, ("nobody",))


def test_findings_of_a_scan_are_compared_by_two_thresholds(tmp_path: Path) -> None:
    rows = [conversation("a", 0.1, 0.6, metadata={"model": "m"}), conversation("b", 0.9), conversation("c", None)]
    folder = make_findings(tmp_path / "findings", rows)
    with Store(folder) as store:
        [run] = store.runs()
        arms = [arm_verdicts(store, run.name, f"any_turn:threshold={limit}") for limit in (0.5, 0.8)]
        again = compare_arms(store, *arms)
        [flip] = again.flips(store, again.flipped())
        assert (flip.sequence_id, flip.turn, flip.model, flip.flagged_by) == ("a", 2, "m", "a")
        assert [in_arrays(store, run.name, "cusum")] == said(store, run.name, "cusum")
