"""Charts: what is in them, and that a page of them is whole and harmless."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Turn
from turnwise.errors import UsageError
from turnwise.plots import MatchedLine, check_target, draw, matches_chart, save, trajectory_chart
from turnwise.scoring import Score, TurnScores

NASTY = 'First </script><script>alert("owned")</script> <!-- \u2028 & "quotes"'


def spec(prompt: str = "Hello") -> dict[str, Any]:
    turns = [Turn(1, prompt, "Yes."), Turn(2, "More", None), Turn(3, "x" * 5000, "No.")]
    scores = [
        TurnScores(1, {"reciprocity": Score(0.9, 0.2, 0.1)}, 5, {"reciprocity": Score(0.8, 0.1, 0.1)}, 4),
        TurnScores(2, {"candour": Score(0.5, 0.5, 0.5)}, 4),
        TurnScores(3, {"reciprocity": Score(0.1, 0.2, 0.9)}, 5000),
    ]
    return trajectory_chart(scores, turns, title="attack_01", subtitle="attack, made")


def rows(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    [data] = drawn["datasets"].values() if "datasets" in drawn else [drawn["data"]["values"]]
    return list(data)


def test_a_trajectory_has_a_panel_for_each_principle_and_side() -> None:
    assert {row["principle"] for row in rows(spec())} == {"candour", "reciprocity", "reciprocity (response)"}


def test_gaps_stay_gaps() -> None:
    falsity = [
        row["value"] for row in rows(spec()) if (row["principle"], row["component"]) == ("reciprocity", "F")
    ]
    assert falsity == [0.1, None, 0.9]


@pytest.fixture(scope="module")
def drawings() -> dict[str, str]:
    """Return charts as SVG, by name, drawn together."""
    specs = {
        "gaps": spec(),
        "empty": trajectory_chart([TurnScores(1, {})], [Turn(1, "Hello")], title="empty"),
        "nothing": matches_chart([], title="nothing"),
    }
    return {name: str(drawn) for name, drawn in draw(specs).svg.items()}


def test_a_gap_breaks_the_line(drawings: dict[str, str]) -> None:
    drawn = drawings["gaps"]
    paths = re.findall(
        r'aria-roledescription="line mark"[^>]*? d="([^"]+)"|<path[^>]*line mark[^>]*d="([^"]+)"', drawn
    )
    reciprocity = [one or other for one, other in paths]
    assert any(path.count("M") == 2 for path in reciprocity)
    assert not any("NaN" in path for path in reciprocity)


def test_texts_of_turns_are_there_for_hovering_and_cut_to_a_length() -> None:
    texts = {(row["turn"], row["text"]) for row in rows(spec()) if row["principle"] == "reciprocity"}
    assert (1, "Hello") in texts
    assert max(len(text) for _, text in texts) == 600
    replies = {row["text"] for row in rows(spec()) if row["principle"] == "reciprocity (response)"}
    assert replies == {"Yes.", "", "No."}


def test_no_two_components_share_a_dash_or_a_shape() -> None:
    text = json.dumps(spec())
    assert all(colour in text for colour in ("#0072B2", "#E69F00", "#D55E00"))
    assert "[7, 3], [2, 2], [1, 0]" in text
    assert '"circle", "square", "triangle-up"' in text


def test_matches_are_marked_at_their_first_turn() -> None:
    lines = [
        MatchedLine("a", "attack", 2, {"reciprocity.F": (0.1, 0.9, None), "T": (0.5, None, 0.5)}),
        MatchedLine("b", "benign", 1, {"reciprocity.F": (0.8,), "T": (0.5,)}),
    ]
    drawn = rows(matches_chart(lines, title="peak(F) > 0.5"))
    firsts = [(row["sequence"], row["series"], row["turn"]) for row in drawn if row["first"]]
    assert firsts == [("a", "reciprocity.F", 2), ("a", "T", 2), ("b", "reciprocity.F", 1), ("b", "T", 1)]


def test_a_page_is_whole_and_no_text_ends_its_script(tmp_path: Path) -> None:
    save(spec(NASTY), tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert page.lower().count("</script") == page.lower().count("<script>") == 2
    assert 'alert("owned")' not in page
    assert not re.search(r"(src|href)=", re.sub(r"(?s)<script>.*?</script>", "", page))
    [shown] = re.findall(r'vegaEmbed\("#chart", (\{.*\}), \{"renderer"', page)
    assert json.loads(shown) == json.loads(json.dumps(spec(NASTY)).replace(r"\u2028", r"\\u2028"))
    assert "window.vegaEmbed" in page


def test_an_empty_trajectory_or_no_match_is_still_a_chart(drawings: dict[str, str]) -> None:
    assert drawings["empty"].startswith("<svg")
    assert "nothing" in drawings["nothing"]


def test_a_chart_is_written_as_pdf(tmp_path: Path) -> None:
    save(spec(), tmp_path / "chart.pdf")
    assert (tmp_path / "chart.pdf").read_bytes().startswith(b"%PDF")


def test_a_missing_package_is_named_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r'pip install "turnwise\[study\]"'):
        check_target(tmp_path / "chart.svg")


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(UsageError, match=r"can't write .*taken\.svg"):
        save(spec(), tmp_path / "taken.svg")
