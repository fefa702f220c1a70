"""A scan: a run over files of any size whose sink is a folder of findings."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from turnwise._support.locations import Location
from turnwise._support.revision import versions
from turnwise.conversation import Side
from turnwise.datasets import BadRecord
from turnwise.detectors import DetectorSpec, NamedDetector, PatternSource, name_detector, to_mapping
from turnwise.errors import UsageError
from turnwise.findings import MANIFEST, PLACES, SCORES, STAGES, Counts, Findings, Input, Manifest, PartEntry
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    KeepsReplies,
    Observer,
    ObserverInfo,
    SharesAllowance,
    build_observer,
    check_asked,
    check_supported,
    describe_observer,
)
from turnwise.observers.second_look import SAMPLED
from turnwise.principles import Principle, builtin_principles
from turnwise.runs.engines import Engine, InlineEngine, SpendingLimits, Tell, carry_out
from turnwise.runs.findings_sink import FindingsSink, alone, done_parts, stored_manifest
from turnwise.runs.inputs import InputSettings, ReadOptions, default_part_rows, describe_inputs
from turnwise.runs.paid_replies import ScanJournal
from turnwise.runs.parts import PART_ROWS, FinishedPart, Part, chosen_places, draw, meets, plan_parts, read_part
from turnwise.runs.plan import describe_run, describe_stages
from turnwise.store.findings.files import FoundFiles
from turnwise.store.where import STORED, parse_where

if TYPE_CHECKING:
    from turnwise.runs.scan_worker import ScanScorer

DEFAULT_DETECTOR = "cusum"
"""What judges conversations where nothing else is named."""

LIVE = "otlp://"
"""In place of input files: what a receiver gets."""

_LIBRARIES = ("duckdb", "numpy", "onnxruntime", "tokenizers")


@dataclass(frozen=True, slots=True)
class ScanWork:
    """All that a worker must know. Picklable, and light: `open` loads observer and detector."""

    reading: InputSettings
    folder: Location
    observer: str | Observer  # a specification, or an observer that travels as it is
    settings: Mapping[str, Any]
    context: Context
    principles: tuple[Principle, ...]
    sides: tuple[Side, ...]
    detector: bytes  # with its threshold, pickled
    where: str | None = None
    texts: bool = True
    threads: int = 1  # conversations at a time, for an observer that waits
    allowance: Any = field(default=None, compare=False)  # what the workers of a paid observer share

    @property
    def limits(self) -> SpendingLimits | None:
        """What all workers together may spend and send, where the observer is paid for; else None."""
        if not isinstance(self.observer, str) or not describe_observer(self.observer).costs:
            return None
        return SpendingLimits(self.settings.get("budget_usd"), self.settings.get("requests_per_minute"))

    def with_allowance(self, allowance: Any) -> ScanWork:
        return replace(self, allowance=allowance)

    def open(self) -> Callable[[Part], FinishedPart]:
        from turnwise.runs.scan_worker import ScanWorker  # numpy comes with it

        return ScanWorker(self, self.scorer()).do

    def scorer(self) -> ScanScorer:
        from turnwise.runs.scan_worker import ScanScorer

        observer: Any = self.observer
        if isinstance(observer, str):
            observer = build_observer(observer, **self.settings)
        if self.allowance is not None and isinstance(observer, SharesAllowance):
            observer = observer.with_allowance(self.allowance)
        elif self.allowance is not None and self.settings.get("budget_usd") is not None:
            raise UsageError(
                f"observer {observer.info.name!r} can't share a budget between workers: use --engine inline"
            )
        if isinstance(observer, KeepsReplies):
            observer = observer.with_journal(ScanJournal(self.folder))
        detector = pickle.loads(self.detector)  # made by the driver, a moment ago
        return ScanScorer(observer, self.context, self.principles, self.sides, detector, self.threads)


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a scan.

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
        """The counts of all parts."""
        return self.findings.manifest.totals


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan that was checked and can run: what is read, by what it is scored, and where findings go.

    Args:
        work: what each worker is made of.
        manifest: the manifest without parts.
        sample: how many records are drawn; None for all.
        seed: of the draw.
        detector: the detector with its threshold.
    """

    work: ScanWork
    manifest: Manifest
    sample: int | None
    seed: int
    detector: NamedDetector = field(repr=False)

    def run(self, engine: Engine | None = None, progress: Tell | None = None) -> ScanResult:
        """Do what is left of the scan, and return its result.

        Args:
            engine: how parts get to workers; inline by default.
            progress: called after each part.

        Raises:
            LocationError: a place that can't be reached, read or written.
            FindingsError: the folder has something else, or findings of another scan.
            ObserverError: the observer can't go on; what was done is kept.
        """
        folder, began = self.work.folder, time.monotonic()
        with self._begun() as found:
            if found.complete:
                ScanJournal(folder).clear()  # what a kill at the very end left
                return ScanResult(Findings(folder, found), 0, len(found.parts), time.monotonic() - began)
            sink = FindingsSink(folder, found, *self.parts(), progress)
            carry_out(self.work, engine or InlineEngine(), sink)
        seconds = time.monotonic() - began
        return ScanResult(sink.findings, sink.repeated, sink.resumed, seconds, sink.cost_usd)

    def run_live(
        self, parts: Callable[[Mapping[int, PartEntry]], Iterator[Part]], progress: Tell | None = None
    ) -> None:
        """Score parts as they come, one after the other, adding to findings that exist.

        Args:
            parts: yields them, given the parts that are done, by number; a part's files are whole, and the
                manifest knows of it, when the next one is asked for.
            progress: called after each part.

        Raises:
            FindingsError: the folder has something else, or findings of another scan.
            ObserverError: the observer can't go on; what was done is kept.
        """
        with self._begun() as found:
            done = done_parts(Findings(self.work.folder, found))
            sink = FindingsSink(self.work.folder, found, parts(done), 0, progress)
            carry_out(self.work, InlineEngine(), sink)

    @contextmanager
    def _begun(self) -> Iterator[Manifest]:
        """Keep others out of the folder, and give the manifest that is there, or write it."""
        with alone(self.work.folder):
            found = stored_manifest(self.work.folder, self.manifest)
            if found is None:
                (self.work.folder / MANIFEST).write(self.manifest.to_json())
            yield found or self.manifest

    def parts(self) -> tuple[Iterator[Part], int]:
        """Return a generator of the parts that there are, and the bytes of input that they stand for.

        For a sample all inputs are gone through once before, so that each record is as likely as any other.
        """
        reading, part_rows = self.work.reading, self.manifest.part_rows
        total = sum(one.bytes for one in self.manifest.inputs)
        if self.sample is None:
            return plan_parts(reading, part_rows), total
        sizes: list[int] = []
        places: list[Sequence[int]] = []
        for part in plan_parts(reading, part_rows):
            places.append(self._drawable(part))
            sizes.append(part.size)
        drawn = draw(sum(map(len, places)), self.sample, self.seed)
        chosen = chosen_places(places, drawn)
        parts = (
            replace(part, chosen=chosen[part.number])
            for part in plan_parts(reading, part_rows)
            if part.number in chosen
        )
        return parts, sum(sizes[number] for number in chosen)

    def _drawable(self, part: Part) -> Sequence[int]:
        """The places of a part that a sample may draw: those for which the condition holds, if there is one."""
        if self.work.where is None:
            return range(part.rows)
        condition = parse_where(self.work.where)
        return [
            place
            for place, _, item in read_part(part, self.work.reading)
            if not isinstance(item, BadRecord) and meets(condition, item)
        ]


