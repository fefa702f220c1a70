"""Data sets: files of conversations in many formats, read as sequences; each format has its loader."""

from turnwise.datasets.labels import UNKNOWN_LABEL, USUAL_LABELS, unknown_label
from turnwise.datasets.loader_kit import check_loader
from turnwise.datasets.loaders.turnwise import examples, to_line
from turnwise.datasets.opening import DATASETS, dataset_loader, get_loader, list_datasets, open_dataset
from turnwise.datasets.protocol import BadRecord, DatasetInfo, Loader, LoadOptions, RecordError
from turnwise.datasets.record_loader import USUAL_COLUMNS, RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head

__all__ = [
    "DATASETS",
    "UNKNOWN_LABEL",
    "USUAL_COLUMNS",
    "USUAL_LABELS",
    "BadRecord",
    "DatasetInfo",
    "Head",
    "LoadOptions",
    "Loader",
    "RecordError",
    "RecordLoader",
    "SequenceBuilder",
    "check_loader",
    "dataset_loader",
    "examples",
    "get_loader",
    "list_datasets",
    "open_dataset",
    "to_line",
    "unknown_label",
]
