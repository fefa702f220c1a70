"""The turns of a conversation: what can be read of them, and how their prompts count against a rate limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any, Final

from turnwise._support.visible import shown
from turnwise.clock import Clock, utc_now
from turnwise.conversation.json_values import as_utc
from turnwise.conversation.rate_limit import TURNS_PER, WINDOWS, RateLimit, Timeline, read_limits
from turnwise.conversation.turn import (
    CHECKING_KEYS,
    CHECKING_TOOLS,
    GUARD_KEY,
    MESSAGE_KEYS,
    OPENAI_KEY,
    Side,
    Turn,
)
from turnwise.conversation.turn_log import TurnLog, Turns
from turnwise.errors import ConversationError

_ZERO: Final = timedelta(0)
_LONGEST: Final = max(WINDOWS.values())
"""Greatest distance of a time stamp from the present that a rate limit takes in."""


class History:
    """The turns of a conversation; counts and look-ups take constant time at any length.

    >>> history = History()
    >>> history.get_turn_count(), history.last_turn, history.get_duration()
    (0, None, 0.0)
    """

    def __init__(self) -> None:
        self._log = TurnLog()
        # Re-entrant, so that a signal handler that reads the conversation can't block its own thread.
        self._lock = RLock()

    @property
    def turns(self) -> Turns:
        """All turns at this moment: read-only, without a copy, with `len`, indices, slices and iteration."""
        return self._log.snapshot

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.turns)

    def turn(self, number: int) -> Turn:
        """Return the turn with a number.

        Raises:
            ConversationError: no turn has that number.
        """
        return self._log.turn(number)

    @property
    def last_turn(self) -> Turn | None:
        """The turn that was added last; None before the first."""
        turns = self.turns
        return turns[-1] if turns else None

    def get_history(self, limit: int | None = None) -> list[Turn]:
        """Return the last turns, in order; this takes time in proportion to `limit`, not to the conversation.

        Args:
            limit: how many, at least 0; None for all of them.

        Raises:
            ConversationError: a negative limit.
        """
        if limit is None:
            return list(self.turns)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ConversationError(f"limit is {shown(limit)}; use a whole number from 0, or None for all turns")
        turns = self.turns
        return list(turns[max(0, len(turns) - limit) :])

    def get_complete_turns(self) -> list[Turn]:
        """Return the turns that have their response, in order."""
        return [turn for turn in self.turns if turn.complete]

    def get_incomplete_turns(self) -> list[Turn]:
        """Return the turns that wait for their response, in order, without looking at the others."""
        with self._lock:
            return self._log.open_turns

    def get_turn_count(self) -> int:
        """Return the number of turns."""
        return len(self._log)

    def get_complete_turn_count(self) -> int:
        """Return the number of turns that have their response."""
        with self._lock:
            return self._log.complete_count

    def get_duration(self) -> float:
        """Return the seconds from the earliest time stamp to the latest; 0.0 for fewer than two.

        The stamps of prompts and of responses count.
        """
        with self._lock:
            return self._log.duration

    # What a guard does to turns

    def withdraw(self, number: int) -> Turn:
        """Let a turn wait for its response no longer, as when its prompt was blocked, and return it.

        A response that names the turn is still taken.

        Raises:
            ConversationError: no turn has that number.
        """
        with self._lock:
            return self._log.withdraw(number)

    def replace_text(self, number: int, side: Side, text: str) -> Turn:
        """Put another text, such as a redacted one, in the place of a prompt or response, and return the turn.

        The messages that the turn came from hold the old text, so they are dropped from its metadata; in a turn
        with tools only the messages of that side are replaced.

        Args:
            number: the turn.
            side: the half of it; it must have spoken.
            text: the new text.

        Raises:
            ConversationError: no turn has that number, that side has not spoken, or `text` is no text.
        """
        with self._lock:
            turn = self._log.turn(number)
            if turn.text(side) is None:
                raise ConversationError(f"turn {number} has no {side} to replace")
            if not isinstance(text, str):
                raise ConversationError(f"turn {number}: {side} is {type(text).__name__}, not text")
            kept = self._with_text(turn, side, text) if OPENAI_KEY in turn.own_metadata else None
            for key in MESSAGE_KEYS:
                turn.own_metadata.pop(key, None)
            if kept is not None:
                turn.own_metadata[OPENAI_KEY] = kept
            if side is Side.PROMPT:
                turn.prompt = text
            else:
                turn.response = text
            return turn

    def _with_text(self, turn: Turn, side: Side, text: str) -> list[Any] | None:
        """The messages of a turn with tools, with another text on one side; here no turn has tools."""
        return None

    def annotate(
        self,
        number: int,
        key: str,
        change: Callable[[Any], Any],
        *,
        release: Side | tuple[str, str] | None = None,
    ) -> Turn:
        """Set a key of a turn's metadata in one step that no other thread can interrupt, and return the turn.

        Args:
            number: the turn.
            key: the key.
            change: is given the old value, or None, and returns the new one: a JSON value, or a mapping that reads
                like one.
            release: what readers may have from now on, as its check has ended: a side, or section and id as in
                `Turn.withheld_tools`; None for nothing.

        Raises:
            ConversationError: no turn has that number.
        """
        with self._lock:
            turn = self._log.turn(number)
            if key == GUARD_KEY:
                turn.checks = change(turn.checks)
            else:
                turn.own_metadata[key] = change(turn.own_metadata.get(key))
            if isinstance(release, Side):
                turn.own_metadata.pop(CHECKING_KEYS[release], None)
            elif release is not None:
                rest = [one for one in turn.own_metadata.get(CHECKING_TOOLS, ()) if tuple(one) != release]
                if rest:
                    turn.own_metadata[CHECKING_TOOLS] = rest
                else:
                    turn.own_metadata.pop(CHECKING_TOOLS, None)
            return turn

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = dict(self.__dict__)
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()


class LimitedHistory(History):
    """The turns of a conversation, counted against a rate limit where one is set.

    What counts is how long ago a prompt arrived by a `Timeline`, so setting the clock while the conversation goes
    on neither lifts the limit nor keeps it exceeded. Stored turns have time stamps only: one ahead of the clock
    counts as now.

    >>> from turnwise.clock import utc_now
    >>> LimitedHistory({"turns_per_minute": 3}, utc_now).check_rate_limit()
    False
    """

    def __init__(self, rate_limit: Mapping[str, int] | None, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._timeline = Timeline(clock)
        self._rate_limit: RateLimit | None = None
        self._counts_after = 0
        self.set_rate_limit(rate_limit)

    @property
    def rate_limit(self) -> dict[str, int] | None:
        """The limits that are set; None without any."""
        with self._lock:
            limit = self._rate_limit
            return None if limit is None else {TURNS_PER + window: most for window, most in limit.limits.items()}

    def set_rate_limit(self, limits: Mapping[str, int] | None) -> None:
        """Set the rate limit, in place of the one before.

        Earlier prompts count as well, except those that `reset_rate_limit` forgot.

        Args:
            limits: any of ``turns_per_minute``, ``turns_per_hour``, ``turns_per_day``, each at least 1; None
                for no limit.

        Raises:
            ConversationError: no key, an unknown one, or a value that is no positive whole number.
        """
        given = None if limits is None else read_limits(limits, "rate_limit", TURNS_PER)
        if given == {}:
            raise ConversationError("rate_limit is empty; name a window, or give None for no limit")
        with self._lock:
            self._rate_limit = None if given is None else RateLimit(given)
            self._recount()

    def check_rate_limit(self) -> bool:
        """Return True when the limit is exceeded: a prompt that came now would be one too many."""
        with self._lock:
            arrival = self._arrival(None)[1]
            return self._rate_limit is not None and arrival is not None and self._rate_limit.exceeded(arrival)

    @property
    def rate_limit_turns(self) -> list[datetime]:
        """When the prompts that count against the limit now arrived, oldest first; empty without a limit."""
        with self._lock:
            if self._rate_limit is None:
                return []
            now = self._time(None)
            present = self._timeline.at(now)
            return [now - age for age in self._rate_limit.ages(present)]

    def rate_limit_wait(self) -> float:
        """Return the seconds until the limit lets a prompt through; 0.0 where it does so now."""
        with self._lock:
            arrival = self._arrival(None)[1]
            if self._rate_limit is None or arrival is None:
                return 0.0
            return self._rate_limit.wait(arrival)

    def reset_rate_limit(self) -> None:
        """Forget the prompts that were counted so far; the limits stay."""
        with self._lock:
            self._counts_after = len(self._log)
            if self._rate_limit is not None:
                self._rate_limit.reset()

    def use_clock(self, clock: Clock) -> None:
        """Go by another clock (of aware times) from now on, unless the conversation has one of its own."""
        with self._lock:
            if self._clock is utc_now and clock is not utc_now:
                self._clock = clock
                self._timeline = Timeline(clock)
                self._recount()

    def _time(self, given: datetime | None) -> datetime:
        return as_utc(self._clock() if given is None else given, "the time")

    def _arrival(self, given: datetime | None) -> tuple[datetime, datetime | None]:
        """The time stamp of a prompt (by default now), and its place on the timeline if it is counted.

        A stamp ahead of the clock takes the present along.
        """
        if self._rate_limit is None:
            stamp = self._clock() if given is None else given
            return stamp if getattr(stamp, "tzinfo", None) is UTC else as_utc(stamp, "the time"), None
        now = self._time(None)
        stamp = now if given is None else self._time(given)
        apart = stamp - now
        ahead, before = min(max(apart, _ZERO), _LONGEST), max(min(apart, _ZERO), -_LONGEST)
        return stamp, self._timeline.at(now, ahead) + before

    def _recount(self) -> None:
        """Count the latest prompts again; older ones than the largest limit can't matter."""
        if self._rate_limit is None:
            return
        self._rate_limit.reset()
        first = max(self._counts_after, len(self._log) - self._rate_limit.largest)
        stamps = [turn.timestamp for turn in self.turns[first:] if turn.timestamp is not None]
        if stamps:
            now = self._time(None)
            present = self._timeline.at(now)
            for stamp in stamps:
                self._rate_limit.record(present - min(max(now - stamp, _ZERO), _LONGEST))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Count anew by time stamps, since another process has another timeline."""
        super().__setstate__(state)
        self._timeline = Timeline(self._clock)
        self._recount()
