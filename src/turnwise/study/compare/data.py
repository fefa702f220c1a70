"""Runs of a store as a study reads them: the same labelled conversations in each, and what is missing of them."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.scoring import Evaluation, Trajectory
from turnwise.stats.examples import Example

if TYPE_CHECKING:
    from turnwise.store import Run, Store
    from turnwise.study.compare.plan import Settings

STRATA = {
    "category": ("category", "harm", "harm_category", "area", "risk"),
    "tactic": ("tactic", "attack", "encoding"),
}
"""What tables divide by beside source and length: the keys of the metadata that hold it, the first there is."""

LENGTHS = ((1, "1 turn"), (3, "2-3 turns"), (5, "4-5 turns"), (8, "6-8 turns"))
"""Most turns of a length and its name."""

LONGEST = "9 turns and more"
UNKNOWN = "not stated"


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """One labelled conversation of the study.

    Args:
        group: what never stands on two sides of a split.
        turns: number of its turns.
        strata: its source, category, tactic and length.
    """

    sequence_id: str
    group: str
    attack: bool
    turns: int
    strata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunData:
    """What one run has of the conversations of the study.

    Args:
        examples: a trajectory for each conversation of the study, in their order; without a score where the run
            has none of it.
        cost_usd: what a conversation cost by id; absent where unknown.
        latency_ms: what its evaluation took; absent where unknown.
        failed: conversations of which some score was tried, failed and has not come since.
        unread: conversations of which the observer did not read some text.
        scores_sha256: of all scores.
        training_sources: data sets that the observer was trained on.
    """

    run: Run
    examples: tuple[Example, ...]
    cost_usd: Mapping[str, float] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    scores_sha256: str = ""
    training_sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StudyData:
    """All that a study reads.

    Args:
        known: the labelled conversations that some run has tried to score, in the order of their ids.
        untried: labelled conversations that none of the runs has tried: not part of the study.
        unlabelled: conversations that some run scored, of which nobody says what they are.
        sha256: of the conversations: texts, labels and metadata.
        corrected: conversations of which people changed the label.
        disputed: conversations that some run tried, left out because people give them different labels.
    """

    known: tuple[LabelledConversation, ...]
    runs: tuple[RunData, ...]
    untried: int
    unlabelled: int
    sha256: str
    corrected: int = 0
    disputed: int = 0

    @property
    def trained_benign(self) -> Mapping[str, tuple[str, ...]]:
        """Ids of the benign conversations, by source, of data sets that the observer of some run was trained on.

        An observer knows them, so they are no test of false positives and set no threshold.
        """
        sources = frozenset[str]().union(*(one.training_sources for one in self.runs))
        found: dict[str, list[str]] = defaultdict(list)
        for one in self.known:
            if not one.attack and one.strata["source"] in sources:
                found[one.strata["source"]].append(one.sequence_id)
        return {source: tuple(found[source]) for source in sorted(found)}

    def untested(self, settings: Settings) -> frozenset[str]:
        """Return the ids of conversations that train and do nothing else; none where the settings keep them."""
        left = () if settings.keep_trained else self.trained_benign.values()
        return frozenset[str]().union(*left)


def load_study_data(store: Store, runs: Iterable[str], corrected_by: Sequence[str] = ()) -> StudyData:
    """Return the labelled conversations of some runs.

    Args:
        runs: names of the runs.
        corrected_by: people whose corrected labels hold in place of the imported ones, where they agree.

    Raises:
        UnknownNameError: the store has no such run, or none of these people said anything.
    """
    from turnwise.conversation import group_of

    names = list(dict.fromkeys(runs))
    read = {
        name: {head.sequence_id: trajectory for head, trajectory in store.trajectories(name) if trajectory}
        for name in names
    }
    failed = {name: frozenset(key.sequence_id for key in store.failed(name)) for name in names}
    unread = {name: frozenset(one.key.sequence_id for one in store.unread(name)) for name in names}
    tried: set[str] = set().union(*failed.values(), *unread.values(), *(found.keys() for found in read.values()))
    known: list[LabelledConversation] = []
    corrections = store.people.labels(corrected_by) if corrected_by else {}
    untried = unlabelled = corrected = disputed = 0
    digest = hashlib.sha256()
    hashes: dict[str, str] = {}
    for sequence in store.sequences():
        name = sequence.sequence_id
        label = corrections.get(name, sequence.label)
        if label is None:
            disputed += name in tried
        elif label is Label.UNLABELLED:
            unlabelled += name in tried
        elif name not in tried:
            untried += 1
        else:
            hashes[name] = sequence.content_hash()
            if label is not sequence.label:
                hashes[name] += f"\0{label}"
                corrected += 1
            turns = sequence.conversation.get_turn_count()
            strata = strata_of(sequence.source, sequence.metadata, turns)
            group = group_of(sequence.metadata, name)
            known.append(LabelledConversation(name, group, label is Label.ATTACK, turns, strata))
    known.sort(key=lambda one: one.sequence_id)  # so that the order of import changes nothing
    for one in known:
        digest.update(f"{one.sequence_id}\0{hashes[one.sequence_id]}\n".encode())
    data = tuple(_run_data(store, name, known, read[name], failed[name], unread[name]) for name in names)
    return StudyData(tuple(known), data, untried, unlabelled, digest.hexdigest(), corrected, disputed)


def strata_of(source: str, metadata: Mapping[str, Any], turns: int) -> dict[str, str]:
    """What the tables divide a conversation by.

    >>> strata_of("made", {"harm": "fraud", "tactic": "crescendo"}, 4)
    {'source': 'made', 'category': 'fraud', 'tactic': 'crescendo', 'length': '4-5 turns'}
    """
    found = {"source": source}
    for name, keys in STRATA.items():
        values = (metadata.get(key) for key in keys)
        found[name] = next((value for value in values if isinstance(value, str) and value), UNKNOWN)
    found["length"] = next((name for most, name in LENGTHS if turns <= most), LONGEST)
    return found


def _run_data(
    store: Store,
    name: str,
    known: Sequence[LabelledConversation],
    read: Mapping[str, Trajectory],
    failed: frozenset[str],
    unread: frozenset[str],
) -> RunData:
    from turnwise.scoring import TurnScores

    digest = hashlib.sha256()
    examples = []
    cost: dict[str, float] = {}
    latency: dict[str, float] = {}
    for one in known:
        trajectory = read.get(one.sequence_id)
        if trajectory is None:
            turns = tuple(TurnScores(turn, {}) for turn in range(1, one.turns + 1))
        else:
            turns = tuple(trajectory)
            for evaluation in trajectory.evaluations:
                key, score = evaluation.key, evaluation.score
                line = (key.sequence_id, key.turn, str(key.side), key.principle, score.T, score.I, score.F)
                digest.update(f"{line!r}\n".encode())
            _add(cost, one.sequence_id, [item.cost_usd for item in trajectory.evaluations])
            _add(latency, one.sequence_id, _milliseconds(trajectory.evaluations))
        examples.append(Example(one.sequence_id, one.group, one.attack, turns))
    ids = {one.sequence_id for one in known}
    run = store.run(name)
    sources = training_sources(run)
    return RunData(run, tuple(examples), cost, latency, failed & ids, unread & ids, digest.hexdigest(), sources)


def training_sources(run: Run) -> frozenset[str]:
    """The data sets that the observer of a run was trained on; none where it can't be had any more."""
    from turnwise.observers import Workers, build_observer, describe_observer

    try:
        info = describe_observer(run.observer)
        if info.version != run.observer_version and ":" in run.observer and info.workers is Workers.PROCESSES:
            info = build_observer(run.observer).info  # weights of one's own have training data of their own
    except TurnwiseError:
        return frozenset()
    return frozenset(info.training_sources)


def _add(into: dict[str, float], name: str, values: Iterable[float | None]) -> None:
    """Keep the sum of what is known of a conversation; where nothing is, it stays absent."""
    found = [value for value in values if value is not None]
    if found:
        into[name] = sum(found)


def _milliseconds(evaluations: Iterable[Evaluation]) -> list[float | None]:
    by_turn: dict[int, list[float]] = defaultdict(list)
    for evaluation in evaluations:
        if evaluation.latency_s is not None:
            by_turn[evaluation.key.turn].append(1000 * evaluation.latency_s)
    return [sum(values) for values in by_turn.values()]


def attacks_by_source(known: Sequence[LabelledConversation], least: int) -> dict[str, list[bool]]:
    """For every source with enough attacks, where there are several, which conversations are of it."""
    counts = Counter(one.strata["source"] for one in known if one.attack)
    if len(counts) < 2:
        return {}
    return {
        source: [one.strata["source"] == source for one in known]
        for source in sorted(counts)
        if counts[source] >= least
    }