def plan_scan(
    inputs: Sequence[str | PathLike[str]] | str | PathLike[str],
    out: str | PathLike[str],
    *,
    read: ReadOptions | None = None,
    observer: str | Observer = DEFAULT_OBSERVER,
    settings: Mapping[str, Any] | None = None,
    context: Context | str = "history",
    principles: Sequence[Principle] | None = None,
    sides: Sequence[Side | str] = (Side.PROMPT,),
    detector: DetectorSpec = DEFAULT_DETECTOR,
    patterns: PatternSource | None = None,
    where: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    part_rows: int | None = None,
    texts: bool = True,
    threads: int = 1,
    priced_only: bool = False,
) -> ScanPlan:
    """Plan a scan of conversations in files of any size; `ScanPlan.run` does it, part by part.

    Nothing is scored or written yet. A run leaves findings that `query` and others read, and goes on where an
    earlier one of an equal plan stopped. Equal plans give equal bytes, whatever the engine.

    Args:
        inputs: paths, patterns, folders or URLs, such as ``logs/*.parquet``, ``chats.jsonl.gz``, ``logs/`` or
            ``s3://bucket/chats/*.parquet``. A folder stands for the data files in it. `LIVE` for what a receiver
            gets; such a plan is done by `ScanPlan.run_live`.
        out: folder or URL of the findings; empty, new, or with findings of the same scan.
        read: what the files don't say of themselves, such as their format and columns.
        observer: specification of the observer, or an observer.
        settings: settings of the observer, where it is given by its specification.
        context: what it may see.
        principles: what turns are judged against; those that ship by default.
        sides: halves of a turn that are scored.
        detector: what judges the scores; without a threshold of its own it takes the observer's operating point.
        patterns: your own named patterns, or the YAML file that defines them.
        where: only conversations for which this holds, such as ``'turns >= 3 and metadata.model = "x"'``.
        sample: only so many conversations, drawn at random from those for which `where` holds. Without `where`,
            records that can't be read may be among them.
        seed: of the draw.
        part_rows: records of a part, 1 to 2^24 - 1; 2,000 by default, or fewer where the inputs are small.
        texts: whether the texts are kept in the findings.
        threads: conversations at a time, for an observer that waits for answers.
        priced_only: whether it is only for a forecast of costs: then an observer that is paid for is not built,
            and needs no key.

    Raises:
        UsageError: a request that makes no sense.
        LocationError: a place that can't be reached or read.
        DatasetError: none of the inputs can be read.
        ObserverError: the observer can't be built.
    """
    judged = tuple(principles) if principles is not None else builtin_principles()
    seen = context if isinstance(context, Context) else Context.parse(context)
    halves = tuple(side for side in Side if side in {Side(one) for one in sides})
    check_asked(judged, halves)
    _check_extent(sample, part_rows, where)
    names = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    live = names == [LIVE]
    reading = InputSettings((LIVE,)) if live else (read or ReadOptions()).of([fspath(name) for name in names])

    given = dict(settings or {})
    info, parameters, built = _described(observer, given, priced_only)
    check_supported(info, seen, judged, halves)
    spec = observer if isinstance(observer, str) else info.name
    run = describe_run("scan", spec, info, parameters, seen)
    if stages := describe_stages("scan", built, seen):
        run[STAGES] = stages
    named = name_detector(detector, run["operating_points"], patterns)
    described = (Input(LIVE, 0, "live"),) if live else describe_inputs(reading.files)
    manifest = Manifest(
        versions=versions(_LIBRARIES),
        run=run,
        principles=tuple({"name": one.name, "revision": info.revision_of(one)} for one in judged),
        detector={
            "spec": named.spec,
            "threshold": _finite(named.detector.threshold),
            "threshold_source": str(named.source),
            "mapping": _plain(to_mapping(named.detector)),
        },
        reading=reading.to_dict(),
        selection={
            "where": where,
            "sample": sample,
            "seed": None if sample is None else seed,
            "sides": [str(side) for side in halves],
            "texts": texts,
        },
        part_rows=part_rows or (PART_ROWS if live else default_part_rows(described, PART_ROWS)),
        inputs=described,
    )
    folder = Location(fspath(out))
    work = ScanWork(reading, folder, observer, given, seen, judged, halves, _pickled(named), where, texts, threads)
    return ScanPlan(work, manifest, sample, seed, named)


