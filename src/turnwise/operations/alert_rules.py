"""The rules of alerts: when to tell whom, as a YAML file has them, and what a rule remembers between events."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnwise._support.locations import to_path
from turnwise.errors import GuardError
from turnwise.guard.audit.record import CHECK, GAP
from turnwise.guard.written_values import Lines, check_keys, read_yaml, settings_of
from turnwise.operations.audit_report import blocks_of, details_of
from turnwise.operations.delivery import ReceiverSettings


@dataclass(frozen=True, slots=True)
class Rule:
    """When an alert is sent, and to whom.

    Args:
        name: what alerts call it.
        to: names of receivers.
        when: ``blocked``; ``would_block`` (mode ``log``); ``warned``; ``failed`` (a guardrail could not check);
            ``not_read`` (a language that it does not read); ``gap`` (checks are missing from the audit).
        guardrail: only where this guardrail did.
        tenant: only of this tenant.
        by: with `count`: whose events count together, a ``person`` (initiator), ``session`` or ``conversation``;
            None for every event by itself.
        count: tell once so many of them are `by` the same within `within` seconds, and then begin anew.
        share: tell once this share of all checks (of the tenant) within `within` seconds is such an event, in
            (0, 1]; then not again before `within` seconds have passed.
        least: checks that a share is told of, at least.
        within: seconds, above 0.
        group: what happens within so many seconds is told in one alert; 0 for each by itself.
        quiet: hours in which nothing is told, such as ``22:00-07:00``; what happened is told at their end, in one.
        zone: time zone of these hours.
        texts: whether alerts have the texts as the audit has them.
    """

    name: str
    to: tuple[str, ...]
    when: Literal["blocked", "would_block", "warned", "failed", "not_read", "gap"] = "blocked"
    guardrail: str | None = None
    tenant: str | None = None
    by: Literal["person", "session", "conversation"] | None = None
    count: int = 1
    share: float | None = None
    least: int = 50
    within: float = 3_600.0
    group: float = 0.0
    quiet: str | None = None
    zone: str = "UTC"
    texts: bool = False

    def __post_init__(self) -> None:
        if not self.to:
            raise GuardError(f"rule {self.name}: to is empty; name at least one receiver")
        if self.share is not None and (not 0.0 < self.share <= 1.0 or self.by is not None):
            raise GuardError(f"rule {self.name}: share must be above 0 and at most 1, without by")
        if self.count < 1 or (self.count > 1 and self.by is None):
            raise GuardError(f"rule {self.name}: count must be at least 1, and above 1 it needs by")
        if self.within <= 0 or self.group < 0 or self.least < 1:
            raise GuardError(
                f"rule {self.name}: within must be above 0 seconds, group at least 0, least at least 1"
            )
        try:
            _ = self.quiet and self._hours(), ZoneInfo(self.zone)
        except (ValueError, ZoneInfoNotFoundError) as error:
            raise GuardError(
                f"rule {self.name}: quiet must be like 22:00-07:00, zone like Europe/Rome: {error}"
            ) from error

    def _hours(self) -> tuple[time_of_day, time_of_day]:
        first, _, last = str(self.quiet).partition("-")
        return time_of_day.fromisoformat(first.strip()), time_of_day.fromisoformat(last.strip())

    def quiet_until(self, now: datetime) -> datetime | None:
        """When the present quiet hours end; None outside quiet hours."""
        if not self.quiet:
            return None
        first, last = self._hours()
        here = now.astimezone(ZoneInfo(self.zone))
        clock = here.time().replace(tzinfo=None)
        inside = first <= clock < last if first <= last else clock >= first or clock < last
        if not inside:
            return None
        end = here.replace(hour=last.hour, minute=last.minute, second=last.second, microsecond=0)
        return end if end > here else end + timedelta(days=1)

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is what the rule is about."""
        if self.when == GAP or event["kind"] == GAP:
            return bool(event["kind"] == self.when)
        if not _concerns(self, event):
            return False
        details = {name: detail for name, detail in details_of(event) if self.guardrail in (None, name)}
        if self.when in ("failed", "not_read"):
            return any(detail.get("status") == self.when for detail in details.values())
        if self.when == "warned":
            warned = any(detail.get("action") == "warn" and detail.get("found") for detail in details.values())
            return warned if self.guardrail else bool(event.get("warned"))
        named = any(name in details for name, _ in blocks_of(event))
        if self.when == "blocked":
            return bool(event.get("blocked")) and (named or self.guardrail is None)
        return not event.get("blocked") and named


