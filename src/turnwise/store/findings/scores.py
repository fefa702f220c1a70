"""The scores of findings, read as trajectories or as a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import Any, NoReturn

from turnwise.conversation import Label, Side
from turnwise.errors import UnknownNameError
from turnwise.findings import SCORES, TURNS
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Score, Trajectory, Unread
from turnwise.store.damage import intact
from turnwise.store.findings.files import FoundFiles, refused
from turnwise.store.findings.sequences import FoundSequences, NumberedHead
from turnwise.store.runs import Run
from turnwise.store.scores import ScoreTable, StoredScore
from turnwise.store.sequences import SequenceHead, turns_within

_REASON = "scan"
"""The reason of failures: a dead letter says in words what happened."""


class FoundScores:
    """The scores of findings; methods as in `turnwise.store.scores.Scores`."""

    def __init__(self, files: FoundFiles, sequences: FoundSequences, run: Run) -> None:
        self._files = files
        self._sequences = sequences
        self._run = run
        revisions = files.manifest.revisions.items()
        self._provenances = {name: run.provenance(revision, run.code_version) for name, revision in revisions}

    def forget_keys(self) -> None:
        """Do nothing: no run is renamed or deleted here."""

    def append(self, scored: Iterable[Evaluation | Failure | Unread]) -> NoReturn:
        """Refuse to add any."""
        raise refused("add scores", "scan with another configuration into another folder")

    def trajectories(
        self,
        run: str,
        ids: Collection[str] | None = None,
        label: Label | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory, in the order of the inputs."""
        self.check(run)
        for part, heads in self._sequences.pages(ids, label):
            scores = self._rows(part, heads, turns)
            lengths = self._lengths(part, heads, turns)
            for number, head in heads:
                name = head.sequence_id
                with intact(self._files.where, f"the trajectory of sequence {name!r}"):
                    chars = lengths.get(number, {})
                    within = range(1, head.turns + 1) if turns is None else turns_within(turns, head.turns)
                    found = [self._evaluation(name, row) for row in scores.get(number, [])]
                    yield head, Trajectory(run, name, within.stop - 1, found, chars, first=within.start)

    def failures(
        self,
        run: str,
        ids: Collection[str] | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> tuple[Failure, ...]:
        """What could not be scored, in the order of the inputs; what could not be read is not among it."""
        found = []
        for one in self._letters(run, ids, turns):
            if one.get("language") is None:
                name, principle = one["sequence"], str(one.get("principle"))
                with intact(self._files.where, f"a failure of sequence {name!r}"):
                    key = EvaluationKey(run, name, one["turn"], Side(one.get("side") or Side.PROMPT), principle)
                    origin = self._provenances.get(principle) or next(iter(self._provenances.values()))
                    found.append(Failure(key, _REASON, str(one["reason"]), origin, self._run.created_at))
        return tuple(found)

    def unread(
        self, run: str, ids: Collection[str] | None = None, turns: range | None = None
    ) -> tuple[Unread, ...]:
        """What was not read, once for every principle, in the order of the inputs."""
        found = []
        for one in self._letters(run, ids, turns):
            language = one.get("language")
            for principle, origin in self._provenances.items() if language is not None else ():
                name = one["sequence"]
                with intact(self._files.where, f"a text of sequence {name!r} that was not read"):
                    key = EvaluationKey(run, name, one["turn"], Side(one["side"]), principle)
                    found.append(Unread(key, str(language), origin, self._run.created_at))
        return tuple(found)

    def _letters(self, run: str, ids: Collection[str] | None, turns: range | None) -> Iterator[dict[str, Any]]:
        """Yield those dead letters that are about a turn."""
        self.check(run)
        known = None if ids is None else set(ids)
        if ids is not None:
            self._sequences.keys(ids)
        for one in self._files.failures():
            name, turn = one.get("sequence"), one.get("turn")
            wanted = name is not None and turn is not None and (known is None or name in known)
            if wanted and (turns is None or turn in turns):
                yield one

    def failed(self, run: str, ids: Collection[str] | None = None) -> set[EvaluationKey]:
        """The keys of what could not be scored."""
        return {failure.key for failure in self.failures(run, ids)}

    def recorded(self, run: str, sequence_ids: Collection[str]) -> set[EvaluationKey]:
        """The keys of all scores of these sequences."""
        found = self.trajectories(run, sequence_ids)
        return {evaluation.key for _, trajectory in found for evaluation in trajectory.evaluations}

    def table(self, run: str, ids: Collection[str] | None = None, label: Label | None = None) -> ScoreTable:
        """The scores as rows."""
        self.check(run)

        def rows() -> Iterator[StoredScore]:
            for part, heads in self._sequences.pages(ids, label):
                scores = self._rows(part, heads, None)
                for number, head in heads:
                    about = head.sequence_id, head.label, head.source
                    for _, turn, side, principle, T, I, F in scores.get(number, []):  # noqa: E741
                        yield StoredScore(*about, turn, Side(side), principle, T, I, F)

        count: Callable[[], int] = lambda: self._files.manifest.totals.scores  # noqa: E731
        if ids is not None or label is not None:
            count = lambda: sum(1 for _ in rows())  # noqa: E731
        return ScoreTable(run, rows, count)

    def check(self, run: str) -> None:
        """Raise UnknownNameError for another run than that of the scan."""
        if run != self._run.name:
            raise UnknownNameError("run", run, [self._run.name])

    def _rows(
        self, part: int, heads: Collection[NumberedHead], turns: range | None
    ) -> dict[int, list[tuple[Any, ...]]]:
        """The scores of sequences of a part by row number, in order."""
        rows = self._files.read(
            "SELECT key + 1, turn, side, principle, T, I, F "
            f"FROM {self._files.table(SCORES, [part])} WHERE {_span(heads)}{_within(turns)} "
            "ORDER BY key, turn, side, principle"
        )
        return {number: list(some) for number, some in groupby(rows, lambda row: row[0])}

    def _lengths(
        self, part: int, heads: Collection[NumberedHead], turns: range | None
    ) -> dict[int, dict[int, tuple[int, int]]]:
        """Characters of prompt and response by turn, by row number; without texts, only of what was scored."""
        if self._files.has_texts:
            table, sides = TURNS, "length(prompt), coalesce(length(response), 0)"
        else:
            table, sides = SCORES, ", ".join(f"coalesce(max(chars) FILTER (side = '{side}'), 0)" for side in Side)
        rows = self._files.read(
            f"SELECT key + 1, turn, {sides} FROM {self._files.table(table, [part])} "
            f"WHERE {_span(heads)}{_within(turns)}{'' if table == TURNS else ' GROUP BY key, turn'}"
        )
        found: dict[int, dict[int, tuple[int, int]]] = {}
        for number, turn, prompt, response in rows:
            found.setdefault(number, {})[turn] = prompt, response
        return found

    def _evaluation(self, name: str, row: tuple[Any, ...]) -> Evaluation:
        _, turn, side, principle, T, I, F = row  # noqa: E741 - the field's names
        key = EvaluationKey(self._run.name, name, turn, Side(side), principle)
        return Evaluation(key, Score(T, I, F), self._provenances[principle], self._run.created_at)


def _span(heads: Collection[NumberedHead]) -> str:
    numbers = [one.number for one in heads]
    return f"key BETWEEN {min(numbers) - 1} AND {max(numbers) - 1}"


def _within(turns: range | None) -> str:
    return "" if turns is None else f" AND turn BETWEEN {turns.start} AND {turns.stop - 1}"
