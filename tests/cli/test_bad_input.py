"""Bad input: one clear message, an exit code of 1 or 2, and nothing good is lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

GOOD = {"id": "good", "label": "benign", "source": "s", "turns": [{"role": "user", "content": "Hello"}]}
BAD_LINES = [
    ("{not json", "JSON"),
    ('{"id": "a", "label": "attack", "source": "s"}', "turns"),
    ('{"id": "a", "label": "attack", "source": "s", "turns": []}', "empty"),
    ('{"id": "a", "label": "attack", "source": "s", "turns": [{"role": "user", "content": 7}]}', "content"),
    ('{"id": "a", "label": "attack", "source": "s", "turns": [{"role": "wizard", "content": "x"}]}', "wizard"),
    (json.dumps(GOOD), "good"),
]


@pytest.mark.parametrize(("bad", "names"), BAD_LINES, ids=lambda value: value[:40])
def test_a_bad_line_is_named_and_the_rest_is_kept(cli: Cli, tmp_path: Path, bad: str, names: str) -> None:
    file = tmp_path / "chats.jsonl"
    last = json.dumps({**GOOD, "id": "last"})
    file.write_text("\n".join([json.dumps(GOOD), bad, last]) + "\n")
    result = cli("import", file, "--json")
    assert result.code == 0
    assert result.json["imported"] == 2
    assert [error["line"] for error in result.json["errors"]] == [2]
    assert names in result.json["errors"][0]["reason"]
    said = cli("import", file, "--store", "other.db")
    assert f"{file}, line 2: " in said.err


def test_strict_stops_at_the_first_bad_line_and_keeps_what_came_before(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join([json.dumps(GOOD), "{oops", json.dumps({**GOOD, "id": "last"})]) + "\n")
    stopped = cli("import", file, "--strict")
    assert stopped.code == 1
    assert f"{file}, line 2" in stopped.err
    assert cli("import", file, "--json").json["imported"] == 1


def test_an_id_that_the_store_has_with_other_content_is_a_bad_line(cli: Cli, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text(json.dumps(GOOD) + "\n")
    other = {**GOOD, "turns": [{"role": "user", "content": "Something else"}]}
    second.write_text(json.dumps({**GOOD, "id": "fresh"}) + "\n" + json.dumps(other) + "\n")
    cli("import", first)
    result = cli("import", second, "--json").json
    assert result["imported"] == 1
    assert result["errors"][0]["line"] == 2
    assert "duplicate id 'good'" in result["errors"][0]["reason"]


def test_a_file_without_a_good_line_is_an_error(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text('{"id": "a", "turns": [{"role": "wizard", "content": "x"}]}\n')
    assert cli("import", file).code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        (["import", "missing.jsonl"], 1, "missing.jsonl"),
        (["import", "chats.jsonl", "--format", "nonsense"], 2, "nonsense"),
        (["import", "chats.jsonl", "--format", "xguard"], 1, "chats.jsonl"),
        (["import", "chats.jsonl", "--store", "no/such/folder/work.db"], 1, "no folder"),
        (["import", "chats.jsonl", "--store", "mysql://host/db"], 2, "mysql"),
        (["import", "chats.jsonl", "--columns", "messages"], 2, "messages"),
        (["evaluate", "--store", "none.db"], 1, "none.db"),
        (["evaluate", "--observer", "oracle"], 2, "oracle"),
        (["evaluate", "--observer", "replay"], 1, "replay:scores.jsonl"),
        (["evaluate", "--observer", "replay:none.jsonl"], 1, "none.jsonl"),
        (["evaluate", "--principle", "recprocity"], 2, "did you mean 'reciprocity'"),
        (["evaluate", "--context", "window"], 2, "window:k"),
        (["evaluate", "--context", "transcript", "--observer", "local-small"], 2, "transcript"),
        (["evaluate", "--label", "wicked"], 2, "wicked"),
        (["evaluate", "--sides", "prompt,left"], 2, "left"),
        (["evaluate", "--sequence", "benign_1"], 2, "did you mean 'benign_01'"),
        (["evaluate", "-j", "0"], 2, "--jobs"),
        (["detect", "--run", "frist"], 2, "did you mean 'first'"),
        (["detect", "--detector", "cusun"], 2, "did you mean 'cusum'"),
        (["detect", "--detector", "cusum:limit=low"], 2, "limit"),
        (["show", "attack_99"], 2, "attack_99"),
        (["check", "missing.json"], 1, "missing.json"),
        (["check", "chats.jsonl"], 1, "JSON"),
        (["frobnicate"], 2, "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_answered_in_one_clear_line(
    cli: Cli, evaluated: Path, arguments: list[str], code: int, names: str
) -> None:
    if arguments[0] != "check" and "--store" not in arguments:
        arguments = [*arguments, "--store", str(evaluated)]
    result = cli(*arguments)
    assert result.code == code
    assert names in result.err


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"{}", "not a conversation"),
        (b"[]", "empty list"),
        (b'[{"role": "wizard", "content": "x"}]', "wizard"),
        (b'[{"role": "user", "content": 3}]', "message 1"),
        (b"\xff\xfe{", "UTF-8"),
    ],
)
def test_a_conversation_that_is_none_is_refused(cli: Cli, tmp_path: Path, content: bytes, names: str) -> None:
    (tmp_path / "chat.json").write_bytes(content)
    result = cli("check", tmp_path / "chat.json")
    assert result.code == 1
    assert names in result.err
    assert "chat.json" in result.err


def test_another_configuration_under_the_same_run_is_refused(cli: Cli, evaluated: Path) -> None:
    result = cli("evaluate", "--store", evaluated, "--run", "first", "--observer", "scripted:0.5")
    assert result.code == 2
    assert "another --run" in result.err


def test_several_runs_ask_for_a_choice(cli: Cli, evaluated: Path) -> None:
    cli("evaluate", "--store", evaluated, "--run", "second", "--observer", "scripted:0.5")
    result = cli("detect", "--store", evaluated)
    assert result.code == 2
    assert "first, second" in result.err


def test_a_store_without_a_run_says_what_to_do(cli: Cli, chats: Path) -> None:
    cli("import", chats)
    result = cli("detect")
    assert result.code == 2
    assert "turnwise evaluate" in result.err


def test_files_that_are_no_store(cli: Cli, chats: Path, evaluated: Path, tmp_path: Path) -> None:
    assert "not a turnwise store" in cli("detect", "--store", chats).err
    assert "folder" in cli("detect", "--store", tmp_path).err
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE things (id INTEGER)")
    assert "not a turnwise store" in cli("detect", "--store", other).err
    later = sqlite3.connect(evaluated)
    with later:
        later.execute("INSERT INTO schema_migrations VALUES (99, 'from the future', '2030-01-01T00:00:00+00:00')")
    later.close()
    result = cli("detect", "--store", evaluated)
    assert result.code == 1
    assert "upgrade" in result.err
