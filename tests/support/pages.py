"""Pages of the documentation, run as a reader would: blocks of Python, commands and files, in their order."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.cli import main

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A block of a page.

    Args:
        language: what it is written in.
        title: name of the file that it is; empty where it is none.
        text: what is in it.
        line: the line of the page at which it begins.
    """

    language: str
    title: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, named from the folder of the documentation."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Block(
            found[1],
            title[1] if (title := TITLE.search(found[2])) else "",
            found[3],
            text[: found.start()].count("\n") + 1,
        )
        for found in FENCE.finditer(text)
    ]


def run(page: str, **names: Any) -> dict[str, Any]:
    """Run a page in the present folder and return the names that its Python left.

    Blocks with a title become files. Python runs in one namespace. Of the commands in ``sh``, those of turnwise
    run, each to its end; what stands in ``bash`` is the reader's, and so is installing. Text right after
    one of these is what it prints, word for word; three dots stand for anything.

    Args:
        page: the page, from the folder of the documentation.
        names: what the Python finds beside the built-in names.
    """
    printed: str | None = None
    for block in blocks(page):
        where = f"{page}, line {block.line}"
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
            continue
        if block.language == "text" and printed is not None:
            assert matches(block.text, printed), f"{where}: it prints\n{printed}"
        printed = None
        out = io.StringIO()
        if block.language == "python":
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, where, "exec"), names)
            printed = out.getvalue()
        elif block.language == "sh":
            for command in commands(block.text):
                with contextlib.redirect_stdout(out):
                    command_ends_well(command, where)
            printed = out.getvalue()
    return names


def commands(text: str) -> list[list[str]]:
    """Return the arguments of the commands of turnwise in a block."""
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    return [line[1:] for line in lines if line[:1] == ["turnwise"]]


def command_ends_well(arguments: list[str], where: str) -> None:
    """Run a command; it has to end with 0."""
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as leaving:
        assert not leaving.code, f"{where}: turnwise {shlex.join(arguments)}\n{err.getvalue()}"


def matches(said: str, printed: str) -> bool:
    """Return whether what is printed is what a page says, ends of lines aside.

    >>> matches("a ... c\\n", "a b c"), matches("a", "b")
    (True, False)
    """
    plain = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    wanted = "\n".join(line.rstrip() for line in said.strip().splitlines())
    return re.fullmatch(re.escape(wanted).replace(r"\.\.\.", ".*?"), plain, flags=re.DOTALL) is not None
