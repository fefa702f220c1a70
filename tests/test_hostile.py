"""A slice of every fuzzer of benchmarks: what others wrote is answered rightly, or refused in clear words."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import hostile
from benchmarks.hostile import KINDS

SEED = 0
CASES = {
    "texts": 40,
    "messages": 800,
    "json": 500,
    "states": 2_000,
    "yaml": 40,
    "replies": 2_000,
    "quoted": 3_000,
    "imports": 25,
    "stores": 30,
    "cli": 4,
    "cli_processes": 2,
    "kills": 1,
}
"""Cases of each kind, so many that all kinds together take about a minute."""


def test_every_kind_has_its_slice() -> None:
    assert set(CASES) == set(KINDS)


@pytest.mark.integration
@pytest.mark.parametrize("kind", CASES)
def test_no_case_fails(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "FACTOR", 100)  # how fast it is says the benchmark; here what hangs fails
    fuzzer = KINDS[kind](SEED, tmp_path)
    tried = ((number, fuzzer.tried(number)) for number in range(CASES[kind]))
    failures = [f"--only {kind} --case {number} --seed {SEED}: {problem}" for number, problem in tried if problem]
    assert not failures, f"{len(failures)} of {CASES[kind]}; the first: {failures[0][:1_000]}"
