"""What a guard blocked, or in mode ``log`` would have blocked, and what another threshold would have done.

A conversation counts once, whatever was said in it. In mode ``log`` nothing is held back, so that texts after the
first one that would have been blocked are texts that the guard in mode ``on`` might never have seen: compare
conversations, not texts.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.notebook import Shown
from turnwise.conversation import Label
from turnwise.errors import UsageError
from turnwise.guard.audit.reader import missing_in, stream_audit
from turnwise.guard.audit.record import CHECK, GAP
from turnwise.linear_regex import LinearRegex
from turnwise.observers.local.languages import language_of
from turnwise.rates import Rate
from turnwise.study import Trends, threshold_for
from turnwise.study.annotation import LabelQueue, Order, consensus
from turnwise.study.facets_and_trends import MOST_VALUES, WeeklySeries, mondays_of, weekly

if TYPE_CHECKING:
    from turnwise.store import Store

WOULD: Final = "would block: "
"""How a guardrail's reason begins where it would have blocked."""

KINDS: Final[Mapping[str, str]] = {
    "guardrail": "By guardrail",
    "reason": "By reason",
    "side": "By kind of text",
    "tenant": "By tenant",
    "day": "By day",
}
"""What blocks are counted by, and what their tables are called."""

TO_READ: Final = 20
"""Conversations that are named to be read, at most."""

BINS: Final = 20
"""Bars of the histogram of scores, over [0, 1]."""

_REASONS: Final = 40
"""Reasons that are told apart, the commonest."""

