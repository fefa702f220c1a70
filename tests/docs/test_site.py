"""The site takes along what pages link to; dead links and what a page would load from another host are told."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import yaml
from documentation.outside import prepare
from documentation.site import dead_links, outside_requests

from documentation import outside

ROOT = Path(__file__).parents[2]

QUIET = """<html><head><link rel="stylesheet" href="assets/main.css">
<link rel="canonical" href="https://here.example/"></head><body>
<a href="https://elsewhere.example/">read more</a><img src="images/a.png"><script src="a.js">
</script>"""


def test_links_that_a_reader_may_follow_are_no_requests(tmp_path):
    (tmp_path / "index.html").write_text(QUIET)
    (tmp_path / "main.css").write_text("body { background: url('a.png') }")
    assert outside_requests(tmp_path) == []


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://elsewhere.example/a.js"></script>',
        '<img src="//elsewhere.example/a.png">',
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        "<p style=\"background: url('https://elsewhere.example/a.png')\">",
        '<pre class="mermaid">',
        '<a class="glightbox" href="images/a.png">',
    ],
)
def test_what_a_browser_loads_by_itself_is_told(element, tmp_path):
    (tmp_path / "index.html").write_text(QUIET + element)
    assert len(outside_requests(tmp_path)) == 1


def test_a_style_may_load_nothing_either(tmp_path):
    (tmp_path / "index.html").write_text(QUIET)
    (tmp_path / "main.css").write_text('@import "https://fonts.example/css";')
    assert outside_requests(tmp_path) == ["main.css: https://fonts.example/css"]


def test_a_folder_without_a_page_is_no_site(tmp_path):
    with pytest.raises(FileNotFoundError, match="build the site first"):
        outside_requests(tmp_path)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ('<a href="nowhere.html">', "nowhere.html: there is nothing"),
        ('<img src="images/b.png">', "images/b.png: there is nothing"),
        ('<a href="/nowhere/">', "/nowhere/: there is nothing"),
        ('<a href="guard.html#nowhere">', "guard.html#nowhere: no such place in the page"),
        ('<a href="#nowhere">', "#nowhere: no such place in the page"),
    ],
)
def test_a_dead_link_is_told(link, said, tmp_path):
    (tmp_path / "guard.html").write_text('<h1 id="guard">')
    (tmp_path / "index.html").write_text(f"<a href='guard.html#guard'><a href='https://elsewhere.example/'>{link}")
    assert dead_links(tmp_path) == [f"index.html: {said}"]


def test_links_that_lead_somewhere_are_not_told(tmp_path):
    (tmp_path / "how to").mkdir()
    (tmp_path / "how to" / "index.html").write_text(
        '<h1 id="a b"><a href="../index.html#top"><a href="mailto:a@b.example">'
    )
    (tmp_path / "index.html").write_text(
        '<a name="top"><a href="how%20to/#a%20b"><a href="/how%20to/index.html"><a href="">'
    )
    assert dead_links(tmp_path) == []


@pytest.fixture
def repository(tmp_path):
    """A repository whose pages link out of docs/ and back."""
    for path, text in {
        "docs/index.md": "[a](how-to/a.md) [data](../corpus/README.md#cards) [code](../src) ![big](../big.svg)",
        "docs/how-to/a.md": "[example](../../examples/a.py) [gone](nowhere.md) [top](#a) [far](https://far.example/)",
        "corpus/README.md": "[up](../docs/how-to/a.md#a) [chart](../docs/chart.svg) [no](no.svg) [more](MORE.md)",
        "corpus/MORE.md": "more",
        "examples/a.py": "",
        "docs/chart.svg": "<svg/>",
        "big.svg": "x" * (outside.MOST_BYTES + 1),
        "src/a.py": "",
        "unused.md": "",
        **dict.fromkeys(outside.ALWAYS, "# Always"),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_files_that_pages_link_to_are_taken_along_and_links_turned(repository):
    target = repository / "build" / "docs"
    (target / "old.md").mkdir(parents=True)
    prepare(repository, target)
    made = {path.relative_to(target).as_posix(): path.read_text() for path in target.rglob("*") if path.is_file()}
    assert made == {
        "index.md": "[a](how-to/a.md) [data](repository/corpus/read-me.md#cards) code big",
        "how-to/a.md": "[example](../repository/examples/a.py) [gone](nowhere.md) [top](#a) [far](https://far.example/)",
        "chart.svg": "<svg/>",
        "repository/corpus/read-me.md": "[up](../../how-to/a.md#a) [chart](../../chart.svg) no [more](MORE.md)",
        "repository/corpus/MORE.md": "more",
        "repository/examples/a.py": "",
        **{f"repository/{name}": "# Always" for name in outside.ALWAYS},
    }


def test_examples_of_the_script_hold():
    assert doctest.testmod(outside).failed == 0


def test_the_site_is_built_from_what_is_prepared():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert (config["docs_dir"], config["site_dir"]) == ("build/docs", "build/site")
    assert config["use_directory_urls"] is False and config["theme"]["font"] is False
