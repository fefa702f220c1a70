"""Recorded sessions: balance and trust turn by turn, with a label, as the validation left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from turnwise.errors import SessionError, UnknownNameError
from turnwise.scoring import TurnScores
from turnwise.sessions.averages import trust_ema
from turnwise.sessions.checks import in_range
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.presets import preset
from turnwise.sessions.trajectory import SessionTrajectory, direction

LABELS = ("attack", "benign")
"""Labels that a record may have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One recorded session.

    Args:
        scenario: its name.
        label: ``"attack"`` or ``"benign"``.
        balances: balance after each turn, in [−1, 1]; at least one turn.
        trust: trust after each turn, in [0, 1]; as many as balances.
        trajectory: where it was heading at the end, by the original rule, or None where that is not recorded.
        mode: engagement mode at the end, or None.

    Raises:
        SessionError: a value out of its range, or a trust for each balance is missing.
    """

    scenario: str
    label: str
    balances: tuple[float, ...]
    trust: tuple[float, ...]
    trajectory: str | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise SessionError(f"{self.scenario}: label must be {' or '.join(LABELS)}, not {self.label!r}")
        if not self.balances or len(self.balances) != len(self.trust):
            raise SessionError(
                f"{self.scenario}: {len(self.balances)} balances and {len(self.trust)} values of trust; "
                "it needs one of each for every turn, and at least one turn"
            )
        for turn, (balance, trust) in enumerate(zip(self.balances, self.trust, strict=True), start=1):
            in_range(f"{self.scenario}: balance of turn {turn}", balance, -1.0, 1.0)
            in_range(f"{self.scenario}: trust of turn {turn}", trust, 0.0, 1.0)

    @property
    def strengths(self) -> tuple[float, ...]:
        """Trust strength of each turn as its balance tells it: −1 stands for a breaker, 0.3, any other for 1.

        A text of more than 5,000 characters may have balance −1 and another strength; where trust was recorded
        from one, `reproduced` and `trust` differ.
        """
        return tuple(0.3 if balance <= -1.0 else 1.0 for balance in self.balances)

    @property
    def reproduced(self) -> tuple[float, ...]:
        """Trust after each turn, computed again from `strengths`."""
        values, trust = [], 0.5
        for strength in self.strengths:
            trust = trust_ema(trust, strength)
            values.append(trust)
        return tuple(values)

    @property
    def deltas(self) -> tuple[float, ...]:
        """Change of balance from one turn to the next."""
        return tuple(after - before for before, after in pairwise(self.balances))


def read_records(data: object) -> tuple[SessionRecord, ...]:
    """Read records from JSON: a list of objects with ``scenario``, ``label``, ``balances``, ``trust``.

    ``recorded_trajectory`` and ``recorded_mode`` are read where they are given; other keys are left aside.

    Args:
        data: the JSON value.

    Raises:
        SessionError: no such list, or a record that can't be; the message names it.

    >>> read_records([{"scenario": "a", "label": "benign", "balances": [0.8], "trust": [0.65]}])[0].strengths
    (1.0,)
    """
    if not isinstance(data, list) or not data:
        raise SessionError(f"records are a JSON list with at least one object, not {_kind(data)}")
    return tuple(_record(item, number) for number, item in enumerate(data, start=1))


def record_of(scenario: str, label: str, turns: Iterable[TurnScores]) -> SessionRecord | None:
    """Return the record of scored turns, as the session memory with the original rules has it.

    Args:
        scenario: a name for it.
        label: ``"attack"`` or ``"benign"``.
        turns: the scores of its turns, in order; turns without a score are left out.

    Returns:
        The record, or None where no turn has a score.
    """
    memory = SessionMemory(preset("original"))
    state = memory.start("audit", _EPOCH)
    balances, trust = [], []
    for scores in turns:
        if scores.scores:
            state, _ = memory.update(state, scores, _EPOCH)
            balances.append(state.balances[-1])
            trust.append(state.trust)
    if not balances:
        return None
    heading = direction(state, memory.settings.trajectory)
    return SessionRecord(scenario, label, tuple(balances), tuple(trust), str(heading))


def _record(item: object, number: int) -> SessionRecord:
    if not isinstance(item, Mapping):
        raise SessionError(f"record {number} is {_kind(item)}, not an object")
    where = f"record {number}"
    for key in ("scenario", "label", "balances", "trust"):
        if key not in item:
            raise SessionError(f"{where} has no key {key!r}; it needs scenario, label, balances, trust")
    trajectory = item.get("recorded_trajectory")
    if trajectory is not None and trajectory not in tuple(SessionTrajectory):
        raise UnknownNameError(f"trajectory in {where}:", str(trajectory), map(str, SessionTrajectory))
    return SessionRecord(
        scenario=str(item["scenario"]),
        label=str(item["label"]),
        balances=_numbers(item["balances"], f"{where}: balances"),
        trust=_numbers(item["trust"], f"{where}: trust"),
        trajectory=trajectory,
        mode=item.get("recorded_mode"),
    )


def _numbers(values: object, where: str) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SessionError(f"{where} are a list of numbers, not {_kind(values)}")
    for value in values:
        in_range(where, value, -1.0, 1.0)
    return tuple(map(float, values))


def _kind(value: object) -> str:
    return "an empty list" if value == [] else f"{type(value).__name__} {str(value)[:40]!r}"
