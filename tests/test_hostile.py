"""A slice of every fuzzer of benchmarks: what others wrote is answered rightly, or refused in clear words."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import cli_sweep, hostile
from benchmarks.hostile import KINDS

SEED = 0
CASES = {
    "texts": 120,
    "messages": 3_000,
    "json": 2_000,
    "states": 8_000,
    "yaml": 120,
    "replies": 8_000,
    "quoted": 12_000,
    "imports": 90,
    "stores": 120,
    "cli": 16,
    "cli_processes": 5,
    "kills": 3,
}
"""Cases of each kind, so many that all kinds together take about a minute."""


def test_every_kind_has_its_slice() -> None:
    assert set(CASES) == set(KINDS)


def test_the_sweep_names_only_commands_and_options_that_there_are(tmp_path: Path) -> None:
    sweep = cli_sweep.Sweep(tmp_path / "sweep", SEED)
    known = {" ".join(words): {one.name for one in parameters} for words, parameters in sweep._commands.items()}
    wrong = [
        (command, name)
        for command, values in cli_sweep.GOOD.items()
        for name in values
        if name not in known.get(command, ())
    ]
    assert wrong == []
    everywhere = set().union(*known.values())
    assert sorted({*cli_sweep.SPECIAL, *cli_sweep.EITHER} - everywhere) == []


@pytest.mark.integration
@pytest.mark.parametrize("kind", CASES)
def test_no_case_fails(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "FACTOR", 100)  # how fast it is says the benchmark; here what hangs fails
    fuzzer = KINDS[kind](SEED, tmp_path)
    tried = ((number, fuzzer.tried(number)) for number in range(CASES[kind]))
    failures = [f"--only {kind} --case {number} --seed {SEED}: {problem}" for number, problem in tried if problem]
    assert not failures, f"{len(failures)} of {CASES[kind]}; the first: {failures[0][:1_000]}"
