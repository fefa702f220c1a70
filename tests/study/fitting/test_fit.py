from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from turnwise.detectors import build_detector, check_detector, format_spec, run_detector, to_mapping
from turnwise.errors import DetectorError, UnknownNameError, UsageError
from turnwise.scoring import Score, TurnScores
from turnwise.study import FITTED, Example, fit_detector, tune
from turnwise.study.fitting import FitInput


@pytest.mark.parametrize("name", sorted(FITTED))
def test_a_fitted_detector_keeps_the_contract_and_tells_the_kinds_apart(name, make_examples):
    detector = fit_detector(name, make_examples(seed=1))
    check_detector(lambda: detector)
    fresh = make_examples(seed=2)
    attacks = [run_detector(detector, example.turns).score for example in fresh if example.attack]
    benign = [run_detector(detector, example.turns).score for example in fresh if not example.attack]
    better = np.mean([attack > other for attack in attacks for other in benign])
    assert better > 0.9


@pytest.mark.parametrize("name", sorted(FITTED))
def test_the_fit_is_the_same_each_time_and_survives_its_written_forms(name, make_examples):
    detector = fit_detector(name, make_examples())
    assert fit_detector(name, make_examples()) == detector
    assert build_detector(format_spec(detector)) == detector
    assert build_detector(to_mapping(detector)) == detector


def test_the_weights_are_those_of_another_library(make_examples):
    """With one principle there is nothing to choose, so the model is a plain ridge logistic regression."""
    examples = [
        Example(
            e.sequence_id,
            e.group,
            e.attack,
            tuple(TurnScores(t.turn, {k: v for k, v in t.scores.items() if k == "reciprocity"}) for t in e.turns),
        )
        for e in make_examples(seed=7)
    ]
    detector = fit_detector("learned", examples)
    kept = [e for e in examples if len(FitInput.of(e).last)]
    table = np.concatenate([FitInput.of(e).last for e in kept])
    truth = np.array([e.attack for e in kept])
    spread = table.std(axis=0)
    spread[spread < 1e-9] = 1.0
    standard = (table - table.mean(axis=0)) / spread
    ours = np.array([*detector.weights.values()]) * spread
    distances = []
    for penalty in (0.1, 1.0, 10.0, 100.0):
        theirs = LogisticRegression(C=1 / penalty, class_weight="balanced", tol=1e-10, max_iter=10_000)
        distances.append(np.abs(theirs.fit(standard, truth).coef_[0] - ours).max())
    assert min(distances) < 1e-3


def test_without_a_difference_the_fit_finds_none(make_examples):
    detector = fit_detector("learned", make_examples(effect=0.0))
    assert all(abs(weight) < 1.5 for weight in detector.weights.values())


@pytest.mark.parametrize("spec", ["learned", "cusum:drift=0.3", "sprt"])
def test_tuning_sets_the_threshold_at_the_asked_rate(spec, make_examples):
    tuned = tune(spec, make_examples(benign=600), target_fpr=0.02)
    assert tuned.fitted == (spec in FITTED)
    assert tuned.train + tuned.calibrate == 720
    assert 0 < tuned.flagged_benign.of <= 260
    assert tuned.flagged_benign.count / tuned.flagged_benign.of <= 0.02
    assert tuned.flagged_attacks.count / tuned.flagged_attacks.of > 0.6
    fresh = make_examples(attacks=0, benign=1_000, seed=11)
    assert sum(run_detector(tuned.detector, e.turns).fired for e in fresh) <= 45


def test_a_detector_that_is_not_fitted_is_named():
    with pytest.raises(UnknownNameError, match="unknown detector that is fitted 'cusum'"):
        fit_detector("cusum", [])


def test_too_few_conversations_are_refused(make_examples):
    with pytest.raises(UsageError, match="9 attack conversations are too few to fit learned"):
        fit_detector("learned", make_examples(attacks=9))
    with pytest.raises(UsageError, match="benign conversations are too few for a false-positive rate"):
        tune("cusum", make_examples(benign=100), target_fpr=0.01)


def test_scores_that_never_differ_carry_no_density():
    same = tuple(TurnScores(turn, {"p": Score(0.5, 0.2, 0.5)}) for turn in range(1, 4))
    examples = [Example(f"s{n}", f"g{n}", n < 20, same) for n in range(40)]
    with pytest.raises(DetectorError, match="all the same"):
        fit_detector("sprt", examples)
