"""What the specification asks of patterns, and docs/patterns.md: its lists are complete and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnwise.errors import PatternError
from turnwise.patterns import FUNCTIONS, load_patterns, match, parse, shipped_patterns
from turnwise.scoring import Score, TurnScores

Rows = dict[str, list[tuple[float, float, float] | None]]

ATTACK: Rows = {
    "reciprocity": [(0.9, 0.1, 0.05), (0.8, 0.65, 0.2), (0.6, 0.7, 0.3), (0.85, 0.75, 0.5), (0.2, 0.3, 0.7)],
    "context_integrity": [(0.9, 0.1, 0.1), None, (0.7, 0.2, 0.3), (0.2, 0.2, 0.75), (0.3, 0.2, 0.8)],
}
BENIGN: Rows = {
    "reciprocity": [(0.9, 0.1, 0.05), (0.9, 0.1, 0.1), (0.85, 0.2, 0.05), (0.9, 0.1, 0.1), (0.9, 0.15, 0.05)],
    "context_integrity": [(0.9, 0.1, 0.1), (0.9, 0.1, 0.1), None, (0.9, 0.1, 0.15), (0.85, 0.1, 0.1)],
}


def turns(rows: Rows) -> list[TurnScores]:
    return [
        TurnScores(
            number + 1, {name: Score(*row) for name, column in rows.items() if (row := column[number])}, 100
        )
        for number in range(5)
    ]


@pytest.mark.shows("FR-005")
@pytest.mark.parametrize(
    ("query", "turn"),
    [
        ("rise(reciprocity.F, 1, 5) > 0.5", 5),
        ("streak(reciprocity.I > 0.60) >= 3", 4),
        ("any(reciprocity.T > 0.80 and context_integrity.F > 0.70)", 4),
        ("slope(reciprocity.F) > 0.1", 2),
        ("cusum(reciprocity.F, drift=0.05) > 0.2 or peak(third_party_harm.F) >= 0.7", 3),
        ("ema(reciprocity.strength, alpha=0.3, start=0.5) < 0.8 and turn > 4", 5),
    ],
)
def test_temporal_queries_over_trajectories(query: str, turn: int) -> None:
    assert match(parse(query), turns(ATTACK)).turn == turn
    if "strength" not in query:
        assert not match(parse(query), turns(BENIGN)).ever


@pytest.mark.shows("FR-012")
def test_patterns_are_composable() -> None:
    drift, doubt = parse("slope(reciprocity.F, window=3) > 0.1"), parse("streak(reciprocity.I > 0.6) >= 3")
    both = drift & doubt
    assert both == parse(f"{drift} and {doubt}")
    assert match(both, turns(ATTACK)).turn == max(match(one, turns(ATTACK)).turn or 0 for one in (drift, doubt))
    either = parse(f"k_of(1, {drift}, {doubt}, gradual_drift(x=context_integrity.F)) and not recovery")
    assert match(either, turns(ATTACK)).ever
    assert not match(either, turns(BENIGN)).ever
    nested = parse("share(delta(reciprocity.F) > 0.05) > 0.5 and peak(ema(reciprocity.F, alpha=0.5)) > 0.4")
    assert match(nested, turns(ATTACK)).turn == 5


@pytest.mark.shows("FR-012")
def test_named_patterns_ship_and_users_add_theirs(tmp_path: Path) -> None:
    assert len(shipped_patterns()) == 8
    path = tmp_path / "ours.yaml"
    path.write_text(
        "drift_in_doubt:\n"
        "  expression: gradual_drift(limit=limit) and sustained_indeterminacy\n"
        "  description: Both at once.\n"
        "  parameters: {limit: 0.1}\n"
    )
    pattern = parse("drift_in_doubt(limit=0.08)", patterns=load_patterns(path))
    assert match(pattern, turns(ATTACK)).turn == 4
    assert not match(pattern, turns(BENIGN)).ever


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
