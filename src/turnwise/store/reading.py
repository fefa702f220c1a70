"""What a store returns of its source, whichever that is: runs, trajectories, and scores as rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise._support.notebook import data_frame, html_table
from turnwise.conversation import Label, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Trajectory
from turnwise.store.damage import check_turns, intact
from turnwise.store.runs import Run
from turnwise.store.source import SequenceHead, Source

if TYPE_CHECKING:
    import pandas


class StoredScore(NamedTuple):
    """One score of a run, as a row of a table.

    Args:
        label: ground truth of the sequence.
        source: the data set that it comes from.
        turn: number of the turn, from 1.
        side: the half of the turn that was judged.
        principle: what it was judged against.
        T: truth, in [0, 1].
        I: indeterminacy, in [0, 1].
        F: falsity, in [0, 1].
    """

    sequence_id: str
    label: Label
    source: str
    turn: int
    side: Side
    principle: str
    T: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    F: float


class ScoreTable:
    """The scores of a run, a row each, read anew whenever they are asked for; `Store.scores` makes one.

    Iterating yields one `StoredScore` after the other, by sequence in the order of import, with a few thousand in
    memory at a time.
    """

    def __init__(self, run: str, rows: Callable[[], Iterator[StoredScore]], count: Callable[[], int]) -> None:
        self.run = run
        self._rows = rows
        self._count = count

    def __iter__(self) -> Iterator[StoredScore]:
        return self._rows()

    def __len__(self) -> int:
        return self._count()

    def to_dict(self) -> dict[str, Any]:
        """Return the run and its scores as plain values."""
        return {"run": self.run, "scores": [row._asdict() for row in self]}

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores as a table of pandas, with the fields of `StoredScore` as columns.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(StoredScore._fields, ((*row[:1], str(row.label), *row[2:]) for row in self))

    def __repr__(self) -> str:
        return f"<ScoreTable of run {self.run!r}: {len(self)} scores>"

    def _repr_html_(self) -> str:
        return html_table(f"Scores of run {self.run!r}", StoredScore._fields, self, len(self))


def run_of(source: Source, name: str) -> Run:
    """The run of a name; UnknownNameError where there is none."""
    for run in source.runs(name):
        return run
    raise UnknownNameError("run", name, source.run_names())


def only_run(source: Source) -> str:
    """The name of the only run; UsageError where there are none or several."""
    names, where = source.run_names(), source.where
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{where} has no run yet: make one with turnwise evaluate --store {where}")
    raise UsageError(f"{where} has several runs: choose one with --run ({', '.join(names)})")


def trajectories(
    source: Source,
    run: str,
    ids: Collection[str] | None,
    label: Label | None,
    turns: range | None,
    replies: bool,
) -> Iterator[tuple[SequenceHead, Trajectory]]:
    """Yield every sequence with its trajectory in a run; see `Store.trajectories`."""
    known = run_of(source, run)
    for page in source.pages(ids, label):
        found = source.evaluations(known, page, turns, replies)
        lengths = source.lengths(page, turns)
        for (number, head), scored in zip(page, found, strict=True):
            with intact(source.where, f"the trajectory of sequence {head.sequence_id!r} in run {run!r}"):
                part = range(1, head.turns + 1)
                if turns is not None:
                    part = range(max(turns.start, 1), min(turns.stop, head.turns + 1))
                chars = lengths.get(number, {})
                if source.has_texts:
                    check_turns(part, chars)
                trajectory = Trajectory(run, head.sequence_id, part.stop - 1, scored, chars, first=part.start)
            yield head, trajectory


def score_table(source: Source, run: str, ids: Collection[str] | None, label: Label | None) -> ScoreTable:
    """The scores of a run as rows; see `Store.scores`."""
    known = run_of(source, run)

    def rows() -> Iterator[StoredScore]:
        for page in source.pages(ids, label):
            heads = dict(page)
            for score in source.scores(known, page):
                head = heads[score[0]]
                yield StoredScore(head.sequence_id, head.label, head.source, *score[1:])

    def count() -> int:
        if ids is None and label is None:
            return source.score_count(known)
        return sum(source.score_count(known, page) for page in source.pages(ids, label))

    return ScoreTable(run, rows, count)
