"""The map from what users asked for to the test or benchmark that shows it, read from marks in these."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from documentation.reference import MADE, table

ROOT = Path(__file__).parents[1]
PAGE = "docs/specification.md"


class Requirement(NamedTuple):
    """One thing that users asked for, in our words, with what must be said of it in Markdown."""

    id: str
    words: str
    note: str


class Shown(NamedTuple):
    """A test, or a benchmark where `test` is empty, that shows a requirement by its number."""

    id: str
    path: str
    test: str = ""

    def __str__(self) -> str:
        """Return it as the page shows it: the file, and what the test says in words."""
        return f"`{self.path}`" + (f": {self.test.removeprefix('test_').replace('_', ' ')}" if self.test else "")


def parts() -> list[tuple[str, list[Requirement]]]:
    """Return the parts of the specification, each with its title and requirements, in order."""
    told = tomllib.loads((Path(__file__).parent / "specification.toml").read_text(encoding="utf-8"))
    return [(part["title"], [Requirement(*row) for row in part["words"]]) for part in told["part"]]


@functools.cache
def shown() -> tuple[Shown, ...]:
    """Return what shows a requirement: marked tests, then marked benchmarks, in the order of their files."""
    tests = [
        Shown(number, path.relative_to(ROOT).as_posix(), name)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "shows" in (source := path.read_text(encoding="utf-8"))  # few do, and parsing takes seconds
        for number, name in marks(ast.parse(source))
    ]
    benchmarks = [
        Shown(number, path.relative_to(ROOT).as_posix())
        for path in sorted((ROOT / "benchmarks").rglob("*.py"))
        if "Shows: " in (source := path.read_text(encoding="utf-8"))
        for number in claims(ast.get_docstring(ast.parse(source)) or "")
    ]
    return (*tests, *benchmarks)


def marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield number and name of each test that bears ``pytest.mark.shows``.

    >>> source = '@pytest.mark.shows("FR-001", "FR-002")\\ndef test_it(): pass'
    >>> list(marks(ast.parse(source)))
    [('FR-001', 'test_it'), ('FR-002', 'test_it')]
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.shows":
                    for argument in mark.args:
                        yield ast.literal_eval(argument), node.name


def claims(docstring: str) -> Iterator[str]:
    """Yield the numbers of a benchmark's line ``Shows: ...``.

    >>> list(claims('How fast it is.\\n\\nShows: SC-004, SC-007.\\n'))
    ['SC-004', 'SC-007']
    """
    for line in docstring.splitlines():
        if line.startswith("Shows: "):
            yield from line.removeprefix("Shows: ").rstrip(".").split(", ")


def pages() -> dict[str, str]:
    """Return the page, by its path from the repository's root."""
    found = shown()
    lines = [
        "# The specification, shown",
        "",
        MADE,
        "",
        "What users asked for, by the numbers of their documents, and the tests and benchmarks that show it. A",
        "test has its numbers in `@pytest.mark.shows(...)`, a benchmark in its docstring. Figures are in",
        "[results](results.md) and the [model card](model-card.md).",
        "",
    ]
    for title, requirements in parts():
        rows = []
        for one in requirements:
            by = "<br>".join(str(each) for each in found if each.id == one.id)
            rows.append((one.id, one.words + (f" ({one.note})" if one.note else ""), by))
        lines += [f"## {title}", "", *table(("number", "asked for", "shown by"), rows)]
    return {PAGE: "\n".join(lines).rstrip() + "\n"}
