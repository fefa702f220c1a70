"""Reads the conversations of findings by row number, for what is indexed beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from turnwise.findings import SEQUENCES, TURNS
from turnwise.store.findings.files import FoundFiles, part_of
from turnwise.store.numbered import Newest, NumberedTexts


class FoundNumbers:
    """Reads the sequences of findings by row number, as `turnwise.store.numbered.Numbered` those of a record."""

    def __init__(self, files: FoundFiles) -> None:
        self._files = files

    def newest(self) -> Newest:
        """How far the findings have come."""
        totals = self._files.manifest.totals
        return Newest(totals.scores, totals.failures, self._last(), self._files.when if totals.scores else None)

    def tries(self, paid: Sequence[str]) -> dict[str, tuple[int, int, float | None]]:
        """What could not be scored, by name of the run; findings don't say what scores cost."""
        manifest = self._files.manifest
        totals = manifest.totals
        return {str(manifest.run["name"]): (totals.failures, sum(totals.unread.values()), None)}

    def count(self, after: int = 0) -> int:
        """How many sequences there are above a row number."""
        parts = self._files.parts
        whole = sum(part.counts.conversations for part in parts if part.number > part_of(after + 1))
        [[rest]] = self._files.read(
            f"SELECT count(*) FROM {self._files.table(SEQUENCES, [part_of(after + 1)])} WHERE key >= {after}"
        )
        return whole + int(rest)

    def digest(self, number: int) -> str | None:
        """What tells the sequence of a row number from another; None where there is none."""
        query = f"SELECT digest FROM {self._files.table(SEQUENCES, [part_of(number)])} WHERE key = {number - 1}"
        rows = self._files.read(query) if number > 0 else []
        return rows[0][0] if rows else None

    def texts(self, after: int, most: int) -> list[NumberedTexts]:
        """The texts of the next sequences above a row number, at most so many; UsageError where none were kept."""
        self._files.table(TURNS, [])  # refuses where no texts were kept
        for part in self._from(after):
            digests = dict(self._next(part, "digest", after, most))
            if digests:
                said = self._files.read(
                    f"SELECT key + 1, prompt, response FROM {self._files.table(TURNS, [part])} "
                    f"WHERE key BETWEEN {min(digests) - 1} AND {max(digests) - 1} ORDER BY key, turn"
                )
                texts = {
                    number: "\n".join(text or "" for row in some for text in row[1:])
                    for number, some in groupby(said, lambda row: row[0])
                }
                return [NumberedTexts(one, texts.get(one, ""), str(digests[one])) for one in digests]
        return []

    def metadata(self, after: int, most: int) -> list[tuple[int, Any]]:
        """Row number and metadata, as JSON, of the next sequences above a row number."""
        for part in self._from(after):
            if rows := self._next(part, "metadata", after, most):
                return rows
        return []

    def _from(self, after: int) -> list[int]:
        return [part.number for part in self._files.parts if part.number >= part_of(after + 1)]

    def _next(self, part: int, column: str, after: int, most: int) -> list[tuple[int, Any]]:
        rows = self._files.read(
            f"SELECT key + 1, {column} FROM {self._files.table(SEQUENCES, [part])} WHERE key >= {after} "
            f"ORDER BY key LIMIT {most}"
        )
        return [(number, value) for number, value in rows]

    def _last(self) -> int:
        for part in reversed(self._files.parts):
            if part.counts.conversations:
                query = f"SELECT max(key) + 1 FROM {self._files.table(SEQUENCES, [part.number])}"
                return int(self._files.read(query)[0][0] or 0)
        return 0
