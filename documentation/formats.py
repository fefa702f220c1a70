"""The page of the formats that are read, from what their loaders say of them."""

from __future__ import annotations

from collections.abc import Iterator

from documentation.reference import MADE, words


def pages() -> dict[str, str]:
    """Return the page by its path from the repository's root."""
    lines = [
        "# Formats and data sets",
        "",
        MADE,
        "",
        "What [`turnwise import`](../datasets.md) and `turnwise scan` read, by the name that `--format` takes.",
        "`turnwise list datasets` says the same.",
        "",
        *_formats(),
    ]
    return {"docs/reference/formats.md": "\n".join(lines).rstrip() + "\n"}


def _formats() -> Iterator[str]:
    from turnwise.datasets import list_datasets

    notes = words("formats.toml")
    for info in list_datasets():
        yield from (f"## {info.name}", "", f"**{info.title}.** Shape: {_plain(info.shape)}.", "")
        if info.name in notes:
            yield from (notes[info.name], "")
        source = f"[{info.source}]({info.url})" if info.url else info.source
        yield from (f"- Source: {source}", f"- Licence: {info.licence}", f"- Labels: {info.label_meaning}")
        if info.columns:
            yield f"- Columns that can be named: {', '.join(f'`{one}`' for one in info.columns)}"
        yield ""


def _plain(shape: str) -> str:
    """Return a shape with its literal parts as code, so that braces and backslashes stay as they are."""
    first, last = shape.find("{"), shape.rfind("}") + 1
    return f"{shape[:first]}`{shape[first:last]}`{shape[last:]}" if last else shape
