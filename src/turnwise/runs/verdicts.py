"""Verdicts: detectors over stored trajectories."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass

from turnwise.conversation import Label
from turnwise.detectors import DetectorSpec, Verdict, name_detector, run_detector
from turnwise.detectors.kit.registry import PatternSource
from turnwise.store import SequenceHead, Store

DEFAULT_DETECTORS = ("any_turn", "cusum")
"""What judges a conversation where nothing else is named."""


@dataclass(frozen=True, slots=True)
class Detection:
    """What a detector says of a stored sequence.

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


def detect(
    store: Store,
    run: str,
    detectors: Ordered[DetectorSpec] = DEFAULT_DETECTORS,
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
        detectors: names them; see `turnwise.detectors.name_detector` for their thresholds.
        ids: only these sequences.
        label: only sequences with this ground truth, which may be a corrected one.
        patterns: your own named patterns, or the YAML file that defines them.
        corrected_by: people whose corrected labels replace the imported ones, where they agree; see
            `turnwise.store.People`.

    Raises:
        UnknownNameError: no such run, sequence, detector or parameter, or one of these people said nothing.
        DetectorError: a specification or value that does not fit.
    """
    points = store.run(run).operating_points
    named = [name_detector(one, points, patterns) for one in detectors]
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
