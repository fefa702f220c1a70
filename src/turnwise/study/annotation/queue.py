"""The blind queue: which conversation a person labels next, whose labels agree, and the rates that follow.

Orders are fixed by a seed and the ids alone, so no draw has to be kept: everybody walks the same order, and rates
are taken from its beginning up to the first conversation that nobody has labelled. That is a random sample of the
conversations that the order is over, whatever else was labelled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from turnwise._support.notebook import Shown
from turnwise.conversation import Label
from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.runs import flagged
from turnwise.store import LabelCorrection, Store
from turnwise.store.people import SET

BLIND: Final = "blind"
"""Begins the note of a label that was given before score, label and others' answers were shown."""

SETTLED: Final = f"{SET}settled"
"""The author of labels on which two blind readers agree, or that a third settled."""

TWICE: Final = 5
"""Of so many conversations one is read by a second person as well."""

READERS: Final = 2
"""People who label a conversation in the queue, at most."""


class Order(StrEnum):
    """In which order conversations are labelled."""

    FLAGGED = "flagged"
    ALL = "all"
    TEACHING = "teaching"


@dataclass(frozen=True, slots=True)
class Disagreement(Shown):
    """A conversation to which blind readers gave different labels, oldest answer first."""

    sequence_id: str
    answers: tuple[LabelCorrection, ...]


@dataclass(frozen=True, slots=True)
class LiveRates(Shown):
    """What blind labels say so far.

    Args:
        precision: attacks among the labelled conversations at the beginning of the order over all flagged ones.
        prevalence: attacks among those at the beginning of the order over all conversations.
        flagged: how many conversations are flagged.
        of: how many conversations there are.
        unsure: conversations in the two beginnings that nobody could tell, or on which people disagree: they are
            in neither rate.
    """

    precision: Rate
    prevalence: Rate
    flagged: int
    of: int
    unsure: int


