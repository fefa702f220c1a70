"""What a data set loader is, what it is told, and what it yields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from turnwise.conversation import Label, Sequence
from turnwise.errors import DatasetError

if TYPE_CHECKING:
    from turnwise.datasets.layout import FileHead

SEE_SOURCE = "none stated that we know of: see the source"
"""Licence of a data set whose terms we could not find."""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a person should know of a data set before using it.

    Args:
        name: name of the loader, as ``--format`` takes it.
        title: name of the data set or file format.
        source: where the data come from: who made them and how.
        url: page of the project; empty for a format that no one project owns.
        licence: licence of the data; turnwise ships none of them.
        label_meaning: what the label of a sequence says, and how far it can be trusted.
        shape: shape of the file in a line.
        gated: whether the source wants an account or an agreement first.
        columns: what `LoadOptions.columns` may name for it; empty where the format is fixed.
        directory: whether the loader also reads a folder of files.
        generic: whether anybody may write this format. Sequences are then named after the file, and a file that
            also fits the format of one data set is taken for that.
        roles: whether `LoadOptions.role_map` may explain roles in other words; else they are fixed, or there are
            none.
    """

    name: str
    title: str
    source: str
    url: str
    licence: str
    label_meaning: str
    shape: str
    gated: bool = False
    columns: tuple[str, ...] = ()
    directory: bool = False
    generic: bool = False
    roles: bool = False


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A part of a file that could not be read and was left out; the rest of the file is read on.

    Args:
        line: where it is, from 1: the line in JSONL and CSV, the item in a JSON array, the row in Parquet,
            the file in a folder.
        reason: what is wrong with it, for a person.
        ends: whether the file can't be read beyond it, so that what may have followed is lost.
    """

    line: int
    reason: str
    ends: bool = False


class RecordError(DatasetError):
    """One record that can't be read. A loader raises it; the reader of the file yields a `BadRecord`."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What a user can say about a file that the file does not say itself.

    Args:
        columns: names of the columns to read, by what they hold: ``messages``, ``id``, ``label`` ...; see
            `DatasetInfo.columns` for what a format takes.
        label: label of every sequence whose record carries none, in place of the loader's own.
        source: name of the data set, in place of the loader's own.
        label_map: what labels of the file mean, before the usual words are looked up; see `read_label`.
        role_map: what roles of the file mean; see `turnwise.datasets.open_dataset`.
        encoding: how a text file is encoded; None for UTF-8. Parquet has none.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    label: Label | None = None
    source: str | None = None
    label_map: Mapping[str, Label] = field(default_factory=dict)
    role_map: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None


class Loader(Protocol):
    """Reads one file format. Built without arguments.

    A loader that reads record after record is easier to write as a `RecordLoader`.
    """

    @property
    def info(self) -> DatasetInfo:
        """What a person should know of the data set."""

    def sniff(self, head: FileHead, /) -> bool:
        """Return whether the file is certainly of this format.

        Say yes only where it is safe: taking one data set for another would give its conversations a wrong label.

        Args:
            head: the beginning of the file.
        """

    def load(self, path: str, options: LoadOptions, /) -> Iterator[Sequence | BadRecord]:
        """Yield every sequence of a file in order, and a `BadRecord` where there should have been one.

        Args:
            path: the file, or a folder where `DatasetInfo.directory` says so.
            options: what the user said about it.

        Raises:
            DatasetError: the file can't be read at all.
        """
