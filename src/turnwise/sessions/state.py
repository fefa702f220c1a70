"""What is remembered of a session. It outlives a conversation and stays small however long it lasts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise._support.visible import shown
from turnwise.errors import SessionError
from turnwise.scoring import TurnScores, from_triples, to_triples
from turnwise.sessions.breaker import BreakerState, Phase
from turnwise.sessions.evidence import NO_EVIDENCE, NO_PRIOR, Evidence, Prior, prior_of
from turnwise.sessions.settings import F_HISTORY, HISTORY, in_range, whole
from turnwise.sessions.state_store import StateKind

CONVERSATIONS = 2
"""Conversation ids that are kept: the latest."""

ID_BYTES = 64
"""Bytes that an id may have in UTF-8, so that a state stays within a kilobyte."""

DIGITS = 6
"""Decimals that F and balance are remembered with."""

LONGEST: Final = 32
"""Turns of a session that are kept, to be taken again; the oldest open one is given up with the next turn."""


_KEYS = (
    "id",
    "at",
    "turns",
    "trust",
    "F",
    "F_history",
    "balances",
    "breakers",
    "refusals",
    "exchanges",
    "conversations",
    "breaker",
)
"""Keys of a state as JSON."""

_OPEN, _EVIDENCE = "open", "evidence"
"""Further keys: while scores of turns may still be corrected, and where anything speaks against the session."""


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
class TakenTurn:
    """A turn as it was taken in, and what corrected it; one with a weight is an event that is no turn."""

    scores: TurnScores
    at: datetime
    conversation_id: str | None = None
    refused: bool = False
    key: str = ""  # names it while its scores may be corrected, and after that
    answer: Mapping[str, Any] | None = None
    prior: Prior = NO_PRIOR
    weight: float = 0.0

    def to_list(self) -> list[Any]:
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
    """The turns from the first one whose scores may still be corrected, and the session before them."""

    before: SessionState
    turns: Sequence[TakenTurn] = ()

    def find(self, key: str) -> TakenTurn | None:
        return next((one for one in self.turns if one.key == key), None)


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
        evidence: what adds up over turns, and over conversations.
        open: the turns from the first one whose scores may still be corrected; None where none may.
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
    evidence: Evidence = NO_EVIDENCE
    open: OpenTurns | None = None

    @property
    def terminated(self) -> bool:
        """Whether the circuit breaker ended the session; this is final."""
        return self.breaker.phase is Phase.TERMINATED

    @property
    def balance(self) -> float | None:
        """The balance of the last evaluated turn, or None before it."""
        return self.balances[-1] if self.balances else None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values, at most 700 bytes without open turns; times in microseconds of UTC."""
        breaker, still = self.breaker, self.open
        more: dict[str, Any] = {} if self.evidence == NO_EVIDENCE else {_EVIDENCE: self.evidence.to_list()}
        if still is not None:
            more[_OPEN] = [still.before.to_dict(), [one.to_list() for one in still.turns]]
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
            **more,
        }

    @classmethod
    def from_dict(cls, data: object) -> SessionState:
        """Build a state from what `to_dict` gave; what a store gives back is checked before it is trusted.

        Raises:
            SessionError: a key is missing or unknown, or a value can't be; the message names it.
        """
        if not isinstance(data, Mapping):
            raise SessionError(f"a session state must be an object with keys, not {type(data).__name__}")
        wrong = [f"without {key!r}" for key in _KEYS if key not in data]
        wrong += [f"with the unknown key {key!r}" for key in data if key not in (*_KEYS, _OPEN, _EVIDENCE)]
        if wrong:
            raise SessionError(f"a session state {', '.join(wrong)}; known: {', '.join(_KEYS)}")
        whole("turns", data["turns"], 0)
        in_range("trust", data["trust"], 0.0, 1.0)
        started, last = (_time(value) for value in _list(data, "at", 2, 2))
        first, fast, slow = _list(data, "F", 3, 3)
        for value in (first, fast, slow):
            if value is not None:
                in_range("F", value, 0.0, 1.0)
        history = _numbers(data, "F_history", F_HISTORY, 0.0)
        balances = _numbers(data, "balances", HISTORY + 1, -1.0)
        *counts, breaker_bits = _counts(data, "breakers", 3)
        refusals, refusal_bits = _counts(data, "refusals", 2)
        for name, bits in (("breakers", breaker_bits), ("refusals", refusal_bits)):
            whole(f"last of {name}", bits, 0, 2**HISTORY - 1)
        return cls(
            session_id=checked_id(data["id"], "id"),
            started_at=started,
            last_at=last,
            interactions=data["turns"],
            trust=data["trust"],
            F_first=first,
            F_fast=fast,
            F_slow=slow,
            F_history=history,
            balances=balances,
            breakers=BreakerCounts(*counts),
            breaker_bits=breaker_bits,
            refusals=refusals,
            refusal_bits=refusal_bits,
            exchanges=ExchangeCounts(*_counts(data, "exchanges", 4)),
            conversation_ids=tuple(
                checked_id(item, "conversations") for item in _list(data, "conversations", 0, CONVERSATIONS)
            ),
            breaker=_breaker(_list(data, "breaker", 4, 4)),
            evidence=Evidence.from_list(data[_EVIDENCE]) if _EVIDENCE in data else NO_EVIDENCE,
            open=_open(_list(data, _OPEN, 2, 2)) if _OPEN in data else None,
        )


