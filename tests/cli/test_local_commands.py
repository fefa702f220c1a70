"""What a person does with the embedded observers themselves: read their card, use weights of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.observers.local.weights import SHIPPED, read_metrics, shipped

Cli = Callable[..., Any]


def test_the_card_says_what_a_reader_needs(cli: Cli) -> None:
    done = cli("observers", "card")
    assert done.code == 0
    for heading in ("## Intended use", "## `local-small`: weights and training data", "## Known limits"):
        assert heading in done.out
    metrics = cli("observers", "card", "local", "--json").json
    assert metrics == {"local": read_metrics(shipped("local"))}


def test_weights_of_ones_own_have_a_card(cli: Cli, tmp_path: Path) -> None:
    folder = shutil.copytree(shipped("local-small"), tmp_path / "model")
    own = cli("observers", "card", f"local:{folder}").out
    assert own.replace(f"local:{folder}", "local-small") == cli("observers", "card", "local-small").out


def test_the_page_is_current() -> None:
    from turnwise.observers.local.card import render_card

    page = Path(__file__).parents[2] / "docs" / "model-card.md"
    metrics = {name: read_metrics(shipped(name)) for name in SHIPPED}
    assert page.read_text(encoding="utf-8") == render_card(metrics), (
        "the weights changed: python benchmarks/observer.py --data PATH --write --looks N"
    )
    assert "not read yet" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("scripted", 2, "'scripted' has no model card"),
        ("local:nowhere", 1, "such a folder, as in local:path/to/model"),
    ],
)
def test_an_observer_without_a_card_is_refused(cli: Cli, name: str, code: int, message: str) -> None:
    done = cli("observers", "card", name)
    assert done.code == code
    assert message in done.err
