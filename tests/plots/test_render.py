"""Drawing in a process of its own: texts that would end it, and what is said where it ends all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.memory import too_little_to_draw

from turnwise.errors import ChartError
from turnwise.plots import save
from turnwise.plots.render import canonical, chart, pdf_of, render

HOSTILE = "a\x00\x01\x1b[2J\ufffe\ud800\u202eb"


def spec(name: str) -> dict[str, Any]:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.4.1.json",
        "title": name,
        "data": {"values": [{"name": name, "value": 1}]},
        "mark": "bar",
        "encoding": {"x": {"field": "name"}, "y": {"field": "value", "type": "quantitative"}},
    }


def test_a_name_with_control_characters_is_drawn_with_their_escapes(tmp_path: Path) -> None:
    save(spec(HOSTILE), tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert drawn.count(r"a\x00\x01\x1b[2J\ufffe\ud800\u202eb") >= 2


def test_what_fails_leaves_the_others_as_they_are() -> None:
    bad, good = render([pdf_of("no drawing"), pdf_of('<svg xmlns="http://www.w3.org/2000/svg"/>')])
    assert isinstance(good, bytes)
    assert good.startswith(b"%PDF")
    assert str(bad) == "a chart can't be drawn: unknown token at 1:1"


def test_a_process_that_ends_costs_one_drawing_and_no_more(tmp_path: Path) -> None:
    with too_little_to_draw():
        first, second, good = render(
            [chart(spec("a"), "svg"), chart(spec("a"), "png"), pdf_of('<svg xmlns="http://www.w3.org/2000/svg"/>')]
        )
        with pytest.raises(
            ChartError, match=r"^a chart can't be drawn: .* was ended \(.+\); it may need more memory"
        ):
            save(spec("a"), tmp_path / "chart.svg")
    assert isinstance(first, ChartError)
    assert isinstance(second, ChartError)
    assert isinstance(good, bytes)
    assert not list(tmp_path.iterdir())


def test_a_drawing_that_takes_too_long_is_ended() -> None:
    [made] = render([chart(spec("a"), "svg")], seconds=0.01)
    assert isinstance(made, ChartError)
    assert str(made) == "a chart can't be drawn: it took longer than 0.01 s"


def test_a_pdf_of_another_form_is_left_as_it_is() -> None:
    assert canonical(b"%PDF-1.4 nothing that we know") == b"%PDF-1.4 nothing that we know"
    cut = b"%PDF-1.7\n\n1 0 obj\n<<\n  /Type /Catalog\n>>\ntrailer\n<<\n  /Root 1 0 R\n>>"
    assert canonical(cut) == cut
    past_the_end = b"%PDF-1.7\n\n1 0 obj\n<<\n  /Length 99\n>>\nstream\n\nendobj\ntrailer\n<<\n  /Root 1 0 R\n>>"
    assert canonical(past_the_end) == past_the_end
