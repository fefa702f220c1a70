"""From the records of a data set file to stored sequences; what is bad is left out and named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnwise.batches import batched
from turnwise.conversation import Sequence
from turnwise.datasets.protocol import BadRecord
from turnwise.errors import DatasetError, UsageError
from turnwise.notebook import Shown
from turnwise.store.store import Store

_BATCH = 256
"""Records that share a transaction."""


@dataclass(frozen=True, slots=True)
class Imported(Shown):
    """What an import did.

    Args:
        imported: sequences that are new in the store.
        skipped: sequences that were there already, word for word.
        errors: what could not be read or stored, in the order of the file.
    """

    imported: int
    skipped: int
    errors: tuple[BadRecord, ...]


def import_sequences(
    store: Store, records: Iterable[Sequence | BadRecord], *, where: str, strict: bool = False
) -> Imported:
    """Store the sequences among records, a few hundred at a time.

    Args:
        store: where they go.
        records: what a loader yields; taken lazily.
        where: name of the file, for messages.
        strict: stop at the first bad record; what came before it is kept.

    Raises:
        DatasetError: a bad record, where `strict` is set, or the file can't be read at all.
        StoreError: the store can't be written.
    """
    added: list[bool] = []
    errors: list[BadRecord] = []
    for batch in batched(records, _BATCH):
        bad = [record for record in batch if isinstance(record, BadRecord)]
        upto = batch.index(bad[0]) if strict and bad else len(batch)
        good = [record for record in batch[:upto] if isinstance(record, Sequence)]
        conflicts = _add(store, good, added, len(added) + len(errors), strict)
        errors += sorted([*bad, *conflicts], key=lambda error: error.line)
        if strict and errors:
            raise DatasetError(f"{where}, line {errors[0].line}: {errors[0].reason}; --strict stops here")
    return Imported(sum(added), len(added) - sum(added), tuple(errors))


def _add(store: Store, sequences: list[Sequence], added: list[bool], before: int, strict: bool) -> list[BadRecord]:
    """Store sequences together, or, where that fails, one by one; return those that can't be stored."""
    if not sequences:
        return []
    try:
        added += store.add_sequences(sequences)
    except UsageError as error:
        if len(sequences) == 1:
            return [BadRecord(sequences[0].line or before + 1, str(error))]
    else:
        return []
    conflicts: list[BadRecord] = []
    for position, sequence in enumerate(sequences):
        conflicts += _add(store, [sequence], added, before + position, strict)
        if strict and conflicts:
            break
    return conflicts
