"""Tutorials do what they say: in an empty folder, with the installed command, word by word."""

from __future__ import annotations

import csv

from pages import follow


def test_guard_a_chat(folder):
    follow("tutorials/guard-a-chat.md")


def test_evaluate_your_data(folder):
    follow("tutorials/evaluate-your-data.md")
    with (folder / "verdicts.csv").open() as file:
        fired = {(row["sequence_id"], row["detector"]) for row in csv.DictReader(file) if row["fired"] == "true"}
    assert fired == {("t3", "any_turn"), ("t3", "cusum")}
