"""Where a detector file comes from: the line of its heading that says on what it was tuned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "# origin: "
"""Begins the line of a detector file that says where it comes from, as JSON."""


@dataclass(frozen=True, slots=True)
class Origin:
    """On what a detector was tuned.

    Args:
        run: the run whose scores it was tuned on.
        digest: SHA-256 of the ids of the conversations, as `digest_of` gives it.
    """

    run: str
    digest: str


def digest_of(ids: Iterable[str]) -> str:
    """Return the SHA-256 of some ids, whatever their order.

    >>> digest_of(["b", "a"]) == digest_of(["a", "b"])
    True
    """
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(ids)).encode()).hexdigest()


def read_origin(file: str) -> Origin | None:
    """Return where a detector file comes from; None where it does not say.

    Args:
        file: path of the file.
    """
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(MARK):
            try:
                found = json.loads(line.removeprefix(MARK))
                return Origin(str(found["run"]["name"]), str(found["split"]["sha256_of_ids"]))
            except (ValueError, KeyError, TypeError):  # somebody edited the heading: then it says nothing
                return None
    return None
