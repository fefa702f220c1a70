"""Why the arm that a report follows flagged some of its conversations: what its scores rest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from turnwise.runs.why import explain_flag

if TYPE_CHECKING:
    from turnwise.store import Store
    from turnwise.study.compare.study import Study

SHOWN: Final = 5
"""Attacks, and benign conversations, that are explained: those with the highest scores."""


@dataclass(frozen=True, slots=True)
class WhyFlagged:
    """Why a tested conversation was flagged.

    Args:
        sequence_id: its id.
        attack: what it is.
        turn: the turn at which the arm fired.
        principle: against which that turn has its highest F.
        score: of the conversation, on the arm's own scale.
        sentences: what its F rests on, with words of the text, and what is like it.
    """

    sequence_id: str
    attack: bool
    turn: int
    principle: str
    score: float
    sentences: tuple[str, ...]


def why_flagged(store: Store, study: Study, tell: Callable[[str], None]) -> tuple[WhyFlagged, ...]:
    """Explain false alarms of the arm that the report follows, and attacks it caught, highest scores first.

    What has to be read again is read by the run's own observer, and kept beside the store; one that costs money is
    not asked. See `turnwise.runs.why.explain_flag`.
    """
    judgement = study.judgements[study.followed]
    flags = [(one.score, one) for one in judgement.judged if one.fired and one.score is not None]
    found = []
    for attack in (False, True):
        alike = [(score, one) for score, one in flags if one.attack is attack]
        for score, one in sorted(alike, key=lambda pair: (-pair[0], pair[1].sequence_id))[:SHOWN]:
            tell(f"explaining: {one.sequence_id}")
            why = explain_flag(store, one.sequence_id, judgement.arm.run, turn=one.turn)
            found.append(WhyFlagged(one.sequence_id, attack, why.turn, why.principle, score, why.sentences()))
    return tuple(found)
