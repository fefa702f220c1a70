"""Verdicts: detectors over stored trajectories, and which conversations they flag.

What was reached once is kept (`turnwise.store.kept_verdicts`) and brought up to date where scores were added.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from turnwise._support.revision import code_version
from turnwise.conversation import Label, Side
from turnwise.detectors import (
    Detector,
    DetectorSpec,
    NamedDetector,
    PatternSource,
    ThresholdSource,
    Verdict,
    build_detector,
    name_detector,
    run_detector,
    to_mapping,
)
from turnwise.scoring import Score, TurnScores, scores_by_turn
from turnwise.store import Run, SequenceHead, Store
from turnwise.store.damaged_rows import intact
from turnwise.store.kept_verdicts import Flag
from turnwise.store.source import NumberedHead, Page

DEFAULT_DETECTORS = ("any_turn", "cusum")
"""What judges a conversation where nothing else is named, and no scan judged it."""

_AT_ONCE = 5_000
"""Scores that are judged before verdicts are kept, about."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The verdict of a detector on a stored sequence.

    Args:
        head: the sequence.
        detector: specification of the detector.
        verdict: its verdict, or None where the run has no score of the sequence that the detector could judge,
            but failures, texts that were not read, or scores of replies alone: not checked is not clean.
        missing: turns of the sequence that have no evaluation in the run.
        label: its ground truth: what the people gave it whose corrections count, else what its data set gave it
            (`head.label`); None where these people disagree.
        unread: turns with a text that the run's observer does not read; detectors skip them.
    """

    head: SequenceHead
    detector: str
    verdict: Verdict | None
    missing: int
    label: Label | None
    unread: int = 0


def judges_of(
    store: Store, run: str, detectors: Ordered[DetectorSpec] = (), patterns: PatternSource | None = None
) -> list[NamedDetector]:
    """Return the detectors that judge a run, with their thresholds there.

    Args:
        detectors: names them. By default findings are judged by the detector of their scan, at the threshold that
            it had, and runs of a record by `DEFAULT_DETECTORS` at the run's operating points.
        patterns: your own named patterns, or the YAML file that defines them.

    Raises:
        UnknownNameError: no such run, detector or parameter.
        DetectorError: a specification or value that does not fit.
    """
    points = store.run(run).operating_points
    scan = store.source.judged_with
    if scan is None or detectors:
        return [name_detector(one, points, patterns) for one in detectors or DEFAULT_DETECTORS]
    built = build_detector(scan["mapping"])
    return [NamedDetector(scan["spec"], built, ThresholdSource(scan["threshold_source"]), built)]


@dataclass(frozen=True, slots=True)
class Flagged:
    """What the detectors of a run flag.

    Args:
        detectors: the detectors, with their thresholds.
        flags: of each detector in order, the conversations at which it fired.
        pending: conversations with scores that were not judged yet.
    """

    detectors: tuple[NamedDetector, ...]
    flags: tuple[tuple[Flag, ...], ...]
    pending: int

    def first(self) -> dict[int, tuple[int, Flag]]:
        """Return by row number of a conversation which detector fired first, as a place in `detectors`, and its
        flag; of two at the same turn the one named first."""
        found: dict[int, tuple[int, Flag]] = {}
        for place, flags in enumerate(self.flags):
            for flag in flags:
                if flag.number not in found or flag.turn < found[flag.number][1].turn:
                    found[flag.number] = place, flag
        return found


def flagged(
    store: Store,
    run: str,
    detectors: Ordered[DetectorSpec] = (),
    *,
    patterns: PatternSource | None = None,
    seconds: float | None = None,
) -> Flagged:
    """Return which conversations of a run detectors flag; verdicts that were reached before are not reached again.

    Args:
        detectors: names them; by default those of `judges_of`.
        patterns: your own named patterns, or the YAML file that defines them.
        seconds: how long to go on judging what is new, about; by default until all is judged.

    Raises:
        UnknownNameError: no such run, detector or parameter.
        DetectorError: a specification or value that does not fit.
        StoreError: a score is damaged.
    """
    named = judges_of(store, run, detectors, patterns)
    source, kept, known = store.source, store.kept_verdicts, store.run(run)
    stamp = f"{code_version()} {source.stamp(known)}"
    keys = [_identity(one) for one in named]
    ends = None if seconds is None else time.monotonic() + seconds
    own = source.judged_with is not None and not detectors
    upto = [kept.upto(run, key, stamp) for key in keys]
    while True:
        low = min(upto)
        page, reached = source.scored_after(known, low, _AT_ONCE, flagged=own)
        if reached == low:
            break
        if reached < low:  # the store was replaced by an older one
            kept.forget(run)
            upto = [0 for _ in keys]
            continue
        if ends is not None and time.monotonic() >= ends:
            break
        behind = [place for place, one in enumerate(upto) if one == low]
        found: dict[int, list[Flag]] = {place: [] for place in behind}
        for (number, head), turns in _turns(store, known, page):
            for place in behind:
                if (flag := _flag(named[place], number, head, turns)) is not None:
                    found[place].append(flag)
        for place in behind:
            times = source.times({flag.number: flag.turn for flag in found[place]})
            flags = [flag._replace(at=times[flag.number].timestamp()) for flag in found[place]]
            kept.keep(run, keys[place], stamp, [one.number for one in page], flags, reached)
            upto[place] = reached
    pending = source.count_after(known, min(upto))
    return Flagged(tuple(named), tuple(tuple(kept.flags(run, key, stamp)) for key in keys), pending)


def _identity(named: NamedDetector) -> str:
    """A text that says all of a detector, how it was named, and which code it is."""
    told = [named.spec, str(named.source), to_mapping(named.detector), _code(named.detector)]
    return json.dumps(told, sort_keys=True, default=repr)


def _code(detector: Detector) -> list[object]:
    """The classes of a detector and its members, with the times of their files: plug-ins have own versions."""
    made = type(detector)
    file = getattr(sys.modules.get(made.__module__), "__file__", None)
    when = Path(file).stat().st_mtime_ns if file and Path(file).exists() else None
    return [made.__module__, made.__qualname__, when, *map(_code, getattr(detector, "members", ()))]


def _turns(store: Store, run: Run, page: Page) -> Iterator[tuple[NumberedHead, list[TurnScores]]]:
    """The sequences of a page with their scores in a run, turn by turn."""
    if not page:
        return
    source, lengths = store.source, store.source.lengths(page, None)
    scored = {number: list(rows) for number, rows in groupby(source.scores(run, page), itemgetter(0))}
    for one in page:
        number, head = one
        with intact(source.where, f"the trajectory of sequence {head.sequence_id!r} in run {run.name!r}"):
            scores = [(turn, side, name, Score(*told)) for _, turn, side, name, *told in scored.get(number, ())]
            turns = list(scores_by_turn(head.turns, scores, lengths.get(number, {})))
        yield one, turns


def _flag(named: NamedDetector, number: int, head: SequenceHead, turns: Ordered[TurnScores]) -> Flag | None:
    """What is kept of a conversation where the detector fires."""
    verdict = run_detector(named.detector, turns, named.spec, named.source)
    if verdict.turn is None:
        return None
    at, said = turns[verdict.turn - 1], verdict.signals[verdict.turn - 1].contributions
    side = Side.PROMPT if at.scores else Side.RESPONSE
    scores = at.scores or at.response_scores
    principle = max(scores, key=lambda name: (said.get(name, -math.inf), scores[name].F), default="")
    score = scores[principle] if scores else Score(0.0, 0.0, 0.0)
    peak = max((one.F for turn in turns for one in (turn.scores or turn.response_scores).values()), default=0.0)
    return Flag(
        number, head.sequence_id, str(head.label), head.source, head.turns, verdict.turn, str(side), principle,
        score.F, score.I, peak, verdict.score or 0.0, verdict.reason, 0.0,
    )  # fmt: skip


def detect(
    store: Store,
    run: str,
    detectors: Ordered[DetectorSpec] = (),
    *,
    ids: Collection[str] | None = None,
    label: Label | None = None,
    patterns: PatternSource | None = None,
    corrected_by: Collection[str] = (),
) -> Iterator[Detection]:
    """Yield the verdict of every detector on every sequence that a run has tried to evaluate.

    Args:
        store: the record.
        run: name of the run.
        detectors: names them; see `turnwise.detectors.name_detector` for their thresholds. By default those of
            `judges_of`.
        ids: only these sequences.
        label: only sequences with this ground truth, which may be a corrected one.
        patterns: your own named patterns, or the YAML file that defines them.
        corrected_by: people whose corrected labels replace the imported ones, where they agree; see
            `turnwise.store.People`.

    Raises:
        UnknownNameError: no such run, sequence, detector or parameter, or one of these people said nothing.
        DetectorError: a specification or value that does not fit.
    """
    named = judges_of(store, run, detectors, patterns)
    corrections = store.people.labels(corrected_by) if corrected_by else {}
    failed = {failure.key.sequence_id for failure in store.failures(run, ids=ids)}
    unread: dict[str, set[int]] = {}
    for one in store.unread(run, ids=ids):
        unread.setdefault(one.key.sequence_id, set()).add(one.key.turn)
    # The store knows imported labels alone, so corrected ones are looked at here.
    imported = None if corrections else label
    for head, trajectory in store.trajectories(run, ids=ids, label=imported):
        counted = corrections.get(head.sequence_id, head.label)
        if label not in (None, counted):
            continue
        left = unread.get(head.sequence_id, ())
        if not (trajectory or left or head.sequence_id in failed):
            continue
        missing = head.turns - len({evaluation.key.turn for evaluation in trajectory.evaluations})
        prompts = any(turn.scores for turn in trajectory)
        for detector in named:
            told = detector.detector, trajectory, detector.spec, detector.source
            verdict = run_detector(*told) if trajectory else None
            if verdict is not None and not prompts and verdict.score is None:
                verdict = None  # the run scored replies alone, and the detector reads prompts
            yield Detection(head, detector.spec, verdict, missing, counted, len(left))
