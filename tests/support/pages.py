"""Pages of the documentation, run as a reader would: blocks of Python, commands and files, in their order."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.cli import main

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
FIGURES = re.compile(r"[\d▁▂▃▄▅▆▇█]+([.,]\d+)*")
MAY_DIFFER = "may differ"
"""What the paragraph above an output says where the figures in it are not those of every machine."""


class Block(NamedTuple):
    """A block of a page; a title is the name of the file that it is."""

    language: str
    title: str
    text: str
    line: int
    above: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, named from the folder of the documentation."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Block(
            found[1],
            title[1] if (title := TITLE.search(found[2])) else "",
            found[3],
            text[: found.start()].count("\n") + 1,
            text[: found.start()].strip().rpartition("\n\n")[2],
        )
        for found in FENCE.finditer(text)
    ]


def run(page: str, **names: Any) -> dict[str, Any]:
    """Run a page in the present folder and return the names that its Python left.

    Blocks with a title become files. Python runs in one namespace. Of the commands in ``sh``, those of turnwise
    run, each to its end; what stands in ``bash`` is the reader's, and so is installing. Text right after
    one of these is what it prints, word for word; three dots stand for anything.
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


def follow(page: str, instead: Mapping[str, Callable[[], str]] | None = None) -> None:
    """Do in the present folder all that a tutorial says, with the installed command, as its reader does.

    Blocks with a title become files; ``sh`` is run by a shell, and prints nothing but what the ``text`` after it
    says. Where the paragraph above that says that figures may differ, any figures do. ``bash`` may install
    turnwise, nothing else.
    """
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        where = f"{page}, line {block.line}"
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "bash":
            assert all(line.startswith("python -m pip install") for line in block.text.splitlines()), where
        elif block.language == "sh":
            act = (instead or {}).get(block.text.strip())
            printed = _in_shell(block.text, where) if act is None else act()
            said = after.text if after is not None and after.language == "text" else ""
            shape = after is not None and MAY_DIFFER in after.above
            assert matches(said, printed, shape=shape), f"{where}: it prints\n{printed}"
        else:
            assert block.language == "text", f"{where}: a block of {block.language!r} has neither title nor output"


def _in_shell(text: str, where: str) -> str:
    """Run commands as they are and return what they print; they have to end well."""
    import turnwise

    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": path, "PYTHONPATH": str(Path(turnwise.__file__).parents[1]), "COLUMNS": "100"}
    shell = ["bash", "-e", "-c", text]
    ran = subprocess.run(shell, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{where}: it ends with {ran.returncode}\n{ran.stderr}"
    return ran.stdout


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


def matches(said: str, printed: str, shape: bool = False) -> bool:
    """Return whether what is printed is what a page says, ends of lines aside, or with `shape` but for figures.

    >>> matches("a ... c\\n", "a b c"), matches("a", "b")
    (True, False)
    >>> matches("1 of 2 = 50.0 %", "10 of 12 =  83.3 %", shape=True), matches("1 of 2", "none", shape=True)
    (True, False)
    """
    plain, wanted = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (printed, said))
    if shape:
        plain, wanted = (FIGURES.sub("0", re.sub(r" +|─+", " ", text)) for text in (plain, wanted))
    return re.fullmatch(re.escape(wanted).replace(r"\.\.\.", ".*?"), plain, flags=re.DOTALL) is not None
