"""The page of the glossary, from what the explorer says where one points at a word."""

from __future__ import annotations

from documentation.reference import MADE, table


def pages() -> dict[str, str]:
    """Return the page by its path from the repository's root."""
    from turnwise.explorer.glossary import TERMS

    lines = ["# Glossary", "", MADE, "", "The explorer says the same where you point at one of these words.", ""]
    return {"docs/glossary.md": "\n".join([*lines, *table(("word", "meaning"), TERMS.items())]).rstrip() + "\n"}
