"""Which conversations train, calibrate and test: one split, or folds of which each is tested once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.study.compare.settings import Settings
from turnwise.study.example import Example
from turnwise.study.splits import split_by_group

PARTS = ("train", "calibrate", "test")


@dataclass(frozen=True, slots=True)
class Fold:
    """Ids of the conversations of one fold; no group stands in two of its parts.

    Args:
        train: what detectors are fitted on.
        calibrate: what sets thresholds.
        test: what is reported.
    """

    train: frozenset[str]
    calibrate: frozenset[str]
    test: frozenset[str]


def make_folds(examples: Sequence[Example], settings: Settings) -> tuple[Fold, ...]:
    """Return the folds of a study: one, or as many as the settings ask for.

    With folds, what is not tested is halved into train and calibrate, so that a conversation never sets the
    threshold that judges it (cross-fitting: A. Schick, "On asymptotically efficient estimation in semiparametric
    models", Annals of Statistics 14, 1986).

    Args:
        examples: the conversations.
        settings: folds, shares and seed.

    >>> examples = [Example(f"{n}", f"g{n // 2}", n < 10, ()) for n in range(40)]
    >>> [len(fold.test) for fold in make_folds(examples, Settings(("r",), folds=4))]
    [10, 10, 10, 10]
    """
    if settings.thresholds == "given":
        return (Fold(frozenset(), frozenset(), _ids(examples)),)
    if settings.folds:
        share = 1 / settings.folds
        parts = split_by_group(examples, {str(n): share for n in range(settings.folds)}, settings.seed)
        return tuple(_around(examples, part, settings.seed) for part in parts.values())
    split = split_by_group(examples, dict(zip(PARTS, settings.shares, strict=True)), settings.seed)
    return (Fold(*(_ids(split[name]) for name in PARTS)),)


def _around(examples: Sequence[Example], tested: Sequence[Example], seed: int) -> Fold:
    test = _ids(tested)
    rest = [example for example in examples if example.sequence_id not in test]
    halves = split_by_group(rest, {"train": 0.5, "calibrate": 0.5}, seed + 1)
    return Fold(_ids(halves["train"]), _ids(halves["calibrate"]), test)


def _ids(examples: Sequence[Example]) -> frozenset[str]:
    return frozenset(example.sequence_id for example in examples)
