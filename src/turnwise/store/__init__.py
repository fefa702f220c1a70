"""The record: what was imported, scored and failed, durable and with its provenance."""

from turnwise.store.importing import Imported, import_sequences
from turnwise.store.journal import Journal, KeptReplies
from turnwise.store.records import Run, SequenceHead
from turnwise.store.store import Store
from turnwise.store.tallies import RunTally

__all__ = [
    "Imported",
    "Journal",
    "KeptReplies",
    "Run",
    "RunTally",
    "SequenceHead",
    "Store",
    "import_sequences",
]
