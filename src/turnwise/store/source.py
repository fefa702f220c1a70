"""What a store is asked of: a record in a database, or the findings of a scan.

A source gives runs, sequences, turns, scores and failures, and tables of them for questions over all.
`turnwise.store.reading` makes of them what `Store` returns, whichever source it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnwise._support.notebook import Shown
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Unread
from turnwise.store.runs import Run
from turnwise.store.tallies import RunTally

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from turnwise.patterns.sql import Columns
    from turnwise.store.people import People
    from turnwise.store.where import Labels

Progress = Callable[[int], None]
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
    """How far a store has come: the number of the last row of each table, and when the last score was made.

    `edition` changes whenever a sequence gets another label, or a run is renamed or deleted.
    """

    evaluations: int
    failures: int
    sequences: int
    last: datetime | None
    edition: int = 0


class NumberedTexts(NamedTuple):
    """The texts of a sequence, by its row number, above 0: prompts and responses, joined by line ends.

    `digest` tells it from another sequence of that number.
    """

    number: int
    texts: str
    digest: str


class Mirror(Protocol):
    """Tables of scores in DuckDB that questions are asked of."""

    def trajectories(
        self, run: str, others: Collection[str] = ()
    ) -> AbstractContextManager[tuple[DuckDBPyConnection, str, Columns]]:
        """Give a connection, the table of the trajectories of a run, up to date, and what it holds.

        The table has a row for each sequence with an evaluation; see `turnwise.patterns.sql.Columns`. Beside the
        columns of the run it has those of the `others`. Nothing is changed while the block runs.
        """

    def tables(self) -> AbstractContextManager[DuckDBPyConnection]:
        """Give a connection to the tables of docs/sql.md, with every run in them."""

    def chosen(self, where: str, run: str, labels: Labels) -> Items[int]:
        """The row numbers of the sequences for which a condition holds; `run` is the one whose cost it means."""


class Source(Protocol):
    """All that can be read of a store; StoreCorruptError where it is damaged, UnknownNameError for unknown ids.

    `ids` and `label` choose sequences, None for all; `turns` chooses turns of each by number, None for all.
    """

    @property
    def where(self) -> str:
        """Its location, for messages."""

    @property
    def note(self) -> str | None:
        """What a reader ought to know of it; None where there is nothing."""

    @property
    def has_texts(self) -> bool:
        """Whether it holds the texts of its sequences, and so the length of every turn."""

    @property
    def mirror(self) -> Mirror:
        """The tables that questions are asked of."""

    @property
    def people(self) -> People:
        """What people said."""

    def prepare(self, progress: Progress) -> None:
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
        """Failed tries, unread texts and cost in US dollars, if known, by name of the run.

        Only the runs in `paid` may have scores that cost something: the scores of others are not read.
        """

    # Verdicts

    @property
    def judged_with(self) -> Mapping[str, Any] | None:
        """The detector that a scan judged with, as its manifest has it; None of a record."""

    def stamp(self, run: Run) -> str:
        """Changes whenever what was scored in a run is other than it was, rather than more."""

    def scored_after(self, run: Run, after: int, most: int, *, flagged: bool = False) -> tuple[Page, int]:
        """Sequences with scores in a run that lie above a place in it, and the place up to which they are all.

        The place is 0 before the first, and the same again where there are no more. With `flagged`, only those at
        which the scan's own detector fired.
        """

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
        """Row number of the sequence, turn, and highest F over principles of the prompts of a run, a row each.

        In any order; a turn may have several rows.
        """

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
