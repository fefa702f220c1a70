"""Evidence that lasts: F that adds up in a session, and what speaks against a person over conversations."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise._support.visible import numbered, shown
from turnwise.errors import SessionError
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions.settings import EvidenceSettings, in_range, whole
from turnwise.sessions.state_store import StateKind

QUIET: Final = 3
"""Evaluated turns without evidence after which an incident is over: a circuit breaker needs three to close."""

INCIDENT, BLOCKED, NEAR_MISS = 1.0, 0.5, 0.25
"""What an event weighs: a breach, or F that added up; a block by another guardrail; F just below a breach."""

MOST_WEIGHT: Final = 10.0
"""Weight at most, so that whoever keeps trying is served again within two half-lives of giving up."""

_MOST: Final = 1e6
_DIGITS: Final = 4


class Prior(NamedTuple):
    """Weight, number and days since the first of a person's incidents elsewhere."""

    weight: float = 0.0  # faded
    incidents: int = 0
    days: float = 0.0


NO_PRIOR: Final = Prior()


class Evidence(NamedTuple):
    """What adds up in a session.

    Args:
        cusum: the one-sided cumulative sum of F less what an ordinary turn may have, at least 0.
        turns: turns over which it has added up; 0 where the sum is 0.
        weight: weight of the session's own incidents, faded to its latest turn.
        level: what of it is of the incident under way; 0 where none is.
        quiet: evaluated turns since the latest event of that incident, at most `QUIET`.
        incidents: incidents so far.
        prior: what was known of the person from elsewhere at the latest turn.
    """

    cusum: float = 0.0
    turns: int = 0
    weight: float = 0.0
    level: float = 0.0
    quiet: int = 0
    incidents: int = 0
    prior: Prior = NO_PRIOR

    @property
    def strikes(self) -> int:
        """Incidents that count by now, with those from elsewhere, to the nearest whole number, halves down."""
        return _strikes(self.weight + self.prior.weight)

    @property
    def strikes_before(self) -> int:
        """The same without the incident under way."""
        return _strikes(max(0.0, self.weight - self.level) + self.prior.weight)

    def rested(self, idle: timedelta, half_life: timedelta | None, prior: Prior, *, elsewhere: bool) -> Evidence:
        """The evidence before a turn: faded, and with the incident over where the conversation is another one."""
        if not self.weight and prior is self.prior:
            return self
        weight = self.weight and faded(self.weight, idle, half_life)
        level = 0.0 if elsewhere or self.quiet >= QUIET else self.level
        if weight == self.weight and level == self.level and prior is self.prior:
            return self
        return Evidence(self.cusum, self.turns, weight, level, self.quiet, self.incidents, prior)

    def taken(self, F: float, settings: EvidenceSettings) -> Evidence:
        """The evidence with the F of a turn added up; the sum stays within 2.5 times its limit."""
        total, most = round(max(0.0, self.cusum + F - settings.drift), _DIGITS), 2.5 * settings.limit
        turns = (max(1, self.turns) if total > most else self.turns + 1) if total else 0
        # Beyond the most the turns stay, so that their mean does. Written out, as it takes half the time.
        _, _, weight, level, quiet, incidents, prior = self
        return Evidence(min(most, total), turns, weight, level, quiet, incidents, prior)

    def noted(self, event: float) -> Evidence:
        """The evidence after an event of a weight, 0 for none; an incident counts by its gravest event."""
        if not event:
            return self._replace(quiet=min(QUIET, self.quiet + 1)) if self.level else self
        if event <= self.level:  # of the incident that is under way
            return self._replace(quiet=0) if self.quiet else self
        level = event
        began = self.level < INCIDENT <= level
        weight = round(min(MOST_WEIGHT, self.weight + level - self.level), _DIGITS)
        return self._replace(weight=weight, level=level, quiet=0, incidents=self.incidents + began)

    def to_list(self) -> list[Any]:
        """Return it as JSON values; the last four stand for what is known from elsewhere."""
        return [*self[:-1], *self.prior]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Evidence:
        """Read what `to_list` gave; SessionError where it can't be."""
        if not isinstance(values, list | tuple) or len(values) != _NUMBERS:
            raise SessionError(f"evidence must be a list of {_NUMBERS} numbers, not {shown(values)}")
        cusum, turns, weight, level, quiet, incidents, *prior = values
        for name, value in (("sum", cusum), ("weight", weight), ("level", level)):
            in_range(f"evidence {name}", value, 0.0, _MOST)
        for name, value, most in (("turns", turns, None), ("quiet", quiet, QUIET), ("incidents", incidents, None)):
            whole(f"evidence {name}", value, 0, most)
        return cls(cusum, turns, weight, level, quiet, incidents, prior_of(prior))


def _strikes(weight: float) -> int:
    return max(0, math.ceil(weight - 0.5))  # halves down, since they fade at once


NO_EVIDENCE: Final = Evidence()
_NUMBERS: Final = len(NO_EVIDENCE) - 1 + len(NO_PRIOR)


def prior_of(values: Sequence[Any]) -> Prior:
    """Read what is known from elsewhere, as a list of JSON values; SessionError where it can't be."""
    if not isinstance(values, list | tuple) or len(values) != len(NO_PRIOR):
        raise SessionError(f"what is known of a person must be {len(NO_PRIOR)} numbers, not {shown(values)}")
    weight, incidents, days = values
    in_range("weight from elsewhere", weight, 0.0, _MOST)
    whole("incidents from elsewhere", incidents, 0)
    in_range("days", days, 0.0, _MOST)
    return Prior(weight, incidents, days)


