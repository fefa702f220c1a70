"""What each part of the training data brings: the same measures for networks trained on parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.datasets.twins import load_twins
from turnwise.observers.local.network import Network
from turnwise.observers.local.training.calibrate import traces
from turnwise.observers.local.training.export import pack
from turnwise.observers.local.training.measure import REAL_BENIGN, held_out_figures, set_calibration, traces_of
from turnwise.observers.local.training.samples import Sample
from turnwise.observers.local.training.twin_figures import FALSITY, Scorer, rate, twin_figures
from turnwise.observers.local.weights import ARMS


class Ablation:
    """Measures networks of one vocabulary on the dev split of the twins and on what training held out.

    Each network is calibrated, and gets its own operating points, as the shipped one does.

    Args:
        tokenizer: bytes of the tokeniser file.
        held_out: held-out samples, halves of pairs among them.
        twins: folder of the twins corpus.
    """

    def __init__(self, tokenizer: bytes, held_out: Sequence[Sample], twins: Path) -> None:
        self.figures: dict[str, dict[str, Any]] = {}
        self._tokenizer = tokenizer
        self._held_out = held_out
        self._pairs = list(load_twins(twins, "dev"))

    def measure(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Measure a network and note its figures under a name.

        Args:
            name: what it was trained on.
            arrays: its arrays; left as they are.
        """
        arrays = dict(arrays)
        seen = traces_of(Network(pack(arrays, self._tokenizer, {})[1]), self._held_out)
        set_calibration(arrays, self._held_out, seen)
        network = Network(pack(arrays, self._tokenizer, {})[1])
        points = held_out_figures(network, self._held_out, seen)["operating_points"]
        for arm in ARMS:
            score = scorer(network, arm)
            threshold = points[arm]["any_turn"]["threshold"]
            peaks = [float(trace.scores(network, arm)[:, FALSITY].max()) for trace in seen[arm]]
            by_kind = {
                kind: [
                    peak >= threshold
                    for peak, sample in zip(peaks, self._held_out, strict=True)
                    if sample.kind in kinds
                ]
                for kind, kinds in (("benign chats", REAL_BENIGN), ("gradual attacks", ("safemt_1k",)))
            }
            figures = twin_figures(self._pairs, score) if self._pairs else {}
            self.figures.setdefault(name, {})[arm] = figures | {
                f"held-out {kind} flagged": rate(hits) for kind, hits in by_kind.items() if hits
            }


def scorer(network: Network, arm: str) -> Scorer:
    """Return what scores a conversation with an arm of a network.

    Args:
        network: a calibrated network.
        arm: ``history`` or ``turn``.
    """

    def score(texts: Sequence[str]) -> NDArray[np.float64]:
        (seen,) = traces(network, arm, [texts])
        return seen.scores(network, arm).astype(np.float64)

    return score
