"""Parameters searched by cross-fitting, inside the conversations that are given."""

from __future__ import annotations

import inspect
import logging
import math
from dataclasses import replace

import pytest

from turnwise.detectors import DETECTORS, build_detector, check_detector, run_detector
from turnwise.errors import UnknownNameError, UsageError
from turnwise.study import Example, threshold_for
from turnwise.study.fitting import FOLDS, SPACES, OneOf, cross_fitted, highest_scores, search, space_of


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


def test_it_finds_what_suits_the_data(make_examples):
    """Benign turns have F up to 0.4: the drift given lets them add up, a higher one does not."""
    train = make_examples(attacks=80, benign=150)
    found = search("cusum:drift=0.05", train, 0.05, budget=15)
    assert found.after.recall.count > found.before.recall.count
    assert found.detector.drift > 0.1
    assert (found.trials, found.after.recall.of) == (15, 80)
    assert 1 <= found.best <= 15


def test_the_threshold_is_set_on_the_training_conversations(make_examples):
    train = make_examples(attacks=60, benign=150)
    found = search("count_flags", train, 0.05, budget=4).detector
    scores = [run_detector(found, example.turns).score for example in train if not example.attack]
    assert found.threshold == threshold_for(scores, 0.05)


def test_the_same_seed_finds_the_same_whatever_the_order(make_examples):
    train = make_examples(attacks=60, benign=120)
    found = search("trust_ema", train, 0.05, budget=12, seed=3)
    assert search("trust_ema", train[::-1], 0.05, budget=12, seed=3).detector == found.detector
    assert search("trust_ema", train, 0.05, budget=12, seed=4).detector != found.detector


@pytest.mark.parametrize("spec", ["hmm", "sprt"])
def test_what_is_fitted_is_fitted_beside(spec, make_examples):
    found = search(spec, make_examples(attacks=60, benign=120), 0.05, budget=3)
    default = build_detector(spec)
    assert found.detector.attack_a != default.attack_a
    check_detector(lambda: found.detector)


def test_one_trial_is_the_detector_as_given(make_examples):
    found = search("cusum:drift=0.3", make_examples(attacks=60, benign=120), 0.05, budget=1)
    assert found.detector.drift == 0.3
    assert found.before == found.after


def test_it_is_quiet_and_leaves_the_library_as_it_was(make_examples, capsys):
    import optuna

    before = optuna.logging.get_verbosity()
    search("cusum", make_examples(attacks=60, benign=120), 0.05, budget=2)
    assert optuna.logging.get_verbosity() == before
    assert capsys.readouterr() == ("", "")
    assert logging.getLogger("optuna").level == before


@pytest.mark.parametrize("name", sorted(SPACES))
def test_every_range_fits_the_detector_up_to_its_corners(name):
    factory = DETECTORS.get(name)
    known = inspect.signature(factory).parameters
    threshold = "k" if name == "count_flags" else "limit"
    space = space_of(name)
    assert space.keys() <= known.keys()
    assert threshold not in space
    for parameter, values in space.items():
        assert values.holds(known[parameter].default)
    corners = [
        {parameter: values.values[end] if isinstance(values, OneOf) else (values.low, values.high)[end]}
        for parameter, values in space.items()
        for end in (0, -1)
    ]
    every = [{k: v for corner in corners[end::2] for k, v in corner.items()} for end in (0, 1)]
    for parameters in (*corners, *every):
        whole = {k: int(v) if isinstance(known[k], int) and v is not None else v for k, v in parameters.items()}
        build_detector({"detector": name, **whole})


def test_what_can_not_be_searched_is_told(make_examples):
    train = make_examples(attacks=60, benign=120)
    with pytest.raises(UnknownNameError, match="unknown detector with parameters to search 'learned'"):
        search("learned", train)
    with pytest.raises(UnknownNameError, match="did you mean 'cusum'"):
        search("cusun", train)
    with pytest.raises(UsageError, match="at least 1 trial, at most 10000, not 0"):
        search("cusum", train, budget=0)
    with pytest.raises(UsageError, match="at least 99 are needed"):
        search("cusum", train, 0.01)


def test_labels_without_attacks_leave_nothing_to_gain():
    from turnwise.scoring import Score, TurnScores

    turns = (TurnScores(1, {"p": Score(0.5, 0.2, 0.1)}),)
    examples = [Example(f"b{n}", f"b{n}", False, turns) for n in range(60)]
    found = search("cusum", examples, 0.05, budget=2)
    assert (found.after.recall.of, found.best) == (0, 1)


@pytest.mark.parametrize("spec", [name for name in DETECTORS.names() if name not in ("all_of", "any_of", "k_of")])
def test_the_highest_scores_are_those_of_the_verdicts(spec, make_examples):
    """Most detectors give them without making verdicts."""
    needed = {
        "learned": "learned:weights={peak:1.0;slope:2.0}",
        "pattern": "pattern:F > 0.3",
        "weighted": "weighted:members=[cusum; slope],weights=[1; 2]",
    }
    detector = build_detector(needed.get(spec, spec))
    examples = [*make_examples(seed=3), Example("empty", "empty", False, ())]
    verdicts = [run_detector(detector, example.turns) for example in examples]
    wanted = [-math.inf if verdict.score is None else verdict.score for verdict in verdicts]
    assert highest_scores(detector, examples) == wanted


def test_a_search_for_f1_finds_a_higher_one(make_examples):
    train = make_examples(attacks=60, benign=90, effect=0.3)
    for_f1, at_rate = (search("cusum:drift=0.05", train, 0.05, 12, objective=name) for name in ("f1", "recall"))
    assert for_f1.after.f1 > for_f1.before.f1
    assert for_f1.after.f1 >= at_rate.after.f1
    fired = dict.fromkeys((True, False), 0)
    for example in train:
        fired[example.attack] += run_detector(for_f1.detector, example.turns).fired
    assert 2 * fired[True] / (60 + fired[True] + fired[False]) > 0.9 * for_f1.after.f1
    assert search("cusum:drift=0.05", train, 0.05, 12, objective="f1") == for_f1


def test_a_search_for_f1_needs_evidence(make_examples):
    silent = [replace(one, turns=()) for one in make_examples(attacks=10, benign=20)]
    with pytest.raises(UsageError, match="needs evidence, and no conversation has any"):
        search("cusum", silent, budget=1, objective="f1")


def test_a_search_for_f1_passes_over_parameters_that_leave_no_evidence(make_examples):
    short = [replace(one, turns=one.turns[:2]) for one in make_examples(attacks=20, benign=40)]
    assert search("slope", short, budget=8, objective="f1").detector.min_turns == 2
