"""The hub, through the real `datasets` package on local folders; and what is said where it is missing."""

from __future__ import annotations

import json
import sys

import pytest

from turnwise.conversation import Label
from turnwise.datasets import DATASETS, DatasetInfo, dataset_loader, open_dataset
from turnwise.errors import DatasetError, UsageError

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
