"""CONTRIBUTING.md names files, names and commands that are there."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import turnwise

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(
    {*re.findall(r"`((?:src|docs|tests|\.ci)/[^`* ]+)`", PAGE), *re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE)}
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_pages_name_enough_paths() -> None:
    assert len(PATHS) >= 20


@pytest.mark.parametrize(("kit", "module"), re.findall(r"Kit: `(\w+)\(.*?` from `([\w.]+)`", PAGE))
def test_every_kit_is_there(kit: str, module: str) -> None:
    assert callable(getattr(importlib.import_module(module), kit))


@pytest.mark.parametrize(("table", "path"), re.findall(r"`(_?[A-Z][A-Z_]+)` in `(src/[^`]+)`", PAGE))
def test_every_table_is_in_its_file(table: str, path: str) -> None:
    assert f"\n{table}" in (ROOT / path).read_text(encoding="utf-8")


def test_the_command_that_generates_the_docs_is_right(tmp_path: Path) -> None:
    (line,) = re.findall(r"^python -m typer (.*)$", PAGE, flags=re.MULTILINE)
    arguments = shlex.split(line.replace("docs/cli.md", str(tmp_path / "cli.md")))
    subprocess.run([sys.executable, "-m", "typer", *arguments], check=True, capture_output=True)
    made = (tmp_path / "cli.md").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_every_command_of_make_is_there() -> None:
    named = set(re.findall(r"`?make ([a-z-]+)", PAGE))
    assert named <= TARGETS
    assert TARGETS - named == {"clean"}


def test_the_hooks_are_commands_of_make_and_download_nothing() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert {hook["entry"].split()[-1] for hook in hooks} == {"lint", "types", "imports"} <= TARGETS


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["title"].partition(":")[0], citation["version"]) == ("turnwise", turnwise.__version__)
