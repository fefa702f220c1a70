"""Data sets: files of conversations in many formats, read as sequences; a format is a row, or a loader."""

from turnwise.datasets.annotated import (
    JudgedConversation,
    Judgement,
    Pair,
    Twin,
    digests,
    example_judgements,
    join_judgements,
    judgement_files,
    load_twins,
    read_judgements,
)
from turnwise.datasets.format_row import Format
from turnwise.datasets.generic_formats import to_line
from turnwise.datasets.labels_and_roles import UNKNOWN_LABEL, USUAL_LABELS, unknown_label
from turnwise.datasets.layout import FileHead
from turnwise.datasets.loader_kit import check_loader
from turnwise.datasets.opening import DATASETS, dataset_loader, examples, get_loader, list_datasets, open_dataset
from turnwise.datasets.protocol import BadRecord, DatasetInfo, Loader, LoadOptions, RecordError
from turnwise.datasets.record_loader import USUAL_COLUMNS, RecordLoader, SequenceBuilder

__all__ = [
    "DATASETS",
    "UNKNOWN_LABEL",
    "USUAL_COLUMNS",
    "USUAL_LABELS",
    "BadRecord",
    "DatasetInfo",
    "FileHead",
    "Format",
    "JudgedConversation",
    "Judgement",
    "LoadOptions",
    "Loader",
    "Pair",
    "RecordError",
    "RecordLoader",
    "SequenceBuilder",
    "Twin",
    "check_loader",
    "dataset_loader",
    "digests",
    "example_judgements",
    "examples",
    "get_loader",
    "join_judgements",
    "judgement_files",
    "list_datasets",
    "load_twins",
    "open_dataset",
    "read_judgements",
    "to_line",
    "unknown_label",
]
