"""A detector tuned for a study, and the line of its file that says on which conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise._support.revision import versions
from turnwise.detectors import to_mapping
from turnwise.study.compare.data import StudyData
from turnwise.study.compare.plan import MARK, Settings, make_folds, sha256_of_ids
from turnwise.study.fitting.fit import Objective
from turnwise.study.fitting.search import CrossFitted, Searched, search

if TYPE_CHECKING:
    from turnwise.store import Run


LIBRARIES = ("numpy", "optuna", "scipy")
"""Packages whose versions a search depends on."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A detector tuned inside the training part, and which part that was.

    `attacks` and `benign` count what was evaluated of it; `sha256_of_ids` is that of all its ids. `target_fpr` is
    the false-positive rate at which recall was sought, `budget` the trials that were asked for.
    """

    searched: Searched
    run: Run
    settings: Settings
    target_fpr: float
    objective: Objective
    budget: int
    attacks: int
    benign: int
    sha256_of_ids: str


def tune_inside_training(
    study_data: StudyData,
    spec: str,
    target_fpr: float = 0.01,
    budget: int = 200,
    seed: int = 0,
    objective: Objective = "recall",
) -> Tuning:
    """Search a detector's parameters on what a study of the same seed trains on, and on nothing else.

    The study data are those of one run. The seed is of the split, the folds inside it and the sampler.
    """
    [data] = study_data.runs
    settings = Settings(runs=(data.run.name,), target_fpr=target_fpr, seed=seed)
    [fold] = make_folds(data.examples, settings)
    train = [example for example in data.examples if example.sequence_id in fold.train]
    known = [example for example in train if any(turn.scores for turn in example.turns)]
    found = search(spec, known, target_fpr, budget, seed, objective)
    attacks = sum(example.attack for example in known)
    digest = sha256_of_ids(fold.train)
    return Tuning(found, data.run, settings, target_fpr, objective, budget, attacks, len(known) - attacks, digest)


def as_file(tuning: Tuning) -> str:
    """The detector as a YAML file for ``--detector``, with where it comes from in its heading."""
    import yaml

    found = tuning.searched
    detector = to_mapping(found.detector)
    if tuning.objective == "f1":
        reached = f"F1 there, cross-fitted by group: {found.after.f1:.3f}; as given {found.before.f1:.3f}."
    else:
        reached = (
            f"Recall there, cross-fitted by group at {100 * tuning.target_fpr:g} % false positives: "
            f"{found.after.recall}; as given {found.before.recall}."
        )
    heading = (
        f"# {found.detector.name}, tuned inside the training part: trial {found.best} of {found.trials}.\n"
        f"# {reached}\n"
        "# That is no test result: the best of many trials flatters itself.\n"
        f"{MARK}{json.dumps(origin(tuning), ensure_ascii=False, sort_keys=True)}\n"
    )
    return heading + yaml.safe_dump(detector, sort_keys=False, allow_unicode=True)


def origin(tuning: Tuning) -> dict[str, Any]:
    """Where a tuned detector comes from, as JSON values."""
    run, found = tuning.run, tuning.searched
    return {
        "budget": tuning.budget,
        "seed": tuning.settings.seed,
        "objective": tuning.objective,
        "target_fpr": None if tuning.objective == "f1" else tuning.target_fpr,
        "run": {
            "name": run.name,
            "observer": run.observer,
            "observer_version": run.observer_version,
            "context": run.context,
        },
        "split": {
            "part": "train",
            "shares": list(tuning.settings.shares),
            "attacks": tuning.attacks,
            "benign": tuning.benign,
            "sha256_of_ids": tuning.sha256_of_ids,
        },
        "sampler": "TPE",
        "trials": found.trials,
        "best_trial": found.best,
        "before": rates_as_json(found.before),
        "after": rates_as_json(found.after),
        "versions": versions(LIBRARIES),
    }


def rates_as_json(found: CrossFitted) -> dict[str, Any]:
    """Counts of a cross-fitted detector, how many of how many, and F1."""
    return {
        "f1": found.f1,
        "recall": [found.recall.count, found.recall.of],
        "false_positives": [found.false_positives.count, found.false_positives.of],
    }
