"""A hook of mkdocs: files of the repository that a page links to are part of the site.

Pages link to files outside docs/ by relative paths, so that the same link holds in a checkout. Here each such file
is carried along under ``repository/``, and the links to it, and of it, are turned to where they stand in the site.
Folders and large files are not carried along; of a link to one the words stay.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CARRIED = "repository"
READ_ME = "read-me.md"
"""The name of a README.md in the site, where one of that name would be taken for the index of a section."""

MOST_BYTES = 200_000
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")

ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages that stand in the navigation though no page need link to them."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that pages link to, and those that these link to."""
    root = Path(config.config_file_path).parent
    docs = Path(config.docs_dir).relative_to(root).as_posix()
    todo = [*ALWAYS]
    for file in files.documentation_pages():
        if Path(file.abs_src_path or "").is_relative_to(config.docs_dir):
            todo += outside(docs, f"{docs}/{file.src_uri}", file.content_string)
    seen: set[str] = set()
    while todo:
        path = todo.pop()
        if path in seen or not may_be_carried(root / path):
            continue
        seen.add(path)
        files.append(File.generated(config, in_the_site(path), abs_src_path=str(root / path)))
        if path.endswith(".md"):
            todo += outside(docs, path, (root / path).read_text(encoding="utf-8"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/, and those of a file that was carried along, to their places in the site."""
    root = Path(config.config_file_path).parent
    docs = Path(config.docs_dir).relative_to(root).as_posix()
    here = page.file.src_uri
    path = f"{docs}/{here}"
    if here.startswith(f"{CARRIED}/"):
        path = here.removeprefix(f"{CARRIED}/").replace(READ_ME, "README.md")
    return with_links(markdown, lambda link: in_site(docs, here, path, link, files))


def in_site(docs: str, here: str, path: str, link: str, files: Files) -> str | None:
    """Return a link as it must be in the site, or None where what it names is not there.

    Args:
        docs: the folder of pages, from the repository's root.
        here: the page with the link, in the site.
        path: the page with the link, from the repository's root.
        link: the link, as it stands in the file.
        files: what the site has.
    """
    name, mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if target.startswith(f"{docs}/"):
        found = target.removeprefix(f"{docs}/")
        if not here.startswith(f"{CARRIED}/"):
            return link
        if not found.endswith(".md") and files.get_file_from_path(found) is None:
            return None
    else:
        found = in_the_site(target)
        if files.get_file_from_path(found) is None:
            return None
    return posixpath.relpath(found, posixpath.dirname(here) or ".") + mark + anchor


def in_the_site(path: str) -> str:
    """Return where a file outside docs/ stands in the site.

    Args:
        path: the file, from the repository's root.
    """
    return f"{CARRIED}/{path}".replace("README.md", READ_ME)


def may_be_carried(path: Path) -> bool:
    """Return whether a file is there and small enough."""
    return path.is_file() and path.stat().st_size <= MOST_BYTES


def outside(docs: str, path: str, text: str) -> Iterable[str]:
    """Yield the files outside docs/ that a page links to, from the repository's root."""
    for _, _, link in LINK.findall(text):
        if not is_elsewhere(link):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.partition("#")[0]))
            if not target.startswith((f"{docs}/", "..")):
                yield target


def with_links(markdown: str, turned: Callable[[str], str | None]) -> str:
    """Return a page with its links turned; where there is nothing to link to, the words alone."""

    def replaced(found: re.Match[str]) -> str:
        mark, words, link = found.groups()
        if is_elsewhere(link):
            return found[0]
        to = turned(link)
        return words if to is None else f"{mark}[{words}]({to})"

    return LINK.sub(replaced, markdown)


def is_elsewhere(link: str) -> bool:
    """Return whether a link is to another host, or within its page."""
    return link.startswith(("#", "http:", "https:", "mailto:"))
