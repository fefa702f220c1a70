"""What orders and mentions are learned from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.guard_accuracy import CASES, read_cases
from training.orders import own_texts, texts_of_others

from training import order_languages


def test_nothing_is_learned_from_the_held_cases() -> None:
    held = {case.text for case in read_cases(CASES / "use" / "held.jsonl")}
    texts = [*own_texts()]
    assert len(held) == 300
    assert held.isdisjoint(text.said for text in texts)
    assert {text.kind for text in texts} == {"pairs", "cases", "use", "mentions"}


def test_a_source_that_may_not_be_trained_on_is_refused(tmp_path: Path) -> None:
    name = "single/train/giskard_injections.jsonl"
    (tmp_path / "MANIFEST.json").write_text(json.dumps({name: {"train": False}}), encoding="utf-8")
    with pytest.raises(ValueError, match="is not among what may be trained on"):
        [*texts_of_others(tmp_path)]


def test_each_language_has_orders_and_honest_sentences_and_no_opened_case_is_among_them() -> None:
    opened = {text.said for text in order_languages.opened_texts() if text.kind == "opened"}
    texts = [*order_languages.own_texts()]
    assert len(opened) == 200
    assert opened.isdisjoint(text.said for text in texts)
    for row in order_languages.rows_of(order_languages.LANGUAGES):
        assert min(len(row["orders"]), len(row["others"])) >= 14, row["language"]
    assert len({text.said for text in texts}) == len(texts)
