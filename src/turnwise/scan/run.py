"""Runs a scan from inputs to findings: goes on where it stopped, hands parts to an engine, keeps the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from turnwise._support.locations import Location
from turnwise.conversation import Label, Side
from turnwise.detectors import DetectorSpec
from turnwise.detectors.kit.registry import PatternSource
from turnwise.findings import MANIFEST, Counts, Findings, Manifest, PartEntry
from turnwise.observers import DEFAULT_OBSERVER, Context, Observer
from turnwise.principles import Principle
from turnwise.scan.engines import Engine, InlineEngine
from turnwise.scan.parts import Done, Part
from turnwise.scan.resume import alone, clear_partial, done_parts, stored_manifest
from turnwise.scan.setup import DEFAULT_DETECTOR, Scan, set_up

_PAUSE = 1.0
"""Seconds between two writings of the manifest, at least; parts that it lacks are found by their files."""

_SHARE = 30
"""So many times as long as the last writing took is waited before the next."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a scan is.

    Args:
        bytes: bytes of the inputs that are done.
        total: all bytes of the inputs that are to be read.
        counts: what the parts that are done came to, including those of earlier runs.
        before: those of the `bytes` that earlier runs had done.
        here: conversations of this run alone.
        seconds: seconds since this run began.
    """

    bytes: int
    total: int
    counts: Counts
    before: int
    here: int
    seconds: float

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace of this run; None while nothing is done."""
        done = self.bytes - self.before
        return self.seconds * (self.total - self.bytes) / done if done > 0 else None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan came to.

    Args:
        findings: the findings; `turnwise.findings.Findings.files` names their files.
        repeated: parts that were done in this run.
        resumed: parts that an earlier run had done.
        seconds: how long this run took.
        cost_usd: what this run cost, in US dollars.
    """

    findings: Findings
    repeated: int
    resumed: int
    seconds: float
    cost_usd: float = 0.0

    @property
    def counts(self) -> Counts:
        """What all parts came to."""
        return self.findings.manifest.totals


def run_scan(
    prepared: Scan, engine: Engine | None = None, progress: Callable[[Progress], None] | None = None
) -> ScanResult:
    """Do what is left of a scan that was set up; see `scan`.

    Args:
        prepared: what `set_up` gave.
        engine: how parts get to workers; inline by default.
        progress: called after each part.
    """
    folder = prepared.work.folder
    began = time.monotonic()
    with alone(folder):
        found = stored_manifest(folder, prepared.manifest)
        keeper = _Keeper(folder, found or prepared.manifest)
        if found is None:
            keeper.write()
        elif found.complete:
            return ScanResult(Findings(folder, found), 0, len(found.parts), time.monotonic() - began)
        clear_partial(folder)
        keeper.done = done_parts(Findings(folder, keeper.manifest))
        resumed = len(keeper.done)
        parts, total = prepared.parts()
        runner = _Runner(keeper, total, progress, began)
        try:
            for done in (engine or InlineEngine()).run(prepared.work, runner.left(parts)):
                runner.take(done)
        except BaseException:
            keeper.write()
            raise
        manifest = keeper.write(complete=True)
    seconds = time.monotonic() - began
    return ScanResult(Findings(folder, manifest), runner.parts, resumed, seconds, runner.cost_usd)


class _Keeper:
    """Keeps the manifest of a scan, and writes it now and then."""

    def __init__(self, folder: Location, manifest: Manifest) -> None:
        self.manifest = manifest
        self.done: dict[int, PartEntry] = {part.number: part for part in manifest.parts}
        self._folder = folder
        self._not_before = 0.0

    def write(self, *, complete: bool = False) -> Manifest:
        began = time.monotonic()
        self.manifest = self.manifest.with_parts(self.done, complete=complete)
        (self._folder / MANIFEST).write(self.manifest.to_json())
        now = time.monotonic()
        self._not_before = now + max(_PAUSE, _SHARE * (now - began))
        return self.manifest

    def add(self, entry: PartEntry) -> None:
        """Add a part that is done; the manifest is written where it is time."""
        self.done[entry.number] = entry
        if time.monotonic() >= self._not_before:
            self.write()


class _Runner:
    """Leads parts to the engine and what comes of them to the manifest.

    `began` is when this run began, in seconds of the monotonic clock.
    """

    def __init__(
        self, keeper: _Keeper, total: int, progress: Callable[[Progress], None] | None, began: float
    ) -> None:
        self._keeper = keeper
        self._total = total
        self._progress = progress
        self._began = began
        self._counts = Counts()
        for part in keeper.done.values():
            self._counts += part.counts
        self._bytes = 0
        self._before = 0
        self._here = 0
        self.parts = 0
        self.cost_usd = 0.0

    def left(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Yield the parts that are not done yet."""
        for part in parts:
            if part.number in self._keeper.done:
                self._bytes += part.size
                self._before += part.size
            else:
                yield part

    def take(self, done: Done) -> None:
        self._keeper.add(done.entry)
        self._counts += done.entry.counts
        self._bytes += done.size
        self._here += done.entry.counts.conversations
        self.parts += 1
        self.cost_usd += done.cost_usd
        if self._progress is not None:
            seconds = time.monotonic() - self._began
            reached = min(self._bytes, self._total)
            self._progress(Progress(reached, self._total, self._counts, self._before, self._here, seconds))


