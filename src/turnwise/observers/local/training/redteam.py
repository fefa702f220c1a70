"""Red-team chats of crowd workers: those that a first network finds harmful teach the next one.

A third of these chats are no attack, and nothing says which. Taken whole they teach that short, spoken chat is an
attack; the part that a network trained without them already suspects teaches how people word what they are after
(self-training, Yarowsky 1995).
"""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.observers.local.network import Network
from turnwise.observers.local.training.calibrate import traces
from turnwise.observers.local.training.data import Item
from turnwise.observers.local.training.samples import HARMFUL, OPEN, Sample

RED_TEAM = "hh_harmless_redteam"
"""The file of these chats."""


def suspected(network: Network, items: Sequence[Item], share: float) -> list[Sample]:
    """Return the chats with the highest peaks of F, as attacks of which no turn is labelled.

    Args:
        network: a calibrated network that never learned from these chats.
        items: all training items; those of other files, and those held out, are passed over.
        share: how many of the chats are chosen, in [0, 1].
    """
    chats = [item.texts for item in items if item.source == RED_TEAM and not item.held_out]
    seen = traces(network, "history", chats)
    peaks = [float(trace.scores(network, "history")[:, 2].max()) for trace in seen]
    order = sorted(range(len(chats)), key=lambda chat: -peaks[chat])
    return [_attack(chats[chat]) for chat in sorted(order[: round(share * len(chats))])]


def _attack(texts: Sequence[str]) -> Sample:
    unknown = (OPEN,) * len(texts)
    return Sample(RED_TEAM, tuple(texts), HARMFUL, unknown, unknown).last()
