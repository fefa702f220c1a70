"""Lists of the turns of a conversation: a snapshot, the stored ones that are read late, and an outline of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple, SupportsIndex, overload

from turnwise.conversation.turn import Turn

_AT_ONCE: Final = 64  # turns of a stored conversation that are read at once, at least


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
    """What is known of a conversation's turns without reading them."""

    turns: int
    complete: int
    waiting: tuple[tuple[int, int], ...]  # first and last number of each run of turns without their response
    earliest: datetime | None
    latest: datetime | None
