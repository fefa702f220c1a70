"""docs/notebook.md runs cell by cell, and what its cells end in shows itself as a notebook shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "notebook.md"


def run_cell(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line; None where that is a statement."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(PAGE), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names) if last else None


def shown(value: Any) -> str:
    """Return the rich form that a notebook would take of a value."""
    if hasattr(value, "_repr_html_"):
        return value._repr_html_()
    return str(value._repr_mimebundle_()) if hasattr(value, "_repr_mimebundle_") else ""


def test_the_page_runs_and_its_cells_show_themselves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    values = {}
    for cell in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        values[cell.strip().split("\n")[-1]] = run_cell(cell, names)
    for last in ("report", "report.to_frame()", "matches", "matches.to_frame()"):
        assert "<table" in shown(values[last]), last
    trajectory = 'store.trajectory("first", first.sequence_id)'
    assert "<table" in shown(values[trajectory])
    assert list(values[f"{trajectory}.to_frame()"].columns)
    assert type(values["report.plot()"]).__name__ == "FacetChart"
    assert len(values["matches.to_frame()"]) == len(names["matches"]) > 0


def test_what_a_query_shows_is_escaped(tmp_path):
    import turnwise
    from turnwise.conversation import Label

    chat = turnwise.Conversation.human_ai("a", "b")
    chat.add_prompt("Hello")
    with turnwise.Store(tmp_path / "s.db", create=True) as store:
        store.add_sequences([turnwise.Sequence("<script>x</script>", Label.ATTACK, "<b>", chat)])
        turnwise.evaluate(store, "r", "scripted:0.9")
        found = store.query("peak(F) > 0.5", "r")
        html, text = found._repr_html_(), repr(found)
    assert "&lt;script&gt;x&lt;/script&gt;" in html
    assert "<script>" not in html
    assert "<b>" not in html
    assert "1/1" in text
