"""A short slice of every fuzzer that starts no process; `benchmarks/hostile.py` runs them for longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.hostile import KINDS

CASES = 8
"""Cases of each kind. Raise it to look further; `python benchmarks/hostile.py` looks furthest."""

LARGEST = 2_000
"""Characters of the largest text, and levels of the deepest nesting: too few for a time to count."""

SEEDS = {
    "texts": 0,
    "messages": 0,
    "json": 0,
    "states": 0,
    "yaml": 1,
    "replies": 0,
    "imports": 0,
    "stores": 0,
    "cli": 2,
}
"""The kinds, and the seed of the slice."""


@pytest.mark.parametrize("kind", SEEDS)
def test_what_others_wrote_is_read_or_refused_in_clear_words(kind: str, tmp_path: Path) -> None:
    fuzzer = KINDS[kind](SEEDS[kind], tmp_path, LARGEST)
    problems = {number: fuzzer.tried(number) for number in range(CASES)}
    assert not {number: problem for number, problem in problems.items() if problem}


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", ["json", "yaml", "replies", "imports", "stores"])
def test_a_case_is_the_same_whenever_it_is_made(kind: str, tmp_path: Path) -> None:
    first, again = (KINDS[kind](3, made(tmp_path / name), LARGEST) for name in ("first", "again"))
    assert [first.case(number) for number in range(20)] == [again.case(number) for number in range(20)]
    assert first.case(4) != first.case(5)


def test_a_failure_is_found_and_told(tmp_path: Path) -> None:
    class Broken(KINDS["json"]):  # type: ignore[misc, name-defined]  # any fuzzer
        def check(self, case: object) -> str | None:
            raise KeyError("lost")

    assert "KeyError" in (Broken(0, tmp_path).tried(0) or "")