def _microseconds(stamp: datetime) -> int:
    return (stamp - EPOCH) // _MICROSECOND


def checked_id(value: object, name: str) -> str:
    """Return an id; SessionError unless it is text of 1 to `ID_BYTES` bytes in UTF-8."""
    if not isinstance(value, str) or not value:
        raise SessionError(f"{name} must be a text that is not empty, not {shown(value)}")
    size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if size > ID_BYTES:
        raise SessionError(
            f"{name} has {size} bytes, at most {ID_BYTES} are kept; use a hash of it: {value[:40]!r}…"
        )
    return value


def _list(data: Mapping[str, Any], key: str, low: int, high: int) -> Sequence[Any]:
    values = data[key]
    if not isinstance(values, list | tuple) or not low <= len(values) <= high:
        size = f"{low}" if low == high else f"at most {high}"
        raise SessionError(f"{key} must be a list of {size} values, not {shown(values)}")
    return values


def _numbers(data: Mapping[str, Any], key: str, most: int, low: float) -> tuple[float, ...]:
    values = tuple(_list(data, key, 0, most))
    for value in values:
        in_range(key, value, low, 1.0)
    return values


def _counts(data: Mapping[str, Any], key: str, size: int) -> Sequence[int]:
    values = _list(data, key, size, size)
    for value in values:
        whole(key, value, 0)
    return values


def _time(value: Any) -> datetime:
    whole("at", value, 0)
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        raise SessionError(f"at must be microseconds since 1970, not {shown(value)}") from None


def _breaker(values: Sequence[Any]) -> BreakerState:
    phase, attempts, trust, violations = values
    if phase not in tuple(Phase):
        raise SessionError(f"breaker must be [phase, attempts, trust, violations], not {shown(values)}")
    whole("breaker attempts", attempts, 0)
    in_range("breaker trust", trust, 0.0, 1.0)
    whole("breaker violations", violations, 0)
    return BreakerState(Phase(phase), attempts, trust, violations)


def _open(values: Sequence[Any]) -> OpenTurns:
    before, turns = values
    if not isinstance(turns, list) or len(turns) > LONGEST or (isinstance(before, dict) and _OPEN in before):
        raise SessionError(f"open must be a state and at most {LONGEST} turns, not {shown(values)}")
    return OpenTurns(SessionState.from_dict(before), tuple(map(TakenTurn.from_list, turns)))


def _dump(state: SessionState) -> bytes:
    return json.dumps(state.to_dict(), separators=(",", ":")).encode("ascii")


def _load(data: bytes, key: str, version: int) -> SessionState:
    return SessionState.from_dict(read_json(data.decode("ascii")))


def _end(state: SessionState) -> SessionState | None:
    """What is left of a terminated session for which there was no room."""
    if not state.terminated:
        return None
    return SessionState(
        state.session_id,
        state.started_at,
        state.last_at,
        state.interactions,
        state.trust,
        breaker=state.breaker,
        evidence=state.evidence,
    )


_WORDS: Final = (
    b'"recovery","terminated","violated",{"id":"","at":[17,17],"turns":1,"trust":0.7,"F":[0.0,0.0,0.0],"F_history":'
    b'[0.0,0.1],"balances":[0.85,0.7,-0.5],"breakers":[0,0,0],"refusals":[0,0],"exchanges":[0,0,0,0],'
    b'"conversations":[""],"breaker":["normal",0,0.5,0]}'
)
"""What payloads of both versions have in common; the first had no evidence. It never changes: readers need it."""

SESSION: Final = StateKind(
    "session",
    2,
    _dump,
    _load,
    used_at=lambda state: state.last_at,
    remnant=_end,
    owner=lambda state: state.session_id,
    words=_WORDS,
)
"""Session states in a state store."""
