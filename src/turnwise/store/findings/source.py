"""Findings, read: the source of what is asked of a store that a scan left."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.batches import batched
from turnwise.clock import Clock
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn, group_of
from turnwise.errors import StoreCorruptError, UnknownNameError, UsageError
from turnwise.findings import MEND, SCORES, SEQUENCES, TURNS
from turnwise.scoring import Evaluation, EvaluationKey, Failure, FailureReasons, Score, Unread
from turnwise.store.damaged_rows import check_turns, intact
from turnwise.store.database import PAGE
from turnwise.store.erasure import Erasure
from turnwise.store.findings.changes import FoundPeople, erase_from_findings
from turnwise.store.findings.files import FoundFiles, part_of
from turnwise.store.findings.tables import NAME, FoundMirror, Index
from turnwise.store.runs import Run, RunTally
from turnwise.store.source import (
    Lengths,
    Newest,
    NumberedHead,
    NumberedTexts,
    Page,
    SequenceHead,
    Source,
    TellScores,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REASON: Final = "scan"
"""The reason of failures: a dead letter says in words what happened."""

_SHOWN: Final = 20
"""Known ids that an error may name the nearest of."""

_BY_TURN: Final = "ORDER BY key, turn"
_BY_SCORE: Final = "ORDER BY key, turn, side, principle"


class FindingsSource(Source):
    """Reads findings as they were when opened; they have one run. A row number is the key in the files plus 1."""

    def __init__(self, location: str, clock: Clock) -> None:
        self._files = FoundFiles(location)
        self._index = Index(self._files)
        self._clock = clock
        self.where = self._files.where
        self.note = self._files.note
        self.has_texts = self._files.has_texts
        told = self._files.manifest.detector
        self.judged_with = told if told.get("mapping") else None
        self._run = _read_run(self._files)
        self._origins = {
            name: self._run.provenance(revision, self._run.code_version)
            for name, revision in self._files.manifest.revisions.items()
        }

    @cached_property
    def mirror(self) -> FoundMirror:
        return FoundMirror(self._files, self._index, self._run, self.people.reviews)

    @cached_property
    def people(self) -> FoundPeople:
        return FoundPeople(self._files.findings.folder, self, self._clock)

    def prepare(self, progress: TellScores) -> None:
        """Make the index, where there is none that fits."""
        self._index.ready(progress)

    def close(self) -> None:
        if "people" in vars(self):
            self.people.close()
        if "mirror" in vars(self):
            self.mirror.close()
        self._index.close()
        self._files.close()

    def erase(self, ids: Ordered[str], author: str, reason: str) -> Erasure:
        """Erase conversations from the findings and from what was said of them; open them anew afterwards."""
        if self._files.remote:
            raise UsageError(
                f"{self.where} is behind a URL: copy it to this machine, erase there, and put it back"
            )
        begun = self.people.begun(ids)
        if begun is None:
            for _ in self.pages(ids):
                pass  # all of them are there, or nothing is erased
            begun = self.people.begin_erasing(ids, author, reason)
        counts = erase_from_findings(self._files.findings, ids)
        self.mirror.close()
        self._index.remove()
        return self.people.finish_erasing(begun, counts)

    def counts(self) -> dict[str, int]:
        totals = self._files.manifest.totals
        return {
            "sequences": totals.conversations,
            "turns": totals.turns,
            "runs": 1,
            "evaluations": totals.scores,
            "failures": self.tallies()[0][1].failures if totals.failures else 0,
            "unread": sum(totals.unread.values()),
        }

    def newest(self) -> Newest:
        totals, last = self._files.manifest.totals, 0
        for part in self._files.parts:
            if part.counts.conversations:
                last = part.number
        [[number]] = self._files.read(
            f"SELECT coalesce(max(key) + 1, 0) FROM {self._files.table(SEQUENCES, [last])}"
        )
        return Newest(totals.scores, totals.failures, number, self._files.when if totals.scores else None)

    # Runs

    def run_names(self) -> list[str]:
        return [self._run.name]

    def runs(self, name: str | None = None) -> tuple[Run, ...]:
        return (self._run,) if name in (None, self._run.name) else ()

    def principle_versions(self, run: str) -> dict[str, str]:
        return self._files.manifest.revisions if self.runs(run) else {}

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        totals = self._files.manifest.totals
        reasons, failed, sequences = FailureReasons(), set(), set()
        for one in self._letters() if totals.failures or totals.unread else ():
            sequences.add(one["sequence"])
            if one.get("language") is None:
                reasons.add(_REASON, str(one["reason"]))
                failed.add((one["sequence"], one["turn"], one.get("side"), one.get("principle")))
        tally = RunTally(
            self._run.name,
            sequences=max(totals.scored, len(sequences)),
            evaluations=totals.scores,
            failed=len(failed),
            failures=len(failed),
            unread=dict(totals.unread),
            commonest_failure=reasons.commonest,
        )
        return ((self._run, tally),)

    def tries(self, paid: Collection[str]) -> dict[str, tuple[int, int, float | None]]:
        """What could not be scored; findings don't say what scores cost."""
        totals = self._files.manifest.totals
        return {self._run.name: (totals.failures, sum(totals.unread.values()), None)}

    # Verdicts

    def stamp(self, run: Run) -> str:
        """The digest of the files: parts don't end in order, so where one is added all are read again."""
        return self._files.digest

    def scored_after(self, run: Run, after: int, most: int, *, flagged: bool = False) -> tuple[Page, int]:
        """Scored sequences above a row number, all of one part."""
        wanted = "fired" if flagged else "scored"
        rows = self._ask(
            "SELECT sequence, sequence_id, label, source, turns FROM copied.sequences JOIN copied.found "
            f"USING (sequence) WHERE {wanted} AND sequence > ? ORDER BY sequence LIMIT ?",
            [after, most],
        )
        page = next(_by_part(rows), [])
        return page, page[-1].number if page else max(after, self.newest().sequences)

    def count_after(self, run: Run, after: int) -> int:
        query = "SELECT count(*) FROM copied.found WHERE scored AND sequence > ?"
        return int(self._ask(query, [after])[0][0])

    def times(self, turns: Mapping[int, int]) -> dict[int, datetime]:
        """When the scan was written: findings hold no other time."""
        return dict.fromkeys(turns, self._files.when)

    # Sequences and turns

    def pages(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Page]:
        wanted = "TRUE" if label is None else f"label = '{label}'"
        query = f"SELECT sequence, sequence_id, label, source, turns FROM {NAME}.sequences WHERE {wanted}"
        if ids is not None:
            for keys in batched(sorted(self._keys(ids)), PAGE):
                some = ", ".join(map(str, keys))
                yield from _by_part(self._ask(f"{query} AND sequence IN ({some}) ORDER BY sequence"))
            return
        last = 0
        while rows := self._ask(f"{query} AND sequence > {last} ORDER BY sequence LIMIT {10 * PAGE}"):
            yield from _by_part(rows)
            last = rows[-1][0]

    def sequences(self, page: Page) -> Iterator[Sequence]:
        metadata = dict(self._rows(SEQUENCES, "metadata", dict(page)))
        turns = _by_number(self._rows(TURNS, "turn, prompt, response", dict(page), None, _BY_TURN))
        for number, head in page:
            with intact(self.where, f"sequence {head.sequence_id!r}"):
                mine = turns.get(number, [])
                check_turns(range(1, head.turns + 1), [row[1] for row in mine])
                named = {"conversation_id": head.sequence_id}
                sequence = Sequence(
                    sequence_id=head.sequence_id,
                    label=head.label,
                    source=head.source,
                    conversation=Conversation.from_dict(named, turns=[_turn(row) for row in mine]),
                    metadata=json.loads(metadata[number] or "{}"),
                )
            yield sequence

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        rows = self._rows(TURNS, "turn, prompt, response", self._keys([sequence_id]), turns, _BY_TURN)
        with intact(self.where, f"sequence {sequence_id!r}"):
            return tuple(map(_turn, rows))

    def lengths(self, page: Page, turns: range | None) -> Lengths:
        if self.has_texts:
            sides = "length(prompt), coalesce(length(response), 0)"
            rows = self._rows(TURNS, f"turn, {sides}", dict(page), turns)
        else:
            sides = ", ".join(f"coalesce(max(chars) FILTER (side = '{side}'), 0)" for side in Side)
            rows = self._rows(SCORES, f"turn, {sides}", dict(page), turns, "GROUP BY key, turn")
        found: dict[int, dict[int, tuple[int, int]]] = {}
        for number, turn, prompt, response in rows:
            found.setdefault(number, {})[turn] = prompt, response
        return found

    def groups(self, ids: Collection[str] | None, label: Label | None) -> dict[str, str]:
        found: dict[str, str] = {}
        for page in self.pages(ids, label):
            metadata = dict(self._rows(SEQUENCES, "metadata", dict(page)))
            for number, head in page:
                with intact(self.where, f"sequence {head.sequence_id!r}"):
                    found[head.sequence_id] = group_of(json.loads(metadata[number] or "{}"), head.sequence_id)
        return found

    def ids_with(self, key: str, value: str | int, most: int) -> list[str]:
        path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'  # one key, no path
        rows = self._ask(
            "SELECT sequence_id FROM copied.sequences JOIN copied.found USING (sequence) "
            "WHERE json_extract_string(metadata, ?) = ? ORDER BY sequence LIMIT ?",
            [path, str(value), most],
        )
        return [sequence_id for (sequence_id,) in rows]

    def participants(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The participants of every sequence; a scan keeps no names, so they are unknown."""
        for page in self.pages():
            for one in self.sequences(page):
                yield one.sequence_id, one.conversation.participants

    def count(self, after: int = 0) -> int:
        first = part_of(after + 1)
        whole = sum(part.counts.conversations for part in self._files.parts if part.number > first)
        [[rest]] = self._files.read(
            f"SELECT count(*) FROM {self._files.table(SEQUENCES, [first])} WHERE key >= {after}"
        )
        return whole + int(rest)

    def texts(self, after: int, most: int) -> list[NumberedTexts]:
        """The texts of the next sequences above a row number; UsageError where none were kept."""
        self._files.table(TURNS, [])  # refuses where no texts were kept
        digests = dict(self._next("digest", after, most))
        said = _by_number(self._rows(TURNS, "prompt, response", digests, None, _BY_TURN)) if digests else {}
        return [
            NumberedTexts(
                number, "\n".join(text or "" for row in said.get(number, ()) for text in row[1:]), digest
            )
            for number, digest in digests.items()
        ]

    def metadata(self, after: int, most: int) -> list[tuple[int, Any]]:
        return self._next("metadata", after, most)

    def begun(self, imported: bool) -> dict[int, datetime]:
        """When the findings were written; they don't have when a turn was said."""
        return {one.number: self._files.when for page in self.pages() for one in page} if imported else {}

    def _next(self, column: str, after: int, most: int) -> list[tuple[int, Any]]:
        """Row number and a value of the next sequences above a row number, all of one part."""
        for part in self._files.parts:
            if part.number >= part_of(after + 1):
                rows = self._files.read(
                    f"SELECT key + 1, {column} FROM {self._files.table(SEQUENCES, [part.number])} "
                    f"WHERE key >= {after} ORDER BY key LIMIT {most}"
                )
                if rows:
                    return [(number, value) for number, value in rows]
        return []

    def _keys(self, ids: Collection[str]) -> list[int]:
        """The row numbers of sequences, in no order; UnknownNameError where one of the ids is not there."""
        wanted = list(dict.fromkeys(ids))
        rows = self._ask(
            f"SELECT sequence_id, min(sequence) FROM {NAME}.sequences WHERE sequence_id IN (SELECT unnest(?)) "
            "GROUP BY sequence_id",
            [wanted],
        )
        found = dict(rows)
        for name in wanted:
            if name not in found:
                near = self._ask(
                    f"SELECT sequence_id FROM {NAME}.sequences "
                    "ORDER BY jaro_winkler_similarity(sequence_id, ?) DESC, sequence LIMIT ?",
                    [name, _SHOWN],
                )
                raise UnknownNameError("sequence", name, [one for (one,) in near])
        return list(found.values())

    def _ask(self, query: str, values: Collection[Any] = ()) -> list[tuple[Any, ...]]:
        with self.mirror.tables() as connection, self._files.translated():
            return connection.execute(query, list(values)).fetchall()

    def _rows(
        self, table: str, columns: str, numbers: Collection[int], turns: range | None = None, order: str = ""
    ) -> list[tuple[Any, ...]]:
        """Row number and some columns of the rows of some sequences, all of one part."""
        low, high = min(numbers) - 1, max(numbers) - 1
        wanted = f"key BETWEEN {low} AND {high}"
        if high - low + 1 != len(numbers):
            wanted += f" AND key IN ({', '.join(str(number - 1) for number in numbers)})"
        if turns is not None:
            wanted += f" AND turn BETWEEN {turns.start} AND {turns.stop - 1}"
        files = self._files.table(table, [part_of(low + 1)])
        return self._files.read(f"SELECT key + 1, {columns} FROM {files} WHERE {wanted} {order}")

    # Scores and failures

    def evaluations(self, run: Run, page: Page, turns: range | None, replies: bool) -> Iterator[list[Evaluation]]:
        """The evaluations of each sequence of a page, made when they are asked for: a page has many."""
        columns = "turn, side, principle, T, I, F"
        rows = _by_number(self._rows(SCORES, columns, dict(page), turns, _BY_SCORE))
        return (self._evaluations(head.sequence_id, rows.get(number, [])) for number, head in page)

    def scores(self, run: Run, page: Page) -> Iterator[tuple[int, int, Side, str, float, float, float]]:
        for number, turn, side, *score in self._rows(
            SCORES, "turn, side, principle, T, I, F", dict(page), None, _BY_SCORE
        ):
            yield number, turn, Side(side), *score

    def peaks(self, run: Run) -> NDArray[np.float64]:
        import numpy as np

        query = "SELECT sequence, turn, max(F) FROM copied.evaluations WHERE NOT response GROUP BY ALL"
        return np.array(self._ask(query), float).reshape(-1, 3)

    def score_count(self, run: Run, page: Page | None = None) -> int:
        return self._files.manifest.totals.scores if page is None else len(self._rows(SCORES, "turn", dict(page)))

    def recorded(self, run: Run, ids: Collection[str]) -> set[EvaluationKey]:
        found = set()
        for page in self.pages(ids):
            heads = dict(page)
            for number, turn, side, principle, *_ in self.scores(run, page):
                found.add(EvaluationKey(run.name, heads[number].sequence_id, turn, side, principle))
        return found

    def failures(
        self, run: Run, ids: Collection[str] | None, turns: range | None, replies: bool
    ) -> tuple[Failure, ...]:
        """What could not be scored, in the order of the inputs; what could not be read is not among it."""
        found = []
        for one in self._letters(ids, turns):
            if one.get("language") is None:
                name, principle = one["sequence"], str(one.get("principle"))
                with intact(self.where, f"a failure of sequence {name!r}"):
                    key = EvaluationKey(
                        run.name, name, one["turn"], Side(one.get("side") or Side.PROMPT), principle
                    )
                    origin = self._origins.get(principle) or next(iter(self._origins.values()))
                    found.append(Failure(key, _REASON, str(one["reason"]), origin, run.created_at))
        return tuple(found)

    def unread(self, run: Run, ids: Collection[str] | None, turns: range | None) -> tuple[Unread, ...]:
        """What was not read, once for every principle, in the order of the inputs."""
        found = []
        for one in self._letters(ids, turns):
            language = one.get("language")
            for principle, origin in self._origins.items() if language is not None else ():
                name = one["sequence"]
                with intact(self.where, f"a text of sequence {name!r} that was not read"):
                    key = EvaluationKey(run.name, name, one["turn"], Side(one["side"]), principle)
                    found.append(Unread(key, str(language), origin, run.created_at))
        return tuple(found)

    def failed(self, run: Run, ids: Collection[str] | None) -> set[EvaluationKey]:
        return {failure.key for failure in self.failures(run, ids, None, False)}

    def _letters(self, ids: Collection[str] | None = None, turns: range | None = None) -> Iterator[dict[str, Any]]:
        """Yield those dead letters that are about a turn."""
        known = None if ids is None else set(ids)
        if ids is not None:
            self._keys(ids)
        for one in self._files.failures():
            name, turn = one.get("sequence"), one.get("turn")
            wanted = name is not None and turn is not None and (known is None or name in known)
            if wanted and (turns is None or turn in turns):
                yield one

    def _evaluations(self, name: str, rows: list[tuple[Any, ...]]) -> list[Evaluation]:
        run, when, origins = self._run.name, self._run.created_at, self._origins
        with intact(self.where, f"the trajectory of sequence {name!r}"):
            return [
                Evaluation(
                    EvaluationKey(run, name, turn, Side(side), principle), Score(T, I, F), origins[principle], when
                )
                for _, turn, side, principle, T, I, F in rows  # noqa: E741 - the field's names
            ]


def _read_run(files: FoundFiles) -> Run:
    """The run of findings, from their manifest."""
    told, versions = files.manifest.run, files.manifest.versions
    try:
        parameters, points = told["parameters"], told["operating_points"]
        if not (isinstance(parameters, Mapping) and isinstance(points, Mapping)):
            raise TypeError("parameters and operating_points are objects")
        return Run(
            name=str(told["name"]),
            observer=str(told["observer"]),
            observer_version=str(told["observer_version"]),
            context=str(told["context"]),
            parameters=parameters,
            operating_points={str(name): float(value) for name, value in points.items()},
            code_version=str(versions.get("code") or versions.get("turnwise") or "unknown"),
            created_at=files.when,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorruptError(
            f"the manifest of {files.where} does not say how it was scored: {error}; {MEND}"
        ) from error


def _by_part(rows: list[tuple[Any, ...]]) -> Iterator[Page]:
    for _, some in groupby(rows, lambda row: part_of(row[0])):
        yield [NumberedHead(row[0], SequenceHead(row[1], Label(row[2]), row[3], row[4])) for row in some]


def _by_number(rows: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    return {number: list(some) for number, some in groupby(rows, itemgetter(0))}


def _turn(row: tuple[Any, ...]) -> Turn:
    return Turn(number=row[1], prompt=row[2], response=row[3])
