"""The checks that a conversation carries, live or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from turnwise.conversation import Conversation, Turn
from turnwise.conversation.turn import GUARD_KEY
from turnwise.guard.rate_limit_events import EVENTS

SIDES = ("input", "output")
"""Which text a check was about, in the order in which a turn has them."""


@dataclass(frozen=True, slots=True)
class KeptCheck:
    """One check of one side of a turn, as the turn keeps it.

    Args:
        turn: number of the turn.
        side: ``input`` or ``output``.
        time: when it ended, in UTC; None where that is not known.
        blocked: whether the text was blocked.
        details: what each guardrail said, by name.
        stance: the stance after it, where a guardrail knew it.
    """

    turn: int
    side: str
    time: datetime | None
    blocked: bool
    details: Mapping[str, Mapping[str, Any]]
    stance: Mapping[str, Any] | None

    def names(self, what: str) -> list[str]:
        """Return the guardrails that did something.

        Args:
            what: ``blocked``, ``warned``, ``redacted`` or ``failed``.
        """
        return [name for name, detail in self.details.items() if did(detail, what)]


def did(detail: Mapping[str, Any], what: str) -> bool:
    """Return whether a guardrail did something at a check.

    Args:
        detail: what it said.
        what: ``found``, ``blocked``, ``warned``, ``redacted``, ``logged``, or a status: ``evaluated``,
            ``skipped``, ``failed``.

    >>> did({"status": "evaluated", "action": "redact", "blocked": False}, "warned")
    True
    """
    if what in ("found", "blocked"):
        return detail.get(what) is True
    if what == "redacted":
        return bool(detail.get("redactions"))
    if what == "warned":
        return detail.get("blocked") is not True and detail.get("action") in ("warn", "redact")
    if what == "logged":
        return detail.get("action") == "log"
    return detail.get("status") == what


def checks_of(turns: Iterable[Turn]) -> list[KeptCheck]:
    """Return the checks that turns carry, turn by turn, input before output; what is no check is passed over."""
    found = []
    for turn in turns:
        record = turn.metadata.get(GUARD_KEY)
        if not isinstance(record, Mapping):
            continue
        for side in SIDES:
            check = record.get(side)
            if isinstance(check, Mapping):
                found.append(_kept(turn.number, side, check))
    return found


def refusals_of(conversation: Conversation) -> tuple[int, list[dict[str, Any]]]:
    """Return how many prompts a rate limit refused, and what is kept of the latest, oldest first."""
    events = conversation.metadata.get(EVENTS)
    if not isinstance(events, Mapping):
        return 0, []
    kept = events.get("latest")
    latest = [dict(event) for event in kept if isinstance(event, Mapping)] if isinstance(kept, list) else []
    count = events.get("count")
    known = count if isinstance(count, int) and not isinstance(count, bool) else 0
    return max(known, len(latest)), latest


def read_time(value: object) -> datetime | None:
    """Return a time in UTC; None for what is none. A time without a zone is taken for UTC."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _kept(turn: int, side: str, check: Mapping[str, Any]) -> KeptCheck:
    details, stance = check.get("details"), check.get("stance")
    return KeptCheck(
        turn=turn,
        side=side,
        time=read_time(check.get("timestamp")),
        blocked=check.get("blocked") is True,
        details={
            str(name): detail
            for name, detail in (details.items() if isinstance(details, Mapping) else ())
            if isinstance(detail, Mapping)
        },
        stance=stance if isinstance(stance, Mapping) else None,
    )
