"""``turnwise list patterns``: the list, and the explanation of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise.cli import main
from turnwise.patterns import shipped_patterns

MINE = """
lasting_doubt:
  expression: streak(x > limit) >= turns
  description: The observer could not tell.
  parameters: {x: I, limit: 0.5, turns: 2}
balanced:
  expression: last(reciprocity.balance) > 0.5
  description: Give and take.
  example:
    reciprocity: [[0.1, 0.3, 0.7], null, [0.9, 0.3, 0.1]]
    context_integrity: [null, [0.8, 0.3, 0.1], null]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TURNWISE_PATTERNS", raising=False)
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def test_the_list_names_every_pattern_with_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "patterns")
    assert code == 0
    for pattern in shipped_patterns():
        assert pattern.name in out
    assert "x=F, limit=0.1, turns=3" in out
    code, out, _ = run(capsys, "list", "patterns", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["gradual_drift"]["parameters"] == {"x": "F", "limit": "0.1", "turns": "3"}
    assert rows["gradual_drift"]["expression"] == "turn >= turns and slope(x) > limit"


@pytest.mark.parametrize("pattern", shipped_patterns(), ids=lambda pattern: pattern.name)
def test_explaining_a_pattern(pattern: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = pattern.name
    code, out, err = run(capsys, "list", "patterns", name)
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    for part in ("expression", "usage", "description", "reference"):
        assert " ".join(getattr(pattern, part).split()) in words
    assert "stands for" in out
    assert "▲" in out.splitlines()[-1]
    assert "█" in out


def test_explaining_shows_the_curve_and_the_turns_that_match(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "list", "patterns", "gradual_drift")
    assert out.splitlines()[-7:] == [
        "  F                       1 ┤",
        "                            ┤                     ▄▄",
        "                            ┤                 ▆▆  ██",
        "                            ┤         ▂▂  ██  ██  ██",
        "                          0 ┤ ▂▂  ▄▄  ██  ██  ██  ██",
        "  turn                        1   2   3   4   5   6",
        "  holds                                   ▲   ▲   ▲",
    ]


def test_explaining_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "list", "patterns", "gradual_drift", "--json")
    said = json.loads(out)
    assert said["stands_for"] == "turn >= 3 and slope(F) > 0.1"
    assert [turn["holds"] for turn in said["example"]] == [False, False, False, True, True, True]
    assert said["example"][0]["scores"] == {"reciprocity": {"T": 0.9, "I": 0.1, "F": 0.05}}


def test_patterns_of_a_file(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "lasting_doubt" in run(capsys, "list", "patterns", "--patterns", mine)[1]
    _, out, _ = run(capsys, "list", "patterns", "lasting_doubt", "--patterns", mine)
    assert "streak(I > 0.5) >= 2" in out
    assert "conversation" not in out
    assert run(capsys, "list", "--patterns", mine, "patterns", "lasting_doubt")[1] == out
    monkeypatch.setenv("TURNWISE_PATTERNS", str(mine))
    assert run(capsys, "list", "patterns", "lasting_doubt")[1] == out


def test_a_curve_shows_gaps_and_negative_values(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "list", "patterns", "balanced", "--patterns", mine)
    assert out.splitlines()[-7:] == [
        "  reciprocity.balance     1 ┤         ▅▅",
        "                            ┤         ██",
        "                            ┤         ██",
        "                            ┤         ██",
        "                         -1 ┤ ▁▁  ·   ██",
        "  turn                        1   2   3",
        "  holds                               ▲",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gradul_drift",), "did you mean 'gradual_drift'?"),
        (("--patterns", "nowhere.yaml"), "nowhere.yaml: the file of patterns can't be read"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "list", "patterns", *arguments)
    assert (code, out) == (2, "")
    assert words in err
