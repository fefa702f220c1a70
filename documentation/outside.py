"""The pages as the site has them: those of docs/, with the files of the repository that they link to.

Pages link to files outside docs/ by relative paths, so that the same link holds in a checkout. Here each such file
is carried along under ``repository/``, and the links to it, and of it, are turned to where they stand in the site.
Folders and large files are not carried along; of a link to one the words stay.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

DOCS = "docs"
CARRIED = "repository"
READ_ME = "read-me.md"
"""The name of a README.md in the site, where one of that name would be taken for the index of a section."""

MOST_BYTES = 200_000
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")

ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages that stand in the navigation though no page need link to them."""


def prepare(root: Path, target: Path) -> None:
    """Write what the site is built from into a folder, which is emptied first."""
    pages = sorted(one for one in (root / DOCS).rglob("*") if one.is_file())
    paths = [*(page.relative_to(root).as_posix() for page in pages), *carried(root, pages)]
    places = {path: in_the_site(path) for path in paths}
    shutil.rmtree(target, ignore_errors=True)
    for path, place in places.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            text = turned(path, (root / path).read_text(encoding="utf-8"), places.values())
            (target / place).write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(root / path, target / place)


def carried(root: Path, pages: Iterable[Path]) -> list[str]:
    """Return the files outside docs/ that pages link to, and those that these link to."""
    todo = [*ALWAYS]
    for page in pages:
        if page.suffix == ".md":
            todo += outside(page.relative_to(root).as_posix(), page.read_text(encoding="utf-8"))
    seen: set[str] = set()
    while todo:
        path = todo.pop()
        if path not in seen and may_be_carried(root / path):
            seen.add(path)
            if path.endswith(".md"):
                todo += outside(path, (root / path).read_text(encoding="utf-8"))
    return sorted(seen)


def turned(path: str, text: str, places: Collection[str]) -> str:
    """Return a page with its links as they must be in the site."""
    return with_links(text, lambda link: in_site(path, link, places))


def in_site(path: str, link: str, places: Collection[str]) -> str | None:
    """Return a link as it must be in the site, or None where what it names is not there.

    Links between pages of docs/ stay as they are, so that the build tells those that lead nowhere.

    >>> in_site("docs/how-to/own-loader.md", "../../examples/loader.py", ["repository/examples/loader.py"])
    '../repository/examples/loader.py'
    >>> in_site("CONTRIBUTING.md", "docs/architecture.md#flow", [])
    '../architecture.md#flow'
    >>> in_site("docs/index.md", "../src", [])
    """
    name, mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if is_page(target) and is_page(path):
        return link
    found = in_the_site(target)
    if found not in places and not (is_page(target) and target.endswith(".md")):
        return None
    return posixpath.relpath(found, posixpath.dirname(in_the_site(path)) or ".") + mark + anchor


def is_page(path: str) -> bool:
    """Return whether a file, named from the repository's root, is one of docs/."""
    return path.startswith(f"{DOCS}/")


def in_the_site(path: str) -> str:
    """Return where a file stands in the site.

    >>> in_the_site("docs/guard.md"), in_the_site("corpus/README.md")
    ('guard.md', 'repository/corpus/read-me.md')
    """
    if is_page(path):
        return path.removeprefix(f"{DOCS}/")
    return f"{CARRIED}/{path}".replace("README.md", READ_ME)


def may_be_carried(path: Path) -> bool:
    """Return whether a file is there and small enough."""
    return path.is_file() and path.stat().st_size <= MOST_BYTES


def outside(path: str, text: str) -> Iterable[str]:
    """Yield the files outside docs/ that a page links to, from the repository's root."""
    for _, _, link in LINK.findall(text):
        if not is_elsewhere(link):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.partition("#")[0]))
            if not target.startswith((f"{DOCS}/", "..")):
                yield target


def with_links(markdown: str, turn: Callable[[str], str | None]) -> str:
    """Return a page with its links turned; where there is nothing to link to, the words alone."""

    def replaced(found: re.Match[str]) -> str:
        mark, words, link = found.groups()
        if is_elsewhere(link):
            return found[0]
        to = turn(link)
        return words if to is None else f"{mark}[{words}]({to})"

    return LINK.sub(replaced, markdown)


def is_elsewhere(link: str) -> bool:
    """Return whether a link is to another host, or within its page."""
    return link.startswith(("#", "http:", "https:", "mailto:"))
