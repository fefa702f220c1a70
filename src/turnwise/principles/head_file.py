"""What was taught of a principle: a file beside its text, which the embedded observer scores by.

It is JSON: ``about`` says what it was taught from and on, ``head`` has the numbers, and ``sha256`` is the hash of
both. ``turnwise teach`` writes it, and nothing in it is a text of an annotated turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Side
from turnwise.errors import PrincipleError

FORMAT = "turnwise-head-1"
MOST = 4_000_000
"""Bytes of a file at most; a head of the shipped observer takes some 30,000."""

_AGAIN = "teach it again (turnwise teach), or delete the file"


@dataclass(frozen=True, slots=True)
class HeadFile:
    """The file of a taught head.

    Args:
        path: where it is.
        side: the half of a turn that it scores.
        sha256: hash of its content, which changes with every score that could change.
        base: hash of the weights on whose states it was taught.
    """

    path: Path
    side: Side
    sha256: str
    base: str


class HeadContent(NamedTuple):
    """What a file holds: how it was taught, and the numbers."""

    file: HeadFile
    about: Mapping[str, Any]
    head: Mapping[str, Any]


def head_path(folder: Path, side: Side) -> Path:
    """Where in the folder of a principle the head for a side is."""
    return folder / f"taught-{side}.json"


def read_head_file(path: Path, principle: str) -> HeadFile:
    """What a file says of itself, checked; `PrincipleError` where it is damaged or of another principle."""
    content = read_head(path)
    if content.about.get("principle") != principle:
        raise PrincipleError(
            f"{path} was taught for principle {content.about.get('principle')!r}, not for {principle!r}; {_AGAIN}"
        )
    return content.file


def read_head(path: Path) -> HeadContent:
    """The whole of a file; `PrincipleError` where it is not as `write_head` wrote it."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes")
        content = read_json(data)
        about, head = content["about"], content["head"]
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        digest = _digest(about, head)
        if digest != content["sha256"]:
            raise ValueError("its content does not have the hash that it records: it was altered or cut off")
        file = HeadFile(path, Side(about["side"]), digest, str(about["base"]))
    except OSError as error:
        raise PrincipleError(f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise PrincipleError(f"{path} is no head that turnwise taught ({error}); {_AGAIN}") from error
    return HeadContent(file, about, head)


def write_head(folder: Path, about: Mapping[str, Any], head: Mapping[str, Any]) -> HeadFile:
    """Write the file for the side that `about` names into the folder of a principle, whole or not at all."""
    path, digest = head_path(folder, Side(about["side"])), _digest(about, head)
    content = {"format": FORMAT, "sha256": digest, "about": about, "head": head}
    text = json.dumps(content, indent=1, allow_nan=False)
    beside = path.with_suffix(".part")
    try:
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise PrincipleError(f"can't write {path}: {error.strerror or error}") from error
    return HeadFile(path, Side(about["side"]), digest, str(about["base"]))


def _digest(about: object, head: object) -> str:
    return hashlib.sha256(json.dumps([about, head], sort_keys=True).encode()).hexdigest()
