"""A loader of traces: records become steps, steps are grouped on disk, and each conversation is put together."""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from turnwise.conversation import Label, Sequence
from turnwise.datasets.files import MAX_LINE, is_stream
from turnwise.datasets.layout import FileHead, read_head, read_records
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import ParsedRecord
from turnwise.datasets.traces.messages import Message
from turnwise.datasets.traces.steps import CALL, EVENT, FRAME, LINK, TraceStep, stamp_of
from turnwise.datasets.traces.threads import MessageSource, Thread, Threads, turns_of
from turnwise.errors import DatasetError

PROVENANCE: Final = "provenance"
"""Key of a turn's metadata with the traces, spans and models that it comes from."""

_DEEPEST: Final = 64
"""Spans above a span that are looked at."""

_LATEST: Final = (1 << 63) - 1
"""Stands for a time that is not known: such steps come last."""

_SPANS: Final = 100
"""Spans that the provenance of a turn names."""

_TABLES: Final = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;
CREATE TABLE steps (place INTEGER PRIMARY KEY, number INTEGER, trace TEXT, span TEXT, parent TEXT,
    conversation TEXT, kind TEXT, agent INTEGER, time INTEGER, size INTEGER);
CREATE TABLE bodies (place INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE traces (trace TEXT PRIMARY KEY, conversation TEXT) WITHOUT ROWID;
"""

_GROUPED: Final = f"""
UPDATE steps SET conversation = coalesce((SELECT conversation FROM traces WHERE traces.trace = steps.trace), trace)
    WHERE conversation = '';
CREATE INDEX by_group ON steps (conversation, time, size, place) WHERE kind != '{LINK}';
CREATE INDEX by_span ON steps (trace, span);
"""


def _records(path: str, options: LoadOptions) -> Iterator[ParsedRecord | BadRecord]:
    return read_records(read_head(path, options.encoding))


@dataclass(frozen=True, kw_only=True)
class TraceFormat:
    """A format of traces or transcripts, as a row of a table; called, it gives the loader."""

    name: str
    title: str
    source: str
    url: str
    shape: str
    told_by: Callable[[FileHead], bool]
    reader: Callable[[str], Callable[[Any], Iterator[TraceStep]]]
    """Makes, for a path, what reads the steps of an item."""
    items: Callable[[ParsedRecord], Iterator[ParsedRecord | BadRecord]] = lambda record: iter([record])
    """What a record holds."""
    records: Callable[[str, LoadOptions], Iterator[ParsedRecord | BadRecord]] = _records
    pattern: str = "*"
    """What files in a folder are named like."""

    def __call__(self) -> TraceLoader:
        return TraceLoader(self)


class TraceLoader(RecordLoader):
    """Reads a file of spans or of a transcript, or a folder of them; a conversation may stand anywhere in them."""

    def __init__(self, format: TraceFormat) -> None:
        self.format = format
        self.info = DatasetInfo(  # no recorder keeps labels or a licence
            format.name,
            format.title,
            format.source,
            format.url,
            "that of the conversations in it",
            "unlabelled: say it with --label",
            format.shape,
            directory=True,
        )

    def sniff(self, head: FileHead) -> bool:
        return self.format.told_by(head)

    def steps(
        self, records: Iterable[ParsedRecord | BadRecord], path: str
    ) -> Iterator[tuple[int, TraceStep | BadRecord]]:
        """Yield number and step for what the records of one file hold; a RecordError ends an item."""
        read = self.format.reader(path)
        for item in chain.from_iterable(
            [record] if isinstance(record, BadRecord) else self.format.items(record) for record in records
        ):
            if isinstance(item, BadRecord):
                yield item.line, item
                continue
            try:
                for step in read(item.value):
                    yield item.number, step
            except RecordError as error:
                yield item.number, BadRecord(item.number, str(error))

    def load(self, path: str, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
        if not Path(path).is_dir():
            yield from self.grouped(self.steps(self.format.records(path, options), path), path, options)
            return
        files = sorted(file for file in Path(path).rglob(self.format.pattern) if _is_data(file))
        if not files:
            raise DatasetError(f"{path} has no file named like {self.format.pattern}: check the path")
        yield from self.grouped(self._of_files(files, options), path, options)

    def load_records(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        return self.grouped(self.steps(records, path), path, options)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        thread, name, metadata = record
        made = builder.chat(thread.messages, default=Label.UNLABELLED, name=name, metadata=metadata)
        for turn, sources in zip(made.conversation, turns_of(thread), strict=True):
            turn.timestamp = stamp_of(sources[0].time)
            if turn.response is not None and (sources[-1].time or 0) >= (sources[0].time or 0):
                turn.response_timestamp = stamp_of(sources[-1].time)
            turn.own_metadata[PROVENANCE] = _provenance(sources)
        return made

    def _of_files(self, files: list[Path], options: LoadOptions) -> Iterator[tuple[int, TraceStep | BadRecord]]:
        for number, file in enumerate(files, start=1):
            try:
                for line, item in self.steps(self.format.records(str(file), options), str(file)):
                    if isinstance(item, BadRecord):
                        yield number, BadRecord(number, f"{file}, record {line}: {item.reason}")
                    else:
                        yield number, item
            except DatasetError as error:
                yield number, BadRecord(number, str(error))

    def grouped(
        self, steps: Iterable[tuple[int, TraceStep | BadRecord]], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        """Yield the conversations of steps, each with its place; a DatasetError where there is no room to sort."""
        try:
            yield from self._assembled(steps, path, options)
        except sqlite3.Error as error:
            raise DatasetError(f"{path} can't be sorted in a temporary file ({error}): see TMPDIR") from error

    def _assembled(
        self, steps: Iterable[tuple[int, TraceStep | BadRecord]], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        source = self.source(path, options)
        with closing(_Steps()) as kept:
            for number, item in steps:
                if isinstance(item, BadRecord):
                    yield item
                else:
                    kept.add(number, item)
            seen: set[str] = set()
            for number, name, threads in kept.conversations():
                builder = SequenceBuilder(source, number, path, options)
                if isinstance(threads, str):
                    yield BadRecord(number, threads)
                    continue
                for place, thread in enumerate(threads, start=1):
                    own = name if place == 1 else f"{name}/{thread.label or place}"
                    if own in seen:
                        yield BadRecord(number, f"the id {own!r} is already that of another conversation")
                        continue
                    seen.add(own)
                    told = {"parent": name} if place > 1 else {}
                    told |= {"group": name} if len(threads) > 1 else {}
                    made = self.try_build((thread, own, {**told, **_metadata(thread)}), builder)
                    yield made if isinstance(made, BadRecord) else replace(made, line=number)


def first_object(head: FileHead) -> Mapping[str, Any]:
    """The first record of a file, or of the first file of a folder; empty where it is no object."""
    first = head.records[0] if head.records else None
    return first if isinstance(first, dict) else {}


def _is_data(file: Path) -> bool:
    return (
        file.is_file() and not file.name.startswith(".") and not is_stream(str(file)) and file.stat().st_size > 0
    )


def _metadata(thread: Thread) -> dict[str, Any]:
    agent = {"agent": thread.agent} if thread.agent else {}
    return {**agent, **({"history": dict(thread.history)} if thread.history else {})}


def _provenance(sources: list[MessageSource]) -> dict[str, Any]:
    found = {
        "traces": dict.fromkeys(one.trace for one in sources),
        "spans": dict.fromkeys(one.span for one in sources if one.span),
        "models": dict.fromkeys(one.model for one in sources if one.model),
    }
    return {name: list(values)[:_SPANS] for name, values in found.items() if values}


def step_values(step: TraceStep) -> list[Any]:
    """The fields of a step in their order, as `TraceStep` takes them."""
    return [getattr(step, field.name) for field in fields(TraceStep)]


class _Steps:
    """The steps of all conversations in a temporary SQLite database: in memory while few, then on disk."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._base.executescript(_TABLES)
        self._base.execute("BEGIN")
        self._place = 0
        self._agents = self._frames = False

    def close(self) -> None:
        self._base.close()

    def add(self, number: int, step: TraceStep) -> None:
        self._place += 1
        hollow = step.kind == FRAME and not (step.input or step.output)
        kind = LINK if hollow else step.kind
        agent = step.kind == FRAME and bool(step.agent)
        self._agents |= agent
        self._frames |= kind == FRAME
        for name in ("trace", "span", "parent", "conversation"):
            value = getattr(step, name)
            if not value.isascii():  # halves of surrogate pairs are no UTF-8
                setattr(step, name, value.encode("utf-8", "replace").decode())
        names = step.trace, step.span, step.parent, step.conversation
        time = _LATEST if step.time is None else step.time
        row = (self._place, number, *names, kind, agent, time, len(step.input))
        self._base.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        if kind != LINK:
            self._base.execute("INSERT INTO bodies VALUES (?, ?)", (self._place, marshal.dumps(step_values(step))))
        if step.conversation:
            self._base.execute("INSERT OR IGNORE INTO traces VALUES (?, ?)", (step.trace, step.conversation))

    def conversations(self) -> Iterator[tuple[int, str, list[Thread] | str]]:
        """Yield first record, name and threads of each conversation, or why there is none."""
        self._base.executescript(_GROUPED)
        groups = (
            f"SELECT conversation, min(number) FROM steps WHERE kind != '{LINK}' "
            "GROUP BY conversation ORDER BY min(place)"
        )
        for name, number in self._base.execute(groups):
            threads = Threads()
            for step in self._steps(name):
                threads.add(step, self._depth(step) if self._agents else 0)
                if threads.chars > MAX_LINE:
                    reason = f"has more than {MAX_LINE >> 20} MiB, which is the most"
                    yield number, name, f"conversation {name!r} {reason}"
                    break
            else:
                reason = "has no messages of a model: the recorder must be told to keep content"
                yield number, name, threads.finish() or f"conversation {name!r} {reason}"

    def _steps(self, name: str) -> Iterator[TraceStep]:
        """The steps of a conversation in order of time; agents and chains only where no call was kept."""
        calls = (
            f"SELECT DISTINCT trace FROM steps WHERE conversation = ? AND kind != '{LINK}' "
            f"AND kind IN ('{CALL}', '{EVENT}')"
        )
        told = {trace for (trace,) in self._base.execute(calls, (name,))} if self._frames else set()
        ordered = (
            f"SELECT body FROM steps JOIN bodies USING (place) WHERE conversation = ? AND kind != '{LINK}' "
            "ORDER BY time, size, steps.place"
        )
        done: set[tuple[str, str]] = set()
        for (body,) in self._base.execute(ordered, (name,)):
            step = TraceStep(*marshal.loads(body))
            if step.kind == EVENT:
                if (step.trace, step.span) in done:
                    continue
                done.add((step.trace, step.span))
                step = self._joined(step)
            elif step.kind == FRAME and (step.trace in told or self._within(step)):
                continue
            yield step

    def _joined(self, first: TraceStep) -> TraceStep:
        events = (
            "SELECT body FROM steps JOIN bodies USING (place) WHERE trace = ? AND span = ? AND kind = ? "
            "ORDER BY time, steps.place"
        )
        given: list[Message] = []
        said: list[Message] = []
        for (body,) in self._base.execute(events, (first.trace, first.span, EVENT)).fetchall():
            event = TraceStep(*marshal.loads(body))
            given += event.input
            said += event.output
        return replace(first, kind=CALL, input=given, output=said)

    def _above(self, step: TraceStep) -> Iterator[tuple[str, bool]]:
        """Kind of the spans above a step, and whether they are agents, upwards; a circle ends where it closes."""
        seen, parent = {step.span}, step.parent
        for _ in range(_DEEPEST):
            if not parent or parent in seen:
                return
            seen.add(parent)
            query = "SELECT kind, agent, parent FROM steps WHERE trace = ? AND span = ? LIMIT 1"
            row = self._base.execute(query, (step.trace, parent)).fetchone()
            if row is None:
                return
            yield row[0], bool(row[1])
            parent = row[2]

    def _depth(self, step: TraceStep) -> int:
        return sum(agent for _, agent in self._above(step))

    def _within(self, step: TraceStep) -> bool:
        """Whether a chain stands within another that holds messages."""
        return any(kind == FRAME for kind, _ in self._above(step))
