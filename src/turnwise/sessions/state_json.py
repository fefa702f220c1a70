"""Reading the state of a session from JSON: whatever a store gives back is checked before it is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from turnwise.errors import SessionError
from turnwise.sessions.breaker import BreakerState, Phase
from turnwise.sessions.checks import in_range, whole
from turnwise.sessions.state import (
    CONVERSATIONS,
    EPOCH,
    F_HISTORY,
    HISTORY,
    BreakerCounts,
    ExchangeCounts,
    SessionState,
    checked_id,
)
from turnwise.visible import shown

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


def read_state(data: object) -> SessionState:
    """Build a state from what `SessionState.to_dict` gave.

    Args:
        data: the JSON value.

    Raises:
        SessionError: a key is missing or unknown, or a value can't be; the message names it.
    """
    if not isinstance(data, Mapping):
        raise SessionError(f"a session state is an object with keys, not {type(data).__name__}")
    wrong = [f"without {key!r}" for key in _KEYS if key not in data]
    wrong += [f"with the unknown key {key!r}" for key in data if key not in _KEYS]
    if wrong:
        raise SessionError(f"a session state {', '.join(wrong)}; its keys: {', '.join(_KEYS)}")
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
    return SessionState(
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
    )


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
