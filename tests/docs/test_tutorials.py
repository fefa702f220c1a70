"""Tutorials run as pasted, in order, and print what they say they print."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import run

ROOT = Path(__file__).parents[2]


def test_guard_a_chat_in_ten_minutes(folder):
    run("tutorials/guard-a-chat.md")


def test_evaluate_your_data(folder):
    run("tutorials/evaluate-your-data.md")


def test_from_a_pattern_to_a_rule(folder):
    run("tutorials/from-pattern-to-rule.md")
    assert (folder / "matches.html").is_file()


@pytest.mark.integration
def test_reproduce_the_study(folder):
    (folder / "corpus").symlink_to(ROOT / "corpus")
    run("tutorials/reproduce-the-study.md")
    assert (folder / "out" / "report.html").is_file()
