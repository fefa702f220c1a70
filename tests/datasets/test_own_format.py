"""A format of one's own, as a row in a file or in Python."""

from __future__ import annotations

import pytest

from turnwise.conversation import Label
from turnwise.datasets import DATASETS, DatasetInfo, Format, check_loader, dataset_loader, get_loader
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
