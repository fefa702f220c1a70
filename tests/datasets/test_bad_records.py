"""A bad line is named and left out; what is good is kept."""

import bz2
import gzip
import json
from pathlib import Path

import pytest
import zstandard

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, files, open_dataset, records

USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("bad_line", "reason"),
    [
        ("{not json", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ('{"id": "x", "turns": [', "not JSON: "),
        (b'{"id": "\xff"}', "byte 9 is not UTF-8 text"),
        ("[" * 100_000, "the JSON can't be read: brackets are nested more than 200 levels deep"),
        ('{"id": ' + "9" * 5000 + "}", "the JSON can't be read: a whole number has 5000 digits"),
        ('{"id": 1e999, "turns": [{"role": "user", "content": "Hi"}]}', "field 'id' is a number, not text"),
        ("null", "the record is null, not an object with fields"),
        ([1, 2], "the record is a list, not an object with fields"),
        ({"id": "x", "label": "benign"}, "field 'turns' is missing; the record has: id, label"),
        ({"turns": [USER]}, "field 'id' is missing; the record has: turns"),
        ({}, "field 'id' is missing; the record has: none"),
        ({"id": 4, "turns": [USER]}, "field 'id' is a number, not text"),
        ({"id": "x", "turns": {}}, "field 'turns' is an object, not a list"),
        ({"id": "x", "turns": []}, "the conversation is empty: it needs at least one message"),
        ({"id": "x", "turns": ["Hi"]}, "message 1 is text, not an object with role and content"),
        ({"id": "x", "turns": [USER, {"role": "user", "content": 5}]}, "message 2: content is int"),
        ({"id": "x", "turns": [{"role": "user"}]}, "message 1 needs text: its content is missing or null"),
        ({"id": "x", "turns": [{"role": "user", "content": None}]}, "message 1 needs text"),
        ({"id": "x", "turns": [{"role": "narrator", "content": "x"}]}, "message 1: unknown role 'narrator'"),
        (
            {"id": "x", "turns": [{"role": "system", "content": "x"}]},
            "sequence 'x' has no turns: it needs at least one",
        ),
        ({"id": "", "turns": [USER]}, "conversation_id is ''"),
        ({"id": "x", "source": 3, "turns": [USER]}, "field 'source' is a number, not text"),
        ({"id": "x", "metadata": [], "turns": [USER]}, "field 'metadata' is a list, not an object"),
        (
            '{"id": "x", "turns": [{"role": "user", "content": "\\ud83d"}]}',
            "a text contains an unpaired surrogate",
        ),
        ({"id": "good", "turns": [USER]}, "the id 'good' is already that of record 1"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_read(jsonl, read, line, bad_line, reason):
    good, bad = read(jsonl(line("good"), "", bad_line, line("last")), format="turnwise")
    assert [sequence.sequence_id for sequence in good] == ["good", "last"]
    assert [record.line for record in bad] == [3]
    assert bad[0].reason.startswith(reason)


def test_a_file_of_nothing_but_bad_lines_yields_them_all(jsonl, read):
    good, bad = read(jsonl("a", "b", "c"), format="turnwise")
    assert good == []
    assert [record.line for record in bad] == [1, 2, 3]


def test_nan_is_read_as_null(jsonl, read, line):
    text = json.dumps(line("a")).replace("{}", '{"score": NaN, "other": -Infinity}')
    good, bad = read(jsonl(text))
    assert bad == []
    assert good[0].metadata == {"score": None, "other": None}


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path, read, line):
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(line(name)).encode() for name in "ab") + b"\r\n")
    good, bad = read(path)
    assert ([sequence.sequence_id for sequence in good], bad) == (["a", "b"], [])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("name", ["chats.jsonl", "chats.jsonl.gz"])
def test_packed_files_are_read_whatever_their_name(tmp_path, read, line, pack, name):
    path = tmp_path / name
    path.write_bytes(pack("\n".join(json.dumps(line(name)) for name in "ab").encode()))
    good, bad = read(path)
    assert ([sequence.sequence_id for sequence in good], bad) == (["a", "b"], [])