def _concerns(rule: Rule, event: Mapping[str, Any]) -> bool:
    """Whether an event is a check, of the tenant that a rule is about."""
    return event["kind"] == CHECK and rule.tenant in (None, event.get("tenant"))


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Rules and receivers, as a YAML file has them."""

    rules: tuple[Rule, ...]
    receivers: tuple[ReceiverSettings, ...]

    @classmethod
    def read(cls, path: str | Path) -> AlertSettings:
        """Read a file with ``receivers`` and ``rules``.

        Raises:
            GuardError: it can't be read, or something in it is wrong; the message names the line.
        """
        try:
            text = to_path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise GuardError(f"{path}: the rules of alerts can't be read: {error}") from error
        data, lines = read_yaml(text, str(path))
        return cls.of(data, lines)

    @classmethod
    def of(cls, data: object, lines: Lines) -> AlertSettings:
        """Read the value of such a file."""
        if not isinstance(data, Mapping):
            raise lines.error((), "give receivers and rules")
        check_keys(data, ("receivers", "rules"), (), lines)
        made: dict[str, list[Any]] = {}
        for key, kind in (("receivers", ReceiverSettings), ("rules", Rule)):
            items = data.get(key)
            if not isinstance(items, list) or not items:
                raise lines.error((key,), f"give a list of {key}")
            made[key] = [settings_of(kind, item, (key, at), lines) for at, item in enumerate(items)]
            names = [one.name for one in made[key]]
            if len(set(names)) < len(names):
                raise lines.error((key,), "two have the same name")
        known = [one.name for one in made["receivers"]]
        for at, rule in enumerate(made["rules"]):
            for name in rule.to:
                if name not in known:
                    raise lines.error(
                        ("rules", at, "to"), f"no receiver is called {name!r}: there are {', '.join(known)}"
                    )
        return cls(tuple(made["rules"]), tuple(made["receivers"]))


@dataclass(slots=True)
class Watch:
    """What a rule remembers between events."""

    rule: Rule
    recent: dict[str, deque[tuple[datetime, dict[str, Any]]]] = field(default_factory=dict)
    seconds: deque[list[int]] = field(default_factory=deque)
    checks: int = 0
    hits: int = 0
    calm_until: datetime | None = None

    def take(self, event: dict[str, Any]) -> tuple[str, list[dict[str, Any]]] | None:
        """What an event makes to be told: the headline and the events that it is about."""
        rule, wanted = self.rule, self.rule.wants(event)
        when = datetime.fromisoformat(event["time"])
        if rule.share is not None:
            return self._share(event, when, wanted=wanted)
        if not wanted:
            return None
        if rule.by is None:
            return f"{rule.name}: {named(event)}", [event]
        name = whose(event, rule.by)
        seen = self.recent.setdefault(name, deque())
        seen.append((when, event))
        while (when - seen[0][0]).total_seconds() > rule.within:
            seen.popleft()
        if len(self.recent) > _MOST_WATCHED:
            self._forget(when)
        if len(seen) < rule.count:
            return None
        del self.recent[name]
        return f"{rule.name}: {rule.by} {name}: {len(seen)} within {rule.within:g} s", [one for _, one in seen]

    def _forget(self, now: datetime) -> None:
        old = [
            name for name, seen in self.recent.items() if (now - seen[-1][0]).total_seconds() > self.rule.within
        ]
        for name in old or [next(iter(self.recent))]:
            del self.recent[name]

    def _share(
        self, event: dict[str, Any], when: datetime, *, wanted: bool
    ) -> tuple[str, list[dict[str, Any]]] | None:
        rule = self.rule
        assert rule.share is not None
        if not _concerns(rule, event):
            return None
        second = int(when.timestamp())
        if not self.seconds or self.seconds[-1][0] < second:
            self.seconds.append([second, 0, 0])
        self.seconds[-1][1] += 1
        self.seconds[-1][2] += wanted
        self.checks += 1
        self.hits += wanted
        while second - self.seconds[0][0] > rule.within:
            _, checks, hits = self.seconds.popleft()
            self.checks, self.hits = self.checks - checks, self.hits - hits
        count = self.checks
        calm = self.calm_until is not None and when < self.calm_until
        if not wanted or calm or count < rule.least or self.hits < rule.share * count:
            return None
        self.calm_until = when + timedelta(seconds=rule.within)
        share = f"{self.hits} of {count} checks within {rule.within:g} s"
        return f"{rule.name}: {share} ({100 * self.hits / count:.1f} %)", [event]


_MOST_WATCHED: Final = 100_000
"""Persons, sessions or conversations that a rule remembers."""


def whose(event: Mapping[str, Any], by: str) -> str:
    if by == "person":
        sides = event.get("participants")
        return str((sides or {}).get("initiator") or event.get("session_id") or "unknown")
    return str(event.get("session_id" if by == "session" else "conversation_id") or "unknown")


def named(event: Mapping[str, Any]) -> str:
    if event["kind"] == GAP:
        return f"{(event.get('dropped') or 0) + (event.get('unwritten') or 0)} checks are missing from the audit"
    return f"turn {event.get('turn')} of {event.get('conversation_id')}"
