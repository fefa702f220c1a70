"""Scores of turns and the trajectories that they form. Pure: no IO, no clock, no random numbers."""

from turnwise.scoring.evaluation import (
    NOT_READ,
    Call,
    Evaluation,
    EvaluationKey,
    Failure,
    FailureReason,
    FailureReasons,
    MemoryJournal,
    Provenance,
    Reply,
    ReplyJournal,
    Spread,
    Unread,
    spread,
    unread_in_words,
)
from turnwise.scoring.score import Score, balance, from_triples, to_triples, trust_strength
from turnwise.scoring.trajectory import Trajectory, TurnScores, scores_by_turn

__all__ = [
    "NOT_READ",
    "Call",
    "Evaluation",
    "EvaluationKey",
    "Failure",
    "FailureReason",
    "FailureReasons",
    "MemoryJournal",
    "Provenance",
    "Reply",
    "ReplyJournal",
    "Score",
    "Spread",
    "Trajectory",
    "TurnScores",
    "Unread",
    "balance",
    "from_triples",
    "scores_by_turn",
    "spread",
    "to_triples",
    "trust_strength",
    "unread_in_words",
]
