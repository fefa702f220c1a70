"""Builds the documentation site, and tells its dead links and what it would ask of other hosts."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from documentation.outside import prepare

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

FETCHED = {"mermaid", "glightbox", "pyodide"}
"""Classes for which the theme's script fetches a library from another host."""


def build(root: Path) -> list[str]:
    """Build the site as ``mkdocs.yml`` says, strictly, and return a line for each fault.

    Zensical tells dead links in Markdown and then refuses. Docstrings that can't be read it only logs, and images
    and links to files it does not follow: both are faults here.
    """
    from zensical import build

    prepare(root, root / "build" / "docs")
    logged = _Warnings()
    logging.getLogger().addHandler(logged)
    try:
        build(str(root / "mkdocs.yml"), {"strict": True, "clean": True})
    except RuntimeError as error:
        logged.told.append(f"the site can't be built: {str(error).splitlines()[0]}")
    finally:
        logging.getLogger().removeHandler(logged)
    site = root / "build" / "site"
    return logged.told or [*dead_links(site), *outside_requests(site)]


def dead_links(folder: Path) -> list[str]:
    """Return a line for each link of a page of the built site that leads nowhere."""
    folder = folder.resolve()
    pages = _pages(folder)
    faults = []
    for page, read in pages.items():
        for link in read.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            start = folder if url.path.startswith("/") else page.parent
            target = (start / unquote(url.path).lstrip("/")).resolve() if url.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                faults.append(f"{page.relative_to(folder)}: {link}: there is nothing")
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].places:
                faults.append(f"{page.relative_to(folder)}: {link}: no such place in the page")
    return faults


def outside_requests(folder: Path) -> list[str]:
    """Return a line for each thing that a page or style of a site loads from another host.

    Links that a reader may click are none. Scripts are not run here; those of the theme ask other hosts where
    a page has diagrams, galleries, code to run or a repository alone, and a page with one of these is told.
    """
    folder = folder.resolve()
    faults = [
        f"{page.relative_to(folder)}: {what}" for page, read in _pages(folder).items() for what in read.loads
    ]
    for style in sorted(folder.rglob("*.css")):
        faults += [
            f"{style.relative_to(folder)}: {url}" for url in IN_STYLES.findall(style.read_text(encoding="utf-8"))
        ]
    return faults


def _pages(folder: Path) -> dict[Path, _Reader]:
    pages = {page: _Reader(page.read_text(encoding="utf-8")) for page in sorted(folder.rglob("*.html"))}
    if not pages:
        raise FileNotFoundError(f"{folder} has no page; build the site first: python -m documentation --build")
    return pages


class _Warnings(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.told.append(record.getMessage())


class _Reader(HTMLParser):
    """Collects a page's links, the places that links may lead to, and what a browser loads from another host."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the start of an element."""
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        loaded = given.get(LOADS.get(tag, ""), "")
        if tag == "link" and set(given.get("rel", "").split()) & LINKS:
            loaded = given.get("href", "")
        self.links += [link for link in (loaded, given.get("href", "") if tag == "a" else "") if link]
        if ELSEWHERE.match(loaded):
            self.loads.append(f"<{tag}> loads {loaded}")
        for url in IN_STYLES.findall(given.get("style", "")):
            self.loads.append(f"<{tag}> has a style that loads {url}")
        if FETCHED & set(given.get("class", "").split()) or given.get("data-md-component") == "source":
            self.loads.append(f"<{tag}> makes the theme's script ask another host")
