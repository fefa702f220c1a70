"""From the text of options to the objects that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnwise.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Label, Side
    from turnwise.principles import Principle
    from turnwise.store import Store


def read_label(text: str | None) -> Label | None:
    """Return the label of that name, or None for None.

    Raises:
        UnknownNameError: no label has that name.
    """
    from turnwise.conversation import Label

    if text is None:
        return None
    if text not in tuple(Label):
        raise UnknownNameError("label", text, map(str, Label))
    return Label(text)


def read_side(text: str) -> Side:
    """Return the side of that name.

    Raises:
        UnknownNameError: no side has that name.
    """
    from turnwise.conversation import Side

    if text not in tuple(Side):
        raise UnknownNameError("side", text, map(str, Side))
    return Side(text)


def read_sides(text: str) -> tuple[Side, ...]:
    """Return the sides that a text such as ``prompt,response`` names.

    Raises:
        UnknownNameError: one of them is no side.
    """
    return tuple(map(read_side, dict.fromkeys(name.strip() for name in text.split(","))))


def read_principles(names: Sequence[str] | None) -> tuple[Principle, ...]:
    """Return the principles of these names or folders, or those that ship where none is named.

    Raises:
        UnknownNameError: neither a known name nor a folder.
        PrincipleError: a folder that can't be read.
    """
    from turnwise.principles import builtin_principles, load_principle

    return tuple(map(load_principle, names)) if names else builtin_principles()


def read_source(store: Store, source: str | None, sequences: Sequence[str] | None) -> list[str] | None:
    """Return the ids of the sequences that are meant, by source, by name or by both; None for all.

    Args:
        store: the record.
        source: name of a data set; None for any.
        sequences: ids that were named; None or none of them for any.

    Raises:
        UnknownNameError: the store has no sequence of that source, or of one of the ids.
        UsageError: none of the sequences that are named is of that source.
    """
    named = list(sequences) if sequences else None
    if source is None:
        return named
    found = [head.sequence_id for head in store.heads(ids=named) if head.source == source]
    if not found:
        known = {head.source for head in store.heads()}
        if source not in known:
            raise UnknownNameError("source", source, known)
        raise UsageError(f"none of the sequences that are named is of source {source!r}")
    return found


def read_run(store: Store, name: str | None) -> str:
    """Return the name of a run that the store has: the given one, or the only one.

    Raises:
        UnknownNameError: the store has no run of that name.
        UsageError: no name is given, and the store has none or several.
    """
    return store.only_run() if name is None else store.run(name).name