def _described(
    observer: str | Observer, settings: Mapping[str, Any], priced_only: bool
) -> tuple[ObserverInfo, Mapping[str, object], Observer | None]:
    """What is known of an observer, its settings, and itself unless it can't be built without a key."""
    if isinstance(observer, str):
        known = describe_observer(observer)
        if priced_only and known.costs:
            return known, settings, None
        observer = build_observer(observer, **settings)
    return observer.info, observer.parameters, observer


def _check_extent(sample: int | None, part_rows: int | None, where: str | None) -> None:
    if sample is not None and sample < 1:
        raise UsageError(f"a sample has at least 1 conversation, not {sample}")
    if part_rows is not None and not 1 <= part_rows < PLACES:
        raise UsageError(f"a part has 1 to {PLACES - 1} conversations, not {part_rows}")
    if where is not None and (early := parse_where(where).fields & STORED):
        raise UsageError(f"where: leave {min(early)} out, which only a conversation in a store has")


def _pickled(named: NamedDetector) -> bytes:
    try:
        return pickle.dumps(named.detector)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(f"detector {named.spec!r} can't go to workers: {error}") from error


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """Parameters as JSON values; a threshold that is infinite becomes the text "inf", which detectors read."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return "inf" if isinstance(value, float) and not math.isfinite(value) else value


_FLAGGED = """
    SELECT any_value(sequence), any_value(flag_turn), max(F) FILTER (judged), max(F) FILTER (NOT judged),
        arg_max(coalesce(unanswered, 'not asked'), F) FILTER (NOT judged)
    FROM (SELECT *, judge_F IS NOT NULL AND asked <> '{sampled}' AS judged FROM {scores})
    WHERE fired AND turn <= flag_turn GROUP BY key ORDER BY key
