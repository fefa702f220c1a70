"""``turnwise guard audit`` as a person uses it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def log(cli: Cli, tmp_path: Path) -> Path:
    """Return an audit of three checks, one of them blocked."""
    config, log = tmp_path / "mine.yaml", tmp_path / "audit.jsonl"
    config.write_text(
        f"name: mine\naudit: {{path: {log}}}\n"
        "guardrails:\n  - pii: {action: warn}\n  - keywords: {keywords: [vault]}\n"
    )
    for text in ("Hello", "=1+1 bob@example.com", "The vault"):
        assert cli("guard", "check", text, "--config", config).code == 0
    return log


def test_a_table_of_what_was_checked(cli: Cli, log: Path) -> None:
    done = cli("guard", "audit", log)
    assert done.code == 0
    lines = [line for line in done.out.splitlines() if re.match(r" \d{4}-", line)]
    assert [next(word for word in line.split() if word in ("passed", "warned", "blocked")) for line in lines] == [
        "passed",
        "warned",
        "blocked",
    ]
    assert "bob@example.com" not in done.out
    assert "[EMAIL]" in done.out


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 3),
        (["--blocked"], 1),
        (["--guardrail", "pii"], 1),
        (["--limit", "2"], 2),
        (["--since", "2100-01-01"], 0),
        (["--until", "2100-01-01T00:00+02:00"], 3),
        (["--conversation", "none"], 0),
        (["--session", "none"], 0),
    ],
)
def test_json_and_each_option(cli: Cli, log: Path, options: list[str], count: int) -> None:
    found = cli("guard", "audit", log, *options, "--json").json
    assert found["count"] == len(found["events"]) == count
    assert found["gaps"] == found["unreadable"] == []


def test_a_conversation_by_its_id(cli: Cli, log: Path) -> None:
    event = cli("guard", "audit", log, "--json").json["events"][1]
    found = cli("guard", "audit", log, "--conversation", event["conversation_id"], "--json").json
    assert found["events"] == [event]


def test_nothing_found_and_more_than_is_shown_are_said(cli: Cli, log: Path) -> None:
    assert "no check is what was asked for" in cli("guard", "audit", log, "--session", "x").err
    assert "did you mean --guardrail pii?" in cli("guard", "audit", log, "--guardrail", "pi").err
    log.write_text(log.read_text() * 20)
    done = cli("guard", "audit", log)
    assert "the latest 50; --limit shows more" in done.err


def test_csv_neutralises_formulas(cli: Cli, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = cli("guard", "audit", log, "--csv", out)
    assert done.out == f"3 checks written to {out}\n"
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == ["Hello", "'=1+1 [EMAIL]", "The vault"]
    done = cli("guard", "audit", log, "--csv", out, "--blocked", "--json")
    assert done.json == {"csv": str(out), "count": 1, "unreadable": []}


def test_torn_lines_and_gaps_are_named(cli: Cli, log: Path) -> None:
    gap = '{"kind":"gap","time":"2025-01-01T00:00:00.000000+00:00","dropped":3,"unwritten":2}\n'
    log.write_text(log.read_text() + gap + '{"v":1,"ki')
    done = cli("guard", "audit", log, "--json")
    assert done.code == 0
    assert done.json["count"] == 3
    assert "line 5 is not JSON; the last line: cut off by a crash" in done.err
    assert "5 checks are missing: 3 were dropped because the queue was full, 2 could not be written" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "none.jsonl"], "the audit none.jsonl can't be read: No such file"),
        (["audit", "audit.jsonl", "--since", "yesterday"], "--since is 'yesterday'"),
        (["audit", "audit.jsonl", "--limit", "0"], "--limit"),
        (["audit", "audit.jsonl", "--csv", "no/out.csv"], "can't write no/out.csv"),
        (["verify", "audit.jsonl", "--first", "0"], "--first"),
    ],
)
def test_wrong_use_is_said(cli: Cli, log: Path, arguments: list[str], said: str) -> None:
    done = cli("guard", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_an_audit_that_cannot_be_written_is_an_error_at_start(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("guardrails: [pii]\naudit:\n  path: no/such/folder/audit.jsonl\n")
    done = cli("guard", "check", "Hello", "--config", config)
    assert done.code == 2
    assert "mine.yaml, line 2, audit: the audit can't be written to no/such/folder/audit.jsonl" in done.err


def test_a_store_is_asked_the_same_way(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("guardrails: [pii]\naudit: {path: work.db, sink: store}\n")
    cli("guard", "check", "Hello", "--config", config)
    assert cli("guard", "audit", "work.db", "--json").json["events"][0]["text"] == "Hello"
    assert cli("guard", "audit", "work.db", "--csv", "out.csv", "--json").json["count"] == 1
