"""benchmarks/goldens.py: a difference between two trees is found and told, and the same tree shows none."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks import goldens

VERDICT = {"blocked": False, "reasons": ["pii: a card"], "confidence": 1.0}
TEXT = "# A study\n\nNo gain.\n"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["goldens.py", *map(str, words)])
    return goldens.main()


def made(verdict: dict[str, Any], text: str = TEXT) -> dict[str, Any]:
    def make(folder: Path) -> Iterator[tuple[str, Any]]:
        yield "verdicts.json", {"case 1": verdict}
        yield "report.md", text

    return {"guard": make}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(goldens, "GOLDENS", made(VERDICT))
    assert run(monkeypatch, "keep", tmp_path / "kept") == 0
    return tmp_path / "kept"


def test_the_same_tree_shows_nothing(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "compare", kept) == 0
    assert capsys.readouterr().out.startswith("no goldens differ")


@pytest.mark.parametrize(
    ("changed", "place", "before", "after"),
    [
        (
            made(VERDICT | {"blocked": True}),
            "verdicts.json: 1 differences, the first at /case 1/blocked",
            False,
            True,
        ),
        (
            made(VERDICT | {"confidence": 1}),
            "verdicts.json: 1 differences, the first at /case 1/confidence",
            1.0,
            1,
        ),
        (made(VERDICT | {"reasons": []}), "first at /case 1/reasons/0", "pii: a card", "(nothing)"),
        (made(dict(reversed(VERDICT.items()))), "first at order of keys", "(nothing)", "(another)"),
        (
            made(VERDICT, "# A study\n\nGain.\n"),
            "report.md: 1 differences, the first at line 3",
            "No gain.",
            "Gain.",
        ),
    ],
)
def test_a_difference_is_told_with_its_place_and_both_values(
    changed: dict[str, Any],
    place: str,
    before: object,
    after: object,
    kept: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(goldens, "GOLDENS", changed)
    assert run(monkeypatch, "compare", kept) == 1
    told = capsys.readouterr().out
    assert place in told
    assert f"kept {json.dumps(before)}\n    now  {json.dumps(after)}\n1 goldens differ" in told


def test_a_golden_that_is_gone_is_told(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "guard" / "more.json").write_text("{}")
    assert run(monkeypatch, "compare", kept) == 1
    assert "guard/more.json" in capsys.readouterr().out


def test_what_was_not_kept_is_not_compared_in_silence(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(goldens, "GOLDENS", made(VERDICT) | {"scan": made(VERDICT)["guard"]})
    with pytest.raises(SystemExit):
        run(monkeypatch, "compare", kept)
    assert "no goldens of scan" in capsys.readouterr().err
    assert run(monkeypatch, "compare", kept, "--only", "guard") == 0


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="name a new folder"):
        run(monkeypatch, "keep", tmp_path)
    assert (tmp_path / "guard" / "mine.txt").read_text() == "mine"
