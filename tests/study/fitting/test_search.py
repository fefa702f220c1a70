"""The search for parameters: inside the training conversations, the same each time, and worth its trials."""

from __future__ import annotations

import inspect
import logging
import math

import pytest

from turnwise.detectors import DETECTORS, build_detector, check_detector, run_detector
from turnwise.errors import UnknownNameError, UsageError
from turnwise.study import Example, threshold_for
from turnwise.study.fitting import SPACES, OneOf, highest_scores, search, space_of


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
