"""Tutorials do what they say: in an empty folder, with the installed command, word by word."""

from __future__ import annotations

import csv
from pathlib import Path

import yaml
from pages import follow

from turnwise import Store
from turnwise.conversation import Label


def test_guard_a_chat(folder):
    follow("tutorials/guard-a-chat.md")


def test_evaluate_your_data(folder):
    follow("tutorials/evaluate-your-data.md")
    with (folder / "verdicts.csv").open() as file:
        fired = {(row["sequence_id"], row["detector"]) for row in csv.DictReader(file) if row["fired"] == "true"}
    assert fired == {("t3", "any_turn"), ("t3", "cusum")}


def test_from_a_pattern_to_a_rule(folder):
    follow("tutorials/from-pattern-to-rule.md")
    with Store("work.db") as store:
        rule = yaml.safe_load(Path("ideas.yaml").read_text())["jump"]["expression"]
        rates = store.query(rule, run="first", source="held").by_label
    attacks, benign = rates[Label.ATTACK], rates[Label.BENIGN]
    assert attacks.of == 9 and attacks.count >= 6, "the rule no longer holds on the half that was put aside"
    assert benign.of == 10 and benign.count <= 2
