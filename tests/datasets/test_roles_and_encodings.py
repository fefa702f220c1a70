"""Files of others: roles in other words, and text that is not UTF-8."""

from __future__ import annotations

import bz2
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Label
from turnwise.datasets import open_dataset
from turnwise.errors import DatasetError, UsageError
from turnwise.runs import ReadOptions, plan_scan
from turnwise.store import Store

Read = Callable[..., Any]

ROWS = "conversation_id;role;text;label\na;Customer;Où est ma clé?;1\na;Agent;Là-bas …;1\nb;Customer;Hi;0\n"
ROLES = "agent=assistant,customer=user"
TURNS = [("Où est ma clé?", "Là-bas …")]


def texts(sequence: Any) -> list[tuple[str, str | None]]:
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("form", ["pairs", "mapping", "file", "every other"])
def test_a_role_map_says_who_speaks(tmp_path: Path, read: Read, form: str) -> None:
    path = write(tmp_path / "chats.csv", ROWS)
    given: dict[str, Any] = {
        "pairs": ROLES,
        "mapping": {"AGENT": "assistant", "customer": "user"},
        "file": write(tmp_path / "roles.yaml", "agent: assistant\ncustomer: user\n"),
        "every other": "agent=assistant,*=user",
    }
    role_map = given[form] if form == "mapping" else str(given[form])
    good, bad = read(path, role_map=role_map)
    assert bad == []
    assert [(one.sequence_id, one.label) for one in good] == [("a", Label.ATTACK), ("b", Label.BENIGN)]
    assert texts(good[0]) == TURNS


def test_without_one_the_option_is_named(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "chats.csv", ROWS)
    with pytest.raises(
        DatasetError, match="'Customer' is no known role: say what its roles mean with --role-map Customer=user"
    ):
        open_dataset(path)
    _, bad = read(path, format="turns")
    assert bad[0].reason.startswith("column 'role': unknown role 'Customer'; known: ")
    assert "say what it means with --role-map Customer=user" in bad[0].reason


@pytest.mark.parametrize(
    ("record", "role"),
    [
        ({"id": "a", "messages": [{"role": "Client", "content": "Hi"}, {"role": "ai", "content": "Yes"}]}, "role"),
        ({"id": "a", "turns": [{"role": "Client", "content": "Hi"}, {"role": "ai", "content": "Yes"}]}, "role"),
        (
            {"id": "a", "conversations": [{"from": "Client", "value": "Hi"}, {"from": "ai", "value": "Yes"}]},
            "speaker",
        ),
    ],
    ids=["messages", "turnwise", "sharegpt"],
)
def test_lists_of_messages_take_a_role_map_too(
    jsonl: Callable[..., Path], read: Read, record: dict[str, Any], role: str
) -> None:
    path = jsonl(record)
    good, bad = read(path, role_map="client=user,ai=assistant")
    assert (bad, [texts(one) for one in good]) == ([], [[("Hi", "Yes")]])
    good, bad = read(path)
    assert good == []
    assert bad[0].reason.startswith(f"message 1: unknown {role} 'Client'; known: ")
    assert bad[0].reason.endswith("say what it means with --role-map Client=user")


