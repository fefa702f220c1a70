"""Sets a scan up: what is read, by what it is scored, and what its manifest says, before anything runs."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

from turnwise._support.locations import Location
from turnwise._support.revision import versions
from turnwise.conversation import Label, Side
from turnwise.conversation.json_values import json_object
from turnwise.datasets import BadRecord, get_loader
from turnwise.datasets.opening import load_options
from turnwise.detectors import DetectorSpec, NamedDetector, name_detector, to_mapping
from turnwise.detectors.kit.registry import PatternSource
from turnwise.errors import UsageError
from turnwise.findings import PLACES, Manifest
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    Observer,
    ObserverInfo,
    build_observer,
    check_asked,
    check_supported,
    describe_observer,
)
from turnwise.principles import Principle, builtin_principles
from turnwise.scan.inputs import Reading, check_readable, default_part_rows, describe_inputs, find_inputs
from turnwise.scan.parts import PART_ROWS, Part
from turnwise.scan.planning import chosen_places, draw, plan_parts
from turnwise.scan.reading import read_part
from turnwise.scan.work import ScanWork, facts
from turnwise.store.where import parse_where

DEFAULT_DETECTOR = "cusum"
"""What judges conversations where nothing else is named."""

_LIBRARIES = ("duckdb", "numpy", "onnxruntime", "tokenizers")


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan that is set up: what is read, by what it is scored, and where findings go.

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
            if not isinstance(item, BadRecord) and condition.holds(facts(item))
        ]


def set_up(
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
    priced_only: bool = False,
) -> Scan:
    """Check what a scan is asked to do, and return it set up; nothing is scored or written.

    Takes what `turnwise.scan.scan` takes, with the same defaults, and raises what that raises.

    Args:
        inputs: paths, patterns, folders or URLs.
        out: folder or URL of the findings.
        priced_only: whether it is only for a forecast of costs: then an observer that is paid for is not built,
            and needs no key.
    """
    judged = tuple(principles) if principles is not None else builtin_principles()
    seen = context if isinstance(context, Context) else Context.parse(context)
    halves = tuple(side for side in Side if side in {Side(one) for one in sides})
    check_asked(judged, halves)
    _check_extent(sample, part_rows, where)
    wanted = None if format is None else get_loader(format).info
    names = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    options = load_options(columns, label, label_map, role_map, source, encoding)
    reading = Reading(find_inputs([fspath(name) for name in names], wanted), format, options)
    check_readable(reading)

    given = dict(settings or {})
    info, parameters = _described(observer, given, priced_only)
    check_supported(info, seen, (principle.name for principle in judged))
    points = dict(info.operating_points.get(str(seen), {}))
    named = name_detector(detector, points, patterns)
    described = describe_inputs(reading.files)
    rows = part_rows if part_rows is not None else default_part_rows(described, PART_ROWS)
    manifest = Manifest(
        versions=versions(_LIBRARIES),
        run={
            "name": "scan",
            "observer": observer if isinstance(observer, str) else info.name,
            "observer_version": info.version,
            "context": str(seen),
            "parameters": json_object(parameters, f"parameters of the observer {info.name!r}"),
            "operating_points": points,
        },
        principles=tuple({"name": one.name, "revision": one.revision} for one in judged),
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
        part_rows=rows,
        inputs=described,
    )
    work = ScanWork(
        reading,
        Location(fspath(out)),
        observer,
        given,
        seen,
        judged,
        halves,
        _pickled(named),
        where,
        texts,
        threads,
    )
    return Scan(work, manifest, sample, seed, named)


def _described(
    observer: str | Observer, settings: Mapping[str, Any], priced_only: bool
) -> tuple[ObserverInfo, Mapping[str, object]]:
    """What is known of an observer, and its settings; it is built for that, and let go of again."""
    if isinstance(observer, str):
        known = describe_observer(observer)
        if priced_only and known.costs:
            return known, settings
        observer = build_observer(observer, **settings)
    return observer.info, observer.parameters


def _check_extent(sample: int | None, part_rows: int | None, where: str | None) -> None:
    if sample is not None and sample < 1:
        raise UsageError(f"a sample has at least 1 conversation, not {sample}")
    if part_rows is not None and not 1 <= part_rows < PLACES:
        raise UsageError(f"a part has 1 to {PLACES - 1} conversations, not {part_rows}")
    if where is not None and "cost" in parse_where(where).fields:
        raise UsageError("where: a conversation that is not scored yet has no cost")


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
