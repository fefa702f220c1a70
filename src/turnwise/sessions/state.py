"""What is remembered of a session. It outlives a conversation and stays small however long it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from turnwise.errors import SessionError
from turnwise.sessions.breaker import BreakerState, Phase
from turnwise.visible import shown

HISTORY = 10
"""Turns that changes of balance, breakers and refusals are kept of."""

F_HISTORY = 5
"""Turns that F is kept of."""

CONVERSATIONS = 2
"""Conversation ids that are kept: the latest."""

ID_BYTES = 64
"""Bytes that an id may have in UTF-8, so that a state stays within a kilobyte."""

DIGITS = 6
"""Decimals that F and balance are remembered with."""


class BreakerCounts(NamedTuple):
    """Breakers of a session by kind.

    Args:
        role_confusion: turns with F > 0.65.
        context_saturation: turns of more than 5,000 characters with F > 0.5.
    """

    role_confusion: int = 0
    context_saturation: int = 0


class ExchangeCounts(NamedTuple):
    """Turns of a session by what was exchanged, read off their balance.

    Args:
        extractive: balance below −0.3.
        neutral: balance within 0.1 of 0.
        reciprocal: any other.
        generative: balance above 0.5.
    """

    extractive: int = 0
    neutral: int = 0
    reciprocal: int = 0
    generative: int = 0


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NO_BREAKERS = BreakerCounts()
_NO_EXCHANGES = ExchangeCounts()
_CLOSED = BreakerState()


@dataclass(frozen=True, slots=True)
class SessionState:
    """State of a session after some turns. Never changed: a turn gives a new state.

    Args:
        session_id: its id, at most `ID_BYTES` bytes.
        started_at: time of its first turn, aware and in UTC.
        last_at: time of its latest turn.
        interactions: turns so far, evaluated or not.
        trust: EMA of trust strength, in [0, 1].
        F_first: highest F of the first evaluated turn, or None before it.
        F_fast: moving average of F that follows quickly, or None.
        F_slow: moving average of F that follows slowly, or None.
        F_history: highest F of the last 5 evaluated turns, oldest first.
        balances: balance of the last 11 evaluated turns, in [−1, 1], oldest first.
        breakers: breakers so far, by kind.
        breaker_bits: which of the last 10 evaluated turns were breakers; bit 0 is the latest.
        refusals: responses so far that refused.
        refusal_bits: which of the last 10 turns were refused; bit 0 is the latest.
        exchanges: evaluated turns by what was exchanged.
        conversation_ids: the last 2 conversations, oldest first.
        breaker: the circuit breaker.
    """

    session_id: str
    started_at: datetime
    last_at: datetime
    interactions: int = 0
    trust: float = 0.5
    F_first: float | None = None
    F_fast: float | None = None
    F_slow: float | None = None
    F_history: tuple[float, ...] = ()
    balances: tuple[float, ...] = ()
    breakers: BreakerCounts = _NO_BREAKERS
    breaker_bits: int = 0
    refusals: int = 0
    refusal_bits: int = 0
    exchanges: ExchangeCounts = _NO_EXCHANGES
    conversation_ids: tuple[str, ...] = ()
    breaker: BreakerState = _CLOSED

    @property
    def terminated(self) -> bool:
        """Whether the circuit breaker ended the session; this is final."""
        return self.breaker.phase is Phase.TERMINATED

    @property
    def balance(self) -> float | None:
        """The balance of the last evaluated turn, or None before it."""
        return self.balances[-1] if self.balances else None

    @property
    def balance_deltas(self) -> tuple[float, ...]:
        """The last 10 changes of balance from one evaluated turn to the next, oldest first."""
        return tuple(round(after - before, DIGITS) for before, after in pairwise(self.balances))

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values, at most 700 bytes of them; times in microseconds of UTC."""
        breaker = self.breaker
        return {
            "id": self.session_id,
            "at": [_microseconds(self.started_at), _microseconds(self.last_at)],
            "turns": self.interactions,
            "trust": self.trust,
            "F": [self.F_first, self.F_fast, self.F_slow],
            "F_history": list(self.F_history),
            "balances": list(self.balances),
            "breakers": [*self.breakers, self.breaker_bits],
            "refusals": [self.refusals, self.refusal_bits],
            "exchanges": list(self.exchanges),
            "conversations": list(self.conversation_ids),
            "breaker": [str(breaker.phase), breaker.attempts, breaker.trust, breaker.violations],
        }

    @classmethod
    def from_dict(cls, data: object) -> SessionState:
        """Build a state from what `to_dict` gave, JSON or not in between.

        Raises:
            SessionError: a key is missing or unknown, or a value can't be.
        """
        from turnwise.sessions.state_json import read_state

        return read_state(data)


def _microseconds(stamp: datetime) -> int:
    return (stamp - EPOCH) // _MICROSECOND


def checked_id(value: object, name: str) -> str:
    """Return an id of a session or conversation, checked.

    Args:
        value: the id: text of 1 to `ID_BYTES` bytes in UTF-8.
        name: what it is called, for the message.

    Raises:
        SessionError: no text, empty, or too long.
    """
    if not isinstance(value, str) or not value:
        raise SessionError(f"{name} must be a text that is not empty, not {shown(value)}")
    size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if size > ID_BYTES:
        raise SessionError(
            f"{name} has {size} bytes, at most {ID_BYTES} are kept; use a hash of it: {value[:40]!r}…"
        )
    return value
