"""Imports the records of a data set file as sequences; bad records are left out and named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from turnwise._support.batches import batched
from turnwise._support.notebook import Shown
from turnwise.conversation import Label, Sequence
from turnwise.datasets.protocol import BadRecord
from turnwise.errors import DatasetError, OtherLabelError, UsageError
from turnwise.store.sequences import Added
from turnwise.store.store import Store

_BATCH = 256
"""Records that share a transaction."""

MOST_BAD = 100_000
"""Bad records that may follow each other; some kilobytes can be packed so that they stand for billions."""


class OtherLabel(NamedTuple):
    """A sequence whose label in the file is not the one that the store had.

    Args:
        stored: the label in the store, until this import.
        given: the label in the file.
    """

    sequence_id: str
    stored: Label
    given: Label


@dataclass(frozen=True, slots=True)
class Imported(Shown):
    """What an import did.

    Args:
        imported: sequences that are new in the store.
        skipped: sequences that were there already, including those with another label in the file.
        errors: what could not be read or stored, in the order of the file.
        relabelled: sequences that were there and got the label of the file.
        other_labels: sequences that were there and kept their label, though the file has another one.
    """

    imported: int
    skipped: int
    errors: tuple[BadRecord, ...]
    relabelled: tuple[OtherLabel, ...] = ()
    other_labels: tuple[OtherLabel, ...] = ()


def import_sequences(
    store: Store,
    records: Iterable[Sequence | BadRecord],
    *,
    where: str,
    strict: bool = False,
    relabel: bool = False,
) -> Imported:
    """Store the sequences among records, a few hundred at a time.

    Args:
        records: what a loader yields; taken lazily.
        where: name of the file, for messages.
        strict: stop at the first bad record; what came before it is kept.
        relabel: give sequences that are stored already with the same turns the label of these; see
            `Store.add_sequences`. Those with other turns are bad records.

    Raises:
        DatasetError: a bad record, where `strict` is set; very many of them in a row; or the file can't be read at
            all.
        StoreError: the store can't be written.
    """
    done = _Done()
    errors: list[BadRecord] = []
    in_a_row = 0
    for batch in batched(records, _BATCH):
        bad = [record for record in batch if isinstance(record, BadRecord)]
        upto = batch.index(bad[0]) if strict and bad else len(batch)
        good = [record for record in batch[:upto] if isinstance(record, Sequence)]
        conflicts = _add(store, good, done, done.count + len(errors), strict, relabel)
        errors += sorted([*bad, *conflicts], key=lambda error: error.line)
        in_a_row = len(bad) + (in_a_row if len(bad) == len(batch) else 0)
        if in_a_row > MOST_BAD:
            raise DatasetError(
                f"{where}: more than {MOST_BAD:,} records in a row can't be read, the last of them since: "
                f"{bad[-1].reason}; what came before them is kept"
            )
        if strict and errors:
            raise DatasetError(f"{where}, line {errors[0].line}: {errors[0].reason}; --strict stops here")
    labels = tuple(done.relabelled), tuple(done.other_labels)
    return Imported(done.new, done.count - done.new, tuple(errors), *labels)


@dataclass(slots=True)
class _Done:
    """What came of the sequences so far; see `Imported`."""

    count: int = 0
    new: int = 0
    relabelled: list[OtherLabel] = field(default_factory=list)
    other_labels: list[OtherLabel] = field(default_factory=list)

    def add(self, sequence: Sequence, outcome: Added) -> None:
        self.count += 1
        self.new += outcome.new
        if outcome.label_before is not None:
            self.relabelled.append(OtherLabel(sequence.sequence_id, outcome.label_before, sequence.label))


def _add(
    store: Store, sequences: list[Sequence], done: _Done, before: int, strict: bool, relabel: bool
) -> list[BadRecord]:
    """Store sequences together or, where that fails, one by one; return those that can't be stored.

    `before` is how many records came before them: it stands in for the line of a sequence that has none.
    """
    if not sequences:
        return []
    try:
        for sequence, outcome in zip(sequences, store.add_sequences(sequences, relabel=relabel), strict=True):
            done.add(sequence, outcome)
    except OtherLabelError as error:
        if len(sequences) == 1:
            done.count += 1
            done.other_labels.append(OtherLabel(error.sequence_id, Label(error.stored), Label(error.given)))
            return []
    except UsageError as error:
        if len(sequences) == 1:
            return [BadRecord(sequences[0].line or before + 1, str(error))]
    else:
        return []
    conflicts: list[BadRecord] = []
    for position, sequence in enumerate(sequences):
        conflicts += _add(store, [sequence], done, before + position, strict, relabel)
        if strict and conflicts:
            break
    return conflicts
