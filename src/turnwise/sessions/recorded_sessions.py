"""Recorded, labelled sessions as the validation left them, and what each rule catches and flags on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from turnwise.errors import SessionError, UnknownNameError
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.sessions.memory import SessionMemory, trust_ema
from turnwise.sessions.settings import in_range, preset
from turnwise.sessions.stance import (
    WEAK_FALL,
    WEAK_TRUST,
    Friction,
    SessionTrajectory,
    direction,
    friction,
    mean_change,
    weak_signals,
)

LABELS = ("attack", "benign")
"""Labels that a record may have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Balance, in [−1, 1], and trust, in [0, 1], after each turn, and what was recorded at the end."""

    scenario: str
    label: str
    balances: tuple[float, ...]
    trust: tuple[float, ...]
    trajectory: str | None = None  # by the original rule
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise SessionError(f"{self.scenario}: label must be {' or '.join(LABELS)}, not {self.label!r}")
        if not self.balances or len(self.balances) != len(self.trust):
            raise SessionError(
                f"{self.scenario}: {len(self.balances)} balances and {len(self.trust)} values of trust; "
                "it needs one balance and one value of trust for every turn, and at least one turn"
            )
        for turn, (balance, trust) in enumerate(zip(self.balances, self.trust, strict=True), start=1):
            in_range(f"{self.scenario}: balance of turn {turn}", balance, -1.0, 1.0)
            in_range(f"{self.scenario}: trust of turn {turn}", trust, 0.0, 1.0)

    @property
    def strengths(self) -> tuple[float, ...]:
        """Trust strength of each turn as its balance tells it: −1 stands for a breaker, 0.3, any other for 1."""
        # A text of more than 5,000 characters may have balance −1 and another strength.
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
        return tuple(after - before for before, after in pairwise(self.balances))


def read_records(data: object) -> tuple[SessionRecord, ...]:
    """Read a JSON list of records, in which ``recorded_trajectory`` and ``recorded_mode`` are optional.

    >>> read_records([{"scenario": "a", "label": "benign", "balances": [0.8], "trust": [0.65]}])[0].strengths
    (1.0,)
    """
    if not isinstance(data, list) or not data:
        raise SessionError(f"records must be a JSON list with at least one object, not {_kind(data)}")
    return tuple(_record(item, number) for number, item in enumerate(data, start=1))


def record_of(scenario: str, label: str, turns: Iterable[TurnScores]) -> SessionRecord | None:
    """The record of scored turns by the session memory with the original rules; None where no turn has a score."""
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
        raise SessionError(f"{where} must be a list of numbers, not {_kind(values)}")
    for value in values:
        in_range(where, value, -1.0, 1.0)
    return tuple(map(float, values))


def _kind(value: object) -> str:
    return "an empty list" if value == [] else f"{type(value).__name__} {str(value)[:40]!r}"


@dataclass(frozen=True, slots=True)
class RecordRule:
    """A rule of the validation summary's table (source ``summary``), or one added here (``ours``)."""

    name: str
    source: str
    fires: Callable[[SessionRecord], bool]


@dataclass(frozen=True, slots=True)
class RuleRates:
    """What a rule does on some records: by label, how many it fired on, with the exact interval, and which."""

    rule: RecordRule
    rates: dict[str, Rate]
    flagged: tuple[str, ...]


def _degrading(record: SessionRecord) -> bool:
    """Whether a record reads degrading at its end; SessionError where it does not say where it was heading."""
    if record.trajectory is None:
        raise SessionError(f"{record.scenario}: no recorded_trajectory, which the rules on degrading need")
    return record.trajectory == SessionTrajectory.DEGRADING


def _falling(record: SessionRecord) -> bool:
    return mean_change(record.balances, max(1, len(record.deltas))) < WEAK_FALL


def _short_windows(record: SessionRecord) -> bool:
    """Whether tuning option 3 fires at any turn; a turn that cut trust strength stands for F > 0.6."""
    broken = [strength < 1.0 for strength in record.strengths]
    turns = range(1, len(broken) + 1)
    return any(
        (turn >= 3 and sum(broken[turn - 3 : turn]) >= 2) or mean_change(record.balances[:turn], 2) < WEAK_FALL
        for turn in turns
    )


RULES = (
    RecordRule("trust < 0.60 at the end", "summary", lambda record: record.trust[-1] < 0.60),
    RecordRule("trust < 0.60 at any turn", "summary", lambda record: min(record.trust) < 0.60),
    RecordRule("trust < 0.65 at the end", "summary", lambda record: record.trust[-1] < 0.65),
    RecordRule("degrading at the end", "summary", _degrading),
    RecordRule("mean delta < -0.3", "summary", _falling),
    RecordRule(
        "trust < 0.60 and (degrading or mean delta < -0.3)",
        "summary",
        lambda record: record.trust[-1] < WEAK_TRUST and (_degrading(record) or _falling(record)),
    ),
    RecordRule(
        "option 2 as written: three of four weak signals",
        "summary",
        lambda record: weak_signals(record.trust[-1], record.balances[-11:], degrading=_degrading(record)) >= 3,
    ),
    RecordRule("one-turn drop over 1.0", "summary", lambda record: any(delta < -1.0 for delta in record.deltas)),
    RecordRule("option 3 as written: shorter windows", "ours", _short_windows),
    RecordRule("hostility that stays", "ours", lambda record: friction(record.balances[-11:]) is Friction.STAYS),
)
"""The rules of the table, in its order."""


def rate_rules(records: Iterable[SessionRecord], rules: Iterable[RecordRule] = RULES) -> tuple[RuleRates, ...]:
    kept = tuple(records)
    sizes = {label: sum(record.label == label for record in kept) for label in LABELS}
    rows = []
    for rule in rules:
        fired = [record for record in kept if rule.fires(record)]
        rates = {label: Rate(sum(record.label == label for record in fired), of) for label, of in sizes.items()}
        rows.append(RuleRates(rule, rates, tuple(record.scenario for record in fired)))
    return tuple(rows)


def largest_difference(records: Iterable[SessionRecord]) -> float:
    """How much recorded trust and trust computed again from strengths differ at most, over all turns."""
    return max(
        abs(trust - again)
        for record in records
        for trust, again in zip(record.trust, record.reproduced, strict=True)
    )
