"""What looks at a built site finds what a page would load from another host, and nothing else."""

from __future__ import annotations

import pytest
from documentation.site import outside_requests

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
