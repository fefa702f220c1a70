"""The store: sequences, runs, evaluations, failures and raw replies, in a SQLite file or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Label, Sequence, Turn
from turnwise.errors import UsageError
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Trajectory, Unread
from turnwise.store.audit_log import AuditLog
from turnwise.store.database import BUSY_SECONDS, Database
from turnwise.store.erasure import Erasure, erase_from_record
from turnwise.store.findings.files import is_findings
from turnwise.store.journal import Journal
from turnwise.store.kept_verdicts import KeptVerdicts
from turnwise.store.record_source import RecordSource
from turnwise.store.runs import Run, Runs, RunTally
from turnwise.store.score_rows import Appender
from turnwise.store.sequences import Added, add_sequences
from turnwise.store.source import Mirror, ScoreTable, SequenceHead, Source

if TYPE_CHECKING:
    from turnwise.patterns import Expression, Library
    from turnwise.store.people import People
    from turnwise.store.query import QueryResult
    from turnwise.store.transfer import Exported, Merged


class Record:
    """A record that is open."""

    def __init__(self, location: str, *, create: bool, clock: Clock, busy_seconds: float) -> None:
        self.database = Database(location, create=create, clock=clock, busy_seconds=busy_seconds)
        self.source = RecordSource(self.database)
        self.runs = Runs(self.database)
        self.appender = Appender(self.database, self.runs)
        self.journal = Journal(self.database)
        self.audit = AuditLog(self.database)

    def close(self) -> None:
        self.database.finish()
        self.runs.close()
        self.journal.close()
        self.database.close()


_ANOTHER = "scan into another folder"
_IMPORT = "make a store with turnwise import"
_TRANSFER = "export them or import into them", "their files are Parquet already, see docs/findings.md"
"""What can't be done to findings, and what to do instead."""


