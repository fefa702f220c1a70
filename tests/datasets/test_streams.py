"""Pipes, and lines of any length: read once and in parts, or refused in a line, never waited for without end."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord
from turnwise.datasets.files import MAX_LINE, open_stream
from turnwise.errors import DatasetError

Read = Callable[..., tuple[list[Sequence], list[BadRecord]]]

LINES = b"".join(
    json.dumps({"id": f"c{n}", "label": "benign", "turns": [{"role": "user", "content": "Hi"}]}).encode() + b"\n"
    for n in range(3)
)
TABLE = b"text,id\nHello,a\nGoodbye,b\n"


@contextmanager
def piped(content: bytes, path: Path | None = None) -> Iterator[str]:
    """Write bytes to a pipe, or to a FIFO at a path, while the block runs, and give its name."""
    reader = -1
    if path is None:
        reader, writer = os.pipe()

        def write() -> None:
            with os.fdopen(writer, "wb") as file:
                file.write(content)
    else:
        os.mkfifo(path)

        def write() -> None:
            with path.open("wb") as file:
                file.write(content)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield f"/dev/fd/{reader}" if path is None else str(path)
    finally:
        thread.join(timeout=10)
        if reader >= 0:
            os.close(reader)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("format", [None, "turnwise"])
def test_a_pipe_is_read_once(read: Read, packed: bool, format: str | None) -> None:
    with piped(gzip.compress(LINES) if packed else LINES) as name:
        good, bad = read(name, format=format)
    assert ([sequence.sequence_id for sequence in good], bad) == (["c0", "c1", "c2"], [])


def test_a_fifo_is_read_to_its_end_however_much_is_in_it(read: Read, tmp_path: Path) -> None:
    items = [{"id": f"c{n}", "messages": [{"role": "user", "content": "x" * 5_000}]} for n in range(400)]
    with piped(json.dumps(items).encode(), tmp_path / "pipe.json") as name:
        good, bad = read(name)
    assert (len(good), bad) == (400, [])


def test_a_table_comes_through_a_fifo_as_well(read: Read, tmp_path: Path) -> None:
    with piped(TABLE, tmp_path / "pipe.csv") as name:
        good, bad = read(name, format="prompts")
    assert ([turn.prompt for sequence in good for turn in sequence.conversation], bad) == (
        ["Hello", "Goodbye"],
        [],
    )


def test_parquet_in_a_pipe_is_refused_at_once(read: Read) -> None:
    with (
        piped(b"PAR1" + bytes(100)) as name,
        pytest.raises(DatasetError, match=r"/dev/fd/\d+ is a pipe, and Parquet is read from a file alone"),
    ):
        read(name)


def test_a_fifo_that_nobody_writes_to_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(DatasetError, match=r"nothing came from the pipe .*pipe for 0\.02 s"):
        open_stream(str(path), wait_seconds=0.02)


def test_nothing_in_a_pipe_or_device_is_empty(read: Read, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="/dev/null is empty"):
        read("/dev/null")
    with piped(b"\n", tmp_path / "pipe") as name, pytest.raises(DatasetError, match="pipe is empty"):
        read(name)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_first_line_of_ten_megabytes_is_read(read: Read, tmp_path: Path, pack: Callable[..., bytes]) -> None:
    long: dict[str, Any] = {"id": "long", "label": "benign", "turns": [{"role": "user", "content": "x" * 10**7}]}
    path = tmp_path / "long.jsonl"
    path.write_bytes(pack(json.dumps(long).encode() + b"\n" + LINES))
    good, bad = read(path)
    assert ([sequence.sequence_id for sequence in good], bad) == (["long", "c0", "c1", "c2"], [])


def test_a_line_beyond_the_bound_is_named_and_the_others_are_read(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LINES)
        file.write(b'{"id": "')
        for _ in range(MAX_LINE >> 20):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + LINES.replace(b'"id": "c', b'"id": "d'))
    good, bad = read(path)
    assert [sequence.sequence_id for sequence in good] == ["c0", "c1", "c2", "d0", "d1", "d2"]
    assert bad == [BadRecord(4, "the line has more than 64 MiB, which is the most")]
