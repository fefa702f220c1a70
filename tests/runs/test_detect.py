"""Verdicts: over what a run has, never over what it has not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence, Turn
from turnwise.detectors import load_detector, run_detector
from turnwise.errors import DetectorError, UnknownNameError
from turnwise.observers import ObserverInfo, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.runs import Detection, detect, evaluate
from turnwise.scoring import Score
from turnwise.store import Store

Principles = tuple[Principle, ...]
POINTS = {"history": {"any_turn": 0.15, "cusum": 5.0}, "turn": {"any_turn": 0.95}}


class Calibrated(ScriptedObserver):
    """Follows a script, and knows at which thresholds it was calibrated."""

    @property
    def info(self) -> ObserverInfo:
        return dataclasses.replace(super().info, operating_points=POINTS)


@pytest.fixture
def filled(store: Store, make_sequence: Callable[..., Sequence]) -> Store:
    """Return a store with an attack and two benign sequences, three turns each."""
    for name, label in (("a", Label.ATTACK), ("b", Label.BENIGN), ("c", Label.BENIGN)):
        store.add_sequences([make_sequence(name, label=label)])
    return store


def rising(conversation_id: str, turn: Turn, request: Request) -> Score:
    return Score(T=0.5, I=0.1, F=turn.number / 10)


def short(found: Detection) -> tuple[str, str, bool | None, int | None]:
    verdict = found.verdict
    return (found.head.sequence_id, found.detector, *((verdict.fired, verdict.turn) if verdict else (None, None)))


def test_each_detector_speaks_of_each_sequence_in_order(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", ScriptedObserver("0.1,0.6,0.9"), principles=principles)
    specs = ["any_turn:threshold=0.5", "any_turn:threshold=0.95"]
    assert [short(found) for found in detect(filled, "r", specs)] == [
        (name, spec, fired, turn)
        for name in "abc"
        for spec, fired, turn in ((specs[0], True, 2), (specs[1], False, None))
    ]
    found = next(detect(filled, "r", specs))
    assert (found.head.label, found.head.turns, found.missing) == (Label.ATTACK, 3, 0)
    assert found.verdict == run_detector(load_detector(specs[0]), filled.trajectory("r", "a"), specs[0])
    assert found.verdict is not None
    assert found.verdict.score == 0.9


def test_ids_and_label_narrow_it(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", ScriptedObserver("0.1"), principles=principles)
    assert [d.head.sequence_id for d in detect(filled, "r", ["cusum"], label=Label.BENIGN)] == ["b", "c"]
    assert [d.head.sequence_id for d in detect(filled, "r", ["cusum"], ids=["c", "a"])] == ["a", "c"]


def test_calibrated_thresholds_serve_a_bare_name_only(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", Calibrated(rising), principles=principles, ids=["a"])
    assert filled.run("r").operating_points == POINTS["history"]
    specs = ["any_turn", "any_turn:threshold=0.25"]
    assert [short(found)[1:] for found in detect(filled, "r", specs)] == [
        ("any_turn", True, 2),  # 0.15, as calibrated for this context
        ("any_turn:threshold=0.25", True, 3),
    ]
    # No point is known for a slope: its own default stands.
    assert load_detector("slope", POINTS["history"]) == load_detector("slope")
    # In another context the same observer was calibrated at another point.
    evaluate(filled, "t", Calibrated(rising), principles=principles, ids=["a"], context="turn")
    assert [short(found)[2] for found in detect(filled, "t", ["any_turn"])] == [False]
    evaluate(filled, "w", Calibrated(rising), principles=principles, ids=["a"], context="window:2")
    assert filled.run("w").operating_points == {}


def test_a_detector_takes_its_point_from_what_was_load_detector() -> None:
    assert load_detector("any_turn", {"any_turn": 0.3, "cusum": 7.0}).threshold == 0.3
    assert load_detector("any_turn:threshold=0.6", {"any_turn": 0.3}).threshold == 0.6
    assert load_detector("any_turn", {"cusum": 7.0}).threshold == load_detector("any_turn").threshold
    with pytest.raises(UnknownNameError, match="unknown detector 'any_tern'; did you mean 'any_turn'"):
        load_detector("any_tern")
    with pytest.raises(DetectorError):
        load_detector("any_turn:threshold=high")


def test_what_was_never_tried_is_left_out(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", ScriptedObserver("0.1"), principles=principles, ids=["b"])
    assert [found.head.sequence_id for found in detect(filled, "r", ["any_turn"])] == ["b"]


def test_not_checked_is_not_clean(filled: Store, principles: Principles) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        if conversation_id == "a" or (conversation_id == "b" and turn.number == 3):
            raise TimeoutError("too slow")
        return Score(1, 0, 0)

    evaluate(filled, "r", ScriptedObserver(script), principles=principles, ids=["a", "b"])
    # Of a all failed: no verdict. Of b the last turn failed: a verdict, and it says how much is missing.
    found = list(detect(filled, "r", ["any_turn", "cusum"]))
    assert [(item.head.sequence_id, item.verdict is None, item.missing) for item in found] == [
        ("a", True, 3),
        ("a", True, 3),
        ("b", False, 1),
        ("b", False, 1),
    ]


def test_turns_without_any_score_are_missing(filled: Store, principles: Principles) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score | None:
        # One principle at turn 1, none at turn 2, the reply alone at turn 3 of c.
        return Score(1, 0, 0) if (turn.number, request.principle.name) == (1, "p") else None

    evaluate(filled, "r", ScriptedObserver(script), principles=principles)
    assert [found.missing for found in detect(filled, "r", ["any_turn"])] == [2, 2, 2]


def test_unknown_names_are_errors(filled: Store, principles: Principles) -> None:
    evaluate(filled, "first", ScriptedObserver("0.1"), principles=principles)
    for arguments, what in (
        ({"run": "frist", "detectors": ["any_turn"]}, "unknown run 'frist'; did you mean 'first'"),
        ({"run": "first", "detectors": ["nothing"]}, "unknown detector 'nothing'"),
        ({"run": "first", "detectors": ["any_turn:limit=1"]}, "unknown parameter of any_turn 'limit'"),
        ({"run": "first", "detectors": ["any_turn"], "ids": ["z"]}, "unknown sequence 'z'"),
    ):
        given: dict[str, Any] = dict(arguments)
        with pytest.raises(UnknownNameError, match=what):
            next(detect(filled, **given))
