"""Sections of docs/results.md that a benchmark of their own writes, and that benchmarks/judged.py keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

FIRST = ("What people judged", "Where a model gives way")
"""Headings of these sections, in their order at the top of the page."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def sections_of(page: str) -> dict[str, str]:
    r"""Return the text under each heading of a page, and by the empty name what stands above the first.

    >>> sections_of("# Page\n\nHello.\n\n## One\n\nText.\n")
    {'': '# Page\n\nHello.', 'One': 'Text.'}
    """
    above, *parts = f"\n{page}".split("\n## ")
    named = (part.partition("\n") for part in parts)
    return {"": above.strip(), **{heading.strip(): text.strip() for heading, _, text in named}}


def joined(sections: dict[str, str]) -> str:
    """Return the page of sections; those of `FIRST` come first."""
    rest = {heading: text for heading, text in sections.items() if heading}
    order = [*(heading for heading in FIRST if heading in rest), *(one for one in rest if one not in FIRST)]
    return "\n\n".join([sections[""], *(f"## {heading}\n\n{rest[heading]}" for heading in order)]) + "\n"


def put_section(path: Path, heading: str, text: str) -> None:
    """Put a section into a page, in place of what stood under its heading."""
    sections = sections_of(path.read_text(encoding="utf-8"))
    path.write_text(joined({**sections, heading: text}), encoding="utf-8")


def kept(path: Path, page: str) -> str:
    """Return a page that was made anew with the sections that others wrote into the one that stands."""
    others = sections_of(path.read_text(encoding="utf-8")) if path.exists() else {}
    return joined(sections_of(page) | {heading: others[heading] for heading in FIRST if heading in others})
