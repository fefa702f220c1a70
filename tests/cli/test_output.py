"""What is printed: nothing that others wrote reaches the terminal as a command, or a spreadsheet as a formula."""

from __future__ import annotations

import ast
import csv
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import line, write_lines

import turnwise.cli
from turnwise.cli.output import print_table

Cli = Callable[..., Any]

NASTY = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt\u2066\u200b\x7f\r\U000e0041"
KEY = f"=cmd{NASTY}"


def dangerous(text: str) -> set[str]:
    """Return the characters that a terminal could obey, or that hide or turn what stands beside them."""
    return {one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@pytest.fixture
def nasty(cli: Cli, tmp_path: Path) -> Path:
    """Return a store of one conversation whose id and texts are hostile, scored once, with a failed score."""
    chats = write_lines(tmp_path / "nasty.jsonl", line(KEY, "attack", f"Hello {NASTY}", f"More {NASTY}"))
    rows = [
        {"sequence_id": KEY, "turn": turn, "principle": "reciprocity", "T": 0.1, "I": 0.2, "F": 0.9}
        for turn in (1, 2)
    ]
    scores = write_lines(tmp_path / "nasty-scores.jsonl", *rows)
    assert cli("import", chats, "--store", "nasty.db").code == 0
    scored = cli("evaluate", "--store", "nasty.db", "--run", NASTY, "--observer", f"replay:{scores}")
    assert scored.code == 0
    assert not dangerous(scored.out + scored.err)
    return tmp_path / "nasty.db"


@pytest.mark.parametrize(
    "arguments",
    [
        ["detect"],
        ["detect", "--json"],
        ["detect", "--run", f"{NASTY}?"],
        ["show", KEY],
        ["show", KEY, "--json"],
        ["show", f"{KEY}?"],
        ["query", "peak(F) > 0.5"],
        ["query", "peak(F) > 0.5", "--json"],
        ["query", f"peak(F) > 0.5 {NASTY}"],
        ["query", "--sql", "SELECT * FROM sequences"],
        ["query", "--sql", "SELECT * FROM sequences", "--json"],
        ["query", "--sql", f"SELECT '{NASTY}' FROM nowhere"],
        ["query", "--sql", f'SELECT 1 AS "{NASTY}"'],
        ["runs", "list"],
        ["detect", "--label", NASTY],
        ["query", "--limit", NASTY],
        ["evaluate", "--observer", f"replay:{NASTY}"],
    ],
    ids=str,
)
def test_no_command_sends_the_terminal_what_others_wrote(cli: Cli, nasty: Path, arguments: list[str]) -> None:
    done = cli(*arguments, "--store", nasty)
    assert not dangerous(done.out + done.err)
    assert done.out or done.err


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    "command", ["check chat.json --observer scripted:0.9", "guard forensics chat.json --preset basic"]
)
def test_texts_of_a_file_are_made_visible(cli: Cli, tmp_path: Path, command: str, form: list[str]) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": f"Hello {NASTY}"}]))
    done = cli(*command.split(), *form)
    assert done.code == 0
    assert not dangerous(done.out + done.err)


def test_json_still_says_the_very_text(cli: Cli, nasty: Path) -> None:
    assert cli("detect", "--store", nasty, "--json").json[0]["sequence_id"] == KEY
    assert cli("show", KEY, "--store", nasty, "--json").json["turns"][0]["prompt"] == f"Hello {NASTY}"


def test_a_name_of_several_lines_stays_in_its_line(cli: Cli, tmp_path: Path) -> None:
    key = "a\nerror: all is lost"
    chats = write_lines(
        tmp_path / "chats.jsonl", line(key, "attack", "Hello"), '{"id": "x\\nerror: y", "turns": 3}'
    )
    imported = cli("import", chats, "--store", "s.db")
    cli("evaluate", "--store", "s.db", "--run", "r", "--observer", "scripted:0.9")
    shown = [cli(*some, "--store", "s.db") for some in (["detect"], ["show", key], ["show", key + "?"])]
    for done in (imported, *shown):
        assert not any(one.startswith("error: all is lost") for one in (done.out + done.err).splitlines())


def test_what_is_harmless_is_shown_as_it_is(cli: Cli, tmp_path: Path) -> None:
    text = "Größe\u3000日本語\u00a0né ▁▂"
    chats = write_lines(tmp_path / "chats.jsonl", line(text, "attack", "Hello"))
    cli("import", chats, "--store", "s.db")
    cli("evaluate", "--store", "s.db", "--run", "r", "--observer", "scripted:0.9")
    assert text in cli("show", text, "--store", "s.db").out


