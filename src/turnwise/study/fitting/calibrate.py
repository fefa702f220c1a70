"""A detector for one's own data: fitted on some groups, its threshold set on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.detectors import Detector, PatternSource, load_detector, run_detector
from turnwise.errors import UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.study.examples import Example, split_by_group
from turnwise.study.fitting.fit import FITTED, fit_detector
from turnwise.study.fitting.search import Objective, check_objective, highest_scores
from turnwise.study.stats.thresholds import f1, needed_benign, threshold_for, threshold_for_f1

SHARES = {"train": 0.6, "calibrate": 0.4}


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned detector, and what it does on the conversations that set its threshold.

    Args:
        detector: the detector, at its new threshold.
        fitted: whether its parameters were fitted, or only its threshold was set.
        train: conversations that it was fitted on.
        calibrate: conversations that set the threshold.
        flagged_benign: benign ones of the latter that it flags.
        flagged_attacks: attacks of the latter that it flags; not a test result, though nothing was chosen on them
            unless F1 was sought.
    """

    detector: Detector
    fitted: bool
    train: int
    calibrate: int
    flagged_benign: Rate
    flagged_attacks: Rate

    @property
    def f1(self) -> float:
        """F1 on the conversations that set the threshold."""
        return f1(self.flagged_attacks.count, self.flagged_benign.count, self.flagged_attacks.of)


def tune(
    spec: str,
    examples: Sequence[Example],
    target_fpr: float = 0.01,
    seed: int = 0,
    *,
    objective: Objective = "recall",
    patterns: PatternSource | None = None,
) -> Tuned:
    """Fit a detector on three fifths of the groups and set its threshold on the rest.

    The threshold is set on the benign conversations there for a false-positive rate, or for F1 on all of them.

    Args:
        spec: the name of a detector that is fitted, or a specification whose threshold alone is set.
        examples: conversations of both labels.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        seed: of the split.
        objective: ``"recall"`` at that rate, or ``"f1"``, whatever the rate.
        patterns: your own named patterns, or the YAML file that defines them.

    Raises:
        UnknownNameError: no such detector, parameter or objective.
        DetectorError: a specification or value that does not fit.
        UsageError: too few conversations; the message says how many are needed.
    """
    check_objective(objective)
    parts = split_by_group(examples, SHARES, seed)
    fitted = spec in FITTED
    detector = fit_detector(spec, parts["train"], seed) if fitted else load_detector(spec, patterns=patterns)
    labels = [example.attack for example in parts["calibrate"]]
    peaks = list(zip(labels, highest_scores(detector, parts["calibrate"]), strict=True))
    benign = [score for attack, score in peaks if not attack]
    limit = threshold_for_f1(peaks) if objective == "f1" else threshold_for(benign, target_fpr)
    tuned = detector.with_threshold(limit)
    flagged = [(example.attack, run_detector(tuned, example.turns).fired) for example in parts["calibrate"]]

    def rate(attack: bool) -> Rate:
        verdicts = [fired for label, fired in flagged if label is attack]
        return Rate(sum(verdicts), len(verdicts))

    return Tuned(tuned, fitted, len(parts["train"]), len(parts["calibrate"]), rate(False), rate(True))


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """A detector at a threshold that keeps the false-positive rate `alpha` with probability `confidence`.

    `fitted_on` counts conversations, 0 where nothing was fitted. `flagged_benign` are of those that set the
    threshold, in so many groups, `flagged_attacks` of the attacks beside them. `upper_bound` is the one-sided
    exact one of the false-positive rate.
    """

    detector: Detector
    alpha: float
    confidence: float
    fitted_on: int
    flagged_benign: Rate
    groups: int
    flagged_attacks: Rate
    upper_bound: float


def guaranteed(
    spec: str,
    examples: Sequence[Example],
    alpha: float = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
    *,
    patterns: PatternSource | None = None,
) -> Guaranteed:
    """Set the threshold of a detector on benign conversations, with a guarantee.

    A detector that is fitted is fitted on half of the groups, and its threshold set on the other half.
    """
    fitted = spec in FITTED
    parts = split_by_group(examples, {"train": 0.5, "calibrate": 0.5}, seed) if fitted else {"calibrate": examples}
    detector = fit_detector(spec, parts["train"], seed) if fitted else load_detector(spec, patterns=patterns)
    scores = list(zip(parts["calibrate"], highest_scores(detector, parts["calibrate"]), strict=True))
    benign = [score for example, score in scores if not example.attack]
    try:
        limit = threshold_for(benign, alpha, confidence)
    except UsageError as error:
        raise UsageError(f"{error}{_beyond(len(benign), alpha, confidence, fitted)}") from error
    placed = detector.with_threshold(limit)
    attacks = [score for example, score in scores if example.attack]
    flagged = sum(score >= limit for score in benign)
    return Guaranteed(
        placed,
        alpha,
        confidence,
        len(parts["train"]) if fitted else 0,
        Rate(flagged, len(benign)),
        len({example.group for example, _ in scores if not example.attack}),
        Rate(sum(score >= limit for score in attacks), len(attacks)),
        clopper_pearson(flagged, len(benign), 1 - 2 * (1 - confidence))[1] if confidence > 0.5 else 1.0,
    )


def _beyond(benign: int, alpha: float, confidence: float, fitted: bool) -> str:
    """What the data can bear instead, where the rates are in range at all."""
    if not (0 < alpha < 1 and 0 < confidence < 1) or benign >= needed_benign(alpha, confidence):
        return ""
    more = " A detector that is fitted leaves half of them for the threshold." if fitted else ""
    able = 1 - (1 - confidence) ** (1 / benign) if benign else 1.0
    lowest = f"; {benign} can keep {100 * able:.2g} % at best" if able < 1 else ""
    return f"{lowest}. On average over such sets a rate needs fewer: see turnwise study tune.{more}"
