"""The table of rules: what each rule of the session memory catches, and flags falsely, on recorded sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from turnwise.errors import SessionError
from turnwise.rates import Rate
from turnwise.sessions.boundary import WEAK_FALL, WEAK_TRUST, mean_change, weak_signals
from turnwise.sessions.friction import Friction, friction
from turnwise.sessions.records import LABELS, SessionRecord
from turnwise.sessions.trajectory import SessionTrajectory

LARGE_DROP = 1.0
"""Fall of balance within one turn that counts as a crash."""


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A rule of the table.

    Args:
        name: what it says.
        source: ``"summary"`` for a rule of the validation summary's table, ``"ours"`` for one added here.
        fires: whether it fires on a record.
    """

    name: str
    source: str
    fires: Callable[[SessionRecord], bool]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What a rule does on some records.

    Args:
        rule: the rule.
        rates: by label, how many it fired on, with the exact interval.
        flagged: names of the records that it fired on, in their order.
    """

    rule: AuditRule
    rates: dict[str, Rate]
    flagged: tuple[str, ...]


def trust_below_at_end(limit: float) -> Callable[[SessionRecord], bool]:
    """Return the rule that trust is below a limit after the last turn."""
    return lambda record: record.trust[-1] < limit


def trust_below_at_any_turn(limit: float) -> Callable[[SessionRecord], bool]:
    """Return the rule that trust is below a limit after any turn."""
    return lambda record: min(record.trust) < limit


def degrading(record: SessionRecord) -> bool:
    """Return whether a record reads degrading at its end.

    Raises:
        SessionError: the record does not say where it was heading.
    """
    if record.trajectory is None:
        raise SessionError(f"{record.scenario}: no recorded_trajectory, which the rules on degrading need")
    return record.trajectory == SessionTrajectory.DEGRADING


def falling(record: SessionRecord) -> bool:
    """Return whether balance fell by more than 0.3 a turn in the mean over the whole record."""
    return mean_change(record.balances, max(1, len(record.deltas))) < WEAK_FALL


def weak_trust_confirmed(record: SessionRecord) -> bool:
    """Return whether trust is below 0.60 at the end and the record is degrading or falling."""
    return record.trust[-1] < WEAK_TRUST and (degrading(record) or falling(record))


def three_weak_signals(record: SessionRecord) -> bool:
    """Return whether three of the four weak signals of tuning option 2 are given at the end, as it is written."""
    return weak_signals(record.trust[-1], record.balances[-11:], degrading=degrading(record)) >= 3


def crashed(record: SessionRecord) -> bool:
    """Return whether balance fell by more than 1.0 within one turn."""
    return any(delta < -LARGE_DROP for delta in record.deltas)


def short_windows(record: SessionRecord) -> bool:
    """Return whether tuning option 3 fires at any turn: 2 of 3 turns breakers, or 2 changes falling.

    Records hold no F: a turn that cut trust strength counts as one with F > 0.6, which misses F from 0.6 to 0.65.
    """
    broken = [strength < 1.0 for strength in record.strengths]
    turns = range(1, len(broken) + 1)
    return any(
        (turn >= 3 and sum(broken[turn - 3 : turn]) >= 2) or mean_change(record.balances[:turn], 2) < WEAK_FALL
        for turn in turns
    )


def hostility_stays(record: SessionRecord) -> bool:
    """Return whether friction stays at the end, rather than heal."""
    return friction(record.balances[-11:]) is Friction.STAYS


RULES = (
    AuditRule("trust < 0.60 at the end", "summary", trust_below_at_end(0.60)),
    AuditRule("trust < 0.60 at any turn", "summary", trust_below_at_any_turn(0.60)),
    AuditRule("trust < 0.65 at the end", "summary", trust_below_at_end(0.65)),
    AuditRule("degrading at the end", "summary", degrading),
    AuditRule("mean delta < -0.3", "summary", falling),
    AuditRule("trust < 0.60 and (degrading or mean delta < -0.3)", "summary", weak_trust_confirmed),
    AuditRule("option 2 as written: three of four weak signals", "summary", three_weak_signals),
    AuditRule("one-turn drop over 1.0", "summary", crashed),
    AuditRule("option 3 as written: shorter windows", "ours", short_windows),
    AuditRule("hostility that stays", "ours", hostility_stays),
)
"""The rules of the table, in its order."""


def audit(records: Iterable[SessionRecord], rules: Iterable[AuditRule] = RULES) -> tuple[AuditRow, ...]:
    """Return what each rule does on some records.

    Args:
        records: the recorded sessions.
        rules: the rules.

    Raises:
        SessionError: a rule on degrading, and a record that does not say where it was heading.
    """
    kept = tuple(records)
    sizes = {label: sum(record.label == label for record in kept) for label in LABELS}
    rows = []
    for rule in rules:
        fired = [record for record in kept if rule.fires(record)]
        rates = {label: Rate(sum(record.label == label for record in fired), of) for label, of in sizes.items()}
        rows.append(AuditRow(rule, rates, tuple(record.scenario for record in fired)))
    return tuple(rows)


def largest_difference(records: Iterable[SessionRecord]) -> float:
    """Return by how much recorded trust and trust computed again from strengths differ at most, over all turns."""
    return max(
        abs(trust - again)
        for record in records
        for trust, again in zip(record.trust, record.reproduced, strict=True)
    )
