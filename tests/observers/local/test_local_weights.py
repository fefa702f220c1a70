"""The weights folder: what ships, and that everything else is refused with a way out."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.errors import ObserverError
from turnwise.observers.local import LocalObserver
from turnwise.observers.local.weights import SHIPPED, dump_arrays, load_weights, weights_hash

WEIGHTS, TOKENIZER, METRICS = "weights.safetensors", "tokenizer.json", "metrics.json"
Header = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def split(blob: bytes) -> tuple[Header, bytes]:
    (length,) = struct.unpack_from("<Q", blob)
    return json.loads(blob[8 : 8 + length]), blob[8 + length :]


def rewrite(folder: Path, change: Callable[[Header], object]) -> None:
    header, body = split((folder / WEIGHTS).read_bytes())
    change(header)
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + body)
    record(folder)


def record(folder: Path) -> None:
    """Make the recorded hash fit, so that only the fault under test is left."""
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    metrics["weights_sha256"] = weights_hash((folder / WEIGHTS).read_bytes(), (folder / TOKENIZER).read_bytes())
    (folder / METRICS).write_text(json.dumps(metrics), encoding="utf-8")


def refused(folder: Path, match: str) -> None:
    with pytest.raises(ObserverError, match=match) as caught:
        LocalObserver(str(folder))
    assert str(folder) in str(caught.value) or "tokeniser" in str(caught.value)


def test_a_copy_of_the_shipped_folder_is_the_same_observer(folder: Path) -> None:
    assert LocalObserver(str(folder)).info == LocalObserver().info


def test_the_shipped_weights_are_small_and_their_hash_is_recorded() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 10_000_000
    metrics = json.loads((SHIPPED / METRICS).read_text(encoding="utf-8"))
    assert metrics["weights_sha256"] == weights_hash(
        (SHIPPED / WEIGHTS).read_bytes(), (SHIPPED / TOKENIZER).read_bytes()
    )
    assert metrics["largest_difference_to_torch"] <= 1e-5
    assert all(len(digest) == 64 for digest in metrics["data_sha256"].values())
    assert not any(name.startswith(("dev/", "single/dev/")) for name in metrics["data_sha256"])


@pytest.mark.parametrize("missing", [WEIGHTS, TOKENIZER, METRICS])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    refused(folder, f"{missing}.*local:path/to/model")


def test_no_folder_at_all(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "give such a folder")


@pytest.mark.parametrize("kept", [0, 7, 100, 500_000])
def test_a_truncated_file(folder: Path, kept: int) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, "truncated|no weights file")


def test_a_flipped_byte(folder: Path) -> None:
    path = folder / WEIGHTS
    blob = bytearray(path.read_bytes())
    blob[-1000] ^= 1
    path.write_bytes(bytes(blob))
    refused(folder, "do not belong together or were altered")


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 a zip file", b"\x80\x05a pickle", b"{}", b"\x02\0\0\0\0\0\0\0[]"]
)
def test_a_file_of_another_kind(folder: Path, content: bytes) -> None:
    (folder / WEIGHTS).write_bytes(content + bytes(100))
    refused(folder, "no weights file of the local observer")


def test_weights_of_something_else(folder: Path) -> None:
    rewrite(folder, lambda header: header.pop("__metadata__"))
    refused(folder, "something other than the local observer")


def test_another_version(folder: Path) -> None:
    rewrite(folder, lambda header: header["__metadata__"].update(version="99"))
    refused(folder, "weights format '99', this turnwise reads '3'")


def test_other_principles(folder: Path) -> None:
    rewrite(folder, lambda header: header["__metadata__"].update(principles="candour"))
    refused(folder, "other principles")


@pytest.mark.parametrize("size", [{"width": "64"}, {"width": "many"}])
def test_a_size_that_does_not_fit(folder: Path, size: dict[str, str]) -> None:
    rewrite(folder, lambda header: header["__metadata__"].update(size))
    refused(folder, "has shape|lacks a size")


def test_a_missing_array(folder: Path) -> None:
    rewrite(folder, lambda header: header.pop("history.heads"))
    refused(folder, "'history.heads' has shape None")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "O"},
        {"shape": "wide"},
        {"data_offsets": [0]},
        {"shape": [1, 1, 1]},
        {"data_offsets": [-8, 0]},
    ],
)
def test_an_array_that_is_described_wrongly(folder: Path, entry: dict[str, object]) -> None:
    rewrite(folder, lambda header: header["history.heads"].update(entry))
    refused(folder, "described wrongly|does not fit its bytes")


@pytest.mark.parametrize("content", ["no json", "[]", '{"format": "another"}'])
def test_metrics_of_something_else(folder: Path, content: str) -> None:
    (folder / METRICS).write_text(content, encoding="utf-8")
    refused(folder, "no JSON|not written by the training")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("operating_points", None),
        ("operating_points", {"history": {"cusum": {}}}),
        ("operating_points", {"history": {"cusum": {"threshold": "high"}}}),
        ("operating_points", {"history": {"cusum": {"threshold": float("nan")}}}),
        ("weights_sha256", None),
    ],
)
def test_metrics_without_what_the_observer_needs(folder: Path, name: str, value: object) -> None:
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    (folder / METRICS).write_text(json.dumps(metrics | {name: value}), encoding="utf-8")
    refused(folder, "is missing|are missing")


def test_a_tokeniser_that_is_none(folder: Path) -> None:
    (folder / TOKENIZER).write_text("{}", encoding="utf-8")
    record(folder)
    refused(folder, "tokeniser file can't be read")


def test_a_tokeniser_with_another_vocabulary(folder: Path) -> None:
    content = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    vocabulary.pop(max(vocabulary, key=vocabulary.get))
    (folder / TOKENIZER).write_text(json.dumps(content), encoding="utf-8")
    record(folder)
    refused(folder, "the table")


def test_arrays_survive_the_file(folder: Path) -> None:
    arrays = dict(load_weights(folder).arrays)
    header, _ = split((folder / WEIGHTS).read_bytes())
    settings = {key: value for key, value in header["__metadata__"].items() if key not in {"format", "version"}}
    assert dump_arrays(arrays, settings) == (folder / WEIGHTS).read_bytes()


def test_loaded_arrays_can_not_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load_weights().arrays["table"][0, 0] = np.int8(1)
