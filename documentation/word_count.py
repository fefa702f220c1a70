"""Words of the pages that people write: tables count; code, and what programs print or write, does not."""

from __future__ import annotations

import re
from pathlib import Path

from documentation.reference import MADE, ROOT

WRITTEN = ("docs/cli.md", "docs/model-card.md", "docs/results.md", "docs/study-results.md")
"""Pages that programs write, beside those that ``python -m documentation`` makes."""

BLOCK = re.compile(r"<!-- .*?<!-- end -->", flags=re.DOTALL)
"""A part of a page that a program writes."""


def hand_written() -> dict[str, str]:
    """Return the text of each page under docs/ that people write, by its path from the repository's root."""
    texts = {_name(path): path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
    return {name: BLOCK.sub("", text) for name, text in texts.items() if name not in WRITTEN and MADE not in text}


CODE = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)


def words(*, code: bool = False) -> dict[str, int]:
    """Return the number of words of each such page, where asked for with those of code and of what it prints."""
    return {name: len((text if code else CODE.sub("", text)).split()) for name, text in hand_written().items()}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