class Store:
    """The record of one or more data sets and runs, or the findings of a scan, which can only be read.

    Appends are durable when they return. Several threads and processes may use a store at once. Each method raises
    UnknownNameError for a run or sequence that the store does not have; nothing was changed then.

    Args:
        location: a file, ``sqlite:///file``, or ``postgresql://user@host/database``; docs/postgresql.md has more.
            Of findings their folder, their ``manifest.json``, or a pattern such as ``findings/*.parquet``, here or
            behind a URL; docs/findings.md has more.
        create: make the record where there is none; else a missing one is an error.
        clock: gives the times that are recorded.
        busy_seconds: how long to wait for another process that writes, and for a server that was lost.

    Raises:
        StoreError: there is no such store, or it can't be opened; see its kinds in `turnwise.errors`.
        FindingsError: findings without a manifest that can be read.
        LocationError: findings behind a URL that can't be reached.
        UsageError: a location that names no file and no PostgreSQL, or psycopg is not installed.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        create: bool = False,
        clock: Clock = utc_now,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._name = name = str(location)
        self._clock = clock
        self._kept: KeptVerdicts | None = None
        self._record: Record | None = None
        if is_findings(name):
            from turnwise.store.findings.source import FindingsSource

            if create:
                raise _refused(f"import into {name}", f"{_IMPORT} FILE --store work.db")
            self._source: Source = FindingsSource(name, clock)
        else:
            self._record = Record(name, create=create, clock=clock, busy_seconds=busy_seconds)
            self._source = self._record.source

    def _writing(self, what: str, instead: str) -> Record:
        """The record, to be written; UsageError for findings, to which nobody can do that."""
        if self._record is None:
            raise _refused(what, instead)
        return self._record

    @property
    def location(self) -> str:
        """Where it is: a file, or a URL without its password."""
        return self._source.where

    @property
    def is_findings(self) -> bool:
        """Whether this is the findings of a scan, to which only judgements of people can be added."""
        return self._record is None

    @property
    def note(self) -> str | None:
        """A note for readers, such as that a scan has not ended; None where there is nothing to note."""
        return self._source.note

    def prepare(self, progress: Callable[[int], None] = lambda scores: None) -> None:
        """Make the index of findings, which questions need; it takes seconds for a million conversations.

        Without this call the first question makes it.

        Args:
            progress: is told how many more scores are done.

        Raises:
            StoreError: a file of the findings is damaged, or there is no room for the index.
        """
        self._source.prepare(progress)

    def close(self) -> None:
        """Write what is pending and close the database. Closing twice is harmless."""
        if self._kept is not None:
            self._kept.close()
        self._source.close()
        if self._record is not None:
            self._record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is not None and self._record is not None:  # what failed leaves no empty store behind
            self._record.database.discard()

    def counts(self) -> dict[str, int]:
        """Return how many sequences, turns, runs, evaluations, failures and unread texts the store holds."""
        return self._source.counts()

    def __repr__(self) -> str:
        return f"Store({self.location!r})"

    def _repr_html_(self) -> str:
        from turnwise._support.notebook import html_table

        return html_table(f"Store {self.location}", ("table", "rows"), self.counts().items())

    # Sequences

    def add_sequences(self, sequences: Iterable[Sequence], *, relabel: bool = False) -> list[Added]:
        """Store sequences in one transaction, and say of each whether it was new.

        A sequence that is there already, word for word, is left alone.

        Args:
            relabel: where a sequence is there with the same turns, give it the label that it has here, and the
                word of a label that is not known (``unknown_label`` in the metadata). Nothing else of it changes.

        Raises:
            OtherLabelError: an id is taken by a sequence with the same turns and another label, without `relabel`;
                nothing of this call is stored.
            UsageError: an id is taken by a sequence with other content, with `relabel` with other turns; nothing
                of this call is stored.
        """
        instead = "scan them into another folder, or turnwise import them into a store"
        return add_sequences(self._writing("add sequences", instead).database, sequences, relabel=relabel)

    def sequence(self, sequence_id: str) -> Sequence:
        """Return one sequence."""
        return next(self.sequences(ids=[sequence_id]))

    def sequences(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Sequence]:
        """Yield sequences with their texts, in the order in which they were imported.

        Args:
            ids: only these.
            label: only those with this ground truth.
        """
        for page in self._source.pages(ids, label):
            yield from self._source.sequences(page)

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Return some turns of a sequence.

        In a record, the first call reads all turns, to check that they are what was stored.

        Args:
            turns: their numbers; those that the sequence does not have are left out.
        """
        return self._source.turns(sequence_id, turns)

    def heads(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[SequenceHead]:
        """Yield sequences without their texts; arguments and errors as for `sequences`."""
        return (one.head for page in self._source.pages(ids, label) for one in page)

    def groups(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> dict[str, str]:
        """Return the group of each sequence by id, in the order of import, as its metadata name it.

        A sequence whose metadata name none is a group of its own, named by its id. No text is read. Arguments and
        errors as for `sequences`.
        """
        return self._source.groups(ids, label)

    def ids_with(self, key: str, value: str | int, most: int = 50) -> list[str]:
        """Return ids of sequences whose metadata have a value under a key, in the order of import.

        Args:
            key: a key, such as ``pair``.
            value: a text or a whole number.
            most: how many ids at most.
        """
        return self._source.ids_with(key, value, most)

    # Runs

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, oldest first."""
        return self._source.runs()

    def run(self, name: str) -> Run:
        """Return one run."""
        return self._source.run(name)

    def only_run(self) -> str:
        """Return the name of the only run.

        Raises:
            UsageError: the store has none, or several; the message lists them.
        """
        return self._source.only_run()

    def start_run(self, run: Run) -> Run:
        """Store a run, or return the one of that name if it has the same configuration.

        Until this store is closed, no other one can rename or delete the run.

        Raises:
            UsageError: there is a run of that name with another configuration; the message says what differs.
        """
        return self._writing("add a run", _ANOTHER).runs.start(run)

    def is_being_written(self, run: str) -> bool:
        """Whether another store, in this process or another, writes a run now: it isn't finished."""
        return self._record is not None and self._record.runs.written_elsewhere(run)

    def rename_run(self, old: str, new: str) -> Run:
        """Give a run another name, and return it.

        Raises:
            UsageError: the new name is taken, or empty.
            StoreLockedError: another store writes the run.
        """
        record = self._writing("rename the run", _ANOTHER)
        renamed = record.runs.rename(old, new)
        record.appender.forget_keys()
        return renamed

    def delete_run(self, name: str) -> RunTally:
        """Delete a run with its scores, failures and calls in one transaction, and return its last tally.

        Sequences stay. So do replies of language models that the journal keeps: they were paid for.

        Raises:
            StoreLockedError: another store writes the run.
        """
        record = self._writing("delete the run", "remove the folder")
        deleted = record.runs.delete(name)
        record.appender.forget_keys()
        return deleted

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        """Return every run with its counts, cost and time, oldest first."""
        return self._source.tallies()

    def tally(self, run: str) -> RunTally:
        """Return the counts, cost and time of one run."""
        self._source.run(run)
        return next(tally for known, tally in self.tallies() if known.name == run)

    def principle_versions(self, run: str) -> dict[str, str]:
        """Return the version of every principle that a run was scored against, by name; none for no such run."""
        return self._source.principle_versions(run)

    def erase(self, ids: Collection[str], *, author: str = "", reason: str = "") -> Erasure:
        """Erase conversations: texts, scores, failures, replies that only they need, and judgements of people.

        No byte of their texts is left in any file of the store when this returns: files are written anew, which
        takes as long as reading them. The audit of a guard is not looked at; see `turnwise.guard.erase`. Killed
        and asked again for the same conversations it ends what it had begun.

        Args:
            ids: the conversations; at least one.
            author: who does it, for the receipt.
            reason: why, for the receipt.

        Returns:
            The receipt, which the store keeps.

        Raises:
            UsageError: no id, or findings behind a URL.
            StoreError: the store can't be written.
        """
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            raise UsageError("name at least one conversation to erase")
        self.kept_verdicts.forget()
        if self._record is None:
            from turnwise.store.findings.source import FindingsSource

            assert isinstance(self._source, FindingsSource)
            receipt = self._source.erase(wanted, author, reason)
            self._source.close()
            self._source = FindingsSource(self._name, self._clock)
            return receipt
        made = erase_from_record(self._record.database, self._source, wanted, author, reason)
        self._record.appender.forget_keys()
        return made

    def erasures(self) -> tuple[Erasure, ...]:
        """Return the receipts of what was erased, oldest first."""
        return self.people.receipts()

    # Scores

    def append(self, scored: Iterable[Evaluation | Failure | Unread]) -> None:
        """Store evaluations, failures and unread texts in one transaction; durable when this returns.

        Raises:
            UsageError: an evaluation is there already, or its principle was scored in another version; nothing
                of this call is stored.
            UnknownNameError: a run or sequence that the store does not have.
        """
        self.append_soon(scored).result()

    def append_soon(self, scored: Iterable[Evaluation | Failure | Unread]) -> Future[None]:
        """Queue what `append` would store; the future is done once it is durable."""
        instead = "scan with another configuration into another folder"
        return self._writing("add scores", instead).appender.append(scored)

    def scores(
        self, run: str | None = None, *, ids: Collection[str] | None = None, label: Label | None = None
    ) -> ScoreTable:
        """Return the scores of a run as rows; `ScoreTable.to_frame` makes a pandas table of them.

        Args:
            run: name of the run; the only one by default.
            ids: only these sequences.
            label: only sequences with this ground truth.

        Raises:
            UnknownNameError: the store has no such run, or, once rows are read, no sequence of one of the ids.
            UsageError: no run is named where there are several.
        """
        return self._source.score_table(self.only_run() if run is None else run, ids, label)

    def trajectory(
        self, run: str, sequence_id: str, *, turns: range | None = None, replies: bool = False
    ) -> Trajectory:
        """Return the trajectory of one sequence in a run; empty where nothing was evaluated.

        Args:
            run: name of the run.
            turns: only these turns, by number; then it takes no time how long the rest is.
            replies: load what the scores rest on too: raw replies and calls.
        """
        found = self.trajectories(run, ids=[sequence_id], turns=turns, replies=replies)
        return next(trajectory for _, trajectory in found)

    def trajectories(
        self,
        run: str,
        *,
        ids: Collection[str] | None = None,
        label: Label | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory in a run, in the order of import.

        Args:
            run: name of the run.
            ids: only these sequences.
            label: only sequences with this ground truth.
            turns: only these turns of each, by number.
            replies: load what the scores rest on too: raw replies and calls. Detectors need neither.
        """
        return self._source.trajectories(run, ids, label, turns, replies)

    def failures(
        self, run: str, *, ids: Collection[str] | None = None, turns: range | None = None, replies: bool = False
    ) -> tuple[Failure, ...]:
        """Return every failure that a run recorded, oldest first, including those that were mended later.

        Arguments and errors as for `trajectories`.
        """
        return self._source.failures(self._source.run(run), ids, turns, replies)

    def unread(
        self, run: str, *, ids: Collection[str] | None = None, turns: range | None = None
    ) -> tuple[Unread, ...]:
        """Return the texts without a score because the observer does not read their language, oldest first.

        Arguments and errors as for `trajectories`.
        """
        return self._source.unread(self._source.run(run), ids, turns)

    def recorded(self, run: str, sequence_ids: Collection[str]) -> set[EvaluationKey]:
        """Return the keys of all evaluations that a run has of these sequences, without failures.

        Ids that the store does not have are passed over.
        """
        return self._source.recorded(self._source.run(run), sequence_ids)

    def failed(self, run: str, *, ids: Collection[str] | None = None) -> set[EvaluationKey]:
        """Return the keys of the scores of a run that failed and were not scored since."""
        return self._source.failed(self._source.run(run), ids)

    @property
    def people(self) -> People:
        """Judgements of people: corrected labels, the turn where a conversation turned, scores of turns."""
        return self._source.people

    @property
    def journal(self) -> Journal:
        """The replies of language models that were kept, to be found again; UsageError for findings."""
        what = "keep replies of language models in them"
        return self._writing(what, f"{_IMPORT}, then turnwise evaluate").journal

    @property
    def audit(self) -> AuditLog:
        """What a guard was asked and what it said; UsageError for findings."""
        return self._writing("find an audit in them", "name the store or the file of the guard").audit

    # Questions

    @property
    def kept_verdicts(self) -> KeptVerdicts:
        """What detectors said before of the runs of this store."""
        if self._kept is None:
            self._kept = KeptVerdicts(self._source.where)
        return self._kept

    @property
    def source(self) -> Source:
        """What the store is read from, for what is indexed beside it."""
        return self._source

    @property
    def mirror(self) -> Mirror:
        """The tables of scores that questions are asked of; made at the first one."""
        return self._source.mirror

    def query(
        self,
        pattern: Expression | str,
        run: str | None = None,
        *,
        when: str = "ever",
        label: Label | None = None,
        source: str | None = None,
        where: str | None = None,
        patterns: Library | None = None,
        corrected_by: Collection[str] = (),
    ) -> QueryResult:
        """Return which sequences match a pattern, as rows, or as a table of pandas, Polars or pyarrow.

        Args:
            pattern: a condition of the pattern language, as text or as a tree; docs/patterns.md describes it.
            run: whose evaluations; the only run by default.
            when: "ever" where it has to hold at some turn, "final" where at the last evaluated one.
            label: only sequences with this ground truth; a corrected label counts where there is one.
            source: only sequences of this data set.
            where: only sequences for which this holds, such as ``'turns >= 5 and metadata.tactic = "x"'``; see
                `turnwise.store.where`.
            patterns: the named patterns that may be used; by default those that ship and those of installed
                packages.
            corrected_by: people whose corrected labels take the place of the imported ones; sequences on which
                they disagree are left out.

        Raises:
            PatternError: the pattern or `where` can't be read, or the pattern is no condition.
            UnknownNameError: no such run, source or principle, `when` is neither, or one of these people said
                nothing.
            NotScoredError: the run has no score of something that the pattern reads.
            UsageError: no run is named where there are several, or the run has no evaluations.
        """
        from turnwise.store.query import query, read_when

        if run is None:
            run = self.only_run()
        return query(
            self.mirror,
            pattern,
            run,
            when=read_when(when),
            label=label,
            source=source,
            where=where,
            patterns=patterns,
            corrections=self.people.labels(corrected_by) if corrected_by else {},
        )

    # Files and other stores

    def export(
        self,
        folder: str | Path,
        *,
        format: str = "parquet",
        runs: Collection[str] | None = None,
        where: str | None = None,
        progress: Callable[[str, int], None] = lambda table, rows: None,
    ) -> Exported:
        """Write the record as it is at this moment into a new folder, whole or not at all; see docs/export.md.

        Args:
            folder: one that does not exist yet, or is empty.
            format: "parquet" or "jsonl", from which `import_from` makes an equal record; "csv" or "arangodb".
            runs: only these runs, with the sequences that they scored and the replies that they rest on.
            where: only sequences for which this holds; see `turnwise.store.where`.
            progress: is told the name of each table that is done, and its rows.

        Raises:
            UnknownNameError: no such format, or no such run.
            UsageError: the folder can't be made, or `where` holds for no sequence.
            PatternError: `where` can't be read.
            StoreError: a row is damaged, or the files can't be written.
        """
        from turnwise.store.transfer import export

        record = self._writing(*_TRANSFER)
        return export(record.database, folder, format, runs=runs, where=where, progress=progress)

    def import_from(self, location: str | Path) -> Merged:
        """Add all that an export or another store holds, in one transaction.

        Into an empty store everything comes as it was, including keys, times and digests. Else what is there
        already, word for word, stays as it is.

        Args:
            location: the folder of an export, or a store.

        Raises:
            UsageError: a sequence, run or score clashes with what this store holds, and the message lists which;
                or the export is in a format that does not carry a whole store. Nothing was imported then.
            StoreError: there is no such export or store, or it is damaged. Nothing was imported then.
        """
        from turnwise.store.transfer import import_record

        record = self._writing(*_TRANSFER)
        return import_record(record.database, record.runs, location)


def _refused(what: str, instead: str) -> UsageError:
    return UsageError(f"findings of a scan can be read alone, so turnwise can't {what}: {instead}")