def scan(
    inputs: Sequence[str | PathLike[str]] | str | PathLike[str],
    out: str | PathLike[str],
    *,
    observer: str | Observer = DEFAULT_OBSERVER,
    settings: Mapping[str, Any] | None = None,
    context: Context | str = "history",
    principles: Sequence[Principle] | None = None,
    sides: Sequence[Side | str] = (Side.PROMPT,),
    detector: DetectorSpec = DEFAULT_DETECTOR,
    patterns: PatternSource | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | str | None = None,
    label: Label | str | None = None,
    label_map: Mapping[Any, str] | str | None = None,
    role_map: Mapping[Any, str] | str | None = None,
    source: str | None = None,
    encoding: str | None = None,
    where: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    part_rows: int | None = None,
    texts: bool = True,
    threads: int = 1,
    engine: Engine | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ScanResult:
    """Score conversations in files of any size, part by part, and write findings that `query` and others read.

    The same call goes on where an earlier one stopped. Equal calls give equal bytes, whatever the engine.

    Args:
        inputs: paths, patterns, folders or URLs, such as ``logs/*.parquet``, ``chats.jsonl.gz``, ``logs/`` or
            ``s3://bucket/chats/*.parquet``. A folder stands for the data files in it.
        out: folder or URL of the findings; empty, new, or with findings of the same scan.
        observer: specification of the observer, or an observer.
        settings: settings of the observer, where it is given by its specification.
        context: what it may see.
        principles: what turns are judged against; those that ship by default.
        sides: halves of a turn that are scored.
        detector: what judges the scores; without a threshold of its own it takes the observer's operating point.
        patterns: your own named patterns, or the YAML file that defines them.
        format: format of the files; None to tell it from each.
        columns: names of columns by what they hold; see `turnwise.datasets.open_dataset`.
        label: label of conversations that bring none.
        label_map: what labels of the files mean.
        role_map: what roles of the files mean.
        source: name of the data set, in place of the format's or the file's own.
        encoding: how text files are encoded; UTF-8 by default.
        where: only conversations for which this holds, such as ``'turns >= 3 and metadata.model = "x"'``.
        sample: only so many conversations, drawn at random from those for which `where` holds. Without `where`,
            records that can't be read may be among them.
        seed: of the draw.
        part_rows: records of a part, 1 to 2^24 - 1; 2,000 by default, or fewer where the inputs are small.
        texts: whether the texts are kept in the findings.
        threads: conversations at a time, for an observer that waits for answers.
        engine: how parts get to workers; inline by default.
        progress: called after each part.

    Raises:
        UsageError: a request that makes no sense.
        LocationError: a place that can't be reached, read or written.
        DatasetError: none of the inputs can be read.
        FindingsError: the folder has something else, or findings of another scan.
        ObserverError: the observer can't go on; what was done is kept.
    """
    prepared = set_up(
        inputs,
        out,
        observer=observer,
        settings=settings,
        context=context,
        principles=principles,
        sides=sides,
        detector=detector,
        patterns=patterns,
        format=format,
        columns=columns,
        label=label,
        label_map=label_map,
        role_map=role_map,
        source=source,
        encoding=encoding,
        where=where,
        sample=sample,
        seed=seed,
        part_rows=part_rows,
        texts=texts,
        threads=threads,
    )
    return run_scan(prepared, engine, progress)