def test_a_packed_array_with_a_byte_order_mark_is_read(tmp_path, read):
    path = tmp_path / "items.json.gz"
    items = [{"id": n, "plain_query": "g", "multi_turn_queries": ["a"]} for n in range(3)]
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(items).encode()))
    good, bad = read(path)
    assert (len(good), bad) == (3, [])


def test_a_packed_file_that_was_cut_off_gives_what_came_before(tmp_path, read, line):
    # Numbers that do not repeat, so that packing can't squeeze all lines into one block.
    lines = [
        json.dumps(line(str(n), metadata={"n": [n * k * 7919 % 1000003 for k in range(300)]})) for n in range(500)
    ]
    content = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(content[: len(content) // 2])
    good, bad = read(path)
    assert 100 < len(good) < 400
    assert good[-1].sequence_id == str(len(good) - 1)
    assert [record.line for record in bad] == [len(good) + 1]
    assert bad[0].reason.startswith("the file breaks off here: ")
    assert bad[0].ends


@pytest.mark.parametrize("name", ["lines.jsonl", "rows.csv"])
def test_a_file_of_line_ends_breaks_off(tmp_path, read, monkeypatch, line, name):
    """Two kilobytes of gzip may stand for millions of them."""
    monkeypatch.setattr(files, "MOST_BLANK", 10_000)
    content = json.dumps(line("a")) if name == "lines.jsonl" else "prompt,response\nhow,so"
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(f"{content}\n".encode() + b"\n" * 2_000_000))
    good, bad = read(path)
    assert len(good) == 1
    assert [(one.reason, one.ends) for one in bad] == [
        ("the file breaks off here: more than 10,000 blank lines follow each other", True)
    ]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstandard.compress])
def test_content_that_is_out_of_all_proportion_to_its_file_breaks_off(tmp_path, read, monkeypatch, line, pack):
    monkeypatch.setattr(files, "FREE", 1 << 20)
    path = tmp_path / "chats.jsonl"
    path.write_bytes(pack(json.dumps(line("a")).encode() + b"\n" + b"x" * (20 << 20)))
    good, [bad] = read(path)
    assert [sequence.sequence_id for sequence in good] == ["a"]
    assert bad.ends
    assert "packed bytes stand for more than" in bad.reason


def test_an_array_that_breaks_gives_what_came_before(tmp_path, read):
    items = [{"id": n, "plain_query": "g", "multi_turn_queries": ["a"]} for n in range(5)]
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(items, indent=1)[:-40])
    good, bad = read(path)
    assert [sequence.sequence_id for sequence in good] == [f"attack600-{n}" for n in range(4)]
    assert [record.line for record in bad] == [5]
    assert bad[0].reason.startswith("the file breaks off here: ")


def test_the_same_id_twice_in_an_array_is_named(array, read):
    items = [{"id": n, "plain_query": "g", "multi_turn_queries": ["a"]} for n in (1, 2, 1)]
    good, bad = read(array(items))
    assert len(good) == 2
    assert bad == [BadRecord(3, "the id 'attack600-1' is already that of record 1")]


DEEP = "[" * 1000


@pytest.mark.parametrize("first", [DEEP, DEEP + "]" * 1000, '{"a":' * 1000])
def test_a_first_line_that_is_nested_too_deep_does_not_hide_the_format(jsonl, read, line, first):
    good, bad = read(jsonl(first, line("a"), line("b")))
    assert [sequence.sequence_id for sequence in good] == ["a", "b"]
    assert [record.line for record in bad] == [1]
    assert "nested more than 200 levels deep" in bad[0].reason


def test_an_item_of_an_array_that_is_nested_too_deep_is_named_and_what_is_before_it_is_kept(tmp_path, read):
    path = tmp_path / "items.json"
    items = [{"id": n, "plain_query": "g", "multi_turn_queries": ["a"]} for n in (1, 2)]
    path.write_text(f"{json.dumps(items)[:-1]}, {DEEP}")
    good, bad = read(path)
    assert len(good) == 2
    assert [record.line for record in bad] == [3]
    assert "nested more than 200 levels deep" in bad[0].reason


