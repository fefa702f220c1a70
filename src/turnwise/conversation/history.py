"""What can be read of the turns of a conversation, safe under threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any

from turnwise.conversation.snapshot import Turns
from turnwise.conversation.turn import CHECKING_KEYS, MESSAGE_KEYS, Side, Turn
from turnwise.conversation.turn_log import TurnLog
from turnwise.errors import ConversationError
from turnwise.visible import shown


class History:
    """The turns of a conversation, to be read. Counts and look-ups take constant time at any length.

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
        """Yield the turns that there are at this moment, in order."""
        return iter(self.turns)

    def turn(self, number: int) -> Turn:
        """Return the turn of a number.

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
        """Return the last turns, in order, in time that grows with `limit` alone.

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
        """Return the seconds from the earliest time stamp to the latest, prompts and responses alike.

        0.0 where there are fewer than two time stamps.
        """
        with self._lock:
            return self._log.duration

    # What a guard does to turns

    def withdraw(self, number: int) -> Turn:
        """Let a turn wait for its response no longer, as one whose prompt was blocked, and return it.

        A response that names the turn is still taken.

        Raises:
            ConversationError: no turn has that number.
        """
        with self._lock:
            return self._log.withdraw(number)

    def replace_text(self, number: int, side: Side, text: str) -> Turn:
        """Put another text, such as a redacted one, in the place of a prompt or response; return the turn.

        The messages that the turn came from hold the old text, so they are dropped from its metadata.

        Args:
            number: the turn.
            side: the half of it; it must have spoken.
            text: what is to stand there.

        Raises:
            ConversationError: no turn has that number, that side has not spoken, or a text that is no text.
        """
        with self._lock:
            turn = self._log.turn(number)
            if turn.text(side) is None:
                raise ConversationError(f"turn {number} has no {side} to replace")
            if not isinstance(text, str):
                raise ConversationError(f"turn {number}: {side} is {type(text).__name__}, not text")
            for key in MESSAGE_KEYS:
                turn.metadata.pop(key, None)
            if side is Side.PROMPT:
                turn.prompt = text
            else:
                turn.response = text
            return turn

    def annotate(self, number: int, key: str, change: Callable[[Any], Any]) -> Turn:
        """Set a key of a turn's metadata in one step that no other thread can split, and return the turn.

        Args:
            number: the turn.
            key: the key.
            change: is given what stands there, or None, and returns what is to stand there: a JSON value, or a
                mapping that reads like one.

        Raises:
            ConversationError: no turn has that number.
        """
        with self._lock:
            turn = self._log.turn(number)
            turn.metadata[key] = change(turn.metadata.get(key))
            return turn

    def release(self, number: int, side: Side) -> Turn:
        """Let readers have one side of a turn, now that its check has ended; return the turn.

        Raises:
            ConversationError: no turn has that number.
        """
        with self._lock:
            turn = self._log.turn(number)
            turn.metadata.pop(CHECKING_KEYS[side], None)
            return turn

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: everything but the lock."""
        with self._lock:
            state = dict(self.__dict__)
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state from pickle, with a lock of its own."""
        self.__dict__.update(state)
        self._lock = RLock()
