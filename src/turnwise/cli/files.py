"""Stores and files that commands read and write."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from turnwise.cli.output import note, progress
from turnwise.errors import ConversationError, UsageError

if TYPE_CHECKING:
    import pyarrow

    from turnwise.conversation import Conversation
    from turnwise.store import SequenceHead, Store


_MANY = 500_000
"""Scores of findings whose first reading takes long enough for a bar."""


@contextmanager
def opened_store(location: str, *, prepared: bool = True) -> Iterator[Store]:
    """Open a store and print its note; `prepared` makes now what questions need of findings, with a bar."""
    from turnwise.store import Store

    with Store(location) as opened:
        if opened.note:
            note(opened.note)
        scores = opened.counts()["evaluations"] if prepared and opened.is_findings else 0
        if scores >= _MANY:
            read = 0
            with progress("reading the findings for the first time") as tell:

                def show(steps: int) -> None:
                    nonlocal read
                    read += steps
                    tell(read, scores)

                opened.prepare(show)
        yield opened


def read_run(store: Store, name: str | None) -> str:
    """The name of a run that the store has: the given one, or the only one."""
    return store.only_run() if name is None else store.run(name).name


def read_people(corrected_by: Sequence[str] | None) -> tuple[str, ...]:
    """Whose corrected labels hold, each name once."""
    return tuple(dict.fromkeys(corrected_by or ()))


def check_turn(option: str, turn: int, sequence_id: str, turns: int) -> None:
    """Refuse the number of a turn that a sequence does not have."""
    if turn > turns:
        there = "1 turn" if turns == 1 else f"{turns} turns"
        raise UsageError(f"{option} {turn}: {sequence_id} has only {there}")


class CountedLabels(NamedTuple):
    """Whose labels a command counts."""

    corrected_by: tuple[str, ...]  # nobody means the imported ones
    corrected: int  # conversations whose label is not that of their data set but what these people made of it
    disputed: int  # conversations in no rate because these people disagree

    def __str__(self) -> str:
        left = f"; {self.disputed} on which they disagree are in no rate" if self.disputed else ""
        return (
            f"the labels of {self.corrected} conversations are not those of their data sets but what "
            f"{', '.join(self.corrected_by)} made of them{left}"
        )

    def as_heading(self) -> str:
        """A comment of a YAML file; nothing where imported labels are counted."""
        return f"# {str(self)[0].upper()}{str(self)[1:]}.\n" if self.corrected_by else ""

    def tell(self, store: Store, heads: Iterable[SequenceHead] | None = None) -> None:
        """Say it on standard error; where imported labels are counted, how many of them people corrected."""
        if self.corrected_by:
            note(str(self))
            return
        said = store.people.labels()
        known = (store.heads(ids=said) if said else ()) if heads is None else heads  # only these can differ
        others = sum(said.get(head.sequence_id, head.label) is not head.label for head in known)
        if not others:
            return
        authors = sorted({one.author for one in store.people.corrections() if one.label})
        names = (
            f"--corrected-by {author!r}" if " " in author else f"--corrected-by {author}" for author in authors
        )
        note(
            f"people say of {others} of these conversations that their label is another one, which is not counted "
            f"here; {' '.join(names)} counts it"
        )


ROW_FILES = (".csv", ".parquet", ".json")
"""Endings of the files that rows can be written to."""

ARROW_FILES = (".csv", ".parquet", ".arrow")
"""Endings of the files that the answer to a question can be written to."""


def read_conversation(file: str) -> Conversation:
    """The conversation of a JSON file in any form that turnwise reads, or of standard input for ``-``."""
    from turnwise._support.bounded import read_json
    from turnwise._support.locations import to_path
    from turnwise.conversation import from_any

    where = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else to_path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConversationError(f"can't read {where}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConversationError(f"{where} is not UTF-8 text: {error}") from error
    try:
        return from_any(read_json(text))
    except ConversationError as error:
        raise ConversationError(f"{where}: {error}") from error
    except ValueError as error:
        raise ConversationError(f"{where} is not JSON: {error}; give one conversation") from error


@contextmanager
def writing(path: str | PathLike[str], *, taken: str | None = None, home: bool = False) -> Iterator[IO[str]]:
    """Open a text file to write, over another one unless `taken` says what to do; `home` knows a leading ~."""
    from turnwise._support.locations import to_path

    try:
        target = to_path(path, home=home)
        mode = "w" if taken is None else "x"
        # Half of a surrogate pair becomes an escape; line ends stay as they are.
        with target.open(mode, encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
    except FileExistsError:
        raise UsageError(f"{path} already exists; {taken}") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file over what is there."""
    with writing(path) as file:
        file.write(text)


def check_export(path: str, endings: Sequence[str]) -> None:
    """Check the ending and folder of a file that rows go to, before any work is done for it."""
    if PurePath(path).suffix.lower() not in endings:
        raise UsageError(f"can't write {path}: the name must end with {', '.join(endings)}")
    check_file(path)


def check_file(path: str | PathLike[str]) -> None:
    """Check that a file can be written, as far as its name says, before any work is done for it."""
    from turnwise._support.locations import to_path

    try:
        target = to_path(path)
        is_folder, missing = target.is_dir(), not target.parent.is_dir()
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error
    if missing:
        raise UsageError(f"can't write {path}: there is no folder {target.parent}; make it first")
    if is_folder:
        raise UsageError(f"can't write {path}: it is a folder; name a file in it")


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> int:
    """Write rows to a CSV file as they come, no cell of which is a formula, and return how many there were."""
    from turnwise._support.table_files import cell

    count = 0
    with writing(path) as file:
        writer = csv.writer(file)
        writer.writerow(map(cell, columns))
        for row in rows:
            writer.writerow([cell(value) for value in row])
            count += 1
    return count


def write_rows(path: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows, with DuckDB's types by column, to CSV, Parquet or JSON by the file's ending; return how many."""
    made = [{name: row[name] for name in columns} for row in rows]
    ending = PurePath(path).suffix.lower()
    if ending == ".json":
        write_text(path, f"{json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False)}\n")
    elif ending == ".parquet":
        from turnwise._support.table_files import write_parquet

        write_parquet(path, columns, made)
    else:
        write_csv(path, tuple(columns), (row.values() for row in made))
    return len(made)


def write_arrow(path: str, table: pyarrow.Table) -> int:
    """Write a table of pyarrow to a Parquet or Arrow file, and return how many rows it has."""
    from turnwise._support.locations import to_path

    try:
        if PurePath(path).suffix.lower() == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(table, to_path(path))
        else:
            import pyarrow.feather

            pyarrow.feather.write_feather(table, str(to_path(path)), compression="uncompressed")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
    return int(table.num_rows)
