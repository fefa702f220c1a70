"""Which parts of a scan are done: those whose files are whole in the folder of findings."""

from __future__ import annotations

from turnwise._support.locations import PARTIAL, Location
from turnwise.findings import FAILURES, SEQUENCES, TURNS, Findings, PartEntry
from turnwise.runs.part_files import read_entry

_FOLDERS = ("", f"{SEQUENCES}/", f"{TURNS}/", f"{FAILURES}/")
"""Where the files of parts are, within the folder of findings."""


def done_parts(findings: Findings) -> dict[int, PartEntry]:
    """The parts that are done, by number: those of the manifest, and those that it does not know of yet.

    What a worker wrote last was perhaps not in the manifest when the scan was killed; a part's file of sequences
    is its last, and says what belongs to it. Parts whose files are gone or cut short are left out.
    """
    folder = findings.folder
    known = {part.number: part for part in findings.manifest.parts}
    for name in (folder / SEQUENCES).names():
        number = _number(name)
        if number is not None and number not in known:
            entry = read_entry(folder, number)
            if entry is not None:
                known[number] = entry
    sizes = {f"{table}{name}": size for table in _FOLDERS for name, size in (folder / table).sizes().items()}
    return {
        number: part
        for number, part in known.items()
        if all(sizes.get(name) == file.bytes for name, file in part.files.items())
    }


def _number(name: str) -> int | None:
    middle = name.removeprefix(f"{SEQUENCES}-").removesuffix(".parquet")
    return int(middle) if middle.isdecimal() and name.endswith(".parquet") else None


def clear_partial(folder: Location) -> None:
    """Remove what a killed scan wrote only in part; files of object stores are whole or not there."""
    if folder.is_url:
        return
    for table in _FOLDERS:
        for name in (folder / table).sizes():
            if name.endswith(PARTIAL):
                (folder / table / name).remove()
