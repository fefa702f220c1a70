"""What a store is read from: a record in a database, or the findings of a scan.

A source gives runs, sequences, turns, scores and failures, and tables of them for questions over all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnwise._support.notebook import Shown, data_frame, html_table
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Trajectory, Unread
from turnwise.store.damaged_rows import check_turns, intact
from turnwise.store.runs import Run, RunTally

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from turnwise.patterns.sql import Columns
    from turnwise.store.people import People
    from turnwise.store.where import Labels

TellScores = Callable[[int], None]
"""Is told how many more scores are ready for questions."""


@dataclass(frozen=True, slots=True)
class SequenceHead(Shown):
    """A sequence without its texts.

    Args:
        label: ground truth.
        source: the data set that it comes from.
        turns: number of turns.
    """

    sequence_id: str
    label: Label
    source: str
    turns: int


class NumberedHead(NamedTuple):
    """The head of a sequence and its row number, above 0."""

    number: int
    head: SequenceHead


Page = Items[NumberedHead]
"""Some sequences, in the order of import."""

Lengths = Mapping[int, Mapping[int, tuple[int, int]]]
"""Characters of prompt and response, by row number of a sequence and by turn."""


@dataclass(frozen=True, slots=True)
class Newest:
    """How far a store has come: the number of the last row of each table, and when the last score was made."""

    evaluations: int
    failures: int
    sequences: int
    last: datetime | None
    edition: int = 0  # changes whenever a sequence gets another label, or a run is renamed or deleted


class NumberedTexts(NamedTuple):
    """The texts of a sequence, by its row number, above 0: prompts and responses, joined by line ends."""

    number: int
    texts: str
    digest: str  # tells it from another sequence of that number


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


class Mirror(Protocol):
    """Tables of scores in DuckDB that questions are asked of."""

    def trajectories(
        self, run: str, others: Collection[str] = ()
    ) -> AbstractContextManager[tuple[DuckDBPyConnection, str, Columns]]:
        """Give a connection, the table of the trajectories of a run beside those of others, and its columns."""

    def tables(self) -> AbstractContextManager[DuckDBPyConnection]:
        """Give a connection to the tables of docs/sql.md, with every run in them."""

    def chosen(self, where: str, run: str, labels: Labels) -> Items[int]:
        """The row numbers of the sequences for which a condition holds; `run` is the one whose cost it means."""


class Source(Protocol):
    """All that can be read of a store; StoreCorruptError where it is damaged, UnknownNameError for unknown ids."""

    # `ids` and `label` choose sequences, None for all; `turns` chooses turns of each by number, None for all.

    where: str
    """Its location, for messages."""

    note: str | None
    """What a reader ought to know of it; None where there is nothing."""

    has_texts: bool
    """Whether it holds the texts of its sequences, and so the length of every turn."""

    judged_with: Mapping[str, Any] | None
    """The detector that a scan judged with, as its manifest has it; None of a record."""

    @property
    def mirror(self) -> Mirror:
        """The tables that questions are asked of."""

    @property
    def people(self) -> People:
        """What people said."""

    def prepare(self, progress: TellScores) -> None:
        """Do now what the first question would have to wait for."""

    def close(self) -> None:
        """Let go of what is open."""

    def counts(self) -> dict[str, int]:
        """How many sequences, turns, runs, evaluations, failures and unread texts there are."""

    def newest(self) -> Newest:
        """How far it has come; it takes next to no time."""

    # Runs

    def run_names(self) -> Items[str]:
        """The names of all runs, oldest first."""

    def runs(self, name: str | None = None) -> tuple[Run, ...]:
        """All runs, oldest first, or those of a name: one or none."""

    def principle_versions(self, run: str) -> dict[str, str]:
        """The version of every principle that a run was scored against, by name."""

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        """Every run with what it has come to, oldest first."""

    def tries(self, paid: Items[str]) -> dict[str, tuple[int, int, float | None]]:
        """Failed tries, unread texts and cost in US $, if known, by run; only scores of `paid` ones may cost."""

    # Verdicts

    def stamp(self, run: Run) -> str:
        """Changes whenever what was scored in a run is other than it was, rather than more."""

    def scored_after(self, run: Run, after: int, most: int, *, flagged: bool = False) -> tuple[Page, int]:
        """Sequences with scores in a run above a place in it (0 before the first), and the place up to which they
        are all; with `flagged`, only those at which the scan's own detector fired."""

    def count_after(self, run: Run, after: int) -> int:
        """How many sequences have scores above a place in a run."""

    def times(self, turns: Mapping[int, int]) -> dict[int, datetime]:
        """When a turn was said, else when its sequence was imported, by row number of the sequence."""

    # Sequences and turns

    def pages(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Page]:
        """Yield the heads of sequences, some at a time, in the order of import."""

    def sequences(self, page: Page) -> Iterator[Sequence]:
        """Yield the sequences of a page with their texts."""

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Some turns of a sequence."""

    def lengths(self, page: Page, turns: range | None) -> Lengths:
        """The length of every turn; without texts, only of what was scored."""

    def groups(self, ids: Collection[str] | None, label: Label | None) -> dict[str, str]:
        """The group of each sequence by id, in the order of import."""

    def ids_with(self, key: str, value: str | int, most: int) -> list[str]:
        """The ids of at most so many sequences with a value in their metadata, in the order of import."""

    def participants(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the participants of every sequence as JSON values, with its id, in the order of import."""

    def count(self, after: int = 0) -> int:
        """How many sequences there are above a row number."""

    def texts(self, after: int, most: int) -> list[NumberedTexts]:
        """The texts of the next sequences above a row number, at most so many."""

    def metadata(self, after: int, most: int) -> list[tuple[int, Any]]:
        """Row number and metadata, as an object or its JSON, of the next sequences above a row number."""

    def begun(self, imported: bool) -> Mapping[int, datetime]:
        """When the first turn of each sequence was said, or when it was imported, by row number where known."""

    # Scores and failures

    def evaluations(self, run: Run, page: Page, turns: range | None, replies: bool) -> Iterable[Items[Evaluation]]:
        """The evaluations of each sequence of a page, in its order; with `replies`, what they rest on too."""

    def scores(self, run: Run, page: Page) -> Iterator[tuple[int, int, Side, str, float, float, float]]:
        """Yield row number, turn, side, principle, T, I and F of the scores of a page, in that order."""

    def peaks(self, run: Run) -> NDArray[np.float64]:
        """Rows of a sequence's number, a turn, and the highest F of its prompt; a turn may have several rows."""

    def score_count(self, run: Run, page: Page | None = None) -> int:
        """How many scores a run has, of all sequences or those of a page."""

    def recorded(self, run: Run, ids: Collection[str]) -> set[EvaluationKey]:
        """The keys of all evaluations that a run has of these sequences."""

    def failures(
        self, run: Run, ids: Collection[str] | None, turns: range | None, replies: bool
    ) -> tuple[Failure, ...]:
        """Every failure that a run recorded, oldest first."""

    def unread(self, run: Run, ids: Collection[str] | None, turns: range | None) -> tuple[Unread, ...]:
        """What a run did not read, once each, oldest first."""

    def failed(self, run: Run, ids: Collection[str] | None) -> set[EvaluationKey]:
        """The keys of what failed and was not scored since."""

    # The same for every source

    def run(self, name: str) -> Run:
        """The run of a name; UnknownNameError where there is none."""
        for run in self.runs(name):
            return run
        raise UnknownNameError("run", name, self.run_names())

    def only_run(self) -> str:
        """The name of the only run; UsageError where there are none or several."""
        names = self.run_names()
        if len(names) == 1:
            return names[0]
        if not names:
            raise UsageError(f"{self.where} has no run yet: make one with turnwise evaluate --store {self.where}")
        raise UsageError(f"{self.where} has several runs: choose one with --run ({', '.join(names)})")

    def trajectories(
        self, run: str, ids: Collection[str] | None, label: Label | None, turns: range | None, replies: bool
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory in a run; see `Store.trajectories`."""
        known = self.run(run)
        for page in self.pages(ids, label):
            found = self.evaluations(known, page, turns, replies)
            lengths = self.lengths(page, turns)
            for (number, head), scored in zip(page, found, strict=True):
                with intact(self.where, f"the trajectory of sequence {head.sequence_id!r} in run {run!r}"):
                    part = range(1, head.turns + 1)
                    if turns is not None:
                        part = range(max(turns.start, 1), min(turns.stop, head.turns + 1))
                    chars = lengths.get(number, {})
                    if self.has_texts:
                        check_turns(part, chars)
                    trajectory = Trajectory(run, head.sequence_id, part.stop - 1, scored, chars, first=part.start)
                yield head, trajectory

    def score_table(self, run: str, ids: Collection[str] | None, label: Label | None) -> ScoreTable:
        """The scores of a run as rows; see `Store.scores`."""
        known = self.run(run)

        def rows() -> Iterator[StoredScore]:
            for page in self.pages(ids, label):
                heads = dict(page)
                for score in self.scores(known, page):
                    head = heads[score[0]]
                    yield StoredScore(head.sequence_id, head.label, head.source, *score[1:])

        def count() -> int:
            if ids is None and label is None:
                return self.score_count(known)
            return sum(self.score_count(known, page) for page in self.pages(ids, label))

        return ScoreTable(run, rows, count)
