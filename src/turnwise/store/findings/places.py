"""Which locations are findings, and where what belongs to them is kept: beside them, or in the user's folders."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
from pathlib import Path
from typing import Final

from turnwise._support.locations import Location, is_url
from turnwise._support.paths import to_path
from turnwise.errors import FindingsError, UsageError
from turnwise.findings import MANIFEST, SCORES, Findings, findings_folder, open_findings

_FOLDERS: Final = frozenset(
    (
        "abfs",
        "abfss",
        "adl",
        "az",
        "file",
        "ftp",
        "gcs",
        "gs",
        "hdfs",
        "http",
        "https",
        "memory",
        "s3",
        "s3a",
        "sftp",
    )
)
"""Schemes of URLs behind which there are folders and files."""

_PARQUET: Final = ".parquet"


def is_findings(location: str) -> bool:
    """Whether a location names the findings of a scan rather than a record.

    It may be a folder, its ``manifest.json``, a pattern of its Parquet files, or a URL of any of these.

    >>> is_findings("findings/*.parquet"), is_findings("s3://bucket/findings"), is_findings("work.db")
    (True, True, False)
    >>> is_findings("postgresql://me@server/work")
    False
    """
    if is_url(location):
        return location.partition("://")[0] in _FOLDERS
    if "\0" in location:
        return False
    base = Path(location).name
    if base == MANIFEST or base.endswith(_PARQUET):
        return True
    try:
        folder = to_path(location)
        return folder.is_dir() and ((folder / MANIFEST).exists() or any(folder.glob(f"*{_PARQUET}")))
    except OSError:
        return False


def opened(location: str) -> Findings:
    """Open findings that somebody named as a store; UsageError where that names only some of their parts."""
    from turnwise.store.findings.erasing import finish_erasing

    base = Location(location).base
    with contextlib.suppress(OSError):
        finish_erasing(findings_folder(location))
    findings = _read(location)
    files = [place.base for place in findings.files(SCORES)]
    left_out = [name for name in files if not fnmatch.fnmatchcase(name, base)]
    if base.endswith(_PARQUET) and left_out:
        raise UsageError(
            f"{location} names {len(files) - len(left_out)} of the {len(files)} parts of these findings; a store "
            f"is all of them: give --store {findings.folder}"
        )
    return findings


def _read(location: str) -> Findings:
    try:
        return open_findings(location)
    except FindingsError as error:
        folder = Path(location) if Path(location).is_dir() else Path(location).parent
        if not is_url(location) and (folder / MANIFEST).is_file() and (folder / "sequences.parquet").is_file():
            raise FindingsError(
                f"{folder} is an export of a store and not the findings of a scan: make a store of it with "
                f"turnwise import --from-store {folder} --store work.db"
            ) from error
        raise


def beside(findings: Location, name: str) -> Path | None:
    """The path of a file beside findings; None where none can be written there.

    A file that is there already counts, even where it can only be read.
    """
    if findings.is_url:
        return None
    path = findings.path / name
    return path if path.exists() or os.access(findings.path, os.W_OK) else None


def for_the_user(findings: Location, kind: str, name: str) -> Path:
    """The path of the user's own file that belongs to findings; its folder is made, or OSError raised.

    `kind` is ``"cache"`` for what can be made anew, ``"data"`` for what can't.
    """
    variable, usual = {"cache": ("XDG_CACHE_HOME", ".cache"), "data": ("XDG_DATA_HOME", ".local/share")}[kind]
    home = Path(os.environ.get(variable) or Path.home() / usual)
    whole = findings.name if findings.is_url else str(findings.path.absolute())
    folder = home / "turnwise" / "findings" / hashlib.sha256(whole.encode()).hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
