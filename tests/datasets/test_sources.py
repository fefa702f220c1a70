"""Where data sets come from beside files: pipes, which are read once, and the hub, through the real package."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence
from turnwise.datasets import DATASETS, BadRecord, DatasetInfo, dataset_loader, open_dataset
from turnwise.errors import DatasetError, UsageError

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


def test_a_fifo_that_nobody_writes_to_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.datasets.files.WAIT_SECONDS", 0.02)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(DatasetError, match=r"nothing came from the pipe .*pipe for 0\.02 s"):
        open_dataset(path)


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
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + LINES.replace(b'"id": "c', b'"id": "d'))
    good, bad = read(path)
    assert [sequence.sequence_id for sequence in good] == ["c0", "c1", "c2", "d0", "d1", "d2"]
    assert bad == [BadRecord(4, "the line has more than 64 MiB, which is the most")]


CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


@pytest.fixture
def hub():
    """Let a test run where the package is installed."""
    return pytest.importorskip("datasets")


def folder(tmp_path, name="chats", **splits):
    path = tmp_path / name
    path.mkdir()
    for split, rows in splits.items():
        (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_without_the_package_the_way_to_get_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DatasetError, match=r"pip install 'turnwise\[hub\]'"):
        open_dataset("hf:org/name")


@pytest.mark.parametrize("name", ["hf:", "hf:?split=train", "hf:org/name?splt=train"])
def test_a_name_of_another_form_is_refused(name):
    with pytest.raises(UsageError, match="must have the form hf:org/name"):
        open_dataset(name)


def test_rows_are_read_as_the_format_that_their_columns_tell(hub, tmp_path, read):
    path = folder(tmp_path, train=[{"messages": CHAT, "id": n} for n in range(5)])
    good, bad = read(f"hf:{path}")
    assert bad == []
    assert [sequence.sequence_id for sequence in good] == [f"chats-{n}" for n in range(5)]
    assert [(turn.prompt, turn.response) for turn in good[0].conversation] == [("Hi", "Hello")]


def test_the_format_and_its_columns_may_be_named(hub, tmp_path, read):
    path = folder(tmp_path, train=[{"q": "Hi", "a": "Hello", "uid": "x1"}])
    good, bad = read(f"hf:{path}", format="promptresponse", columns="prompt=q,response=a,id=uid", label="benign")
    assert (good[0].sequence_id, good[0].label, bad) == ("x1", Label.BENIGN, [])
    with pytest.raises(UsageError, match="the format promptresponse has no column 'messages'"):
        open_dataset(f"hf:{path}", format="promptresponse", columns="messages=q")


def test_a_bad_row_is_named_and_the_rest_is_read(hub, tmp_path, read):
    path = folder(tmp_path, train=[{"messages": CHAT}, {"messages": []}, {"messages": CHAT}])
    good, bad = read(f"hf:{path}")
    assert len(good) == 2
    assert [(record.line, record.reason) for record in bad] == [
        (2, "the conversation is empty: it needs at least one message")
    ]


def test_train_is_the_split_unless_another_is_named(hub, tmp_path, read):
    path = folder(tmp_path, train=[{"messages": CHAT}] * 2, test=[{"messages": CHAT}])
    assert len(read(f"hf:{path}")[0]) == 2
    assert len(read(f"hf:{path}?split=test")[0]) == 1
    with pytest.raises(DatasetError, match="can't be opened"):
        open_dataset(f"hf:{path}?split=nothing")


def test_the_only_split_needs_no_name_and_several_without_train_do(hub, tmp_path, read):
    only = folder(tmp_path, "only", test=[{"messages": CHAT}])
    assert len(read(f"hf:{only}")[0]) == 1
    several = folder(tmp_path, "several", test=[{"messages": CHAT}], validation=[{"messages": CHAT}])
    with pytest.raises(DatasetError, match=r"several splits: add \?split= and one of"):
        open_dataset(f"hf:{several}")


def test_rows_of_no_known_format_name_their_columns(hub, tmp_path):
    path = folder(tmp_path, train=[{"colour": "blue"}])
    with pytest.raises(DatasetError, match="can't be told from its fields: colour"):
        open_dataset(f"hf:{path}")


def test_a_format_that_reads_files_alone_is_refused(hub, tmp_path):
    class Files:
        info = DatasetInfo("files_for_tests", "Files", "a person", "", "none", "benign", "a file")

        def sniff(self, head):
            return False

        def load(self, path, options):
            yield from ()

    dataset_loader("files_for_tests")(Files)
    try:
        path = folder(tmp_path, train=[{"messages": CHAT}])
        with pytest.raises(DatasetError, match="files_for_tests reads files, not rows of the hub"):
            open_dataset(f"hf:{path}", format="files_for_tests")
    finally:
        DATASETS._parts.pop("files_for_tests")


def test_a_file_that_breaks_is_said_to(hub, tmp_path):
    path = folder(tmp_path, train=[{"messages": CHAT}] * 10)
    with (path / "train.jsonl").open("a") as file:
        file.write("{broken\n")
    with pytest.raises(DatasetError, match="can't be read to its end: "):
        list(open_dataset(f"hf:{path}"))


def test_dates_become_text(hub, tmp_path, read):
    path = folder(tmp_path, train=[{"messages": CHAT, "when": "2024-01-01T10:00:00"}])
    good, _ = read(f"hf:{path}")
    assert isinstance(good[0].metadata["when"], str)
    assert json.dumps(dict(good[0].metadata))


def test_a_data_set_that_is_not_there_is_said_not_to_be(hub, tmp_path):
    with pytest.raises(DatasetError, match=r"can't be opened: "):
        open_dataset(f"hf:{tmp_path}/nothing/here")
