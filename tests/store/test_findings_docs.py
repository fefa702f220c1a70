"""docs/findings.md says what is so: what other engines read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.found import conversation, make_findings

DOCS = Path(__file__).parents[2] / "docs" / "findings.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_findings(
        tmp_path / "findings", [conversation("a", 0.1, 0.7)], [conversation("b", 0.2), conversation("c", 0.9)]
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snippets(language: str) -> list[str]:
    """Return the blocks of code of a language in the page."""
    return [block.split("```")[0] for block in DOCS.read_text().split(f"```{language}\n")[1:]]


def test_duckdb_reads_them(here: Path) -> None:
    import duckdb

    [statement] = snippets("sql")
    rows = duckdb.execute(statement).fetchall()
    assert [row[:3] for row in rows] == [("logs", "c", 1), ("logs", "a", 2)]
    assert rows[0][3].startswith("c: what about part 1?")


def test_polars_and_pyarrow_read_them(here: Path) -> None:
    for snippet, package in zip(snippets("python"), ("polars", "pyarrow"), strict=True):
        try:
            __import__(package)
        except ImportError:
            continue
        names: dict[str, object] = {}
        exec(compile(snippet, str(DOCS), "exec"), names)
        if package == "pyarrow":
            assert names["table"].num_rows == 2  # type: ignore[attr-defined]
