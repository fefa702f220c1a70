"""Scores of turns and the trajectories that they form. Pure: no IO, no clock, no random numbers."""

from turnwise.scoring.evaluation import (
    Call,
    Evaluation,
    EvaluationKey,
    Failure,
    Provenance,
    Reply,
    ReplyJournal,
    Spread,
    spread,
)
from turnwise.scoring.failures import FailureReason, FailureReasons
from turnwise.scoring.score import Score, balance, trust_strength
from turnwise.scoring.trajectory import Trajectory, TurnScores, scores_by_turn

__all__ = [
    "Call",
    "Evaluation",
    "EvaluationKey",
    "Failure",
    "FailureReason",
    "FailureReasons",
    "Provenance",
    "Reply",
    "ReplyJournal",
    "Score",
    "Spread",
    "Trajectory",
    "TurnScores",
    "balance",
    "scores_by_turn",
    "spread",
    "trust_strength",
]
