"""The ordered turns of a conversation: the growing list with its counts, and read-only views of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple, SupportsIndex, overload

from turnwise.conversation.turn import Side, Turn
from turnwise.errors import ConversationError

_AT_ONCE: Final = 64
"""Turns of a stored conversation that are read at once, at least."""


class Turns(Sequence[Turn]):
    """The turns of a conversation at one moment: the first `count` of a list that only grows.

    They never change place, so the snapshot needs no copy and no lock. A turn that was open when the snapshot was
    taken shows its response once it has one.

    >>> turns = [Turn(1, "a"), Turn(2, "b")]
    >>> snapshot = Turns(turns, 2)
    >>> turns.append(Turn(3, "c"))
    >>> len(snapshot), snapshot[-1].prompt
    (2, 'b')
    """

    __slots__ = ("_count", "_turns")

    def __init__(self, turns: list[Turn], count: int) -> None:
        self._turns = turns
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Turn: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...

    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(index, slice):
            return tuple(self._turns[place] for place in range(*index.indices(self._count)))
        return self._turns[range(self._count)[index]]

    def __iter__(self) -> Iterator[Turn]:
        return islice(self._turns, self._count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Turns | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # its turns can change, as those of a list can

    def __repr__(self) -> str:
        return f"Turns({list(self)!r})"


class StoredTurns(list[Turn]):
    """The turns of a stored conversation; `load` reads early ones, in order, when somebody asks for them.

    >>> turns = StoredTurns(2, {2: Turn(2, "b")}, lambda numbers: [Turn(number, "a") for number in numbers])
    >>> turns.missing, turns[-1].prompt, turns[0].prompt, turns.missing
    (1, 'b', 'a', 0)
    """

    def __init__(self, count: int, known: Mapping[int, Turn], load: Callable[[range], Iterable[Turn]]) -> None:
        super().__init__(map(known.get, range(1, count + 1)))  # type: ignore[arg-type]  # None: not read yet
        self.missing = count - sum(1 <= number <= count for number in known)
        self._load = load

    @overload
    def __getitem__(self, index: SupportsIndex) -> Turn: ...

    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Turn | list[Turn]:
        if self.missing:
            places = range(len(self))[index] if isinstance(index, slice) else (range(len(self))[index],)
            self._read(places)
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Turn]:
        if self.missing:
            self._read(range(len(self)))
        return super().__iter__()

    def copy(self) -> StoredTurns:
        """Another list of the same turns, for which nothing is read."""
        known = {number: turn for number, turn in enumerate(super().__iter__(), start=1) if turn is not None}
        return StoredTurns(len(self), known, self._load)

    def is_known(self, number: int) -> bool:
        """Whether the turn with a number was read already."""
        return super().__getitem__(number - 1) is not None

    def _read(self, places: Sequence[int]) -> None:
        missing = [place for place in places if super(StoredTurns, self).__getitem__(place) is None]
        if missing:
            # At least so many at once: whoever asks for one turn asks for its neighbours next.
            first = max(0, min(missing[0], missing[-1] + 1 - _AT_ONCE))
            for turn in self._load(range(first + 1, missing[-1] + 2)):
                if super().__getitem__(turn.number - 1) is None:
                    self[turn.number - 1] = turn
                    self.missing -= 1


class Outline(NamedTuple):
    """What is known of a conversation's turns without reading them.

    `waiting` has the first and last number of each run of turns that wait for their response.
    """

    turns: int
    complete: int
    waiting: tuple[tuple[int, int], ...]
    earliest: datetime | None
    latest: datetime | None


class TurnLog:
    """Turns in order; adding, completing, counting and looking one up take constant time.

    Not safe under threads by itself: the conversation that owns it holds its lock.

    >>> log = TurnLog([Turn(1, "hello")])
    >>> log.complete(None, "hi", None, {}).response, log.complete_count
    ('hi', 1)
    """

    __slots__ = ("_complete", "_earliest", "_latest", "_open", "_outlined", "_turns")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
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

    @classmethod
    def resumed(
        cls, outline: Outline, known: Mapping[int, Turn], load: Callable[[range], Iterable[Turn]]
    ) -> TurnLog:
        """The log of a stored conversation, whose early turns are not read yet; arguments as for `StoredTurns`."""
        log = cls()
        log._turns = StoredTurns(outline.turns, known, load)
        log.settle(outline)
        return log

    @property
    def outline(self) -> Outline:
        """What is known of the turns without reading them."""
        runs: list[tuple[int, int]] = []
        for number in self._open:
            if runs and runs[-1][1] == number - 1:
                runs[-1] = (runs[-1][0], number)
            else:
                runs.append((number, number))
        return Outline(len(self), self._complete, tuple(runs), self._earliest, self._latest)

    def settle(self, outline: Outline) -> None:
        """Take over what an outline tells of the turns, after some were changed elsewhere."""
        numbers = (number for first, last in outline.waiting for number in range(first, last + 1))
        self._open = OrderedDict.fromkeys(numbers)
        self._complete, self._earliest, self._latest = outline.complete, outline.earliest, outline.latest
        self._outlined = outline.earliest, outline.latest

    def refresh(self, turn: Turn) -> None:
        """Take over a turn that was added or changed elsewhere; the object stays. `settle` has to follow."""
        if turn.number > len(self._turns):
            self._turns.append(turn)
        elif not isinstance(self._turns, StoredTurns) or self._turns.is_known(turn.number):
            kept = self._turns[turn.number - 1]
            kept.prompt, kept.response = turn.prompt, turn.response
            kept.timestamp, kept.response_timestamp = turn.timestamp, turn.response_timestamp
            kept.metadata = turn.metadata

    def retract(self, after: int) -> list[Turn]:
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

    def __len__(self) -> int:
        return len(self._turns)

    def __reduce__(self) -> tuple[type[TurnLog], tuple[list[Turn]]]:
        # Counts are rebuilt from the turns, so a pickle that another thread adds to stays consistent.
        return TurnLog, (list(self._turns),)

    @property
    def snapshot(self) -> Turns:
        """All turns at this moment, without a copy."""
        return Turns(self._turns, len(self._turns))

    @property
    def open_turns(self) -> list[Turn]:
        """The turns that wait for their response, in order."""
        return [self._turns[number - 1] for number in self._open]

    @property
    def waiting(self) -> bool:
        """Whether any turn waits for its response."""
        return bool(self._open)

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
        """The earliest time stamp; None without any."""
        return self._earliest

    @property
    def latest(self) -> datetime | None:
        """The latest time stamp; None without any."""
        return self._latest

    @property
    def duration(self) -> float:
        """Seconds from the earliest time stamp to the latest; 0.0 for fewer than two."""
        if self._earliest is None or self._latest is None:
            return 0.0
        return (self._latest - self._earliest).total_seconds()

    def turn(self, number: int) -> Turn:
        """The turn with a number."""
        if not 1 <= number <= len(self._turns):
            raise ConversationError(f"there is no turn {number}: the conversation has {len(self._turns)}")
        return self._turns[number - 1]

    def append(self, turn: Turn) -> Turn:
        """Add a turn, which must have the next number, and return it."""
        expected = len(self._turns) + 1
        if turn.number != expected:
            raise ConversationError(f"expected turn {expected}, not turn {turn.number}: turns are counted from 1")
        self._turns.append(turn)
        if turn.response is not None:
            self._complete += 1
            self._stretch(turn.response_timestamp)
        elif turn.checks is None or not turn.blocked(Side.PROMPT):
            self._open[turn.number] = None
        self._stretch(turn.timestamp)
        return turn

    def complete(
        self, number: int | None, response: str, timestamp: datetime | None, metadata: Mapping[str, Any]
    ) -> Turn:
        """Give a turn (by default the oldest that waits) its response and more metadata, and return it."""
        turn = self._oldest_open() if number is None else self.turn(number)
        if turn.complete:
            raise ConversationError(f"turn {turn.number} already has a response; choose a turn without one")
        turn.complete_with(response, timestamp)
        turn.own_metadata.update(metadata)
        self._open.pop(turn.number, None)
        self._complete += 1
        self._stretch(turn.response_timestamp)
        return turn

    def reopen(self, turn: Turn) -> None:
        """Take the response of a turn away, and let the turn wait for one: it was no answer yet."""
        turn.response = turn.response_timestamp = None
        self._complete -= 1
        later = bool(self._open) and next(reversed(self._open)) > turn.number
        self._open[turn.number] = None
        if later:
            self._open = OrderedDict(sorted(self._open.items()))

    def rephrase(
        self, number: int, response: str, timestamp: datetime | None, metadata: Mapping[str, Any]
    ) -> Turn:
        """Give a turn another response in place of its own, and return it; arguments as for `complete`."""
        turn = self.turn(number)
        if not turn.complete:
            raise ConversationError(f"turn {number} has no response yet")
        turn.complete_with(response, timestamp)
        turn.own_metadata.update(metadata)
        self._stretch(turn.response_timestamp)
        return turn

    def withdraw(self, number: int) -> Turn:
        """Let a turn wait for its response no longer, and return it; it may still be given one by its number."""
        turn = self.turn(number)
        self._open.pop(number, None)
        return turn

    def _oldest_open(self) -> Turn:
        first = self.first_open
        if first is None:
            raise ConversationError("No prompt-only turn exists to add response to")
        return first

    def _stretch(self, stamp: datetime | None) -> None:
        if stamp is None:
            return
        self._earliest = stamp if self._earliest is None else min(self._earliest, stamp)
        self._latest = stamp if self._latest is None else max(self._latest, stamp)
