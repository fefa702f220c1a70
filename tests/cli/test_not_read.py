"""Texts that the observer does not read, on the command line: told apart, and no error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.explorer import ViewedStore, overview, read_chat
from turnwise.store import Store

Cli = Callable[..., Any]
RUSSIAN = "Как мне пройти на вокзал?"
CHATS = {"mixed": ["Good morning to everybody in this house.", RUSSIAN], "foreign": [RUSSIAN]}


@pytest.fixture
def scored(cli: Cli, tmp_path: Path) -> Any:
    records = [
        {"id": name, "messages": [{"role": "user", "content": text} for text in texts]}
        for name, texts in CHATS.items()
    ]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    assert cli("import", "chats.jsonl", "--store", "s.db").code == 0
    return cli(
        "evaluate", "--store", "s.db", "--run", "r", "--observer", "local-small", "--principle", "reciprocity"
    )


def test_a_run_counts_it_and_ends_well(cli: Cli, scored: Any) -> None:
    assert scored.code == 0 and "0 failed, 2 not read (ru 2)" in scored.out
    again = cli("evaluate", "--store", "s.db", "--run", "r", "--principle", "reciprocity", "--json")
    assert again.code == 0 and (again.json["skipped"], again.json["unread"]) == (3, {})
    assert cli("evaluate", "--failed", "--store", "s.db", "--run", "r").code == 0
    listed = cli("runs", "list", "--store", "s.db")
    assert "not read" in listed.out and "run r: 2 not read (ru 2)" in listed.out
    assert cli("runs", "list", "--store", "s.db", "--json").json[0]["unread"] == {"ru": 2}
    assert cli("doctor", "--store", "s.db").code == 0


def test_a_sequence_and_its_verdict_say_so(cli: Cli, scored: Any) -> None:
    shown = cli("show", "mixed", "--store", "s.db")
    assert shown.code == 0 and "turn 2, prompt: not read, its language is ru" in shown.err
    told = cli("show", "foreign", "--store", "s.db", "--json").json
    assert told["failures"] == [] and told["unread"][0]["language"] == "ru"
    found = cli("detect", "--store", "s.db", "--detector", "any_turn")
    assert found.code == 0 and "not read" in found.out
    assert "1 sequences were not read" in found.err and "all of their evaluations failed" not in found.err


def test_one_conversation_says_so_and_is_no_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": RUSSIAN}]))
    done = cli("check", "chat.json", "--observer", "local-small")
    assert done.code == 0 and "not read: turn 1, prompt: its language is ru" in done.err
    assert "so there is no verdict" in done.err


def test_the_guard_says_so(cli: Cli) -> None:
    done = cli("guard", "check", RUSSIAN, "--preset", "content_moderation")
    assert "not read: ru" in done.out


def test_the_explorer_tells_it_apart(scored: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        record = ViewedStore(store)
        (run,) = overview.counts(record).runs
        assert (run.evaluations, run.failures, run.unread) == (1, 0, 2)
        chat = read_chat(record, "mixed", "r")
        assert chat.unread_at(1) is None and chat.unread_at(2) == "not read: prompt in ru"
