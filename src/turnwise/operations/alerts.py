"""Alerts: rules over the events of an audit, and deliveries that never touch a check.

What tells people runs in a process of its own and reads the audit, so a receiver that is dead, slow or lying can
hold up no check. What was sent, or given up, is an event ``alert`` of the same audit: it says where to go on after
a restart.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from turnwise.clock import Clock, utc_now
from turnwise.errors import TurnwiseError
from turnwise.guard.audit.chain import ranges
from turnwise.guard.audit.record import CHECK, GAP, VERSION, time_text
from turnwise.operations.alert_rules import AlertSettings, Rule, Watch, whose
from turnwise.operations.audit_report import blocks_of, details_of
from turnwise.operations.delivery import Alert, DeliveryError, ReceiverSettings
from turnwise.operations.following import FollowedAudit

ALERT: Final = "alert"
"""The kind of event that tells of an alert."""

SENT, GIVEN_UP, BEGUN = "sent", "given up", "begun"

_LOG = logging.getLogger("turnwise.operations")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 300.0
"""Seconds until an alert is tried again: twice as many each time."""

_MOST_IN_ONE: Final = 100
"""Findings of one alert; more begin another one."""


class Alerts:
    """Follows an audit, and tells receivers what its rules say.

    Each receiver has a thread and a queue of its own. An alert that does not arrive is tried again, at last given
    up and counted; the next one that arrives tells how many were missed.

    Args:
        location: the audit: a file or a store.
        settings: rules and receivers.
        since: tell of events from this time on; by default of those of the last day that nobody was told of, and
            of an audit that holds no alert yet, only of what comes.
        clock: tells the time.

    Raises:
        GuardError: the audit can't be written to.
        StoreError: its store can't be opened.
    """

    def __init__(
        self,
        location: str | Path,
        settings: AlertSettings,
        *,
        since: datetime | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._clock = clock
        self._audit = FollowedAudit(location)
        self._where = str(location)
        self._watches = [Watch(rule) for rule in settings.rules]
        self._senders = {one.name: _Sender(one, clock, self._record) for one in settings.receivers}
        self._waiting: dict[str, tuple[datetime, str, list[dict[str, Any]]]] = {}
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], set[int]] = {}
        self._start(since)

    def _start(self, since: datetime | None) -> None:
        """Look through what is there: what was told already, and what is to be told still."""
        events = list(self._audit.more())
        begun = 0
        for event in events:
            if event["kind"] == ALERT:
                told = self._told.setdefault((str(event.get("rule")), str(event.get("to"))), set())
                for first, last in event.get("events") or ():
                    told.update(range(first, last + 1))
                    begun = max(begun, last if event.get("status") == BEGUN else 0)
        if not self._told and since is None:
            last = max((event["n"] for event in events if isinstance(event.get("n"), int)), default=0)
            self._write({"status": BEGUN, "events": [[1, last]]})
            return
        begin = since or self._clock() - timedelta(days=1)
        for event in events:
            fresh = since is not None or not isinstance(event.get("n"), int) or event["n"] > begun
            if fresh and datetime.fromisoformat(event["time"]) >= begin:
                self._take(event)

    def step(self) -> int:
        """Take in what came, hand over what is due, and return how many events that were."""
        count = 0
        for event in self._audit.more():
            count += 1
            self._take(event)
        self._hand_over(self._clock())
        return count

    def run(self, stop: threading.Event, every: float = 1.0) -> None:
        """Run until told to stop; a step that fails is logged and repeated."""
        while not stop.is_set():
            try:
                self.step()
            except TurnwiseError as error:
                _LOG.warning("the audit can't be followed: %s", error)
            stop.wait(every)

    def finish(self, seconds: float = 30.0) -> int:
        """Wait until all alerts are sent, or the time is over; returns how many are left for another time."""
        self._hand_over(None)
        for sender in self._senders.values():
            sender.drain(seconds)
        return sum(sender.waiting for sender in self._senders.values())

    def close(self) -> None:
        """Stop sending, and close the audit."""
        for sender in self._senders.values():
            sender.close()
        with self._lock:
            self._audit.close()

    def _take(self, event: dict[str, Any]) -> None:
        if event["kind"] not in (CHECK, GAP):
            return
        for watch in self._watches:
            told = watch.take(event)
            if told is not None:
                headline, events = told
                self._group(watch.rule, headline, events)

    def _group(self, rule: Rule, headline: str, events: list[dict[str, Any]]) -> None:
        now = self._clock()
        due = rule.quiet_until(now) or now + timedelta(seconds=rule.group)
        if due <= now:
            self._tell(rule, headline, events)
            return
        waiting = self._waiting.setdefault(rule.name, (due, headline, []))[2]
        waiting += events
        if len(waiting) >= _MOST_IN_ONE and rule.quiet_until(now) is None:
            del self._waiting[rule.name]
            self._tell(rule, headline, waiting)

    def _hand_over(self, now: datetime | None) -> None:
        """Tell what waited for its group or the end of quiet hours; all of it where there is no time."""
        for watch in self._watches:
            found = self._waiting.get(watch.rule.name)
            if found is not None and (now is None or found[0] <= now):
                if now is None and watch.rule.quiet_until(self._clock()) is not None:
                    continue  # told after the restart
                del self._waiting[watch.rule.name]
                for at in range(0, len(found[2]), _MOST_IN_ONE):
                    self._tell(watch.rule, found[1], found[2][at : at + _MOST_IN_ONE])

    def _tell(self, rule: Rule, headline: str, events: list[dict[str, Any]]) -> None:
        for name in rule.to:
            known = self._told.get((rule.name, name), set())
            fresh = [event for event in events if event.get("n") not in known]
            if fresh:
                numbers = ",".join(str(event.get("n")) for event in fresh)
                said = headline if len(fresh) == 1 or rule.by else f"{rule.name}: {len(fresh)} findings"
                alert = Alert(
                    "tw_" + sha256(f"{self._where} {rule.name} {name} {numbers}".encode()).hexdigest()[:32],
                    rule.name, self._where, fresh[-1]["time"], said,
                    tuple(_finding(event, texts=rule.texts) for event in fresh),
                )  # fmt: skip
                self._senders[name].put(alert)

    def _record(self, alert: Alert, to: str, status: str, why: str = "", missed: int = 0) -> None:
        """Write into the audit what became of an alert."""
        numbers = sorted(one["n"] for one in alert.findings if isinstance(one.get("n"), int))
        told = {"rule": alert.rule, "to": to, "status": status, "events": ranges(numbers), "why": why}
        self._write({name: value for name, value in {**told, "dropped": missed}.items() if value not in ("", 0)})

    def _write(self, record: Mapping[str, Any]) -> None:
        about = {"v": VERSION, "kind": ALERT, "time": time_text(self._clock())}
        with self._lock:
            try:
                self._audit.sink.append([{**about, **record}])
            except (OSError, TurnwiseError) as error:
                _LOG.warning("what became of an alert can't be written to the audit: %s", error)


class _Sender:
    """Delivers alerts to one receiver, in order, in a thread of its own."""

    def __init__(self, settings: ReceiverSettings, clock: Clock, record: Callable[..., None]) -> None:
        self._settings = settings
        self._clock = clock
        self._record = record
        self._alerts: deque[Alert] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False
        self._missed = 0
        self._thread = threading.Thread(target=self._run, name=f"turnwise alerts to {settings.name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._alerts) + self._busy

    def put(self, alert: Alert) -> None:
        """Take an alert; where too many wait, the oldest is given up."""
        given_up = None
        with self._changed:
            if len(self._alerts) >= self._settings.queue:
                given_up = self._alerts.popleft()
                self._missed += 1
            self._alerts.append(alert)
            self._changed.notify_all()
        if given_up is not None:
            self._record(given_up, self._settings.name, GIVEN_UP, "too many waited")

    def drain(self, seconds: float) -> None:
        """Wait until all are delivered, or so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alerts and not self._busy, seconds)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(self._settings.timeout + 1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._alerts or self._closed)
                if self._closed:
                    return
                alert, self._busy = self._alerts.popleft(), True
            self._deliver(alert)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _deliver(self, alert: Alert) -> None:
        """Deliver an alert, or give it up after the time that the receiver has."""
        settings, wait = self._settings, _FIRST_WAIT
        end = self._clock() + timedelta(seconds=settings.retry_seconds)
        while True:
            missed = self._missed
            try:
                settings.deliver(replace(alert, missed=missed), self._clock())
            except DeliveryError as error:
                if self._clock() >= end:
                    with self._changed:
                        self._missed += 1
                    self._record(alert, settings.name, GIVEN_UP, str(error))
                    _LOG.warning("an alert of %s was given up: %s", alert.rule, error)
                    return
            else:
                with self._changed:
                    self._missed -= missed
                self._record(alert, settings.name, SENT, missed=missed)
                return
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, wait):
                    return
            wait = min(2 * wait, _LONGEST_WAIT)


def _finding(event: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    """What an alert tells of an event."""
    told: dict[str, Any] = {
        name: event[name]
        for name in ("n", "kind", "time", "conversation_id", "session_id", "tenant", "pipeline", "turn", "side",
                     "outcome", "blocked", "dropped", "unwritten")
        if event.get(name) is not None
    }  # fmt: skip
    blocks = dict(blocks_of(event))
    failed = [name for name, detail in details_of(event) if detail.get("status") in ("failed", "not_read")]
    told["guardrails"] = list(blocks) or failed
    told["reasons"] = [*(event.get("reasons") or blocks.values()), *(event.get("warnings") or ())]
    told["person"] = whose(event, "person") if event["kind"] == CHECK else ""
    if texts and isinstance(event.get("text"), str):
        told["text"] = event["text"]
    return told
