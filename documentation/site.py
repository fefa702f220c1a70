"""What a built site would ask of other hosts: nothing, or it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ELSEWHERE = re.compile(r"(?i)\s*(?:[a-z][a-z0-9+.-]*:)?//")
IN_STYLES = re.compile(r"""(?i)(?:url\(\s*|@import\s+)["']?((?:[a-z]+:)?//[^"')\s]+)""")
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
LINKS = {"stylesheet", "preconnect", "dns-prefetch", "preload", "modulepreload", "prefetch", "icon", "manifest"}
"""Kinds of ``<link>`` that a browser acts on by itself."""


def outside_requests(folder: Path) -> list[str]:
    """Return a line for each thing that a page or style of a site loads from another host.

    Links that a reader may click are none. Scripts are not run here; those of the theme ask other hosts where
    a page has diagrams or a repository alone, and a page with either is told.

    Args:
        folder: the built site.

    Raises:
        FileNotFoundError: there is no page in it.
    """
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        raise FileNotFoundError(
            f"{folder} has no page; build the site first with mkdocs build --strict --site-dir {folder}"
        )
    faults = [f"{page.relative_to(folder)}: {what}" for page in pages for what in _loads(page)]
    for style in sorted(folder.rglob("*.css")):
        faults += [
            f"{style.relative_to(folder)}: {url}" for url in IN_STYLES.findall(style.read_text(encoding="utf-8"))
        ]
    return faults


def _loads(page: Path) -> Iterator[str]:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    yield from reader.found


class _Reader(HTMLParser):
    """Collects what a browser loads by itself from another host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the start of an element."""
        given = {name: value or "" for name, value in attrs}
        loaded = given.get(LOADS.get(tag, ""), "")
        if tag == "link" and set(given.get("rel", "").split()) & LINKS:
            loaded = given.get("href", "")
        if ELSEWHERE.match(loaded):
            self.found.append(f"<{tag}> loads {loaded}")
        for url in IN_STYLES.findall(given.get("style", "")):
            self.found.append(f"<{tag}> has a style that loads {url}")
        if "mermaid" in given.get("class", "").split() or given.get("data-md-component") == "source":
            self.found.append(f"<{tag}> makes the theme's script ask another host")
