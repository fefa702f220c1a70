"""The store that a command asks: opened, which run is meant, and whose labels count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from turnwise.cli.output import note, progress
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.store import SequenceHead, Store

_MANY = 500_000
"""Scores of findings whose first reading takes long enough for a bar."""


@contextmanager
def opened_store(location: str, *, prepared: bool = True) -> Iterator[Store]:
    """Open a store that is read, and say on standard error what is to be known of it.

    With `prepared` what questions need of the findings of a scan is made now, with a bar.
    """
    from turnwise.store import Store

    with Store(location) as opened:
        if opened.note:
            note(opened.note)
        scores = opened.counts()["evaluations"] if prepared and opened.is_findings else 0
        if scores >= _MANY:
            read = 0
            with progress("reading the findings for the first time") as tell:

                def show(steps: int) -> None:
                    nonlocal read
                    read += steps
                    tell(read, scores)

                opened.prepare(show)
        yield opened


def read_run(store: Store, name: str | None) -> str:
    """The name of a run that the store has: the given one, or the only one."""
    return store.only_run() if name is None else store.run(name).name


def read_people(corrected_by: Sequence[str] | None) -> tuple[str, ...]:
    """Whose corrected labels hold, each name once."""
    return tuple(dict.fromkeys(corrected_by or ()))


def check_turn(option: str, turn: int, sequence_id: str, turns: int) -> None:
    """Refuse the number of a turn that a sequence does not have."""
    if turn > turns:
        there = "1 turn" if turns == 1 else f"{turns} turns"
        raise UsageError(f"{option} {turn}: {sequence_id} has only {there}")


class CountedLabels(NamedTuple):
    """Whose labels a command counts.

    Nobody in `corrected_by` means the imported ones. `corrected` counts the conversations whose label is not that
    of their data set but what these people made of it, `disputed` those in no rate because these people disagree.
    """

    corrected_by: tuple[str, ...]
    corrected: int
    disputed: int

    def __str__(self) -> str:
        left = f"; {self.disputed} on which they disagree are in no rate" if self.disputed else ""
        return (
            f"the labels of {self.corrected} conversations are not those of their data sets but what "
            f"{', '.join(self.corrected_by)} made of them{left}"
        )

    def as_heading(self) -> str:
        """A comment of a YAML file; nothing where imported labels are counted."""
        return f"# {str(self)[0].upper()}{str(self)[1:]}.\n" if self.corrected_by else ""

    def tell(self, store: Store, heads: Iterable[SequenceHead] | None = None) -> None:
        """Say it on standard error; where imported labels are counted, how many of them people corrected."""
        if self.corrected_by:
            note(str(self))
            return
        said = store.people.labels()
        if not said:
            return
        known = store.heads(ids=said) if heads is None else heads  # only these can differ
        others = sum(said.get(head.sequence_id, head.label) is not head.label for head in known)
        if not others:
            return
        authors = sorted({one.author for one in store.people.corrections() if one.label})
        names = (
            f"--corrected-by {author!r}" if " " in author else f"--corrected-by {author}" for author in authors
        )
        note(
            f"people say of {others} of these conversations that their label is another one, which is not counted "
            f"here; {' '.join(names)} counts it"
        )
