"""The input files of a scan: found, told apart by what is in them, and how each is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from turnwise._support.locations import Location
from turnwise.conversation import Label
from turnwise.datasets import DatasetInfo, Loader, LoadOptions, get_loader
from turnwise.datasets.layout import FileHead, Layout, read_head
from turnwise.datasets.opening import check_columns, detect_format, load_options
from turnwise.errors import DatasetError, UsageError
from turnwise.findings import Input

_ENDINGS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".txt")
_PACKED = (".gz", ".bz2", ".zst")
_GLOB = frozenset("*?[")
_LOOKED_AT = 100

_FEWEST = 100
_PACKING = 4
"""So many times as long as what is packed is its content, about."""

_USUAL_BYTES = 8_192
_USUAL_PARTS = 64


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user says of input files that they don't say themselves; see `turnwise.datasets.open_dataset`.

    Args:
        format: format of the files; None to tell it from each.
        columns: names of columns by what they hold, such as ``"messages=chat,id=uid"``.
        label: label of conversations that bring none.
        label_map: what labels of the files mean.
        role_map: what roles of the files mean.
        source: name of the data set, in place of the format's or the file's own.
        encoding: how text files are encoded; UTF-8 by default.
    """

    format: str | None = None
    columns: Mapping[str, str] | str | None = None
    label: Label | str | None = None
    label_map: Mapping[Any, str] | str | None = None
    role_map: Mapping[Any, str] | str | None = None
    source: str | None = None
    encoding: str | None = None

    def of(self, names: Sequence[str]) -> InputSettings:
        """How the files that names stand for are read; refuses what can't be, and files that can't be read."""
        wanted = None if self.format is None else get_loader(self.format).info
        options = load_options(self.columns, self.label, self.label_map, self.role_map, self.source, self.encoding)
        reading = InputSettings(_find(names, wanted), self.format, options)
        reading.check()
        return reading


@dataclass(frozen=True, slots=True)
class InputSettings:
    """How the inputs are read, in the driver and in every worker. Without a `format` it is told from each file."""

    files: tuple[str, ...]
    format: str | None = None
    options: LoadOptions = field(default_factory=LoadOptions)

    def open(self, place: int) -> tuple[FileHead, Loader]:
        """The beginning of a file, by its index, and the loader of its format."""
        name = self.files[place]
        named = None if self.format is None else get_loader(self.format)
        if named is not None and named.info.directory and Location(name).is_folder():
            head = FileHead(name, PurePath(name).name.lower(), Layout.FOLDER, ())
        else:
            head = read_head(name, self.options.encoding)
        loader = named or detect_format(head, self.options)
        check_columns(loader.info, self.options)
        return head, loader

    def check(self) -> None:
        """Refuse inputs of which none of the first hundred opens, so that a wrong format is told at once."""
        first: DatasetError | None = None
        for place in range(min(len(self.files), _LOOKED_AT)):
            try:
                self.open(place)
            except DatasetError as error:
                first = first or error
            else:
                return
        if first is not None:
            raise first

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values, without the files, for the manifest."""
        return {
            "format": self.format,
            "columns": dict(self.options.columns),
            "label": None if self.options.label is None else str(self.options.label),
            "label_map": {str(key): str(label) for key, label in self.options.label_map.items()},
            "role_map": dict(self.options.role_map),
            "source": self.options.source,
            "encoding": self.options.encoding,
        }


def _find(names: Sequence[str], info: DatasetInfo | None) -> tuple[str, ...]:
    """The files that paths, patterns, folders and URLs name, sorted within each name, and each file once."""
    if not names:
        raise UsageError("name the files to scan, such as logs/*.parquet")
    return tuple(dict.fromkeys(file for name in names for file in _files(Location(name), info)))


def _files(location: Location, info: DatasetInfo | None) -> list[str]:
    if _GLOB & set(location.name) and not location.exists():
        files = [str(one) for one in location.matches()]
        if not files:
            raise UsageError(f"no file is named like {location}: check the pattern")
        return files
    if location.is_folder():
        if info is not None and info.directory:
            return [str(location)]
        files = [str(location / name) for name in location.names() if _is_data(name)]
        if not files:
            raise UsageError(
                f"{location} has no data file; they end in {', '.join(_ENDINGS)}, packed or not. "
                "Of folders in folders say the --format, such as claude_code or codex"
            )
        return files
    location.size()
    return [str(location)]


def _is_data(name: str) -> bool:
    plain = name.lower()
    for ending in _PACKED:
        plain = plain.removesuffix(ending)
    return plain.endswith(_ENDINGS) and not name.startswith(".")


def describe_inputs(files: Sequence[str]) -> tuple[Input, ...]:
    """Size and digest of each file, so that a changed one is noticed when a scan goes on; see `Input`."""
    return tuple(_describe(Location(name)) for name in files)


def _describe(location: Location) -> Input:
    if location.is_url:
        return Input(str(location), location.size(), f"ukey:{location.filesystem.ukey(location.name)}")
    if not location.is_folder():
        return Input(str(location), location.size(), f"sha256:{location.sha256()}")
    digest, size = hashlib.sha256(), 0
    for path in sorted(one for one in location.path.rglob("*") if one.is_file()):
        one = Location(str(path))
        size += one.size()
        name = path.relative_to(location.path)
        digest.update(f"{name}\0{one.sha256()}\0".encode(errors="surrogateescape"))
    return Input(str(location), size, f"sha256:{digest.hexdigest()}")


def default_part_rows(inputs: Sequence[Input], most: int) -> int:
    """How many records a part has where nobody says: fewer where there are few bytes, for all workers to share.

    >>> [default_part_rows([Input("a.jsonl", size, "")], 2_000) for size in (10**7, 10**9, 10**10)]
    [100, 1907, 2000]
    """
    total = sum(one.bytes * (_PACKING if one.name.endswith((".parquet", *_PACKED)) else 1) for one in inputs)
    return max(_FEWEST, min(most, total // (_USUAL_BYTES * _USUAL_PARTS)))
