"""``turnwise runs``: listed, renamed, and deleted once somebody has confirmed it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.store import Run, Store

Cli = Callable[..., Any]
MAIN = "from turnwise.cli import main; main()"
CONTENT = "run 'first': 18 scores and 0 failures of 3 sequences, 0 calls"


def _names(path: Path) -> list[str]:
    with Store(path) as store:
        return [run.name for run in store.runs()]


def test_a_run_is_deleted_and_it_is_said_what_went(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "--yes", "--store", evaluated)
    assert (done.code, done.out) == (0, f"deleted {CONTENT}\n"), done.err
    with Store(evaluated) as store:
        counts = {"sequences": 3, "turns": 8, "runs": 0, "evaluations": 0, "failures": 0, "unread": 0}
        assert store.counts() == counts


def test_json_says_what_went(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "-y", "--json", "--store", evaluated)
    assert done.json["deleted"]["evaluations"] == 18


def test_without_a_terminal_nothing_goes_unless_that_is_said(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "delete", "first", "--store", evaluated)
    assert done.code == 2
    assert f"Delete {CONTENT}? No terminal to ask on: add --yes" in done.err
    done = cli("runs", "rename", "first", "x", "--store", evaluated)
    assert done.code == 2
    assert "Rename run 'first' to 'x'? No terminal to ask on: add --yes" in done.err
    assert _names(evaluated) == ["first"]


@pytest.mark.parametrize(("answer", "left", "code"), [("y\n", [], 0), ("n\n", ["first"], 1)])
def test_in_a_terminal_it_asks(evaluated: Path, answer: str, left: list[str], code: int) -> None:
    parent, child = pty.openpty()
    os.write(parent, answer.encode())
    command = [sys.executable, "-c", MAIN, "runs", "delete", "first", "--store", str(evaluated)]
    done = subprocess.run(command, stdin=child, capture_output=True, text=True, check=False)
    os.close(parent)
    os.close(child)
    assert f"Delete {CONTENT}?" in done.stderr
    assert (done.returncode, _names(evaluated)) == (code, left)


def test_a_run_is_renamed(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "rename", "first", "pilot", "--yes", "--store", evaluated)
    assert (done.code, done.out) == (0, "run 'first' is now 'pilot'\n"), done.err
    assert _names(evaluated) == ["pilot"]
    assert cli("show", "attack_01", "--store", evaluated, "--run", "pilot").code == 0


@pytest.mark.parametrize("command", [("delete", "x"), ("rename", "x", "y")])
def test_an_unknown_run_is_wrong_use(cli: Cli, evaluated: Path, command: tuple[str, ...]) -> None:
    done = cli("runs", *command, "--yes", "--store", evaluated)
    assert done.code == 2
    assert "unknown run 'x'" in done.err


def test_an_option_before_the_command_is_refused_rather_than_lost(cli: Cli, evaluated: Path) -> None:
    done = cli("runs", "--store", evaluated, "delete", "first", "--yes")
    assert done.code == 2
    assert "No such option: --store" in done.err
    assert _names(evaluated) == ["first"]


def test_a_run_that_is_written_elsewhere_is_refused(cli: Cli, evaluated: Path) -> None:
    with Store(evaluated) as store:
        run: Run = store.run("first")
        store.start_run(run)
        done = cli("runs", "delete", "first", "--yes", "--store", evaluated)
    assert done.code == 1
    assert "run 'first' is being written by another process" in done.err
