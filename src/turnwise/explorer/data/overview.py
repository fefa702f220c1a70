"""Numbers of the overview: what there is, mean scores over turns by label, detection by source, and progress."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from turnwise.clock import utc_now
from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.flags import is_detector, judge
from turnwise.explorer.data.record import ViewedStore
from turnwise.observers import describe_observer
from turnwise.rates import Rate
from turnwise.store import Run

_LIVE_SECONDS = 30.0
"""The run that was started last is going on as long as the last score is not older than this."""

MOST_TURNS = 60
"""Turns that the curves of mean scores go to."""


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Sequences of a source by label, and how many turns they have in all."""

    source: str
    labels: dict[str, int]
    turns: int

    @property
    def sequences(self) -> int:
        """How many in all."""
        return sum(self.labels.values())


@dataclass(frozen=True, slots=True)
class RunCount:
    """Counts and cost of a run."""

    name: str
    observer: str
    context: str
    sequences: int = 0
    evaluations: int = 0
    failures: int = 0
    unread: int = 0  # scores that were not made since the observer does not read the text
    cost_usd: float | None = None  # None where no score has a known cost
    going_on: bool = False  # another store writes it, or the last score was made just now


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What a store holds: data sets, the largest first, and runs, oldest first."""

    sources: tuple[SourceCount, ...]
    runs: tuple[RunCount, ...]


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean T, I and F of the prompts of a label at a turn, over principles and sequences; `scores` is how many."""

    label: str
    turn: int
    scores: int
    T: float
    I: float  # noqa: E741 - the field's name
    F: float


def counts(record: ViewedStore) -> StoreCounts:
    """What a store holds: scores are counted in the mirror, what failed and what it cost in the store."""
    with record.tables() as tables:
        found = tables.execute(
            "SELECT source, label, count(*), sum(turns) FROM copied.sequences GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        scored = {
            name: (sequences, evaluations)
            for name, sequences, evaluations in tables.execute(
                "SELECT name, count(DISTINCT sequence), count(*) FROM copied.evaluations "
                "JOIN copied.runs USING (run) GROUP BY name"
            ).fetchall()
        }
    sources: dict[str, SourceCount] = {}
    for source, label, sequences, turns in found:
        before = sources.get(source, SourceCount(source, {}, 0))
        sources[source] = SourceCount(source, {**before.labels, label: sequences}, before.turns + int(turns))
    made = record.store.runs()
    tries = record.store.source.tries([run.name for run in made if _may_cost(run)])
    last = record.newest().last
    recent = last is not None and (utc_now() - last).total_seconds() < _LIVE_SECONDS
    runs = []
    for run in made:
        failures, unread, cost = tries.get(run.name, (0, 0, None))
        sums = scored.get(run.name, (0, 0))
        going = record.store.is_being_written(run.name) or (recent and run is made[-1])
        runs.append(RunCount(run.name, run.observer, run.context, *sums, failures, unread, cost, going))
    return StoreCounts(tuple(sorted(sources.values(), key=lambda one: -one.sequences)), tuple(runs))


def _may_cost(run: Run) -> bool:
    """Whether scores of a run may have a cost: those of observers that are known to be free have none."""
    try:
        return describe_observer(run.observer).costs
    except TurnwiseError:  # an observer that was given as an object, or one that is not installed here
        return True


def means(record: ViewedStore, run: str) -> list[Mean]:
    """The mean scores of prompts of a run over turns by label, turn by turn."""
    with record.tables() as tables:
        found = tables.execute(
            "SELECT label, turn, count(*), avg(T), avg(I), avg(F) FROM copied.evaluations "
            "JOIN copied.runs USING (run) JOIN copied.sequences USING (sequence) "
            "WHERE name = ? AND NOT response AND turn <= ? GROUP BY label, turn ORDER BY label, turn",
            [run, MOST_TURNS],
        ).fetchall()
    return [Mean(*row) for row in found]


def detection(record: ViewedStore, run: str, rule: str) -> dict[tuple[Label, str], Rate]:
    """How many of how many evaluated sequences of a run a rule flags, by label and source."""
    if not is_detector(rule):
        return record.query(rule, run).rates
    first = judge(record, run, rule).first().values()
    fired = Counter((Label(flag.label), flag.source) for _, flag in first)
    with record.tables() as tables:
        scored = tables.execute(
            "SELECT label, source, count(DISTINCT sequence) FROM copied.evaluations JOIN copied.runs USING (run) "
            "JOIN copied.sequences USING (sequence) WHERE name = ? GROUP BY label, source",
            [run],
        ).fetchall()
    return {(Label(label), source): Rate(fired[Label(label), source], of) for label, source, of in scored}
