"""Relative links hold in a checkout, every page stands in the navigation, and pages have the site's headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "corpus").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site and code hosts make them."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).replace("`", "") for head in heads)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link}: there is nothing"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


def test_every_page_stands_once_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    lines = [line for line in navigation.splitlines() if not line.lstrip().startswith("#")]
    named = [found for line in lines for found in re.findall(r"[\w/.-]+\.md$", line)]
    assert len(named) == len(set(named))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    outside = {name.removeprefix("repository/") for name in named if name.startswith("repository/")}
    assert pages == set(named) - {f"repository/{name}" for name in outside}, "add the page to nav in mkdocs.yml"
    assert all((ROOT / name.replace("read-me.md", "README.md")).is_file() for name in outside)
