"""What a trained network is worth on what was held out; sets its calibration on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.observers.local.network import Network, Patience, disagreement
from turnwise.observers.local.training import calibrate
from turnwise.observers.local.training.calibrate import Trace
from turnwise.observers.local.training.samples import PAIR_KINDS, Sample
from turnwise.observers.local.weights import ARMS, CALIBRATION, PRINCIPLES
from turnwise.rates import clopper_pearson

REAL_BENIGN = ("arena_real_users", "mtbench101")
"""Sources whose held-out conversations set the operating points, beside the benign twins."""

PAIR_SHARE = 3.0
"""Weight of the held-out pairs in calibration, as a share of that of everything else held out: theirs are the only
annotated turns."""


def traces_of(network: Network, samples: Sequence[Sample]) -> dict[str, list[Trace]]:
    """Return what each arm makes of the samples."""
    texts = [sample.texts for sample in samples]
    return {arm: calibrate.traces(network, arm, texts) for arm in ARMS}


def weighed(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples, the halves of pairs among them with a weight that gives them their share.

    Args:
        samples: held-out samples.
    """
    pairs = sum(len(sample.texts) for sample in samples if sample.kind in PAIR_KINDS)
    others = sum(sample.weight * len(sample.texts) for sample in samples if sample.kind not in PAIR_KINDS)
    if not pairs or not others:
        return list(samples)
    weight = PAIR_SHARE * others / pairs
    return [replace(sample, weight=weight) if sample.kind in PAIR_KINDS else sample for sample in samples]


def set_calibration(
    arrays: dict[str, Any], samples: Sequence[Sample], seen: dict[str, list[Trace]]
) -> dict[str, Any]:
    """Set calibration and indeterminacy of both arms in the arrays, and return what there is to say of them.

    Args:
        arrays: arrays of the weights file; changed.
        samples: held-out samples.
        seen: their traces by arm.
    """
    return {arm: _calibrate(arrays, arm, samples, seen[arm]) for arm in ARMS}


def _calibrate(
    arrays: dict[str, Any], arm: str, samples: Sequence[Sample], traces: Sequence[Trace]
) -> dict[str, Any]:
    scaling = np.zeros((2 * len(PRINCIPLES), len(CALIBRATION)), np.float32)
    patience = Patience(*map(float, arrays[f"{arm}.patience"]))
    unsure = []
    summary = {}
    for index, principle in enumerate(PRINCIPLES):
        known = calibrate.known_turns(samples, traces, index)
        false, true = known.labels.T
        numbers = known.numbers if arm == "history" else np.ones_like(known.numbers)
        mean = known.false.mean(axis=1) - np.ravel(patience.at(numbers))
        terms = calibrate.terms_of(mean)
        scaling[index] = calibrate.fit_calibration(terms, false, known.weights)
        scaling[index + len(PRINCIPLES)] = calibrate.fit_calibration(
            calibrate.terms_of(known.true), true, known.weights
        )
        probability = 1 / (1 + np.exp(-(terms @ scaling[index])))
        each = 1 / (1 + np.exp(-known.false))
        features = np.column_stack((disagreement(each.std(axis=1)), known.features))
        broken = (false >= 0.5).astype(float)
        far = np.abs(probability - false) > calibrate.FAR
        wrong: NDArray[np.float64] = (((probability >= 0.5) != (broken == 1)) | far).astype(float)
        found = calibrate.fit_indeterminacy(features, wrong, _halved(known.annotated))
        unsure.append(found)
        index_of_i = features @ found[:-1]
        annotated = known.annotated == 1
        summary[principle] = {
            "turns": len(false),
            "violations": int(broken.sum()),
            "auroc": calibrate.auroc(probability, broken),
            "ece": calibrate.calibration_error(probability, false, known.weights),
            "errors": float(wrong.mean()),
            "i_auroc": calibrate.auroc(index_of_i, wrong),
            "i_auroc_pairs": calibrate.auroc(index_of_i[annotated], wrong[annotated]),
        }
    arrays[f"{arm}.calibration"] = scaling
    arrays[f"{arm}.indeterminacy"] = np.array(unsure, np.float32)
    return summary


def _halved(annotated: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights that give annotated turns as much as all others together."""
    share = annotated.mean()
    if share in {0.0, 1.0}:
        return np.ones(len(annotated))
    weights: NDArray[np.float64] = np.where(annotated == 1, 0.5 / share, 0.5 / (1 - share))
    return weights


def held_out_figures(
    network: Network, samples: Sequence[Sample], seen: dict[str, list[Trace]]
) -> dict[str, dict[str, Any]]:
    """Return operating points, and what the benign and attack conversations of the held-out part get.

    Args:
        network: the calibrated network.
        samples: held-out samples.
        seen: their traces by arm.
    """
    points, display = {}, {}
    for arm in ARMS:
        scored = [
            (sample, calibrate.turn_scores(network, arm, trace, sample.texts))
            for sample, trace in zip(samples, seen[arm], strict=True)
        ]
        by_kind = {
            name: [turns for sample, turns in scored if sample.kind in kinds]
            for name, kinds in (
                ("chats", REAL_BENIGN),
                ("twins", ("twin_benign",)),
                ("attacks", ("safemt_1k",)),
            )
        }
        chats, twins, attacks = by_kind["chats"], by_kind["twins"], by_kind["attacks"]
        points[arm] = calibrate.operating_points([*chats, *twins], clopper_pearson)
        display[arm] = {
            "benign_mean_F": _mean_peak(chats),
            "attack_mean_F": _mean_peak(attacks),
            "attack_mean_F_first_turn": _mean_peak([turns[:1] for turns in attacks]),
            "benign_conversations": len(chats),
            "attack_conversations": len(attacks),
            "benign_twins_mean_F": _mean_peak(twins),
            "benign_twins": len(twins),
        }
    return {"operating_points": points, "peak_F": display}


def _mean_peak(conversations: Sequence[Sequence[Any]]) -> float:
    peaks = [max(score.F for turn in turns for score in turn.scores.values()) for turns in conversations]
    return round(float(np.mean(peaks)), 4) if peaks else 0.0
