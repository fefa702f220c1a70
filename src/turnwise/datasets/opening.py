"""The one way in: a path or a name on the hub, to sequences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from turnwise.conversation import Sequence
from turnwise.datasets.files import MAX_LINE, is_stream
from turnwise.datasets.head import Head, Layout, read_head
from turnwise.datasets.protocol import BadRecord, DatasetInfo, Loader, LoadOptions
from turnwise.datasets.reading import read_records
from turnwise.datasets.record_loader import RecordLoader
from turnwise.datasets.registry import DATASETS, get_loader
from turnwise.errors import DatasetError, UsageError

HUB_PREFIX = "hf:"
_SHOWN = 12
"""Fields of a record that a message names."""


def open_dataset(
    path_or_hf_name: str | Path,
    *,
    format: str | None = None,
    options: LoadOptions | None = None,
) -> Iterator[Sequence | BadRecord]:
    """Yield the sequences of a data set in order, and a `BadRecord` for every part that can't be read.

    Files are streamed; gzip and bzip2 are unpacked on the way. Each sequence id is given once. A line may have
    64 MiB at most.

    Args:
        path_or_hf_name: a file; a pipe, such as ``/dev/fd/63`` that a shell makes of ``<(command)``; a folder,
            for a format that is a folder of files; or ``hf:org/name``, with ``?split=...`` and ``&config=...``
            where the data set has several.
        format: a name that `list_datasets` shows; None to tell it from the file, where that is safe.
        options: what the user says about the file.

    Raises:
        DatasetError: no such file, an empty or a binary one, a pipe that nobody writes to, or a format that is
            not certain.
        UnknownNameError: no format has that name.
        UsageError: columns that the format does not take.

    >>> import json, tempfile
    >>> line = {"id": "a", "label": "benign", "turns": [{"role": "user", "content": "How do tides work?"}]}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write(json.dumps(line)), file.flush()
    ...     [(sequence.sequence_id, str(sequence.label)) for sequence in open_dataset(file.name)]
    [('a', 'benign')]
    """
    path, settings = str(path_or_hf_name), options or LoadOptions()
    if path.startswith(HUB_PREFIX):
        from turnwise.datasets.hub import open_hub

        return open_hub(path.removeprefix(HUB_PREFIX), format, settings)
    loader = None if format is None else get_loader(format)
    if loader is not None and Path(path).is_dir() and not loader.info.directory:
        raise DatasetError(f"{path} is a folder, and {format} is read from one file: name a file in it")
    head = None
    if loader is None or is_stream(path):
        head = read_head(path)
        loader = loader or detect(head)
    check_columns(loader.info, settings)
    if head is None or head.stream is None:
        return loader.load(path, settings)
    if not isinstance(loader, RecordLoader):
        raise DatasetError(f"{path} is a pipe, and {loader.info.name} is read from a file alone: save it to one")
    return loader.load_records(read_records(head), path, settings)


def detect(head: Head) -> Loader:
    """Return the loader of the one format that a file is certainly of.

    Args:
        head: the beginning of the file.

    Raises:
        DatasetError: no format is certain, or several are possible; the message lists the choice.
    """
    loaders = [get_loader(name) for name in DATASETS.names()]
    if head.layout is Layout.FOLDER:
        loaders = [loader for loader in loaders if loader.info.directory]
    certain = [loader for loader in loaders if loader.sniff(head)]
    # A data set of its own shape goes before the formats that anybody writes.
    certain = [loader for loader in certain if not loader.info.generic] or certain
    if len(certain) == 1:
        return certain[0]
    if certain:
        names = " or ".join(loader.info.name for loader in certain)
        raise DatasetError(f"{head.path} may be {names}: say which with --format")
    if head.layout is Layout.FOLDER:
        raise DatasetError(f"{head.path} is a folder, and not one that is a data set: name a file in it")
    raise DatasetError(
        f"{head.path}: the format can't be told from {_seen(head)}. Say it with --format, one of: "
        f"{', '.join(DATASETS.names())}; messages, sharegpt and promptresponse take --columns"
    )


def check_columns(info: DatasetInfo, options: LoadOptions) -> None:
    """Raise UsageError where the user named columns that a format does not take."""
    unknown = [what for what in options.columns if what not in info.columns]
    if unknown:
        takes = f"it takes {', '.join(info.columns)}" if info.columns else "its columns are fixed"
        raise UsageError(f"columns: the format {info.name} has no {unknown[0]!r}; {takes}")


def _seen(head: Head) -> str:
    if not head.records:
        return f"its first lines, none of which is JSON of at most {MAX_LINE >> 20} MiB"
    if not head.fields:
        return f"its first record, which is {type(head.records[0]).__name__} and no object"
    fields = list(head.records[0])
    return f"its fields: {', '.join(fields[:_SHOWN])}{' ...' if len(fields) > _SHOWN else ''}"
