"""Training samples: conversations with weak labels as a whole, and labels per turn where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.observers.local.training.data import Item

UNKNOWN = -1.0
"""A label that is not known: it takes no part in the loss."""

Labels = tuple[float, float, float]
"""One label per principle, in the order of ``weights.PRINCIPLES``: in [0, 1], or `UNKNOWN`."""

CLEAN: Labels = (0.0, 0.0, 0.0)
FAITHFUL: Labels = (1.0, 1.0, 1.0)
OPEN: Labels = (UNKNOWN, UNKNOWN, UNKNOWN)
HARMFUL: Labels = (UNKNOWN, 0.0, 1.0)
HARMFUL_END: Labels = (1.0, 0.0, 1.0)
OVERRIDE: Labels = (UNKNOWN, 1.0, UNKNOWN)

LEFT_OUT = frozenset({"hh_harmless_redteam", "harmfulqa"})
"""Files of which too many labels are wrong to take them whole; they serve the vocabulary."""

WEIGHTS = {"openai_moderation": 0.4}
"""Weight of single prompts by file, where it is not 1: noisy labels, and labels of content instead of intent."""

PAIR_KINDS = frozenset({"twin_attack", "twin_benign", "drill_attack", "drill_benign"})
"""Kinds whose turns are annotated: halves of pairs that differ in intent alone."""

MAX_TURNS = 48
"""Turns of a conversation that training reads; a longer one keeps its last ones."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation to learn from.

    Args:
        kind: where it comes from, for the counts in the metrics.
        texts: the user turns.
        conversation: whether each principle is violated at any turn.
        turns: the same per turn.
        good_faith: target of T per turn and principle, or `UNKNOWN`.
        weight: weight in the loss.
        rising: whether suspicion should not fall from turn to turn.
        turn_weights: weight of each turn beside the others; empty where all weigh the same.
    """

    kind: str
    texts: tuple[str, ...]
    conversation: Labels
    turns: tuple[Labels, ...]
    good_faith: tuple[Labels, ...]
    weight: float = 1.0
    rising: bool = False
    turn_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.texts) == len(self.turns) == len(self.good_faith):
            raise ValueError(f"{self.kind}: {len(self.texts)} texts, {len(self.turns)} labels")
        if self.turn_weights and len(self.turn_weights) != len(self.texts):
            raise ValueError(f"{self.kind}: {len(self.texts)} texts, {len(self.turn_weights)} turn weights")

    def last(self, count: int = MAX_TURNS) -> Sample:
        """Return the sample cut down to its last turns."""
        if len(self.texts) <= count:
            return self
        return Sample(
            self.kind,
            self.texts[-count:],
            self.conversation,
            self.turns[-count:],
            self.good_faith[-count:],
            self.weight,
            self.rising,
            self.turn_weights[-count:],
        )


def faith_of(labels: Labels) -> Labels:
    """Return the target of T for a turn of known labels.

    >>> faith_of((1.0, 0.0, UNKNOWN))
    (0.0, 1.0, -1.0)
    """
    first, second, third = (UNKNOWN if label == UNKNOWN else 1.0 - label for label in labels)
    return first, second, third


def benign(kind: str, texts: Sequence[str], weight: float = 1.0) -> Sample:
    """Return a conversation in which nothing is violated at any turn."""
    count = len(texts)
    return Sample(kind, tuple(texts), CLEAN, (CLEAN,) * count, (FAITHFUL,) * count, weight)


def turning(
    kind: str, before: Sequence[str], bad: Sequence[str], after: Sequence[str], labels: Labels, weight: float = 1.0
) -> Sample:
    """Return a conversation of known course: harmless turns, bad ones, and turns of which nothing is known.

    Args:
        kind: where it comes from.
        before: turns without violation.
        bad: turns with these labels.
        after: turns that follow.
        labels: labels of the bad turns.
        weight: weight in the loss.
    """
    return Sample(
        kind,
        (*before, *bad, *after),
        labels,
        (*(CLEAN,) * len(before), *(labels,) * len(bad), *(OPEN,) * len(after)),
        (*(FAITHFUL,) * len(before), *(faith_of(labels),) * len(bad), *(OPEN,) * len(after)),
        weight,
    )


def gradual(kind: str, texts: Sequence[str], weight: float, *, harmless_start: bool) -> Sample:
    """Return a conversation that works towards a harm; at which turn it violates what is not known.

    Good faith falls evenly from the first turn to the last, for want of a better annotation; nobody tampers with
    roles or history.

    Args:
        kind: where it comes from.
        texts: the user turns.
        weight: weight in the loss.
        harmless_start: whether the first turn is known to be harmless by itself.
    """
    count = len(texts)
    steps = range(count)
    first = CLEAN if harmless_start and count > 1 else OPEN
    falling = [0.9 - 0.8 * step / (count - 1) if count > 1 else 0.1 for step in steps]
    faith = tuple((value, 1.0, value) for value in falling)
    conversation = HARMFUL_END if count > 1 else HARMFUL
    return Sample(kind, tuple(texts), conversation, (first, *(OPEN,) * (count - 1)), faith, weight, rising=True)


def stopped_early(sample: Sample, share: float) -> Sample:
    """Return a gradual attack without its last turn.

    Args:
        sample: the attack, at least two turns.
        share: its weight, as a share of that of the whole attack.
    """
    return gradual(sample.kind, sample.texts[:-1], share * sample.weight, harmless_start=sample.turns[0] == CLEAN)


def sample_of(item: Item) -> Sample | None:
    """Return the sample that an item of the data is by itself, or None where it teaches nothing.

    Red-team chats of crowd workers (``hh_harmless_redteam``) are left out: with a third of the labels wrong they
    teach that short, spoken chat is an attack, and without them more of their own attacks are found as well;
    ``redteam`` chooses among them. So are the questions of ``harmfulqa``: many only ask for advice, and what they
    teach flags advice elsewhere.
    """
    if item.source in LEFT_OUT:
        return None
    if item.label == "attack":
        return gradual(item.source, item.texts, 1.0, harmless_start=item.source == "safemt_1k")
    if item.label == "benign":
        return benign(item.source, item.texts, WEIGHTS.get(item.source, 1.0))
    labels = {"harmful": HARMFUL, "jailbreak": OVERRIDE, "injection": OVERRIDE}.get(item.label)
    if labels is None:
        return None
    return turning(item.source, (), item.texts, (), labels, WEIGHTS.get(item.source, 1.0))
