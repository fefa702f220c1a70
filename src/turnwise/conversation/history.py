"""The history of a conversation: its turns in order with their counts, at the same cost at any length."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from threading import RLock
from typing import Any

from turnwise.clock import Clock, utc_now
from turnwise.conversation.json_values import as_utc, json_object
from turnwise.conversation.message_formats import with_text
from turnwise.conversation.participants import Participants
from turnwise.conversation.turn import (
    CHECKING_KEYS,
    CHECKING_TOOLS,
    GUARD_KEY,
    MESSAGE_KEYS,
    OPENAI_KEY,
    Side,
    Turn,
)
from turnwise.conversation.turn_lists import Outline, StoredTurns, Turns
from turnwise.errors import ConversationError


class History:
    """The turns of a conversation, and the clock that stamps them.

    Adding, completing, counting and looking one up take constant time. Who adds, completes or reopens a turn holds
    `lock`, as does who needs several steps in one; the other methods are safe under threads by themselves.

    Args:
        participants: who takes part; each turn knows them.
        clock: gives the present time, aware.
        turns: the turns so far, numbered from 1.

    >>> from turnwise.conversation import Conversation
    >>> history = Conversation.from_turns([("hello", "hi"), ("bye", None)]).history
    >>> len(history), history.complete_count, history.first_open.prompt
    (2, 1, 'bye')
    """

    __slots__ = (
        "_complete",
        "_earliest",
        "_latest",
        "_open",
        "_outlined",
        "_turns",
        "clock",
        "lock",
        "participants",
    )

    def __init__(self, participants: Participants, clock: Clock = utc_now, turns: Iterable[Turn] = ()) -> None:
        self.participants = participants
        self.clock = clock
        # Re-entrant, so that a signal handler that reads the conversation can't block its own thread.
        self.lock = RLock()
        self._turns: list[Turn] = []
        # Numbers of open turns, oldest first. A plain dict would do but for its first key: finding that slows
        # down with every key that was deleted before it.
        self._open: OrderedDict[int, None] = OrderedDict()
        self._complete = 0
        self._earliest: datetime | None = None
        self._latest: datetime | None = None
        # The two as the last outline told them: they may be those of turns that were not read.
        self._outlined: tuple[datetime | None, datetime | None] = None, None
        for turn in turns:
            self.append(turn)

    def __reduce__(self) -> tuple[type[History], tuple[Participants, Clock, list[Turn]]]:
        # Counts are rebuilt from the turns, so a pickle that another thread adds to stays consistent.
        return History, (self.participants, self.clock, list(self._turns))

    # What there is

    def __len__(self) -> int:
        return len(self._turns)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.turns)

    @property
    def turns(self) -> Turns:
        """All turns at this moment: read-only, without a copy, with `len`, indices, slices and iteration."""
        return Turns(self._turns, len(self._turns))

    def turn(self, number: int) -> Turn:
        """Return the turn with a number.

        Raises:
            ConversationError: no turn has that number.
        """
        if not 1 <= number <= len(self._turns):
            raise ConversationError(f"there is no turn {number}: number must be 1 to {len(self._turns)}")
        return self._turns[number - 1]

    @property
    def last(self) -> Turn | None:
        """The turn that was added last; None before the first."""
        turns = self.turns
        return turns[-1] if turns else None

    @property
    def open_turns(self) -> list[Turn]:
        """The turns that wait for their response, in order, without looking at the others."""
        with self.lock:
            return [self._turns[number - 1] for number in self._open]

    @property
    def first_open(self) -> Turn | None:
        """The oldest turn that waits for its response; None where none does."""
        number = next(iter(self._open), None)
        return None if number is None else self.turn(number)

    @property
    def complete_count(self) -> int:
        """How many turns have their response."""
        return self._complete

    @property
    def earliest(self) -> datetime | None:
        """The earliest time stamp of a prompt or response; None without any."""
        return self._earliest

    @property
    def latest(self) -> datetime | None:
        """The latest time stamp of a prompt or response; None without any."""
        return self._latest

    def now(self, given: datetime | None = None) -> datetime:
        """Return a time in UTC, by default that of the clock.

        Raises:
            ConversationError: a time without a zone.
        """
        stamp = self.clock() if given is None else given
        return stamp if getattr(stamp, "tzinfo", None) is UTC else as_utc(stamp, "the time")

    # Adding and completing

    def add(
        self,
        prompt: str,
        response: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
        response_timestamp: datetime | None = None,
    ) -> Turn:
        """Add a turn of these values, with no other time stamps than the given ones, and return it."""
        number = len(self._turns) + 1
        own = json_object(metadata, f"turn {number}: metadata")
        return self.append(Turn(number, prompt, response, timestamp, response_timestamp, own))

    def append(self, turn: Turn) -> Turn:
        """Add a turn, which must have the next number, and return it."""
        expected = len(self._turns) + 1
        if turn.number != expected:
            raise ConversationError(f"expected turn {expected}, not turn {turn.number}: turns are counted from 1")
        turn.participants = self.participants
        self._turns.append(turn)
        if turn.response is not None:
            self._complete += 1
            self._stretch(turn.response_timestamp)
        elif not (turn.silent or turn.blocked(Side.PROMPT)):
            self._open[expected] = None
        self._stretch(turn.timestamp)
        return turn

    def complete(
        self,
        number: int | None,
        response: str,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
    ) -> Turn:
        """Give a turn (by default the oldest that waits) its response and more metadata, and return it.

        Raises:
            ConversationError: no turn waits, or that turn does not exist or has its response.
        """
        own = json_object(metadata, "metadata")
        turn = self.first_open if number is None else self.turn(number)
        if turn is None:
            raise ConversationError("No prompt-only turn exists to add response to")
        if turn.complete:
            raise ConversationError(f"turn {turn.number} already has a response; choose a turn without one")
        self._respond(turn, response, own, timestamp)
        self._open.pop(turn.number, None)
        self._complete += 1
        return turn

    def rephrase(self, number: int, response: str, metadata: Mapping[str, Any] | None = None) -> Turn:
        """Replace what a turn has of its response with the whole of it, as of now, and return the turn.

        Args:
            number: the turn, which has a response.
            response: the whole of what the responder answered.
            metadata: is added to the metadata of the turn; JSON values.

        Raises:
            ConversationError: the turn does not exist or has no response, a response that is no text, or metadata
                that is not JSON.
        """
        own = json_object(metadata, "metadata")
        with self.lock:
            turn = self.turn(number)
            if not turn.complete:
                raise ConversationError(f"turn {number} has no response yet")
            self._respond(turn, response, own, None)
            return turn

    def reopen(self, turn: Turn) -> None:
        """Take the response of a turn away, and let the turn wait for one: it was no answer yet."""
        turn.response = turn.response_timestamp = None
        self._complete -= 1
        later = bool(self._open) and next(reversed(self._open)) > turn.number
        self._open[turn.number] = None
        if later:
            self._open = OrderedDict(sorted(self._open.items()))

    def _respond(self, turn: Turn, response: str, metadata: Mapping[str, Any], timestamp: datetime | None) -> None:
        turn.complete_with(response, self.now(timestamp))
        turn.own_metadata.update(metadata)
        self._stretch(turn.response_timestamp)

    def _stretch(self, stamp: datetime | None) -> None:
        if stamp is None:
            return
        self._earliest = stamp if self._earliest is None else min(self._earliest, stamp)
        self._latest = stamp if self._latest is None else max(self._latest, stamp)

    # What a guard does to turns

    def withdraw(self, number: int) -> Turn:
        """Stop a turn from waiting for its response, as when its prompt was blocked, and return it.

        A response that names the turn is still taken.

        Raises:
            ConversationError: no turn has that number.
        """
        with self.lock:
            turn = self.turn(number)
            self._open.pop(number, None)
            return turn

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
        with self.lock:
            turn = self.turn(number)
            if turn.text(side) is None:
                raise ConversationError(f"turn {number} has no {side} to replace")
            if not isinstance(text, str):
                raise ConversationError(f"turn {number}: {side} is {type(text).__name__}, not text")
            kept = with_text(turn, side, text) if OPENAI_KEY in turn.own_metadata else None
            for key in MESSAGE_KEYS:
                turn.own_metadata.pop(key, None)
            if kept is not None:
                turn.own_metadata[OPENAI_KEY] = kept
            if side is Side.PROMPT:
                turn.prompt = text
            else:
                turn.response = text
            return turn

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
        with self.lock:
            turn = self.turn(number)
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

    # As a state store keeps them

    @property
    def outline(self) -> Outline:
        """What is known of the turns without reading them, for `take_over`."""
        with self.lock:
            runs: list[tuple[int, int]] = []
            for number in self._open:
                if runs and runs[-1][1] == number - 1:
                    runs[-1] = (runs[-1][0], number)
                else:
                    runs.append((number, number))
            return Outline(len(self), self._complete, tuple(runs), self._earliest, self._latest)

    def take_over(
        self,
        outline: Outline,
        changed: Mapping[int, Turn],
        load: Callable[[range], Iterable[Turn]],
        *,
        own_after: int = 0,
    ) -> None:
        """Take in what was added and changed elsewhere. Turn objects stay, and turns of one's own come last.

        A history without turns takes constant time: early turns are read when somebody asks for them. `Limits`
        counts anew only when it is told to.

        Args:
            outline: the turns as they are there.
            changed: turns that were added or changed there, by number.
            load: returns the turns with the numbers that it is given, in order.
            own_after: number after which turns are not known there.
        """
        with self.lock:
            for turn in changed.values():
                turn.participants = self.participants
            own = self._retract(own_after)
            if self._turns:
                for number in sorted(changed):
                    self._refresh(changed[number])
            else:
                self._turns = StoredTurns(outline.turns, changed, partial(self._loaded, load))
            numbers = (number for first, last in outline.waiting for number in range(first, last + 1))
            self._open = OrderedDict.fromkeys(numbers)
            self._complete, self._earliest, self._latest = outline.complete, outline.earliest, outline.latest
            self._outlined = outline.earliest, outline.latest
            for turn in own:
                turn.number = len(self._turns) + 1
                self.append(turn)

    def take_back(self, number: int) -> None:
        """Remove the last turn, as though it had not been said; see `take_over` for the rate limit.

        Raises:
            ConversationError: it is not the last turn.
        """
        with self.lock:
            if not 0 < number == len(self._turns):
                raise ConversationError(f"turn {number} can't be taken back: there are {len(self._turns)} turns")
            self._retract(number - 1)

    def _loaded(self, load: Callable[[range], Iterable[Turn]], numbers: range) -> Iterator[Turn]:
        for turn in load(numbers):
            turn.participants = self.participants
            yield turn

    def _refresh(self, turn: Turn) -> None:
        """Take over a turn that was added or changed elsewhere; the object stays."""
        if turn.number > len(self._turns):
            self._turns.append(turn)
        elif not isinstance(self._turns, StoredTurns) or self._turns.is_known(turn.number):
            kept = self._turns[turn.number - 1]
            kept.prompt, kept.response = turn.prompt, turn.response
            kept.timestamp, kept.response_timestamp = turn.timestamp, turn.response_timestamp
            kept.metadata = turn.metadata

    def _retract(self, after: int) -> list[Turn]:
        """Take the turns after a number away again, and return them."""
        gone = self._turns[after:]
        if gone:
            # Another list, since a snapshot that somebody holds keeps the turns that it had.
            self._turns = self._turns.copy()
            del self._turns[after:]
            self._earliest, self._latest = self._outlined
            for turn in list.__iter__(self._turns):
                if turn is not None:  # else it was not read
                    self._stretch(turn.timestamp)
                    self._stretch(turn.response_timestamp)
            for turn in gone:
                self._open.pop(turn.number, None)
                self._complete -= turn.complete
        return gone
