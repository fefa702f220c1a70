"""Values that no option or argument was made for: each is answered in one line, with an exit code of 1 or 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

LONG = "x" * 300
HUGE = "99999999999999999999"
TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]


@pytest.mark.parametrize("name", ["a\0b", LONG])
@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "presets", "basic", "--out", "{}"],
        ["check", "{}"],
        ["guard", "forensics", "{}"],
        ["guard", "forensics", "chat.json", "--html", "{}"],
        ["guard", "chat", "--config", "{}"],
        ["guard", "replay", "{}"],
        ["guard", "audit", "{}"],
        ["guard", "audit", "audit.jsonl", "--csv", "{}"],
        ["import", "{}"],
        ["import", "chats.jsonl", "--store", "{}"],
        ["detect", "--detector", "{}.yaml"],
        ["query", "peak(F) > 0.5", "--csv", "{}"],
        ["query", "peak(F) > 0.5", "--patterns", "{}"],
        ["evaluate", "--run", "new", "--observer", "replay:{}"],
        ["study", "session-rules", "{}"],
        ["judgements", "hand-out", "--out", "{}", "--annotator", "ann", "--twice", "0"],
        ["judgements", "hand-out", "--out", "kit", "--annotator", "ann", "--twice", "0", "--guideline", "{}"],
        ["judgements", "take-in", "{}", "--out", "sets"],
        ["study", "tune", "--out", "{}"],
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have(cli: Cli, evaluated: Path, name: str, arguments: list[str]) -> None:
    Path("chat.json").write_text('[{"role": "user", "content": "Hi"}]')
    Path("audit.jsonl").write_text("")
    given = [argument.format(name) for argument in arguments]
    if given[0] in ("detect", "query", "evaluate", "judgements") or given[1] == "tune":
        given += ["--store", str(evaluated)]
    done = cli(*given)
    assert done.code in (1, 2)
    assert "error: " in done.err.lower()
    assert len(done.err.lower().partition("error: ")[2].splitlines()) == 1


def test_a_home_of_nobody_is_no_file(cli: Cli) -> None:
    done = cli("guard", "audit", "~nobody-of-that-name/audit.jsonl")
    assert done.code == 2
    assert "no home folder" in done.err


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["study", "compare", "--seed", "-1"], "seed"),
        (["study", "compare", "--seed", HUGE], "seed"),
        (["study", "compare", "--folds", HUGE], "folds"),
        (["query", "--sql", "\udcff"], "surrogate"),
        (["study", "compare", "--replicates", "2147483648"], "replicates"),
        (["study", "compare", "--target-fpr", "1e-300"], "target fpr"),
        (["study", "tune", "--detector", "cusum", "--budget", "2", "--seed", "-1"], "seed"),
        (["study", "tune", "--detector", "cusum", "--budget", HUGE], "budget"),
        (["study", "calibrate", "--alpha", "1e-300"], "alpha"),
        (["study", "power", "--stateless", "0.4", "--temporal", "0.6", "--target-fpr", "1e-300"], "target fpr"),
        (["query", "peak(F) > 0.5", "--limit", HUGE], "--limit"),
        (["query", "--sql", "SELECT 1", "--limit", HUGE], "--limit"),
        (["guard", "replay", "chats.jsonl", "--limit", HUGE], "--limit"),
        (["guard", "audit", "audit.jsonl", "--limit", HUGE], "--limit"),
        (["llm", "cost", "--observer", "llm:openai/gpt-4.1-mini", "--repeats", "2147483648"], "repeats"),
        (["guard", "audit", "audit.jsonl", "--until", "9999-12-31T23:59:59-23:59"], "until"),
        (["guard", "audit", "audit.jsonl", "--since", "0001-01-01T00:00:00+23:59"], "since"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_number_or_time_out_of_range(cli: Cli, evaluated: Path, arguments: list[str], names: str) -> None:
    Path("audit.jsonl").write_text("")
    if arguments[0] != "guard" and arguments[1] != "power":
        arguments = [*arguments, "--store", str(evaluated)]
    done = cli(*arguments)
    assert done.code == 2
    assert names in done.err


@pytest.mark.parametrize("redirected", [">&-", ">/dev/full"])
def test_results_that_can_not_be_printed_are_an_error(tmp_path: Path, redirected: str) -> None:
    done = _shell(f'"$@" {redirected}', tmp_path, "--version")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert len(done.stderr.splitlines()) == 1


def test_standard_input_and_errors_may_be_closed(tmp_path: Path) -> None:
    assert _shell('"$@" 2>&-', tmp_path, "--version").stdout.startswith(b"turnwise ")
    done = _shell('"$@" <&-', tmp_path, "check", "-")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: standard input")


def test_a_pipe_that_closes_and_a_terminal_of_ascii(tmp_path: Path) -> None:
    closed = _shell('"$@" | :', tmp_path, "list", "presets", "basic")
    assert closed.stderr == b""
    ascii_only = _shell('PYTHONIOENCODING=ascii "$@"', tmp_path, "list", "patterns", "slow_boil")
    assert (ascii_only.returncode, ascii_only.stderr) == (0, b"")


def _shell(line: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["sh", "-c", line, "sh", *TURNWISE, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=environment,
        timeout=60,
    )
