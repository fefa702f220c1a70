from __future__ import annotations

import numpy as np
import pytest

from turnwise.detectors import build_detector
from turnwise.errors import UsageError
from turnwise.stats import (
    Judged,
    label_noise,
    leave_one_source_out,
    length_matched,
    order_shuffle,
    threshold_transfer,
)
from turnwise.study import Example, tune


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("spec", ["any_turn:threshold=0.5", "count_flags:k=2,flag=0.4"])
def test_a_detector_without_order_changes_no_verdict(make_examples, spec):
    found = order_shuffle(build_detector(spec), make_examples(30, 30), rng(), repeats=5)
    assert found.attacks.value == found.benign.value == 0.0
    assert (found.conversations, found.permutations) == (60, 5)


def test_a_detector_of_order_changes_many(make_examples):
    examples = make_examples(40, 40)
    found = order_shuffle(build_detector("slope:limit=0.08"), examples, rng(), repeats=5)
    assert found.attacks.value > 0.3
    assert 0 <= found.attacks.low <= found.attacks.value <= found.attacks.high <= 1
    again = order_shuffle(build_detector("slope:limit=0.08"), examples, rng(), repeats=5)
    assert again == found


@pytest.mark.parametrize("spec", ["cusum:drift=0.3,limit=1.0", "slope:limit=0.08", "f_ema:limit=0.4"])
def test_verdicts_without_reasons_are_those_of_the_detector(make_examples, spec):
    class Whole:
        """The detector, of which nothing is known but the signals that it gives turn by turn."""

        def __init__(self, detector):
            self.name, self.threshold = detector.name, detector.threshold
            self.start, self.update = detector.start, detector.update

    detector, examples = build_detector(spec), make_examples(40, 40)
    found = order_shuffle(detector, examples, rng(), repeats=5)
    assert found == order_shuffle(Whole(detector), examples, rng(), repeats=5)
    assert max(found.attacks.value, found.benign.value) > 0


def test_what_can_not_be_shuffled_is_counted(make_examples):
    short = Example("short", "g", True, make_examples(1, 1)[0].turns[:1])
    found = order_shuffle(build_detector("last_turn"), [short], rng())
    assert (found.attacks, found.benign, found.conversations, found.left_out) == (None, None, 0, 1)
    with pytest.raises(UsageError, match="at least 1 permutation"):
        order_shuffle(build_detector("last_turn"), [short], rng(), repeats=0)


def by_length_alone():
    """Return conversations whose score is their length, attacks being longer on the whole."""
    attacks = [
        Judged(f"a{n}", f"a{n}", True, turns, turns / 20) for n, turns in enumerate([5, 6, 7, 8, 9, 10] * 10)
    ]
    benign = [
        Judged(f"b{n}", f"b{n}", False, turns, turns / 20) for n, turns in enumerate([2, 3, 4, 5, 6, 7] * 10)
    ]
    return attacks + benign


def test_a_detector_of_length_has_nothing_left_at_equal_lengths():
    found = length_matched(by_length_alone(), rng())
    assert found.auc_all > 0.85
    assert found.auc == 0.5
    assert found.counts.recall.of == found.counts.fpr.of == 30
    assert found.left_out == 60
    assert length_matched(by_length_alone()[::-1], rng()) == found


def test_lengths_that_never_meet_give_a_reason():
    found = length_matched([Judged("a", "a", True, 5, 0.5), Judged("b", "b", False, 6, 0.5)], rng())
    assert (found.auc, found.left_out) == (None, 2)
    assert "same number of turns" in found.reason


def test_a_threshold_is_carried_from_source_to_source():
    judged = [
        Judged(f"{source}{n}", f"{source}{n}", label, 3, n / 100 + shift + label, strata={"source": source})
        for source, shift, many in (("calm", 0.0, 100), ("lively", 0.3, 100), ("rare", 0.0, 5))
        for n in range(many)
        for label in (False,)
    ]
    judged += [Judged(f"x{n}", f"x{n}", True, 3, 0.6 + n / 100, strata={"source": "lively"}) for n in range(80)]
    found = {(one.set_on, one.used_on): one for one in threshold_transfer(judged, 0.05)}
    assert len(found) == 6
    assert found["calm", "lively"].fpr.count == 34
    assert found["lively", "calm"].fpr.count == 0
    assert found["calm", "lively"].recall.of == 80
    assert found["rare", "calm"].threshold is None
    assert "at least 19 are needed" in found["rare", "calm"].reason


@pytest.mark.shows("EDGE-5")
def test_a_source_is_held_out_with_its_goals(make_examples):
    examples = make_examples(150, 400)
    sources = {example.sequence_id: "abc"[number % 3] for number, example in enumerate(examples)}
    seen = {}

    def make(rest):
        held_out = next(s for s in "abc" if s not in {sources[one.sequence_id] for one in rest})
        seen[held_out] = {one.group for one in rest}
        return tune("cusum:drift=0.3", rest, 0.05).detector

    # Groups of three lie across all sources, so each alone would leave nothing to train on.
    assert all(one.threshold is None for one in leave_one_source_out(examples, sources, make) if one.reason)
    apart = [Example(one.sequence_id, one.sequence_id, one.attack, one.turns) for one in examples]
    found = leave_one_source_out(apart, sources, make)
    assert [one.used_on for one in found] == ["a", "b", "c"]
    for one in found:
        assert one.set_on == f"all but {one.used_on}"
        assert one.recall.count > 0.8 * one.recall.of
        assert one.fpr.count < 0.15 * one.fpr.of
        assert not seen[one.used_on] & {e.group for e in apart if sources[e.sequence_id] == one.used_on}


def test_a_source_that_can_not_be_held_out_gives_the_reason(make_examples):
    examples = make_examples(4, 8)
    sources = {example.sequence_id: "only" for example in examples}
    [found] = leave_one_source_out(examples, sources, lambda rest: tune("cusum", rest).detector)
    assert found.threshold is None
    assert "too few" in found.reason


def test_wrong_labels_blur_the_result():
    judged = [Judged(f"a{n}", "g", True, 3, 0.9, fired=True, turn=1) for n in range(100)]
    judged += [Judged(f"b{n}", "h", False, 3, 0.1) for n in range(100)]
    none, some, many = label_noise(judged, rng(), (0.0, 0.1, 0.3), repeats=60)
    assert none.recall == none.auc == (1.0, 1.0, 1.0)
    assert none.fpr == (0.0, 0.0, 0.0)
    assert 0.85 < some.recall[1] < 0.95
    assert many.auc[1] < some.auc[1] < 1
    assert some.recall[0] < some.recall[1] < some.recall[2]
    with pytest.raises(UsageError, match="both labels"):
        label_noise(judged[:100], rng())
    with pytest.raises(UsageError, match="shares in"):
        label_noise(judged, rng(), (1.5,))