def faded(weight: float, idle: timedelta, half_life: timedelta | None) -> float:
    """A weight after a time: it halves with each half-life, and stays where that is None.

    >>> faded(2.0, timedelta(days=28), timedelta(days=14))
    0.5
    """
    if half_life is None or idle <= timedelta(0):
        return weight
    left: float = weight * 0.5 ** (idle / half_life)
    return left


def event_of(F: float, evidence: Evidence, settings: EvidenceSettings, *, broken: bool) -> float:
    """What a turn weighs as evidence, its F being part of `evidence` already."""
    if broken or (settings.drift < F and evidence.cusum >= settings.limit):
        return INCIDENT
    return NEAR_MISS if settings.near <= F else 0.0


class Counted(NamedTuple):
    """What speaks against a session and its person, for the words of a stance.

    Args:
        F: mean F of the turns over which it adds up, as the observer gives it.
        turns: how many they are; 0 while the sum is below its limit.
        incidents: incidents that still count.
        days: days since the first of them, 0 where no incident counts.
        held: whether the person is refused until they fade.
    """

    F: float = 0.0
    turns: int = 0
    incidents: int = 0
    days: int = 0
    held: bool = False

    @property
    def words(self) -> str:
        """The same in plain words; empty for nothing."""
        parts = [f"F {self.F:.2f} for {numbered(self.turns, 'turn')}"] if self.turns else []
        if self.days:
            what = numbered(self.incidents, "incident") if self.incidents else "near misses or blocked prompts"
            parts.append(f"{what} in {numbered(self.days, 'day')}")
        return "; ".join([*parts, "held until they fade"] if self.held else parts)


def counted(evidence: Evidence, settings: EvidenceSettings, days: float, point: float = HOSTILE_F) -> Counted:
    """What is told of some evidence; `days` is the age of the session, `point` the observer's F of a breach."""
    F, turns, incidents, over, strikes = 0.0, 0, 0, 0, evidence.strikes
    if evidence.cusum >= settings.limit:
        turns = evidence.turns
        mean = min(1.0, evidence.cusum / turns + settings.drift)
        # The inverse of the scale of the session memory: a breach is 0.65 there, and `point` at the observer.
        above = (mean - HOSTILE_F) / (1.0 - HOSTILE_F)
        F = round(mean * point / HOSTILE_F if mean <= HOSTILE_F else point + above * (1.0 - point), _DIGITS)
    if strikes:
        incidents = evidence.incidents + evidence.prior.incidents
        over = max(1, math.ceil(max(days, evidence.prior.days)))
    return Counted(F, turns, incidents, over, strikes >= settings.held)


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """What speaks against a person over conversations; it fades, and names no text. Never changed.

    Args:
        person: the name that it is kept under, at most 64 bytes.
        first_at: time of the first incident that still counts, aware and in UTC.
        at: time of the latest event.
        weight: weight of the incidents, faded to `at`, at least 0.
        incidents: how many they are.
    """

    person: str
    first_at: datetime
    at: datetime
    weight: float = 0.0
    incidents: int = 0

    def prior(self, now: datetime, own: Evidence, half_life: timedelta | None) -> Prior:
        """What is known from elsewhere than a session, of which `own` is the evidence, faded to `now`."""
        weight = round(faded(self.weight, now - self.at, half_life) - own.weight, _DIGITS)
        if weight < _LEAST:
            return NO_PRIOR
        days = max(0.0, (now - self.first_at) / timedelta(days=1))
        return Prior(weight, max(0, self.incidents - own.incidents), round(days, 2))

    def changed(self, weight: float, incidents: int, now: datetime, half_life: timedelta | None) -> PersonRecord:
        """The record with this much more, or less, at a time; it begins anew where what was there has faded."""
        at = max(now, self.at)
        kept = faded(self.weight, at - self.at, half_life)
        anew = kept < _LEAST
        total = min(MOST_WEIGHT, max(0.0, kept + faded(weight, at - now, half_life)))
        before = 0 if anew else self.incidents
        first = at if anew else min(self.first_at, now)
        return PersonRecord(self.person, first, at, round(total, _DIGITS), max(0, before + incidents))


_LEAST: Final = 0.05
"""Weight below which nothing is left of what was."""


def _dump(record: PersonRecord) -> bytes:
    times = [record.first_at.isoformat(), record.at.isoformat()]
    return json.dumps([record.person, *times, record.weight, record.incidents], separators=(",", ":")).encode()


def _load(data: bytes, key: str, version: int) -> PersonRecord:
    values = read_json(data.decode("ascii"))
    if not isinstance(values, list) or len(values) != 5 or not isinstance(values[0], str):
        raise SessionError(f"a person's record has five values, not {shown(values)}")
    person, first, at, weight, incidents = values
    in_range("weight", weight, 0.0, _MOST)
    whole("incidents", incidents, 0)
    times = [datetime.fromisoformat(time) for time in (first, at)]
    if any(time.utcoffset() is None for time in times):
        raise SessionError(f"times of a person's record need a time zone: {shown(values)}")
    return PersonRecord(person, times[0].astimezone(UTC), times[1].astimezone(UTC), weight, incidents)


PERSON: Final = StateKind(
    "person", 1, _dump, _load, used_at=lambda record: record.at, owner=lambda record: record.person
)
"""Records of persons in a state store."""
