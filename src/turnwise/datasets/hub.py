"""Data sets on the Hugging Face hub, row by row, through the package `datasets`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs

from turnwise.datasets.fields import parse_json
from turnwise.datasets.protocol import DatasetInfo
from turnwise.errors import DatasetError, UsageError

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


def open_hub(name: str) -> tuple[str, Iterator[Mapping[str, Any]]]:
    """Return the path of a data set and its rows.

    ``name`` is ``org/name`` or a local folder of data files, then ``?split=...&config=...`` where wanted.
    """
    path, config, split = _parts(name)
    return path, _stream(path, config, split)


def _parts(name: str) -> tuple[str, str | None, str | None]:
    path, _, query = name.partition("?")
    wanted = parse_qs(query, keep_blank_values=True)
    unknown = [key for key in wanted if key not in ("split", "config")]
    if unknown or not path:
        raise UsageError(f"hf:{name} must have the form hf:org/name?split=train&config=default")
    return path, wanted.get("config", [None])[0], wanted.get("split", [None])[0]


def _stream(path: str, config: str | None, split: str | None) -> Iterator[Mapping[str, Any]]:
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        raise DatasetError("reading from the hub needs another package: pip install 'turnwise[hub]'") from None
    try:
        loaded = datasets.load_dataset(path, config, split=split, streaming=True)
    except Exception as error:
        # The package raises its own, those of the hub client, and plain ones, by what is wrong where.
        raise DatasetError(f"hf:{path} can't be opened: {_line(error)}") from error
    if isinstance(loaded, datasets.IterableDatasetDict):
        loaded = loaded[_only_split(path, list(map(str, loaded)))]
    return _rows(path, loaded)


def _only_split(path: str, splits: list[str]) -> str:
    if len(splits) == 1 or "train" not in splits:
        if len(splits) != 1:
            raise DatasetError(f"hf:{path} has several splits: add ?split= and one of {', '.join(splits)}")
        return splits[0]
    return "train"


def _rows(path: str, rows: Any) -> Iterator[Mapping[str, Any]]:
    try:
        for row in rows:
            # Dates and the like become text, as in a file.
            yield parse_json(json.dumps(dict(row), default=str))
    except Exception as error:
        raise DatasetError(f"hf:{path} can't be read to its end: {_line(error)}") from error


def _line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
