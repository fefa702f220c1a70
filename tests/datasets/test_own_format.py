"""Formats of one's own: rows in a file or in Python, loaders, and the kit that every loader passes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import duckdb
import pytest
from tests.datasets.test_opening import NAMES, SHAPES

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.datasets import (
    DATASETS,
    USUAL_LABELS,
    BadRecord,
    DatasetInfo,
    Format,
    RecordLoader,
    check_loader,
    dataset_loader,
    get_loader,
)
from turnwise.errors import UnknownNameError, UsageError
from turnwise.runs import ReadOptions, plan_scan

EXCHANGES = (
    "shape: exchanges\ntexts: talk\nprompt: customer\nresponse: agent\nid: ticket\nmetadata: {topic: team}\n"
)
TICKET = {"ticket": "t1", "team": "parcels", "talk": [{"customer": "Hi", "agent": "Yes?"}, {"customer": "Bye"}]}
CHAT = [{"role": "Customer", "content": "Hi", "ip": "f0"}, {"role": "agent", "content": "Yes?"}]
CHATS = (
    "texts: talk\nonly_texts: true\nlabel: benign\nlabel_field: verdict\nlabel_map: {rude: attack}\n"
    "role_map: {customer: user, agent: assistant}\nwithout: [note]\n"
)


@pytest.fixture
def row(tmp_path):
    def write(text, name="own.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def texts(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        (EXCHANGES, TICKET, [("Hi", "Yes?"), ("Bye", None)]),
        ("shape: exchanges\nprompt: q\nresponse: a\nid: ticket\n", {"ticket": "t1", "q": "Hi"}, [("Hi", None)]),
        ("shape: prompts\ntexts: talk\nid: ticket\n", {"ticket": "t1", "talk": ["a"]}, [("a", None)]),
        (
            "shape: sharegpt\ntexts: talk\nid: ticket\n",
            {"ticket": "t1", "talk": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            [("a", "b")],
        ),
    ],
)
def test_a_file_says_where_the_conversation_stands(jsonl, read, row, text, record, expected):
    path = jsonl(record)
    good, bad = read(path, format=row(text))
    assert bad == []
    assert (good[0].sequence_id, good[0].source, texts(good[0])) == ("t1", "chats", expected)
    check_loader(lambda: get_loader(row(text)), path)


def test_a_file_says_what_roles_labels_and_fields_mean_and_options_go_first(jsonl, read, row):
    path = jsonl(*({"id": n, "talk": CHAT, "verdict": said, "team": "a"} for n, said in enumerate(("rude", None))))
    good, bad = read(path, format=row(CHATS))
    assert bad == []
    assert [one.label for one in good] == [Label.ATTACK, Label.BENIGN]
    assert good[0].metadata == {"team": "a"}
    assert good[0].conversation.to_messages() == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
    ]
    good, _ = read(path, format=row(CHATS), label_map="rude=unlabelled", role_map="customer=assistant,agent=user")
    assert good[0].label is Label.UNLABELLED
    assert texts(good[0]) == [("", "Hi"), ("Yes?", None)]


def test_a_bad_record_is_named_by_turn_and_field(jsonl, read, row):
    talk = [{"customer": "Hi"}, {"agent": "Yes?"}]
    good, bad = read(jsonl(TICKET, {**TICKET, "talk": talk}, {"ticket": 4}), format=row(EXCHANGES))
    assert len(good) == 1
    assert [(record.line, record.reason) for record in bad] == [
        (2, "turn 2: field 'customer' is missing; the record has: agent"),
        (3, "field 'talk' is missing; the record has: ticket"),
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("txts: talk", UnknownNameError, "unknown entry of the format .*'txts'; did you mean 'texts'"),
        ("texts: talk\nshape: mesages", UsageError, "did you mean 'messages'"),
        ("texts: 4", UsageError, r"own\.yaml, texts: it is a number, not text"),
        ("texts: ''", UsageError, "texts: it is empty"),
        ("texts: talk\nlabel: evil", UsageError, "label: unknown label 'evil'"),
        ("texts: talk\nlabel_map: rude", UsageError, "label_map: it is text, not pairs"),
        ("texts: talk\nrole_map: {agent: robot}", UsageError, "role_map: role map: 'agent' can't map to 'robot'"),
        ("texts: talk\nrole_map: {agent: [user]}", UsageError, "role_map: it is a list, not text"),
        ("texts: talk\nfields: talk", UsageError, "fields: it is text, not a list"),
        ("texts: talk\nonly_texts: 1", UsageError, "only_texts: it is a number, not true or false"),
        ("shape: prompts", UsageError, "name the field of its prompts, such as texts: dialog"),
        ("- a", UsageError, "must hold entries such as texts: dialog"),
        ("a: [", UsageError, r"format .*own\.yaml: line"),
    ],
)
def test_a_row_that_can_not_be_is_refused(row, text, error, message):
    with pytest.raises(error, match=message):
        get_loader(row(text))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(UsageError, match=r"format 'nothing\.yaml' can't be read: No such file"):
        get_loader("nothing.yaml")


def test_a_scan_takes_one_too(jsonl, row, tmp_path):
    path = jsonl(*({**TICKET, "ticket": f"t{n}"} for n in range(9)))
    read = ReadOptions(format=row(EXCHANGES))
    done = plan_scan(path, tmp_path / "found", read=read, observer="scripted:0.5", part_rows=4).run()
    assert (done.counts.conversations, done.counts.failures) == (9, 0)


def test_a_row_in_python_is_registered_as_a_loader_is(jsonl, read):
    info = DatasetInfo("rows_for_tests", "Rows", "a person", "", "none", "benign", 'JSONL of {"day", "entries"}')
    row = Format(info=info, fields=("day", "entries"), shape="prompts", texts="entries", id="day")
    dataset_loader("rows_for_tests")(row)
    try:
        path = jsonl({"day": 1, "entries": ["Rain."]})
        good, _ = read(path)
        assert (good[0].sequence_id, good[0].metadata) == ("rows_for_tests-1", {"user_only": True})
        check_loader(DATASETS.get("rows_for_tests"), path)
    finally:
        DATASETS._parts.pop("rows_for_tests")
    with pytest.raises(UsageError, match="name the fields by which it is recognised"):
        Format(info=info, texts="entries")


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