def test_a_file_of_nothing_but_brackets_is_a_bad_record(tmp_path, read):
    path = tmp_path / "deep.json"
    path.write_text(DEEP)
    good, bad = read(path, format="turnwise")
    assert good == []
    assert [record.line for record in bad] == [1]
    assert "nested more than 200 levels deep" in bad[0].reason


def test_rows_of_a_table_that_do_not_fit_are_named(tmp_path, read):
    path = tmp_path / "pairs.csv"
    path.write_bytes(
        b'prompt,response\n"two\nlines",yes\nonly one\n\nna\xffme,x\nlast,"good"\n',
    )
    good, bad = read(path, format="promptresponse")
    assert [sequence.conversation.turn(1).prompt for sequence in good] == ["two\nlines", "last"]
    assert bad == [
        BadRecord(4, "the row has 1 columns, the first line names 2"),
        BadRecord(
            6, "column 'prompt' is not UTF-8 text; name the encoding of the file with --encoding, such as cp1252"
        ),
    ]


def test_a_cell_of_megabytes_is_read(tmp_path, read):
    path = tmp_path / "pairs.csv"
    path.write_text(f"prompt,response\n{'x' * 3_000_000},b\nc,d\n")
    good, bad = read(path)
    assert ([len(one.conversation.turn(1).prompt) for one in good], bad) == ([3_000_000, 1], [])


def test_a_line_of_a_table_beyond_the_bound_ends_it(tmp_path, read, monkeypatch):
    monkeypatch.setattr(records, "MAX_LINE", 1 << 20)
    path = tmp_path / "pairs.csv"
    path.write_text(f"prompt,response\na,b\n{'x' * (2 << 20)},b\n")
    good, bad = read(path, format="promptresponse")
    assert len(good) == 1
    reason = "the file breaks off here: the line has more than 1 MiB, which is the most"
    assert bad == [BadRecord(3, reason, ends=True)]


def test_two_columns_of_one_name_are_refused(tmp_path, read):
    path = tmp_path / "pairs.csv"
    path.write_text("prompt,response,label,label\na,b,1,0\n")
    good, bad = read(path, format="promptresponse")
    assert (good, bad) == ([], [BadRecord(1, "two columns are named 'label': rename one of them")])


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_table_of_another_delimiter_is_read(tmp_path, read, delimiter):
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"\xef\xbb\xbf" + f'prompt{delimiter}response\r\n"a, b"{delimiter}c\r\n'.encode())
    good, bad = read(path)
    assert ([one.conversation.turn(1).prompt for one in good], bad) == (["a, b"], [])


def test_loading_holds_one_record_at_a_time(jsonl, line):
    # The second line is bad JSON: were the file read at once, the first sequence could not come before it.
    items = open_dataset(jsonl(line("a"), "{", line("b")), format="turnwise")
    first = next(items)
    assert not isinstance(first, BadRecord)
    assert first.sequence_id == "a"
    assert isinstance(next(items), BadRecord)
    items.close()


@pytest.mark.parametrize("format", ["turnwise", "openassistant"])
def test_a_sequence_knows_its_line(tmp_path: Path, format: str) -> None:
    lines = {
        "turnwise": {"id": "a", "label": "benign", "turns": [{"role": "user", "content": "Hello"}]},
        "openassistant": {
            "message_tree_id": "a",
            "prompt": {"message_id": "a", "parent_id": None, "role": "prompter", "text": "Hello", "replies": []},
        },
    }
    file = tmp_path / "chats.jsonl"
    file.write_text("\n" + json.dumps(lines[format]) + "\n")
    (sequence,) = open_dataset(file, format=format)
    assert isinstance(sequence, Sequence)
    assert sequence.line == 2


@pytest.mark.parametrize("second", ["1e+308", "null", "{also", ""])
def test_a_bad_first_line_does_not_make_the_file_one_value(tmp_path: Path, second: str) -> None:
    good = json.dumps({"id": "good", "label": "benign", "source": "s", "turns": [USER]})
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{{{{{{{{\n{second}\n{good}\n", encoding="utf-8")
    read = list(open_dataset(path, format="turnwise"))
    assert [one.sequence_id for one in read if isinstance(one, Sequence)] == ["good"]
    assert isinstance(read[0], BadRecord)
