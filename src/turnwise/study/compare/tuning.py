"""A detector tuned inside the training part of a study, and its file, which says on which conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise._support.revision import versions
from turnwise.detectors import to_mapping
from turnwise.study.compare.data import StudyData
from turnwise.study.compare.plan import MARK, Settings, make_folds, sha256_of_ids
from turnwise.study.fitting import Objective, Searched, search

if TYPE_CHECKING:
    from turnwise.store import Run

LIBRARIES = ("numpy", "optuna", "scipy")
"""Packages whose versions a search depends on."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A detector tuned inside the training part, and which part that was.

    Args:
        searched: what the search found.
        run: whose scores it is tuned on.
        settings: of the study whose training part it is.
        target_fpr: false-positive rate at which recall was sought.
        objective: what was sought.
        budget: trials that were asked for.
        attacks: those of the part that were evaluated.
        benign: likewise.
        sha256_of_ids: of all ids of the part.
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

    def to_yaml(self) -> str:
        """Return the detector as a file for ``--detector``, with where it comes from in its heading."""
        import yaml

        found, before, after = self.searched, self.searched.before, self.searched.after
        if self.objective == "f1":
            reached = f"F1 there, cross-fitted by group: {after.f1:.3f}; as given {before.f1:.3f}."
        else:
            at = f"{100 * self.target_fpr:g} % false positives"
            reached = f"Recall there, cross-fitted by group at {at}: {after.recall}; as given {before.recall}."
        heading = (
            f"# {found.detector.name}, tuned inside the training part: trial {found.best} of {found.trials}.\n"
            f"# {reached}\n"
            "# That is no test result: the best of many trials flatters itself.\n"
            f"{MARK}{json.dumps(self.origin(), ensure_ascii=False, sort_keys=True)}\n"
        )
        return heading + yaml.safe_dump(to_mapping(found.detector), sort_keys=False, allow_unicode=True)

    def origin(self) -> dict[str, Any]:
        """Return where the detector comes from, as JSON values."""
        run, found = self.run, self.searched
        return {
            "budget": self.budget,
            "seed": self.settings.seed,
            "objective": self.objective,
            "target_fpr": None if self.objective == "f1" else self.target_fpr,
            "run": {name: getattr(run, name) for name in ("name", "observer", "observer_version", "context")},
            "split": {
                "part": "train",
                "shares": list(self.settings.shares),
                "attacks": self.attacks,
                "benign": self.benign,
                "sha256_of_ids": self.sha256_of_ids,
            },
            "sampler": "TPE",
            "trials": found.trials,
            "best_trial": found.best,
            "before": found.before.to_dict(),
            "after": found.after.to_dict(),
            "versions": versions(LIBRARIES),
        }


def tune_inside_training(
    study_data: StudyData,
    spec: str,
    target_fpr: float = 0.01,
    budget: int = 200,
    seed: int = 0,
    objective: Objective = "recall",
) -> Tuning:
    """Search a detector's parameters on what a study of the same seed trains on, and on nothing else.

    Args:
        study_data: of one run.
        spec: specification of the detector.
        target_fpr: false-positive rate at which recall is sought, in (0, 1).
        budget: trials, at least 1.
        seed: of the split, the folds inside it and the sampler.
        objective: ``recall`` or ``f1``.

    Raises:
        UsageError: too few conversations, or a budget out of range.
        UnknownNameError: no such detector, or it has no parameters to search.
    """
    [data] = study_data.runs
    settings = Settings(runs=(data.run.name,), target_fpr=target_fpr, seed=seed)
    [fold] = make_folds(data.examples, settings)
    train = [example for example in data.examples if example.sequence_id in fold.train]
    known = [example for example in train if any(turn.scores for turn in example.turns)]
    found = search(spec, known, target_fpr, budget, seed, objective)
    attacks = sum(example.attack for example in known)
    ids = sha256_of_ids(fold.train)
    return Tuning(found, data.run, settings, target_fpr, objective, budget, attacks, len(known) - attacks, ids)
