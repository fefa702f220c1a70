"""Recall inside the training conversations, by cross-fitting."""

from __future__ import annotations

import pytest

from turnwise.detectors import build_detector, run_detector
from turnwise.errors import UsageError
from turnwise.study.fitting import FOLDS, cross_fitted


def test_what_judges_a_conversation_never_saw_its_group(make_examples):
    examples = make_examples(attacks=60, benign=120)
    given = []

    def make(rest):
        given.append(rest)
        return build_detector("any_turn")

    found = cross_fitted(make, examples, 0.05)
    assert len(given) == FOLDS
    everyone = {example.sequence_id for example in examples}
    left_out = [everyone - {example.sequence_id for example in rest} for rest in given]
    assert sorted(name for part in left_out for name in part) == sorted(everyone)
    for rest, part in zip(given, left_out, strict=True):
        groups = {example.group for example in rest}
        assert not groups & {example.group for example in examples if example.sequence_id in part}
    assert (found.recall.of, found.false_positives.of) == (60, 120)
    scores = [run_detector(build_detector("any_turn"), e.turns).score for e in examples if not e.attack]
    assert sorted(found.benign) == sorted(scores)


def test_a_part_is_judged_at_the_threshold_of_the_others(make_examples):
    """Each part is scored on a scale of its own; a threshold that saw it would flag none of the highest."""
    examples = make_examples(attacks=60, benign=120)
    limits = iter([0.0, 0.0, 0.0, 0.0, 1.0])

    def make(rest):
        return build_detector({"detector": "cusum", "drift": next(limits)})

    found = cross_fitted(make, examples, 0.05)
    assert found.recall.count < 60
    assert found.false_positives.count <= 120 * 0.05


def test_the_rate_is_kept_and_the_order_plays_no_part(make_examples):
    examples = make_examples(attacks=40, benign=400)
    detector = build_detector("cusum:drift=0.3")
    found = cross_fitted(lambda _: detector, examples, 0.05)
    assert found.false_positives.count / found.false_positives.of == pytest.approx(0.05, abs=0.03)
    again = cross_fitted(lambda _: detector, examples[::-1], 0.05)
    assert (again.recall, again.false_positives) == (found.recall, found.false_positives)


def test_too_few_conversations_are_refused_or_judged_most_strictly(make_examples):
    examples = make_examples(attacks=40, benign=60)
    with pytest.raises(UsageError, match="at least 99 are needed, in each four fifths of the training"):
        cross_fitted(lambda _: build_detector("any_turn"), examples, 0.01)
    found = cross_fitted(lambda _: build_detector("any_turn"), examples, 0.01, strict=False)
    assert found.false_positives.count <= 5
    assert found.recall.count > 0
