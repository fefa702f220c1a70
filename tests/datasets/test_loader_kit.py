"""The conformance kit: every shipped loader passes it, and what breaks the contract is named."""

import dataclasses
import json
from pathlib import Path

import duckdb
import pytest
from tests.datasets.test_opening import NAMES, SHAPES

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.datasets import DATASETS, USUAL_LABELS, BadRecord, DatasetInfo, RecordLoader, check_loader

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"
MHJ = 'message_0,message_1,tactic\n"{""role"": ""user"", ""body"": ""Hi""}",,direct\n'


def example(folder, name):
    if name == "mhj":
        path = folder / "harmbench_behaviors.csv"
        path.write_text(MHJ)
        return path
    path = folder / NAMES.get(name, "data.jsonl")
    lines = 2 if name == "cosafe" else 1
    path.write_text(f"{json.dumps(SHAPES[name])}\n" * lines)
    return path


@pytest.mark.parametrize("name", sorted({*DATASETS.names()} - {"inspect"}))  # tests/integration/test_inspect.py
def test_every_shipped_loader_keeps_the_contract(tmp_path, name):
    check_loader(DATASETS.get(name), example(tmp_path, name))


def test_a_folder_and_a_table_and_parquet_may_be_the_example(tmp_path):
    folder = tmp_path / "dev"
    folder.mkdir()
    (folder / "dev_1.txt").write_text(json.dumps(SHAPES["mutual"]))
    check_loader(DATASETS.get("mutual"), folder)
    rows = tmp_path / "rows.csv"
    rows.write_text("conversation_id,role,text,label\na,user,Hi,1\na,assistant,Hello,1\n")
    check_loader(DATASETS.get("turns"), rows)
    packed = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM read_csv('{rows}')) TO '{packed}' (FORMAT parquet)")
    check_loader(DATASETS.get("turns"), packed)


def test_the_table_of_labels_of_the_docs_is_the_one_that_is_used():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    rows = {cells[0]: cells[1] for line in lines if len(cells := line.strip("| ").split(" | ")) == 2}
    for label in Label:
        assert rows[label].split(", ") == [word for word, meant in USUAL_LABELS.items() if meant is label]


class Diary(RecordLoader):
    info = DatasetInfo("diary", "Diary", "a person", "", "none", "benign", 'JSONL of {"day", "entry"}')

    def sniff(self, head):
        return {"day", "entry"} <= head.fields

    def build(self, record, builder):
        if not isinstance(record, dict) or "entry" not in record:
            raise self.error("no entry")
        return builder.prompts([record["entry"]], key=record["day"], default=Label.BENIGN)

    error = ValueError


class NoLicence(Diary):
    info = dataclasses.replace(Diary.info, licence=" ")


class TakesAll(Diary):
    def sniff(self, head):
        return True


class TakesNone(Diary):
    def sniff(self, head):
        return False


class Remembers(Diary):
    def load(self, path, options):
        self.seen = getattr(self, "seen", 0) + 1
        chat = Conversation.from_turns([(f"{self.seen}", None)], conversation_id="a")
        yield Sequence("a", Label.BENIGN, "diary", chat, line=1)


class SaysBad(Diary):
    def load(self, path, options):
        yield BadRecord(1, "no")


class Silent(Diary):
    def load(self, path, options):
        yield from ()


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (NoLicence, "info: licence is empty"),
        (TakesAll, "sniff: None is taken for a record of its format"),
        (TakesNone, "sniff: diary.jsonl is not told to be of its format"),
        (Remembers, "load: a second time gives other sequences"),
        (SaysBad, "load: a record of the example is bad"),
        (Silent, "load: it yields no sequence"),
        (Diary, "raises ValueError: no entry"),
    ],
)
def test_what_breaks_the_contract_is_named(tmp_path, loader, message):
    path = tmp_path / "diary.jsonl"
    path.write_text('{"day": 1, "entry": "Rain."}\n')
    with pytest.raises(AssertionError, match=message):
        check_loader(loader, path)
