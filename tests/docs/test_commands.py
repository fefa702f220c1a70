"""Every command line of every page is one that the program takes, and every name that a page imports is there."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from symtable import symtable

import pytest
import typer

from turnwise.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    if path.name not in ("CHANGELOG.md", "cli.md")  # history, and what the program writes
)
STANDS_FOR = {"…", "..."}
"""A command line with one of these is no whole one."""


def blocks(page: str, *languages: str) -> Iterator[str]:
    """The code blocks of a page in some languages."""
    for block in (ROOT / page).read_text(encoding="utf-8").split("```")[1::2]:
        language, _, code = block.partition("\n")
        if language.strip() in languages:
            yield code


def command_lines(page: str) -> list[str]:
    """The lines that run turnwise, each with those that go on from it, without what a shell does around it."""
    found = []
    for code in blocks(page, "", "bash", "sh", "console", "shell"):
        for line in code.replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ")
            if command.startswith("turnwise ") and not STANDS_FOR & set(command.split()):
                found.append(command)
    return found


def arguments(line: str) -> list[str]:
    """What a shell gives the command of a line, up to a pipe or the next command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= set("|&;<>"):
            break
        words.append(word)
    return words[1:]


@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)])
def test_the_program_takes_every_command_line(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = typer.main.get_command(app)
    for line in command_lines(page):
        command, context, left = (
            root,
            root.make_context("turnwise", ["list"], resilient_parsing=True),
            arguments(line),
        )
        if left[0] == "--version":
            continue
        while hasattr(command, "get_command"):
            below = command.get_command(context, left[0]) if left else None
            assert below is not None, f"{page}: there is no command {line!r}"
            command, left = below, left[1:]
        try:
            command.make_context(line, left, parent=context)
        except typer.Exit:
            pass  # --help
        except Exception as error:
            raise AssertionError(f"{page}: {line}: {error}") from error


def offers(module: str, name: str) -> bool:
    """Whether a module has a name; one of an integration is read, since importing brings the other package."""
    if not module.startswith("turnwise.integrations."):
        return hasattr(import_module(module), name) or bool(import_module(f"{module}.{name}"))
    spec = find_spec(module)
    assert spec and spec.origin, module
    table = symtable(Path(spec.origin).read_text(encoding="utf-8"), spec.origin, "exec")
    found = table.lookup(name) if name in table.get_identifiers() else None
    return found is not None and (found.is_assigned() or found.is_imported())


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page, "python"))])
def test_what_a_page_imports_of_turnwise_is_there(page: str) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "turnwise":
                assert node.module
                for name in node.names:
                    assert offers(node.module, name.name), (page, node.module, name.name)
