"""docs/patterns.md says what the code does: its lists are complete and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnwise.errors import PatternError
from turnwise.patterns import FUNCTIONS, load_patterns, parse, shipped_patterns
from turnwise.scoring import Score, TurnScores

TEXT = (Path(__file__).parent.parent.parent / "docs" / "patterns.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_every_function_is_named() -> None:
    assert not [name for name in (*FUNCTIONS, "k_of") if f"`{name}(" not in TEXT]


def test_the_first_examples_are_patterns() -> None:
    lines = blocks("")[0].splitlines()
    assert len(lines) > 5
    for line in lines:
        parse(line)


def test_the_error_is_what_is_said() -> None:
    shown = blocks("")[1].partition("error: ")[2].strip()
    with pytest.raises(PatternError) as caught:
        parse("slope(reciprocty.F) > 0.1", principles=["context_integrity", "reciprocity"])
    assert str(caught.value) == shown


def test_every_named_pattern_is_named() -> None:
    assert not [pattern.name for pattern in shipped_patterns() if f"`{pattern.name}`" not in TEXT]


def test_the_file_of_patterns_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(blocks("yaml")[0])
    assert "lasting_doubt" in load_patterns(path).names()


def test_the_python_examples_run() -> None:
    scores = TurnScores(1, {"reciprocity": Score(0.5, 0.2, 0.1)})
    names: dict[str, object] = {"scores": scores}
    for block in blocks("python"):
        exec(block, names)
    assert names["value"].holds is False
