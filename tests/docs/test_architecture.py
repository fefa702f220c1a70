"""The diagram of docs/architecture.md is true of the imports; no circles; folders say what is in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "turnwise").rglob("*.py"))
}
OUTSIDE = {"turnwise", "turnwise.__main__", "turnwise._version"}
"""The front, which offers names of all packages, the way in, and a number: they are in no layer."""


def diagram() -> list[list[str]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^## Packages\n.*?```text\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    return [line.split() for line in block.splitlines()]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


@cache
def imports(name: str, *, at_start: bool) -> frozenset[str]:
    """The files of turnwise that a file imports; `at_start` leaves out what its functions import."""
    return frozenset(_imports(name, at_start))


def _imports(name: str, at_start: bool) -> Iterator[str]:
    todo: list[ast.AST] = [tree(name)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                yield from {whole if whole in FILES else node.module} & FILES.keys() - {name}
        elif isinstance(node, ast.Import):
            yield from {one.name for one in node.names} & FILES.keys() - {name}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
        elif not (at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def part(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def test_imports_go_down_in_the_diagram() -> None:
    layer = {name: place for place, row in enumerate(diagram()) for name in row}
    inside = [name for name in FILES if name not in OUTSIDE]
    assert layer.keys() == {part(name) for name in inside}
    for name in inside:
        for other in imports(name, at_start=False):
            if other not in OUTSIDE and part(other) != part(name):
                assert layer[part(name)] < layer[part(other)], f"{name} imports {other}"


def test_each_layer_of_the_diagram_is_used_by_one_above() -> None:
    used = {part(other) for name in FILES for other in imports(name, at_start=False) if part(other) != part(name)}
    assert {name for row in diagram()[1:] for name in row} <= used


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {name: set(imports(name, at_start=True)) for name in FILES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)


def test_every_folder_says_in_one_line_what_is_in_it() -> None:
    for name, path in FILES.items():
        if path.name == "__init__.py":
            told = ast.get_docstring(tree(name))
            assert told and len(told.split("\n")[0]) > 20, f"{name} has no docstring"
