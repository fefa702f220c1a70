"""Turns of a session whose scores may still be corrected, and what is needed to take them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.visible import shown
from turnwise.errors import SessionError
from turnwise.scoring import TurnScores, from_triples, to_triples
from turnwise.sessions.evidence import NO_PRIOR, Prior, prior_of

if TYPE_CHECKING:
    from turnwise.sessions.state import SessionState

LONGEST: Final = 32
"""Turns of a session that are kept, to be taken again; the oldest open one is given up with the next turn."""


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """A turn as it was taken into a session.

    Args:
        scores: what it was taken with.
        at: when, aware.
        conversation_id: the conversation that it is part of.
        refused: whether the response to it refused.
        key: names it while its scores may be corrected, and after that; empty for a turn that can't be.
        answer: what corrected it, as `Sessions.correct` was given it; None before.
        prior: what was known of the person from elsewhere.
        weight: of an event that is no turn; 0 for a turn.
    """

    scores: TurnScores
    at: datetime
    conversation_id: str | None = None
    refused: bool = False
    key: str = ""
    answer: Mapping[str, Any] | None = None
    prior: Prior = NO_PRIOR
    weight: float = 0.0

    def to_list(self) -> list[Any]:
        """The turn as JSON values."""
        length, triples = self.scores.length, to_triples(self.scores.scores)
        head = [self.key, self.at.isoformat(), self.conversation_id, self.refused]
        return [*head, length, triples, self.answer, *self.prior, self.weight]

    @classmethod
    def from_list(cls, value: Any) -> TakenTurn:
        """Read what `to_list` gave; `SessionError` where it can't be."""
        try:
            key, at, conversation_id, refused, length, triples, answer, *prior, weight = value
            return cls(
                TurnScores(1, from_triples(triples), int(length)),
                datetime.fromisoformat(at),
                conversation_id,
                bool(refused),
                str(key),
                None if answer is None else dict(answer),
                prior_of(prior),
                float(weight),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise SessionError(f"open turn {shown(value)} is broken ({error}); forget the session") from None


@dataclass(frozen=True, slots=True)
class OpenTurns:
    """The turns of a session from the first one whose scores may still be corrected.

    Args:
        before: the session before the first of them.
        turns: the turns since, in the order in which they were taken.
    """

    before: SessionState
    turns: Sequence[TakenTurn] = field(default=())

    def find(self, key: str) -> TakenTurn | None:
        """The turn of a key; None where it is not among them."""
        return next((one for one in self.turns if one.key == key), None)