def test_no_cell_of_a_csv_file_begins_a_formula(cli: Cli, tmp_path: Path) -> None:
    keys = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "fine"]
    cli("import", write_lines(tmp_path / "chats.jsonl", *(line(key, "attack", "Hi") for key in keys)))
    cli("evaluate", "--run", "r", "--observer", "scripted:0.9")
    assert cli("query", "peak(F) > 0.5", "--csv", "query.csv").code == 0
    assert cli("query", "--sql", "SELECT sequence_id, -1.5 AS n FROM sequences", "--csv", "sql.csv").code == 0
    for name in ("query.csv", "sql.csv"):
        with (tmp_path / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert sorted(row["sequence_id"] for row in rows) == sorted([*(f"'{key}" for key in keys[:-1]), "fine"])
        assert all(row.get("n", "-1.5") == "-1.5" for row in rows)


def test_only_one_module_prints() -> None:
    folder = Path(turnwise.cli.__file__).parent
    for path in folder.glob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        names = {ast.unparse(func) for func in calls}
        assert path.name == "output.py" or not names & {"print", "typer.echo", "typer.secho", "Console"}, path.name


WIDE = {
    "compare": (
        ("arm", "context", "threshold", "recall, %", "false positives, %", "AUC", "median turn"),
        (
            "count_flags@local-history *",
            "history",
            "0.1234",
            "82.5 [67.2, 92.7]",
            "1.0 [0.0, 5.4]",
            "0.983 [0.9, 1.0]",
            "4",
        ),
    ),
    "tests of compare": (
        ("a", "b", "a alone", "b alone", "gain of b, points", "p", "p, groups", "p, Holm", "b against a"),
        (
            "any_turn@local-turn",
            "cusum@local-history",
            "12",
            "345",
            "+12.5 [+3.1, +20.9]",
            "3.2e-20",
            "0.043",
            "0.129",
            "beats it",
        ),
    ),
    "discover": (
        ("name", "pattern", "of attacks", "at turn 1", "of benign", "p"),
        (
            "found_1",
            "cusum(reciprocity.F, drift=0.25) > 1.5 and streak(I > 0.5) >= 2",
            "120/150 = 80.0 % [72.7, 86.1]",
            "3",
            "1/150 = 0.7 % [0.0, 3.7]",
            "1.2e-34",
        ),
    ),
    "tune": (("", ""), ("recall there, as given", "120/150 = 80.0 % [72.7, 86.1]")),
    "power": (
        ("both arms judge the same attacks", "attacks needed"),
        ("they catch different ones as far as can be", "1234"),
    ),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("width", [40, 80])
def test_tables_fit_the_terminal_and_no_number_is_divided(name, width, monkeypatch, capsys):
    columns, row = WIDE[name]
    monkeypatch.setattr("turnwise.cli.output._WIDTH_OF_A_FILE", width)
    print_table(columns, [row], numeric=columns[3:])
    out = capsys.readouterr().out
    assert max(map(len, out.split("\n"))) <= width
    shown = out.split()
    for word in " ".join(row).split():
        if word[0].isdigit() or word[0] in "[+":
            assert word in shown


def test_words_stay_whole_where_there_is_room_and_scores_dates_and_intervals_in_a_line(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    columns = "name", "scores", "rate", "made", "what it says"
    name, scores, date = "cross_dimensional_one", "0.91 0.10 0.03", "2026-01-02 03:04"
    print_table(columns, [(name, scores, "5/18 = 27.8 % [9.7, 53.5]", date, "a long sentence of many words " * 8)])
    out = capsys.readouterr().out
    assert max(map(len, out.split("\n"))) <= 80
    for whole in (name, scores, "[9.7, 53.5]", date):
        assert whole in out


COMMANDS = [
    "runs list",
    "detect",
    "show attack_01",
    "query F>=0",
    "query --sql FROM/**/sequences",
    "list patterns",
    "list detectors",
    "list observers",
    "list principles",
    "list datasets",
    "list guardrails",
    "doctor",
    "list presets",
    "list session-presets",
    "study session-rules",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_table_fits_80_columns(cli: Cli, evaluated: Path, monkeypatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TURNWISE_STORE", str(evaluated))
    done = cli(*command.split())
    assert done.code == 0
    assert max(map(len, done.out.split("\n"))) <= 80
