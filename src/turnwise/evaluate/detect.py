"""Verdicts: detectors over stored trajectories, or over one conversation as it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.detectors import Verdict, run_detector
from turnwise.detectors.files import calibrated
from turnwise.evaluate.plan import plan
from turnwise.evaluate.worker import Outcome, score_sequence
from turnwise.observers import Context, Observation, Observer
from turnwise.principles import Principle
from turnwise.scoring import TurnScores, scores_by_turn
from turnwise.store import SequenceHead, Store


@dataclass(frozen=True, slots=True)
class Detection:
    """What a detector says of a stored sequence.

    Args:
        head: the sequence.
        detector: specification of the detector.
        verdict: its verdict, or None where the run has no score of the sequence that the detector could judge,
            but failures or scores of replies alone: not checked is not clean.
        missing: turns of the sequence that have no evaluation in the run.
    """

    head: SequenceHead
    detector: str
    verdict: Verdict | None
    missing: int


def detect(
    store: Store,
    run: str,
    detectors: Ordered[str],
    *,
    ids: Collection[str] | None = None,
    label: Label | None = None,
) -> Iterator[Detection]:
    """Yield the verdict of every detector on every sequence that a run has tried to evaluate.

    Args:
        store: the record.
        run: name of the run.
        detectors: their specifications; see `calibrated` for their thresholds.
        ids: only these sequences.
        label: only sequences with this ground truth.

    Raises:
        UnknownNameError: no such run, sequence, detector or parameter.
        DetectorError: a specification or value that does not fit.
    """
    points = store.run(run).operating_points
    built = [(spec, calibrated(spec, points)) for spec in detectors]
    failed = {failure.key.sequence_id for failure in store.failures(run, ids=ids)}
    for head, trajectory in store.trajectories(run, ids=ids, label=label):
        if not trajectory and head.sequence_id not in failed:
            continue
        missing = head.turns - len({evaluation.key.turn for evaluation in trajectory.evaluations})
        prompts = any(turn.scores for turn in trajectory)
        for spec, detector in built:
            verdict = run_detector(detector, trajectory, spec) if trajectory else None
            if verdict is not None and not prompts and not any(signal.contributions for signal in verdict.signals):
                verdict = None  # the run scored replies alone, and the detector reads prompts
            yield Detection(head, spec, verdict, missing)


def score_conversation(
    observer: Observer,
    conversation: Conversation,
    *,
    principles: Ordered[Principle],
    context: Context,
    sides: Ordered[Side] = (Side.PROMPT,),
) -> tuple[tuple[TurnScores, ...], tuple[Outcome, ...]]:
    """Score one conversation outside a store, and return the scores of its turns and every single outcome.

    Raises:
        ObserverError: the observer can't go on.
        ConversationError: the conversation has no turns.
    """
    sequence = Sequence(conversation.conversation_id, Label.UNLABELLED, "live", conversation)
    work = plan("live", sequence, (), principles=principles, context=context, sides=sides)
    outcomes = score_sequence(observer, context, work).outcomes
    scores = (
        (turn, given.side, given.principle, given.score)
        for turn, given in outcomes
        if isinstance(given, Observation)
    )
    lengths = {turn.number: (len(turn.prompt), len(turn.response or "")) for turn in conversation}
    return tuple(scores_by_turn(len(lengths), scores, lengths)), outcomes