def test_a_role_of_the_map_goes_before_the_usual_words(jsonl: Callable[..., Path], read: Read) -> None:
    path = jsonl({"messages": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Yes"}]})
    good, _ = read(path, role_map="assistant=user,user=assistant")
    assert texts(good[0]) == [("Hi", "Yes")]


@pytest.mark.parametrize(
    ("role_map", "message"),
    [
        ("agent=robot", "role map: 'agent' can't map to 'robot'; use system, developer, user, assistant"),
        ("agent", "role map: 'agent' is neither a pair such as agent=assistant nor a readable file"),
        ("a=user,a=tool", "role map: 'a' is named twice"),
    ],
)
def test_a_role_map_that_can_not_be_is_refused(tmp_path: Path, role_map: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_dataset(write(tmp_path / "chats.csv", ROWS), role_map=role_map)


def test_a_format_without_roles_of_others_takes_no_map(jsonl: Callable[..., Path]) -> None:
    path = jsonl({"prompt": "Hi", "response": "Yes"})
    with pytest.raises(UsageError, match="promptresponse takes none; use it with messages, sharegpt, turns"):
        open_dataset(path, format="promptresponse", role_map=ROLES)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8", "utf-8-sig", "Windows-1252"])
@pytest.mark.parametrize("name", ["chats.csv", "chats.csv.bz2"])
def test_a_table_of_another_encoding_is_read(tmp_path: Path, read: Read, encoding: str, name: str) -> None:
    content = ROWS.encode(encoding)
    path = tmp_path / name
    path.write_bytes(bz2.compress(content) if name.endswith("bz2") else content)
    good, bad = read(path, role_map=ROLES, encoding=encoding)
    assert (bad, texts(good[0])) == ([], TURNS)


def test_lines_of_json_and_pipes_may_be_of_another_encoding(
    jsonl: Callable[..., Path], tmp_path: Path, read: Read
) -> None:
    record = {"id": "a", "messages": [{"role": "user", "content": "Où?"}]}
    line = json.dumps(record, ensure_ascii=False).encode("cp1252")
    path = jsonl(line)
    good, bad = read(path, encoding="cp1252")
    assert (bad, texts(good[0])) == ([], [("Où?", None)])
    _, bad = read(path, format="messages")
    assert "not UTF-8 text; name the encoding of the file with --encoding" in bad[0].reason
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_bytes, args=(line,))
    thread.start()
    good, bad = read(pipe, encoding="cp1252")
    thread.join()
    assert (bad, texts(good[0])) == ([], [("Où?", None)])


def test_without_an_encoding_the_option_is_named(tmp_path: Path, read: Read) -> None:
    _, bad = read(write(tmp_path / "a.csv", ROWS, "cp1252"), role_map=ROLES)
    assert bad[0].reason == (
        "column 'text' is not UTF-8 text; name the encoding of the file with --encoding, such as cp1252"
    )
    for name, text, encoding in (
        ("b.csv", ROWS, "utf-16"),
        ("c.csv", ROWS, "utf-16-le"),
        ("d.csv", "clé,x\n", "cp1252"),
    ):
        with pytest.raises(DatasetError, match="--encoding"):
            open_dataset(write(tmp_path / name, text, encoding))


def test_a_wrong_encoding_is_said_and_what_can_be_read_is_kept(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.csv", ROWS)
    for name in ("base64", "nonsense", ""):
        with pytest.raises(UsageError, match=f"unknown encoding '{name}'; use one such as cp1252"):
            open_dataset(path, encoding=name)
    for name, reason in (("ascii", "ordinal not in range"), ("utf-16", "stream does not start with BOM")):
        with pytest.raises(
            DatasetError, match=rf"a\.csv can't be read: it is not {name} text \(.*{reason}.*\); see --enc"
        ):
            read(path, encoding=name)
    head = "conversation_id,role,text\n" + "".join(f"{number},user,{'Hi ' * 40}\n" for number in range(1_000))
    good, bad = read(write(tmp_path / "b.csv", f"{head}x,user,Où\n", "cp1252"), encoding="ascii")
    assert 0 < len(good) < 1_000
    assert "the file breaks off here: it is not ascii text" in bad[0].reason


def test_a_parquet_file_has_no_encoding(parquet: Callable[..., Path], read: Read) -> None:
    path = parquet("SELECT 'a' AS conversation_id, 'user' AS role, 'Où' AS text", "chats.parquet")
    good, bad = read(path, encoding="utf-16")
    assert (bad, texts(good[0])) == ([], [("Où", None)])


def test_a_scan_reads_them_as_well(tmp_path: Path) -> None:
    """The lines of a file of another encoding can't be cut by their bytes."""
    records = [
        {"id": f"c{number}", "messages": [{"role": "Client", "content": f"Où est {number}?"}]}
        for number in range(9)
    ]
    text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records)
    path = write(tmp_path / "logs.jsonl", text, "utf-16")
    options: dict[str, Any] = {"observer": "scripted:0.5", "part_rows": 4}
    done = plan_scan(
        path, tmp_path / "found", read=ReadOptions(role_map="client=user", encoding="utf-16"), **options
    ).run()
    assert (done.counts.conversations, done.counts.failures, len(done.findings.manifest.parts)) == (9, 0, 3)
    reading = done.findings.manifest.reading
    assert (reading["role_map"], reading["encoding"]) == ({"client": "user"}, "utf-16")
    with Store(tmp_path / "found") as store:
        assert texts(store.sequence("c8")) == [("Où est 8?", None)]
