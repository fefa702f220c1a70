"""Which conversations hold some words, by an index of full text (SQLite FTS5) beside the record; and where.

The index is made in the background, and holds words and row numbers, never a text, in a file that may be deleted
at any time. It is a file of its own, so that looking never writes to the record: ``work.db-words`` beside
``work.db``, or a temporary file where that can't be written or the record is in a server.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnwise._support.sqlite_files import harden, refuse_foreign_objects
from turnwise._support.visible import visible
from turnwise.errors import StoreError, UsageError
from turnwise.explorer.data.record import ViewedStore

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

    def __init__(self, record: ViewedStore, file: Path | None = None) -> None:
        self._record = record
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._file = file or self._beside(record)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._done = self._of = self._upto = 0
        self._error: str | None = None
        self._edition: int | None = None
        self._found = lru_cache(_KEPT)(self._matches)

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
        question = fts_query(words)
        return self._found(question, self.progress()[0])

    def _matches(self, question: str, done: int) -> NDArray[np.int64]:
        """What is found once `done` sequences are in the index."""
        try:
            with contextlib.closing(self._opened()) as index:
                found = index.execute("SELECT rowid FROM words WHERE words MATCH ?", [question])
                return np.fromiter((row[0] for row in found), np.int64)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return np.empty(0, np.int64)  # it was only just begun

    # Making it -------------------------------------------------------------------------------------------

    def _beside(self, record: ViewedStore) -> Path:
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
        newest = self._record.newest()
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if newest.edition != self._edition:  # rows went, so it may hold words that are not there
                if self._edition is not None:
                    self._remove()
                self._edition = newest.edition
            done = self._thread is not None and self._error is None and newest.sequences == self._upto
            if done or self._closing.is_set():
                return
            self._upto = newest.sequences
            self._error = None
            self._thread = threading.Thread(target=self._index, name="turnwise words", daemon=True)
            self._thread.start()
        self._thread.join(0.1)  # a small store is indexed before anybody has to wait

    def _remove(self) -> None:
        """Remove the index, to make it anew."""
        for ending in ("", "-wal", "-shm"):
            self._file.with_name(f"{self._file.name}{ending}").unlink(missing_ok=True)
        self._found.cache_clear()
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
    for word, begins, denied in _asked(words):
        (unwanted if denied else wanted).append(f'"{word}"' + ("*" if begins else ""))
    if not wanted:
        raise UsageError("type a word to search for; -word alone leaves nothing to find")
    if len(wanted) + len(unwanted) > _MOST_WORDS:
        raise UsageError(f"search for at most {_MOST_WORDS} words")
    return " NOT ".join([f"({' '.join(wanted)})" if unwanted else " ".join(wanted), *unwanted])


def found_words(words: str, wanted: Iterable[str]) -> list[tuple[int, int]]:
    """Where some words begin and end in a text, in any case and with any accents.

    >>> found_words("Ein Café, cafés", ["cafe"]), found_words("abc", [""])
    ([(4, 8)], [])
    >>> found_words("cafés", ["cafe*"])
    [(0, 4)]
    """
    folded, places = [], []
    for at, character in enumerate(words):
        for one in _folded(character):
            folded.append(one)
            places.append(at)
    plain = "".join(folded)
    found: list[tuple[int, int]] = []
    for given in wanted:
        word = _folded(given.strip('"*'))
        at = plain.find(word) if word else -1
        while at >= 0:
            end = at + len(word)
            whole = given.endswith("*") or end == len(plain) or not plain[end].isalnum()
            if whole and (at == 0 or not plain[at - 1].isalnum()):
                found.append((places[at], places[end - 1] + 1))
            at = plain.find(word, end)
    apart: list[tuple[int, int]] = []
    for begin, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if not apart or begin >= apart[-1][1]:
            apart.append((begin, end))
    return apart


def _folded(words: str) -> str:
    return "".join(
        one for one in unicodedata.normalize("NFKD", words.casefold()) if not unicodedata.combining(one)
    )


def search_words(question: str) -> list[str]:
    """The words and phrases that a search wants to find, without those that must not be there.

    >>> search_words('one "two words" -not begin* -"nor this"')
    ['one', 'two words', 'begin*']
    """
    return [f"{word}*" if begins else word for word, begins, denied in _asked(question) if not denied]


def _asked(question: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield words and phrases, whether each only begins a word, and whether it must not be there."""
    parts = question.split('"')
    for place, part in enumerate(parts):
        if place % 2:
            given = [(part, False, parts[place - 1].endswith("-"))]
        else:
            given = [(one.lstrip("-").rstrip("*"), one.endswith("*"), one.startswith("-")) for one in part.split()]
        yield from (one for one in given if any(map(str.isalnum, one[0])))


def excerpt(words: str, wanted: Sequence[str]) -> dict[str, str] | None:
    """The first of some words in a text with what is around it, for a cell; None where none of them is there."""
    shown = visible(words)
    for begin, end in found_words(shown, wanted)[:1]:
        before = shown[max(0, begin - _AROUND) : begin]
        return {"before": before, "found": shown[begin:end], "after": shown[end : end + _AROUND]}
    return None


_AROUND = 60
"""Characters on each side of what was found."""