class LabelQueue:
    """The blind queue of a store.

    Args:
        store: the record or findings.
        run: whose scores say what is flagged and what teaches most; by default the run that was started last.
        seed: of the random orders.
    """

    def __init__(self, store: Store, run: str | None = None, seed: int = 0) -> None:
        self._store = store
        runs = store.runs()
        self._run = run if run is not None else runs[-1].name if runs else None
        self._seed = seed
        self._orders: dict[Order, list[str]] = {}
        self._flags: frozenset[str] | None = None

    def flagged(self) -> frozenset[str]:
        """The conversations that the run's detectors flag, as in the inbox."""
        if self._flags is None:
            found = () if self._run is None else flagged(self._store, self._run).first().values()
            self._flags = frozenset(flag.sequence_id for _, flag in found)
        return self._flags

    def order(self, order: Order) -> Sequence[str]:
        """All ids in an order; made once, so that what others label does not move it."""
        if order not in self._orders:
            heads = list(self._store.heads())
            if order is Order.FLAGGED:
                ids = [head.sequence_id for head in heads if head.sequence_id in self.flagged()]
                self._orders[order] = sorted(ids, key=self._place)
            elif order is Order.ALL:
                self._orders[order] = sorted((head.sequence_id for head in heads), key=self._place)
            else:
                doubts = self._doubts()
                by_source: dict[str, list[str]] = defaultdict(list)
                for head in sorted(
                    heads, key=lambda one: (doubts.get(one.sequence_id, math.inf), one.sequence_id)
                ):
                    if head.sequence_id in doubts:
                        by_source[head.source].append(head.sequence_id)
                self._orders[order] = _in_turns(by_source.values())
        return self._orders[order]

    def next(self, author: str, order: Order, skipped: Collection[str] = ()) -> str | None:
        """The conversation that a person labels next; None where nothing is left.

        Each is labelled by one person, every fifth by a second one; nobody labels one twice.

        Args:
            author: the person.
            order: the order to walk in.
            skipped: conversations that the person has passed over.
        """
        if not author.strip():
            raise UsageError("say who you are first: labels carry the name of their author")
        answers = blind_answers(self._store)
        for name in self.order(order):
            given = {one.author for one in answers.get(name, ())}
            most = READERS if self._is_shared(name) else 1
            if name not in skipped and author not in given and len(given) < most:
                return name
        return None

    def answer(self, sequence_id: str, label: Label, author: str, note: str = "") -> tuple[LabelCorrection, ...]:
        """Keep a blind answer, and settle the label where two people agree; return all answers to it.

        ``Label.UNLABELLED`` is an answer as well: it can't be told.
        """
        people = self._store.people
        people.correct_label(sequence_id, label, author, f"{BLIND}: {note}" if note else BLIND)
        answers = blind_answers(self._store, [sequence_id]).get(sequence_id, ())
        labels = {one.label for one in answers}
        if len(answers) >= READERS and len(labels) == 1:
            people.correct_label(sequence_id, label, SETTLED, "two agree")
        return answers

    def disagreements(self) -> tuple[Disagreement, ...]:
        """Conversations on which blind readers disagree and that nobody has settled, oldest answer first."""
        settled = {one.sequence_id for one in self._store.people.corrections(author=SETTLED) if one.label}
        return tuple(
            Disagreement(name, answers)
            for name, answers in blind_answers(self._store).items()
            if name not in settled and len({one.label for one in answers}) > 1
        )

    def settle(self, sequence_id: str, label: Label, author: str, note: str = "") -> LabelCorrection:
        """Settle a disagreement; who does it stands in the note."""
        why = f"settled by {author}" + (f": {note}" if note else "")
        return self._store.people.correct_label(sequence_id, label, SETTLED, why)

    def rates(self) -> LiveRates:
        """Precision of what is flagged, and prevalence, each from the beginning of its random order."""
        labels = consensus(self._store)
        flagged, unsure_flagged = _rate(self.order(Order.FLAGGED), labels)
        everything, unsure = _rate(self.order(Order.ALL), labels)
        return LiveRates(
            flagged, everything, len(self.flagged()), len(self.order(Order.ALL)), unsure + unsure_flagged
        )

    def _place(self, sequence_id: str) -> str:
        return sha256(f"{self._seed} {sequence_id}".encode()).hexdigest()

    def _is_shared(self, sequence_id: str) -> bool:
        return int(self._place(f"twice {sequence_id}")[:8], 16) % TWICE == 0

    def _doubts(self) -> dict[str, float]:
        """How little a label would teach: log-odds of F from the threshold, less what runs differ by."""
        if self._run is None:
            return {}
        point = self._store.run(self._run).operating_points.get("any_turn", 0.5)
        peaks: dict[str, dict[str, float]] = defaultdict(dict)
        query = "SELECT sequence_id, run, max(F) FROM evaluations WHERE side = 'prompt' GROUP BY ALL"
        with self._store.mirror.tables() as tables:
            for name, run, peak in tables.execute(query).fetchall():
                peaks[name][run] = _logit(peak)
        found = {}
        for name, of_runs in peaks.items():
            if self._run in of_runs:
                apart = max(of_runs.values()) - min(of_runs.values())
                found[name] = abs(of_runs[self._run] - _logit(point)) - apart / 2
        return found


def blind_answers(store: Store, ids: Collection[str] | None = None) -> dict[str, tuple[LabelCorrection, ...]]:
    """The blind labels by conversation, the oldest first; what sets say is left out."""
    found: dict[str, list[LabelCorrection]] = defaultdict(list)
    for one in store.people.corrections(ids=ids):
        if one.kind == "label" and one.note.startswith(BLIND) and not one.author.startswith(SET):
            found[one.sequence_id].append(one)
    return {name: tuple(answers) for name, answers in found.items()}


def consensus(store: Store) -> dict[str, Label | None]:
    """The label of each blindly labelled conversation: the settled, else what all gave; None where they differ."""
    settled = {one.sequence_id: one.label for one in store.people.corrections(author=SETTLED) if one.label}
    found: dict[str, Label | None] = {}
    for name, answers in blind_answers(store).items():
        labels = {one.label for one in answers}
        found[name] = settled.get(name, labels.pop() if len(labels) == 1 else None)
    return found


def _rate(order: Iterable[str], labels: Mapping[str, Label | None]) -> tuple[Rate, int]:
    """Attacks among the labelled ones up to the first that nobody labelled; and how many nobody could tell."""
    attacks = told = unsure = 0
    for name in order:
        if name not in labels:
            break
        label = labels[name]
        if label in (Label.ATTACK, Label.BENIGN):
            told += 1
            attacks += label is Label.ATTACK
        else:
            unsure += 1
    return Rate(attacks, told), unsure


def _in_turns(groups: Iterable[Sequence[str]]) -> list[str]:
    """The members of groups, one of each in turn."""
    left = [list(reversed(group)) for group in groups]
    found = []
    while left:
        found += [group.pop() for group in left]
        left = [group for group in left if group]
    return found


def _logit(share: float) -> float:
    kept = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))
