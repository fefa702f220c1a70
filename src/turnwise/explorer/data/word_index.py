"""Which conversations hold some words: an index of full text (SQLite FTS5) beside the record.

It is made in the background, and holds words and row numbers, never a text, in a file that may be deleted at any
time. It is a file of its own, so that looking never writes to the record: ``work.db-words`` beside ``work.db``,
or a temporary file where that can't be written or the record is in a server.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnwise._support.sqlite_files import harden, refuse_foreign_objects
from turnwise.errors import StoreError, UsageError
from turnwise.explorer.data.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PAGE = 500
"""Sequences that are read and indexed in one transaction."""

_VERSION = 1
"""Of the index; another one is made anew."""

_APPLICATION = 0x7475726E
"""Marks the file as ours; another one of that name is left alone."""

_TABLES: Final = (
    "CREATE VIRTUAL TABLE words USING fts5"
    "(said, content='', tokenize='unicode61 remove_diacritics 2', columnsize=0)",
    "CREATE TABLE upto (sequence INTEGER, digest TEXT)",
    # What FTS5 keeps them in.
    "CREATE TABLE 'words_data'(id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE TABLE 'words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID",
    "CREATE TABLE 'words_config'(k PRIMARY KEY, v) WITHOUT ROWID",
)

_MOST_WORDS = 32
"""Words of a question."""

_KEPT: Final = 16
"""Answers that are kept for the next page of a table."""


class WordIndex:
    """Finds conversations by words in their texts, prompts and responses alike."""

    def __init__(self, record: Record, file: Path | None = None) -> None:
        self._record = record
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._file = file or self._beside(record)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._done = self._of = self._upto = 0
        self._error: str | None = None
        self._edition: int | None = None
        self._answers: OrderedDict[tuple[str, int], NDArray[np.int64]] = OrderedDict()

    def close(self) -> None:
        """Stop indexing; what is done stays done."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._temporary is not None:
            self._temporary.cleanup()

    def progress(self) -> tuple[int, int]:
        """Begin indexing where sequences are missing; return how many are in the index and how many there are."""
        self._begin()
        if self._error is not None:
            raise UsageError(f"the index of words can't be made ({self._error}); make room, or set TMPDIR")
        return self._done, self._of

    def wait(self) -> None:
        """Wait until all sequences are in the index."""
        self._begin()
        if self._thread is not None:
            self._thread.join()
        self.progress()

    def find(self, words: str) -> NDArray[np.int64]:
        """The row numbers of sequences that hold all of some words.

        ``"two words"`` in quotes follow one another, ``word*`` is the beginning of one, ``-word`` must not be
        there. Letters' case and accents don't matter.
        """
        import numpy as np

        question = fts_query(words)
        done, _ = self.progress()
        key = question, done
        with self._lock:
            if key in self._answers:
                return self._answers[key]
        try:
            with contextlib.closing(self._opened()) as index:
                found = index.execute("SELECT rowid FROM words WHERE words MATCH ?", [question])
                rows = np.fromiter((row[0] for row in found), np.int64)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return np.empty(0, np.int64)  # it was only just begun
        with self._lock:
            self._answers[key] = rows
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        return rows

    # Making it -------------------------------------------------------------------------------------------

    def _beside(self, record: Record) -> Path:
        location = Path(record.store.location)
        if "://" not in record.store.location and location.is_file():
            beside = location.with_name(f"{location.name}-words")
            try:
                with contextlib.closing(sqlite3.connect(beside)) as index:
                    harden(index)
                    refuse_foreign_objects(index, str(beside), _TABLES)
                    ours = index.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
                    if ours or index.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                        index.execute(f"PRAGMA application_id = {_APPLICATION}")
                        return beside
            except (sqlite3.Error, StoreError):  # a folder that can't be written to, or a file of somebody else
                pass
        self._temporary = tempfile.TemporaryDirectory(prefix="turnwise-words-")
        return Path(self._temporary.name, "words.db")

    def _opened(self) -> sqlite3.Connection:
        index = sqlite3.connect(self._file, timeout=30.0)
        harden(index)
        index.execute("PRAGMA journal_mode = WAL")
        index.execute("PRAGMA synchronous = OFF")  # what a crash spoils is made anew
        return index

    def _begin(self) -> None:
        newest = self._record.newest_sequence()
        edition = self._record.store.source.newest().edition
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if edition != self._edition:  # rows went, so it may hold words that are not there
                if self._edition is not None:
                    self._remove()
                self._edition = edition
            if self._closing.is_set() or (
                self._thread is not None and self._error is None and newest == self._upto
            ):
                return
            self._upto = newest
            self._error = None
            self._thread = threading.Thread(target=self._index, name="turnwise words", daemon=True)
            self._thread.start()
        self._thread.join(0.1)  # a small store is indexed before anybody has to wait

    def _remove(self) -> None:
        """Remove the index, to make it anew."""
        for ending in ("", "-wal", "-shm"):
            self._file.with_name(f"{self._file.name}{ending}").unlink(missing_ok=True)
        self._answers.clear()
        self._upto = -1

    def _index(self) -> None:
        try:
            with contextlib.closing(self._opened()) as index:
                last = self._prepared(index)
                self._of = self._record.store.source.count()
                self._done = self._of - self._record.store.source.count(last)
                while not self._closing.is_set():
                    page = self._record.store.source.texts(last, _PAGE)
                    if not page:
                        break
                    last, digest = page[-1][0], page[-1][2]
                    with index:
                        index.executemany(
                            "INSERT INTO words(rowid, said) VALUES (?, ?)", [row[:2] for row in page]
                        )
                        index.execute("DELETE FROM upto")
                        index.execute("INSERT INTO upto VALUES (?, ?)", (last, digest))
                    self._done += len(page)
                    self._of = max(self._of, self._done)
        except (sqlite3.Error, OSError) as error:
            self._error = str(error)

    def _prepared(self, index: sqlite3.Connection) -> int:
        """The row number up to which sequences of this very record are in the index, which may be made anew."""
        if index.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
            found = index.execute("SELECT sequence, digest FROM upto").fetchone()
            if found is not None:
                there = self._record.store.source.texts(found[0] - 1, 1)
                if [(one.number, one.digest) for one in there] == [found]:
                    return int(found[0])
        with index:
            for table in ("words", "upto"):
                index.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES[:2]:
                index.execute(statement)
            index.execute(f"PRAGMA user_version = {_VERSION}")
        return 0


def fts_query(words: str) -> str:
    """The question in the words of FTS5, in which nothing that was typed is an operator.

    >>> fts_query('slow "white lie" -recipe -"old one" promis*')
    '("slow" "white lie" "promis"*) NOT "recipe" NOT "old one"'
    """
    wanted: list[str] = []
    unwanted: list[str] = []
    parts = words.split('"')
    for place, part in enumerate(parts):
        quoted = place % 2 == 1
        denied = quoted and parts[place - 1].endswith("-")
        for one in [part] if quoted else part.split():
            bare = one if quoted else one.lstrip("-").rstrip("*")
            if any(character.isalnum() for character in bare):
                begins = not quoted and one.endswith("*")
                put = unwanted if denied or (not quoted and one.startswith("-")) else wanted
                put.append(f'"{bare}"' + ("*" if begins else ""))
    if not wanted:
        raise UsageError("type a word to search for; -word alone leaves nothing to find")
    if len(wanted) + len(unwanted) > _MOST_WORDS:
        raise UsageError(f"search for at most {_MOST_WORDS} words")
    return " NOT ".join([f"({' '.join(wanted)})" if unwanted else " ".join(wanted), *unwanted])