"""
"""Of each flagged conversation: its id, where, and the highest F until then, the judge's and, where no score of
the judge decides, the screen's, with the reason why."""


@dataclass(frozen=True, slots=True)
class FlaggedSequence:
    """A conversation that a detector flagged."""

    sequence: str
    turn: int
    F: float  # the highest up to that turn
    why: str | None = (
        None  # why that is the screen's: ``not asked``, or the reason of a failure; None for the judge's
    )


@dataclass(frozen=True, slots=True)
class SecondLooks:
    """What a second look came to.

    Args:
        turns: turns that the screen read.
        asked: those that the judge was asked about.
        unanswered: those of them without a score of it, by the reason.
        confirmed: flagged conversations whose highest F up to the flag is the judge's; the highest first.
        screen_alone: the other flagged ones, whose highest F is the screen's; likewise.
        replies: what was paid for, as in the manifest.
    """

    turns: int
    asked: int
    unanswered: Mapping[str, int]
    confirmed: tuple[FlaggedSequence, ...] = field(repr=False)
    screen_alone: tuple[FlaggedSequence, ...] = field(repr=False)
    replies: Mapping[str, float]

    @property
    def answered(self) -> int:
        """Turns of which the judge gave every score that was wanted."""
        return self.asked - sum(self.unanswered.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "answered": self.answered}


def second_looks(findings: Findings) -> SecondLooks | None:
    """Return what a second look came to; None where the scan had none.

    Args:
        findings: of the scan; where it is not complete, the parts that are done count.

    Raises:
        StoreCorruptError: the findings are damaged.
    """
    manifest = findings.manifest
    if not manifest.has_stages:
        return None
    files = FoundFiles(str(findings.folder))
    confirmed, alone = [], []
    for name, turn, judge, screen, why in files.read(_FLAGGED.format(sampled=SAMPLED, scores=files.table(SCORES))):
        if judge is not None and (screen is None or judge >= screen):
            confirmed.append(FlaggedSequence(name, turn, judge))
        else:
            alone.append(FlaggedSequence(name, turn, screen, why))
    totals = manifest.totals
    return SecondLooks(
        totals.turns,
        totals.asked,
        totals.unanswered,
        tuple(sorted(confirmed, key=lambda one: -one.F)),
        tuple(sorted(alone, key=lambda one: -one.F)),
        manifest.replies,
    )
