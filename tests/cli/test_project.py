"""The project file, ``turnwise doctor``, ``--quiet``, ``-h``, and help that is never cut."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_a_project_file_names_the_store_and_the_run(cli: Cli, evaluated: Path, monkeypatch: Any) -> None:
    cli("evaluate", "--store", evaluated, "--run", "second", "--observer", "scripted:0.5")
    file = evaluated.parent / "turnwise.toml"
    file.write_text(f'store = "{evaluated.name}"\nrun = "first"\n')
    below = evaluated.parent / "deep" / "down"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert cli("query", "reciprocity.F >= 0.5", "--json").json["count"] == 1
    assert cli("query", "reciprocity.F >= 0.5", "--run", "second", "--json").json["count"] == 3
    assert cli("query", "--sql", "SELECT count(*) AS n FROM runs", "--json").json == [{"n": 2}]
    told = cli("doctor", "--json").json["settings"]
    assert told["store"] == {"value": str(evaluated), "from": str(file)}
    assert told["run"] == {"value": "first", "from": str(file)}
    assert told["observer"] == {"value": None, "from": "default"}
    monkeypatch.setenv("TURNWISE_STORE", "other.db")
    assert cli("doctor", "--json").json["settings"]["store"] == {"value": "other.db", "from": "TURNWISE_STORE"}
    assert cli("doctor", "--store", "third.db", "--json").json["settings"]["store"]["from"] == "command line"
    assert "other.db" in cli("runs", "list").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('shop = "x"\n', "unknown key 'shop'; the keys are store, run, observer"),
        ("store = 3\n", "store must be text"),
        ("store = \n", "can't be read as TOML"),
    ],
)
def test_a_project_file_that_can_not_be(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "turnwise.toml").write_text(text)
    done = cli("runs", "list")
    assert done.code == 2
    assert said in done.err
    assert str(tmp_path / "turnwise.toml") in done.err


def test_quiet_leaves_errors_only(cli: Cli, imported: Path) -> None:
    evaluate = "evaluate", "--store", imported, "--observer", "scripted:0.5"
    assert cli("--quiet", *evaluate, "--run", "one").err == ""
    assert cli(*evaluate, "--run", "two", "--quiet").err == ""
    assert cli(*evaluate, "--run", "three").err != ""
    wrong = cli("query", "peek(F) > 0.5", "--store", imported, "--run", "one", "--quiet")
    assert wrong.code == 2
    assert "error: column 1" in wrong.err
    assert cli("llm", "cache", "--store", imported, "--quiet").err == ""


@pytest.mark.parametrize("arguments", [[], ["query"], ["llm"], ["llm", "cache"], ["guard"]])
def test_short_help_is_help(cli: Cli, arguments: list[str]) -> None:
    short, long = cli(*arguments, "-h"), cli(*arguments, "--help")
    assert short.code == 0
    assert short.out == long.out


def test_help_lists_commands_uncut(cli: Cli) -> None:
    shown = cli("--help").out
    assert "..." not in shown.partition("Start:")[2]
    assert "--install-completion" in shown
    whole = " ".join(shown.split())
    assert "have no score yet; the same command again continues, and repeats nothing." in whole


def test_without_a_command_it_says_what_comes_next(cli: Cli, evaluated: Path, monkeypatch: Any) -> None:
    folder = evaluated.parent / "new"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert "  turnwise demo" in cli().out.splitlines()
    (folder / "chats.jsonl").write_text("{}\n")
    assert "  turnwise import chats.jsonl --store work.db" in cli().out.splitlines()
    (folder / "no-store.db").write_bytes(b"SQLite format 3\0 and no more")
    assert "no-store.db" not in cli().out
    (folder / "work.db").write_bytes(evaluated.read_bytes())
    told = cli().out.splitlines()
    assert "  turnwise judgements inbox --store work.db --run first" in told
    for command in (line.strip() for line in told if line.startswith("  turnwise")):
        if "explore" not in command:
            assert cli(*shlex.split(command)[1:]).code == 0, command


def test_the_doctor_finds_what_is_broken_and_tells_nothing_private(
    cli: Cli, evaluated: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TURNWISE_STORE", str(evaluated))
    done = cli("doctor", "--report")
    assert done.code == 0
    assert set(done.json["health"]) == {"weights of local", "weights of local-small", "store"}
    assert "3 sequences" in done.json["health"]["store"]["found"] and done.json["extras"]["llm"] == "installed"
    for private in (str(evaluated.parent), evaluated.name, "first", platform.node()):
        assert private not in done.out, private
    damaged = bytearray(evaluated.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    evaluated.write_bytes(damaged)
    done = cli("doctor")
    assert done.code == 1 and "BROKEN" in done.out


def test_help_loads_the_commands_and_next_to_nothing_else() -> None:
    code = (
        "import json, sys\nfrom turnwise.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    ours = {name for name in loaded if name.startswith("turnwise") and not name.startswith("turnwise.cli")}
    assert ours == {
        "turnwise",
        "turnwise._version",
        "turnwise.errors",
        "turnwise._support",
        "turnwise._support.visible",
    }
    heavy = {"duckdb", "numpy", "onnxruntime", "pandas", "pydantic", "rich", "scipy", "sqlalchemy", "yaml"}
    assert not loaded & heavy
