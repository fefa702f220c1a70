"""The one way to open a data set: the formats by name, and a path or a name on the hub read as sequences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from importlib import import_module, resources
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from turnwise.conversation import Label, Sequence
from turnwise.datasets.files import MAX_LINE, is_stream, parse_encoding
from turnwise.datasets.format_row import ENDINGS, read_format
from turnwise.datasets.generic_formats import GENERIC
from turnwise.datasets.labels_and_roles import (
    parse_columns,
    parse_label,
    parse_label_map,
    parse_role_map,
    read_role,
    usual_role,
)
from turnwise.datasets.layout import RECORDS, FileHead, Layout, read_head, read_records
from turnwise.datasets.protocol import BadRecord, DatasetInfo, Loader, LoadOptions
from turnwise.datasets.published_formats import PUBLISHED
from turnwise.datasets.record_loader import RecordLoader, find_column
from turnwise.datasets.records import ParsedRecord, parse_json
from turnwise.errors import DatasetError, PluginError, TurnwiseError, UsageError
from turnwise.plugins import Registry, check_made

LoaderFactory = Callable[[], Loader]
"""Builds a loader, as a loader class or a `Format` does."""

Part = TypeVar("Part", bound=LoaderFactory)

DATASETS: Registry[LoaderFactory] = Registry("data set format", "turnwise.datasets", callable)
for _row in (*PUBLISHED, *GENERIC):
    DATASETS.add(_row.info.name, _row)
for _name, _loader in {
    "claude_code": "traces.transcripts:CLAUDE_CODE",
    "codex": "traces.transcripts:CODEX",
    "inspect": "inspect_logs:InspectLogs",
    "langfuse": "traces.services:LANGFUSE",
    "langsmith": "traces.services:LANGSMITH",
    "mutual": "published_loaders:MuTual",
    "openai_agents": "traces.services:OPENAI_AGENTS",
    "openassistant": "published_loaders:OpenAssistant",
    "otel": "traces.otel:OTEL",
    "phoenix": "traces.services:PHOENIX",
    "turns": "generic_formats:TurnRows",
}.items():
    DATASETS.add_lazy(_name, f"turnwise.datasets.{_loader}")

EXAMPLES = "turnwise:examples"
"""The name under which the conversations that ship are opened, in place of a file."""

_SHOWN = 12
"""Fields of a record that a message names."""

HUB_PREFIX: Final = "hf:"

HUB: Final = DatasetInfo(
    name="hf:org/name",
    title="any data set on the Hugging Face hub",
    source="the hub, through the datasets package: pip install 'turnwise[hub]'; a local folder works too",
    url="https://huggingface.co/datasets",
    licence="see the card of the data set",
    label_meaning="that of the format its columns are read as",
    shape="rows of any format that has records, told by their columns; hf:org/name?split=train&config=default",
)
"""What is known of the hub, which is no format but has rows of any."""


def dataset_loader(name: str) -> Callable[[Part], Part]:
    """Return a decorator that registers a loader class, or a function that registers a `Format`, under a name.

    An installed package does the same without code, by an entry point in the group ``turnwise.datasets``.

    Args:
        name: what ``--format`` takes.

    Raises:
        PluginError: the name is taken.
    """
    return DATASETS.register(name)


def get_loader(name: str) -> Loader:
    """Return a new loader of a format.

    Args:
        name: a name that `list_datasets` shows, or the YAML or JSON file of a format of your own.

    Raises:
        UnknownNameError: no format has that name, or no entry of a format one in the file.
        UsageError: the file can't be read, or an entry in it can't be.
        PluginError: the plug-in that has the name failed to import, or makes no loader.
    """
    if name.endswith(ENDINGS):
        return read_format(name)()
    factory = DATASETS.get(name)
    try:
        loader = factory()
    except TurnwiseError:
        raise
    except Exception as error:  # a loader may be foreign code
        raise PluginError(
            f"data set format {name!r}: mend its package, {type(error).__name__}: {error}"
        ) from error
    check_made("data set format", name, loader, "info", "sniff", "load")
    check_made("data set format", name, loader.info, *(field.name for field in fields(DatasetInfo)))
    return loader


def list_datasets() -> tuple[DatasetInfo, ...]:
    """Return what is known of every format that can be read, sorted by name, the hub last.

    >>> "attack600" in [info.name for info in list_datasets()]
    True
    """
    return (*(get_loader(name).info for name in DATASETS.names()), HUB)


def open_dataset(
    path_or_hf_name: str | Path,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | str | None = None,
    label: Label | str | None = None,
    label_map: Mapping[Any, str] | str | None = None,
    role_map: Mapping[Any, str] | str | None = None,
    source: str | None = None,
    encoding: str | None = None,
) -> Iterator[Sequence | BadRecord]:
    """Yield the sequences of a data set in order, and a `BadRecord` for every part that can't be read.

    Files are streamed; gzip, bzip2 and zstd are unpacked on the way. Each sequence id is given once. A line may
    have 64 MiB at most.

    Args:
        path_or_hf_name: a file; a pipe, such as ``/dev/fd/63`` that a shell makes of ``<(command)``; a folder,
            for a format that is a folder of files; ``turnwise:examples``, the conversations that ship; or
            ``hf:org/name``, with ``?split=...`` and ``&config=...`` where the data set has several.
        format: a name that `list_datasets` shows, or the YAML file of your own; None to tell it from the file,
            where that is safe.
        columns: names of columns by what they hold, such as ``{"id": "uid"}`` or ``"id=uid,messages=chat"``;
            `DatasetInfo.columns` says what a format takes.
        label: label of conversations that bring none, in place of the format's own: attack or benign.
        label_map: what labels of the file mean, where they are not usual (`turnwise.datasets.USUAL_LABELS`):
            ``{"rude": "attack"}``, ``"rude=attack"``, or a YAML or JSON file of such pairs; ``*`` is every other
            label. A conversation with a label that is not known comes without one; its metadata keep it as
            ``unknown_label``.
        role_map: what roles of the file mean, where they are not usual: ``{"agent": "assistant"}``,
            ``"agent=assistant,customer=user"``, or a YAML or JSON file of such pairs; ``*`` is every other role.
        source: name of the data set, in place of the format's or the file's own.
        encoding: how a text file is encoded, such as ``cp1252`` or ``utf-16``; UTF-8 by default.

    Raises:
        DatasetError: no such file, an empty or a binary one, a pipe that nobody writes to, or a format that is
            not certain.
        UnknownNameError: no format or label has that name.
        UsageError: columns or roles that the format does not take, a map of labels or roles that can't be read,
            or no such encoding.

    >>> import json, tempfile
    >>> line = {"id": "a", "label": "benign", "turns": [{"role": "user", "content": "How do tides work?"}]}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write(json.dumps(line)), file.flush()
    ...     [(sequence.sequence_id, str(sequence.label)) for sequence in open_dataset(file.name)]
    [('a', 'benign')]
    """
    path = str(path_or_hf_name)
    if path == EXAMPLES:
        path = str(resources.files("turnwise.datasets") / "examples.jsonl")
    settings = load_options(columns, label, label_map, role_map, source, encoding)
    if path.startswith(HUB_PREFIX):
        return _from_hub(path.removeprefix(HUB_PREFIX), format, settings)
    loader = None if format is None else get_loader(format)
    if loader is not None and Path(path).is_dir() and not loader.info.directory:
        raise DatasetError(f"{path} is a folder, and {format} is read from one file: name a file in it")
    head = None
    if loader is None or is_stream(path):
        head = read_head(path, settings.encoding)
        loader = loader or detect_format(head, settings)
    check_columns(loader.info, settings)
    if head is None or head.stream is None:
        return loader.load(path, settings)
    if not isinstance(loader, RecordLoader):
        raise DatasetError(f"{path} is a pipe, and {loader.info.name} is read from a file alone: save it to one")
    return loader.load_records(read_records(head), path, settings)


def load_options(
    columns: Mapping[str, str] | str | None,
    label: Label | str | None,
    label_map: Mapping[Any, str] | str | None,
    role_map: Mapping[Any, str] | str | None,
    source: str | None,
    encoding: str | None,
) -> LoadOptions:
    """Parse what a user says about a file; arguments as for `open_dataset`."""
    return LoadOptions(
        parse_columns(columns),
        parse_label(label),
        source,
        parse_label_map(label_map),
        parse_role_map(role_map),
        parse_encoding(encoding),
    )


def detect_format(head: FileHead, options: LoadOptions | None = None) -> Loader:
    """Return the loader of the one format that a file is certainly of; a DatasetError lists the choice."""
    options = options or LoadOptions()
    named = options.columns
    loaders = [get_loader(name) for name in DATASETS.names()]
    # Columns that the user named count under their usual names as well.
    renamed = replace(head, records=tuple(_in_usual_words(record, options) for record in head.records))
    reads = (head,) if renamed == head else (head, renamed)
    if head.layout is Layout.FOLDER:
        loaders = [loader for loader in loaders if loader.info.directory]
    certain = [loader for loader in loaders if any(map(loader.sniff, reads))]
    certain = [loader for loader in certain if {*named} <= {*loader.info.columns}] or certain
    # A data set of its own shape goes before the formats that anybody writes.
    certain = [loader for loader in certain if not loader.info.generic] or certain
    if len(certain) == 1:
        return certain[0]
    if certain:
        names = " or ".join(loader.info.name for loader in certain)
        raise DatasetError(f"{head.path} may be {names}: say which with --format")
    if head.layout is Layout.FOLDER:
        raise DatasetError(f"{head.path} is a folder, but no known data set: name a file in it")
    role = _unknown_role(renamed)
    if role is not None:
        raise DatasetError(
            f"{head.path} has a message in each row, but {role!r} is no known role: say what its roles mean with "
            f"--role-map {role}=user, or name another format with --format"
        )
    taking = [name for name in DATASETS.names() if get_loader(name).info.generic and get_loader(name).info.columns]
    raise DatasetError(
        f"{head.path}: the format can't be told from {_seen(head)}. Say it with --format, one of: "
        f"{', '.join(DATASETS.names())}; {', '.join(taking)} take --columns, with one message a row such as "
        "--columns id=CHAT,role=SPEAKER,text=MESSAGE"
    )


def _in_usual_words(record: Any, options: LoadOptions) -> Any:
    """Put the columns that the user named under their usual names, and the role as it is mapped."""
    if not isinstance(record, dict):
        return record
    named = options.columns
    others = {name: value for name, value in record.items() if name not in named.values()}
    usual = {**others, **{what: record[column] for what, column in named.items() if column in record}}
    role = find_column(usual, "role")
    if role is not None and isinstance(usual[role], str):
        usual[role] = read_role(usual[role], options.role_map)
    return usual


def _unknown_role(head: FileHead) -> str | None:
    """The role that alone keeps rows from being read as messages; None where it is not that."""
    for row in head.records:
        columns = [find_column(row, what) if isinstance(row, dict) else None for what in ("id", "role", "text")]
        if None not in columns and isinstance(role := row[columns[1]], str) and usual_role(role, {}) is None:
            return role
    return None


def check_columns(info: DatasetInfo, options: LoadOptions) -> None:
    """Raise UsageError unless the format takes the columns, and the roles in other words, that the user named."""
    if options.role_map and not info.roles:
        taking = [name for name in DATASETS.names() if get_loader(name).info.roles]
        raise UsageError(f"role map: the format {info.name} takes none; use it with {', '.join(taking)}")
    unknown = [what for what in options.columns if what not in info.columns]
    if unknown:
        hint = f"known: {', '.join(info.columns)}" if info.columns else "its columns are fixed, so leave that out"
        raise UsageError(f"columns: the format {info.name} has no column {unknown[0]!r}; {hint}")


def _seen(head: FileHead) -> str:
    if not head.records:
        return f"its first lines, none of which is JSON of at most {MAX_LINE >> 20} MiB"
    if not head.fields:
        return f"its first record, which is {type(head.records[0]).__name__}, not an object"
    fields = list(head.records[0])
    return f"its fields: {', '.join(fields[:_SHOWN])}{' ...' if len(fields) > _SHOWN else ''}"


def examples() -> tuple[Sequence, ...]:
    """Return the example conversations, attacks and benign ones, in the order of their file.

    Raises:
        DatasetError: the installed file is damaged.

    >>> len(examples()) >= 24
    True
    """
    found: list[Sequence] = []
    for item in open_dataset(EXAMPLES, format="turnwise"):
        if isinstance(item, BadRecord):
            raise DatasetError(
                f"{EXAMPLES} of this installation, line {item.line}: {item.reason}; install turnwise again"
            )
        found.append(item)
    return tuple(found)


# The Hugging Face hub, through the package `datasets`


def _from_hub(name: str, format: str | None, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
    path, config, split = _hub_parts(name)
    rows = _hub_rows(path, config, split)
    first = list(islice(rows, RECORDS))
    if not first:
        raise DatasetError(f"hf:{name} has no rows: check its split and config")
    head = FileHead(path, path.rpartition("/")[2].lower(), Layout.PARQUET, tuple(first))
    loader = detect_format(head, options) if format is None else get_loader(format)
    check_columns(loader.info, options)
    if not isinstance(loader, RecordLoader):
        raise DatasetError(
            f"the format {loader.info.name} reads files, not rows of the hub: download the file first"
        )
    records = (ParsedRecord(number, row) for number, row in enumerate(chain(first, rows), start=1))
    return loader.load_records(records, path, options)


def _hub_parts(name: str) -> tuple[str, str | None, str | None]:
    path, _, query = name.partition("?")
    wanted = parse_qs(query, keep_blank_values=True)
    unknown = [key for key in wanted if key not in ("split", "config")]
    if unknown or not path:
        raise UsageError(f"hf:{name} must have the form hf:org/name?split=train&config=default")
    return path, wanted.get("config", [None])[0], wanted.get("split", [None])[0]


def _hub_rows(path: str, config: str | None, split: str | None) -> Iterator[Mapping[str, Any]]:
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        raise DatasetError("reading from the hub needs another package: pip install 'turnwise[hub]'") from None
    try:
        loaded = datasets.load_dataset(path, config, split=split, streaming=True)
    except Exception as error:
        # The package raises its own, those of the hub client, and plain ones, by what is wrong where.
        raise DatasetError(f"hf:{path} can't be opened: {_first_line(error)}") from error
    if isinstance(loaded, datasets.IterableDatasetDict):
        splits = list(map(str, loaded))
        if len(splits) != 1 and "train" not in splits:
            raise DatasetError(f"hf:{path} has several splits: add ?split= and one of {', '.join(splits)}")
        loaded = loaded[splits[0] if len(splits) == 1 else "train"]
    return _plain_rows(path, loaded)


def _plain_rows(path: str, rows: Any) -> Iterator[Mapping[str, Any]]:
    try:
        for row in rows:
            # Dates and the like become text, as in a file.
            yield parse_json(json.dumps(dict(row), default=str))
    except Exception as error:
        raise DatasetError(f"hf:{path} can't be read to its end: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
