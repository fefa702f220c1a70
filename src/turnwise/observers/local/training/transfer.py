"""Operating points for services that training never saw: each source of benign chats is left out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from turnwise.observers.local.network import Network
from turnwise.observers.local.training.calibrate import operating_points, turn_scores
from turnwise.observers.local.training.export import pack
from turnwise.observers.local.training.measure import set_calibration, traces_of
from turnwise.observers.local.training.samples import Sample
from turnwise.observers.local.weights import ARMS
from turnwise.rates import clopper_pearson
from turnwise.scoring import TurnScores

Scored = dict[str, list[list[TurnScores]]]
"""Scores of conversations, by context mode."""


def left_out_scores(
    arrays: dict[str, NDArray[Any]], tokenizer: bytes, held_out: Sequence[Sample], source: str
) -> Scored:
    """Return what a network that was trained without a source makes of all its conversations.

    Args:
        arrays: arrays of that network; its calibration is set.
        tokenizer: bytes of the tokeniser file.
        held_out: what the network is calibrated on, and all conversations of the source.
        source: the source.
    """
    others = [sample for sample in held_out if sample.kind != source]
    own = [sample for sample in held_out if sample.kind == source]
    set_calibration(arrays, others, traces_of(Network(pack(arrays, tokenizer, {})[1]), others))
    network = Network(pack(arrays, tokenizer, {})[1])
    seen = traces_of(network, own)
    return {
        arm: [turn_scores(network, arm, trace, sample.texts) for sample, trace in zip(own, seen[arm], strict=True)]
        for arm in ARMS
    }


def transferable(
    own: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, Scored]
) -> dict[str, dict[str, Any]]:
    """Return operating points set on the conversations of all sources, each scored as an unknown service.

    Args:
        own: points by context mode and detector, on held-out conversations of the sources trained on.
        left_out: scores by source, from networks trained without it.

    Returns:
        Points by context mode and detector; beside each, the threshold of ``own`` and that of every source alone.
    """
    result: dict[str, dict[str, Any]] = {}
    for arm in ARMS:
        together = [turns for scored in left_out.values() for turns in scored[arm]]
        alone = {source: operating_points(scored[arm], clopper_pearson) for source, scored in left_out.items()}
        result[arm] = {
            name: point
            | {
                "own_threshold": own[arm][name]["threshold"],
                "left_out": {source: points[name]["threshold"] for source, points in alone.items()},
            }
            for name, point in operating_points(together, clopper_pearson).items()
        }
    return result
