"""The model card: current, and true to the metrics."""

from __future__ import annotations

from pathlib import Path

from turnwise.observers.local import card
from turnwise.observers.local.weights import read_metrics

CARD = Path(__file__).parents[3] / "docs" / "model-card.md"


def test_the_card_in_the_documentation_is_current() -> None:
    assert CARD.read_text(encoding="utf-8") == card.render_card(read_metrics())


def test_the_card_names_what_a_reader_needs() -> None:
    metrics = read_metrics()
    text = card.render_card(metrics)
    assert metrics["weights_sha256"][:12] in text
    assert all(name in text for name in metrics["data_sha256"])
    for heading in ("## Intended use", "## Weights and training data", "## Development sets", "## Known failures"):
        assert heading in text
    for name, count in metrics["benchmark"]["looks"].items():
        assert f"{name} {count}" in text
    for row in metrics["benchmark"]["rows"]:
        assert f"| {row['name']} |" in text


def test_a_card_without_figures_on_development_sets() -> None:
    metrics = {name: value for name, value in read_metrics().items() if name != "benchmark"}
    assert "## Development sets" not in card.render_card(metrics)
