"""The page of the glossary: words of the documentation, and what the explorer says where one points at a word."""

from __future__ import annotations

import tomllib

from documentation.reference import HERE, MADE, table


def pages() -> dict[str, str]:
    """Return the page by its path from the repository's root."""
    from turnwise.explorer import TERMS

    parts = tomllib.loads((HERE / "glossary.toml").read_text(encoding="utf-8"))
    lines = ["# Glossary", "", MADE, ""]
    lines += ["The words that these pages use without explaining them again, in plain words.", ""]
    for head, words in parts.items():
        rows = ((word, meaning or TERMS[word]) for word, meaning in words.items())
        lines += [f"## {head}", "", *table(("word", "meaning"), rows)]
    return {"docs/glossary.md": "\n".join(lines).rstrip() + "\n"}
