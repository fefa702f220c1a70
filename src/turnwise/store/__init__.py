"""The store: what was imported, scored and failed, kept durably together with where it came from."""

from turnwise.store.audit_log import AuditLog
from turnwise.store.backend import shown_location
from turnwise.store.erasure import Erasure
from turnwise.store.journal import Journal, KeptReplies
from turnwise.store.people import HumanScore, LabelCorrection, People, Review, Status
from turnwise.store.query import QueryMatch, QueryResult, SqlAnswer, ask
from turnwise.store.runs import Run, RunTally
from turnwise.store.sequences import Added, Imported, OtherLabel, import_sequences
from turnwise.store.source import ScoreTable, SequenceHead, StoredScore
from turnwise.store.store import Store

__all__ = [
    "Added",
    "AuditLog",
    "Erasure",
    "HumanScore",
    "Imported",
    "Journal",
    "KeptReplies",
    "LabelCorrection",
    "OtherLabel",
    "People",
    "QueryMatch",
    "QueryResult",
    "Review",
    "Run",
    "RunTally",
    "ScoreTable",
    "SequenceHead",
    "SqlAnswer",
    "Status",
    "Store",
    "StoredScore",
    "ask",
    "import_sequences",
    "shown_location",
]