_NUMBER = LinearRegex(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class BlockCount(Shown):
    """Blocks of one kind.

    Args:
        name: the guardrail, reason, side, tenant or day.
        texts: texts that were blocked, or would have been.
        conversations: of all conversations (of a tenant or day: of its own) those with such a text.
    """

    name: str
    texts: int
    conversations: Rate


@dataclass(frozen=True, slots=True)
class FlaggedChat(Shown):
    """A conversation to read: its first text that was blocked, or would have been."""

    conversation_id: str
    tenant: str
    time: str
    turn: int | None
    side: str
    guardrail: str
    reason: str
    score: float | None
    text: str | None


@dataclass(frozen=True, slots=True)
class WhatIf(Shown):
    """What another threshold of a guardrail would have done; conversations count by their highest score.

    Args:
        threshold: from this score on.
        flagged: conversations that reach it, of those with a score.
        now: conversations that the guardrail blocked, or would have, as it was.
        added: those that it reaches and the guardrail let pass.
        spared: those that the guardrail blocked and that don't reach it.
    """

    threshold: float
    flagged: Rate
    now: int
    added: int
    spared: int


@dataclass(frozen=True, slots=True)
class AuditReport(Shown):
    """What an audit holds.

    Args:
        location: the audit.
        begin: time of the first check, ISO 8601; empty where there is none.
        end: time of the last one.
        checks: texts that were checked.
        blocked: conversations in which a text was blocked.
        would_block: conversations in which a text would have been blocked, and none was.
        warned: conversations with a warning, and no block of either kind.
        limited: prompts that a rate limit refused.
        counts: by `KINDS`, the commonest first, days in order.
        failed: by guardrail, texts that it failed to check.
        not_read: by guardrail, texts in a language that it does not read.
        missing: checks that were lost before they were written.
        unreadable: lines that are no event.
        erased: checks of which the personal parts are gone, and with them why they were blocked.
        guardrail: whose scores those below are.
        histogram: conversations by their highest score, in `BINS` bars over [0, 1].
        weeks: share blocked and highest scores by week and tenant, tested against the first weeks.
        languages: the share of each language by week, likewise; empty where the audit keeps no texts.
        to_read: conversations to read, the highest scores first.
        what_if: what the threshold that was asked about would have done.
        alarms: the lowest threshold under which at most the share of conversations that was asked for is flagged.
        bounded: the lowest threshold that keeps the rate of false alarms, from labels of a random sample.
        benign: benign conversations of that sample.
    """

    location: str
    begin: str
    end: str
    checks: int
    blocked: Rate
    would_block: Rate
    warned: Rate
    limited: int
    counts: Mapping[str, tuple[BlockCount, ...]]
    failed: Mapping[str, int]
    not_read: Mapping[str, int]
    missing: int
    unreadable: int
    erased: int
    guardrail: str
    histogram: tuple[int, ...]
    weeks: Trends
    languages: Trends
    to_read: tuple[FlaggedChat, ...]
    what_if: WhatIf | None = None
    alarms: WhatIf | None = None
    bounded: WhatIf | None = None
    benign: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        trends = {name: [week.to_dict() for week in getattr(self, name).weeks] for name in ("weeks", "languages")}
        return {**Shown.to_dict(self), **trends}


@dataclass(slots=True)
class _AuditedChat:
    """What is known of a conversation so far."""

    tenant: str
    begin: str
    blocked: bool = False
    warned: bool = False
    score: float | None = None
    by_guardrail: bool = False
    letters: list[str] = field(default_factory=list)
    first: tuple[str, dict[str, Any], str, str] | None = None


_LETTERS: Final = 400
"""Characters of a conversation from which its language is told."""


def report_audit(
    location: str | Path,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    guardrail: str = "drift",
    threshold: float | None = None,
    alarms: float | None = None,
    labels: Store | None = None,
    false_alarms: float | None = None,
    confidence: float = 0.95,
) -> AuditReport:
    """Report what a guard did by its audit, or in mode ``log`` would have done.

    Args:
        location: the audit: a file, or the store that has it.
        since: only checks from this time on, aware.
        until: only checks before it.
        guardrail: whose scores the thresholds are about.
        threshold: tell what this threshold of it would have done.
        alarms: tell the lowest threshold with which at most this share of the conversations is flagged, in (0, 1).
            These are alarms, true and false ones; chosen on these conversations, it flatters.
        labels: a store with the same conversations, in which a random sample was labelled blind
            (`turnwise.study.annotation.LabelQueue`).
        false_alarms: tell the lowest threshold that keeps this rate of false alarms, in (0, 1), with `confidence`,
            from the benign conversations of that sample.
        confidence: the probability with which that holds, in (0, 1).

    Raises:
        GuardError: the file can't be read or is no audit.
        StoreError: the store can't be opened.
        UsageError: a rate out of range, or too few labels; the message says how many are needed.
    """
    if (labels is None) != (false_alarms is None):
        raise UsageError("false alarms are told from labels: name both a store with labels and the rate to keep")
    for name, rate in (("alarms", alarms), ("false alarms", false_alarms)):
        if rate is not None and not 0.0 < rate < 1.0:
            raise UsageError(f"{name} is {rate:g}; use a share above 0 and below 1, such as 0.01")
    made = _Counting(guardrail)
    for event in stream_audit(location, since, until):
        made.take(event)
    scores = {key: chat.score for key, chat in made.chats.items() if chat.score is not None}
    bounded, benign = None, 0
    if labels is not None and false_alarms is not None:
        sample = _benign_sample(labels, {name for _, name in scores})
        calm = [score for (_, name), score in scores.items() if name in sample]
        benign = len(calm)
        bounded = made.at(threshold_for(calm, false_alarms, confidence))
    return AuditReport(
        location=str(location),
        **made.totals(),
        what_if=None if threshold is None else made.at(threshold),
        alarms=None if alarms is None else made.at(_alarm_threshold(scores.values(), alarms)),
        bounded=bounded,
        benign=benign,
    )


def _alarm_threshold(scores: Collection[float], share: float) -> float:
    """The lowest threshold that at most a share of some scores reach.

    >>> _alarm_threshold([0.1, 0.2, 0.3, 0.4], 0.5), _alarm_threshold([0.1, 0.24], 0.4)
    (0.25, 0.25)
    """
    falling = sorted(scores, reverse=True)
    most = math.floor(share * len(falling) + 1e-9)
    if most >= len(falling):
        return 0.0
    above = [score for score in falling[:most] if score > falling[most]]
    return (above[-1] + falling[most]) / 2 if above else falling[most] + 0.01


def _benign_sample(store: Store, known: Collection[str]) -> set[str]:
    """Benign conversations at the beginning of the random order over all, up to the first that nobody labelled."""
    labels, found = consensus(store), set()
    for name in LabelQueue(store).order(Order.ALL):
        if name not in labels:
            break
        if labels[name] is Label.BENIGN and name in known:
            found.add(name)
    return found


class _Counting:
    """Counts the events of an audit, in any order."""

    def __init__(self, guardrail: str) -> None:
        self._guardrail = guardrail
        self.chats: dict[tuple[str, str], _AuditedChat] = {}
        self._texts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._in: dict[str, dict[str, set[tuple[str, str]]]] = {kind: defaultdict(set) for kind in KINDS}
        self._of_day: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._would: set[tuple[str, str]] = set()
        self._done: set[tuple[str, str]] = set()
        self._failed: Counter[str] = Counter()
        self._not_read: Counter[str] = Counter()
        self._checks = self._limited = self._missing = self._unreadable = self._erased = 0
        self._begin, self._end = "", ""

    def take(self, event: dict[str, Any] | str) -> None:
        """Count an event, or a line that is none."""
        if isinstance(event, str):
            self._unreadable += 1
        elif event["kind"] == GAP:
            self._missing += missing_in(event)
        elif event["kind"] == CHECK:
            if event.get("rate_limited"):
                self._limited += 1
            else:
                self._check(event)

    def _check(self, event: dict[str, Any]) -> None:
        time = event["time"]
        self._checks += 1
        self._begin = min(self._begin or time, time)
        self._end = max(self._end, time)
        self._erased += "erased" in event
        key = str(event.get("tenant") or ""), str(event.get("conversation_id") or "")
        chat = self.chats.setdefault(key, _AuditedChat(key[0], time))
        chat.begin = min(chat.begin, time)
        self._of_day[time[:10]].add(key)
        blocks = list(blocks_of(event))
        self._score(event, chat)
        text = event.get("text")
        if isinstance(text, str) and sum(map(len, chat.letters)) < _LETTERS and event.get("side") == "input":
            chat.letters.append(text[:_LETTERS])
        if event.get("blocked") or blocks:
            (self._done if event.get("blocked") else self._would).add(key)
            self._block(event, key, chat, blocks)
        chat.warned = chat.warned or bool(event.get("warned")) or _would_warn(event)

    def _score(self, event: Mapping[str, Any], chat: _AuditedChat) -> None:
        for name, detail in details_of(event):
            self._failed[name] += detail.get("status") == "failed"
            self._not_read[name] += detail.get("status") == "not_read"
            if name == self._guardrail:
                data = detail.get("data")
                score = data.get("score") if isinstance(data, Mapping) else None
                if isinstance(score, int | float) and math.isfinite(score):
                    chat.score = max(chat.score if chat.score is not None else -math.inf, float(score))

    def _block(
        self, event: dict[str, Any], key: tuple[str, str], chat: _AuditedChat, blocks: list[tuple[str, str]]
    ) -> None:
        named = {
            "guardrail": {name for name, _ in blocks},
            "reason": {f"{name}: {_NUMBER.sub(lambda _: 'N', reason)}" for name, reason in blocks},
            "side": {str(event.get("side", ""))},
            "tenant": {key[0]} if key[0] else set(),
            "day": {event["time"][:10]},
        }
        for kind, names in named.items():
            for name in names:
                self._texts[kind][name] += 1
                self._in[kind][name].add(key)
        chat.blocked = True
        chat.by_guardrail = chat.by_guardrail or self._guardrail in named["guardrail"]
        guardrail, reason = blocks[0] if blocks else ("", "its reasons were erased")
        if chat.first is None or event["time"] < chat.first[0]:
            chat.first = event["time"], event, guardrail, reason

    def at(self, threshold: float) -> WhatIf:
        """What a threshold would have done."""
        scored = [chat for chat in self.chats.values() if chat.score is not None]
        reached = [chat for chat in scored if chat.score is not None and chat.score >= threshold]
        now = [chat for chat in scored if chat.by_guardrail]
        return WhatIf(
            threshold,
            Rate(len(reached), len(scored)),
            len(now),
            sum(not chat.by_guardrail for chat in reached),
            sum(chat.score is not None and chat.score < threshold for chat in now),
        )

    def totals(self) -> dict[str, Any]:
        """The fields of the report that need no question."""
        chats = self.chats
        warned = sum(chat.warned and not chat.blocked for chat in chats.values())
        scores = [chat.score for chat in chats.values() if chat.score is not None]
        bars = Counter(min(BINS - 1, max(0, int(score * BINS))) for score in scores)
        return {
            "begin": self._begin,
            "end": self._end,
            "checks": self._checks,
            "blocked": Rate(len(self._done), len(chats)),
            "would_block": Rate(len(self._would - self._done), len(chats)),
            "warned": Rate(warned, len(chats)),
            "limited": self._limited,
            "counts": {kind: tuple(self._counted(kind)) for kind in KINDS},
            "failed": dict(self._failed.most_common()) if any(self._failed.values()) else {},
            "not_read": dict(self._not_read.most_common()) if any(self._not_read.values()) else {},
            "missing": self._missing,
            "unreadable": self._unreadable,
            "erased": self._erased,
            "guardrail": self._guardrail,
            "histogram": tuple(bars[number] for number in range(BINS)),
            **self._by_week(),
            "to_read": tuple(self._to_read()),
        }

    def _counted(self, kind: str) -> Iterator[BlockCount]:
        if kind == "day":
            for day in _days(self._of_day):
                inside = self._in["day"].get(day, set())
                yield BlockCount(day, self._texts["day"][day], Rate(len(inside), len(self._of_day.get(day, ()))))
            return
        sizes = Counter(chat.tenant for chat in self.chats.values())
        for name, texts in self._texts[kind].most_common(_REASONS):
            of = sizes[name] if kind == "tenant" else len(self.chats)
            yield BlockCount(name, texts, Rate(len(self._in[kind][name]), of))

    def _by_week(self) -> dict[str, Trends]:
        import numpy as np

        scored = [chat for chat in self.chats.values() if chat.score is not None]
        told = [(chat, language_of(" ".join(chat.letters))) for chat in self.chats.values() if chat.letters]
        common = [name for name, _ in Counter(name for _, name in told).most_common(MOST_VALUES)]
        mondays = mondays_of([date.fromisoformat(chat.begin[:10]) for chat, _ in told])
        languages = [
            WeeklySeries(one, mondays, np.array([name == one for _, name in told]), None) for one in common
        ]
        tenants = [name for name, _ in Counter(chat.tenant for chat in scored).most_common(MOST_VALUES)]
        groups = [("", scored)]
        groups += [(name, [chat for chat in scored if chat.tenant == name]) for name in tenants if name]
        weeks = [
            WeeklySeries(
                name,
                mondays_of([date.fromisoformat(chat.begin[:10]) for chat in some]),
                np.array([chat.blocked for chat in some], dtype=bool),
                np.array([chat.score for chat in some], dtype=float),
            )
            for name, some in groups
            if some
        ]
        return {"weeks": weekly(weeks), "languages": weekly(languages)}

    def _to_read(self) -> Iterator[FlaggedChat]:
        flagged = ((key, chat) for key, chat in self.chats.items() if chat.first is not None)
        for (tenant, name), chat in heapq.nsmallest(
            TO_READ, flagged, key=lambda one: (-(one[1].score or 0.0), one[1].begin, one[0])
        ):
            assert chat.first is not None
            time, event, guardrail, reason = chat.first
            text = event.get("text")
            yield FlaggedChat(
                name, tenant, time, event.get("turn"), str(event.get("side", "")), guardrail, reason,
                chat.score, text if isinstance(text, str) else None,
            )  # fmt: skip


def details_of(event: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What each guardrail said of a text; what is no detail is passed over."""
    details = event.get("guardrails")
    for name, detail in details.items() if isinstance(details, Mapping) else ():
        if isinstance(detail, Mapping):
            yield str(name), detail


def blocks_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The guardrails that blocked a text, or would have, each with its reason."""
    for name, detail in details_of(event):
        reason = str(detail.get("reason") or "")
        if detail.get("blocked") is True:
            yield name, reason
        elif detail.get("action") == "log" and reason.startswith(WOULD):
            yield name, reason.removeprefix(WOULD)


def _would_warn(event: Mapping[str, Any]) -> bool:
    return any(str(detail.get("reason") or "").startswith("would warn: ") for _, detail in details_of(event))


def _days(days: Iterable[str]) -> Iterator[str]:
    """All days from the first to the last."""
    known = sorted(days)
    if known:
        day, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
        while day <= last:
            yield day.isoformat()
            day += timedelta(days=1)
