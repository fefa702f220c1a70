"""The model card: current, and true to the metrics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from turnwise.observers.local import card
from turnwise.observers.local.attempts import ATTEMPTS
from turnwise.observers.local.weights import read_metrics

WORDS = {
    "Attack_600": ("Attack_600",),
    "scenarios": ("scenarios",),
    "chains": ("chains",),
    "twins flagged": ("attacks by harm_at",),
    "twins ranked": ("above its twin",),
    "error of F": ("worst error of F",),
    "calibration error": ("calibration error",),
    "AUROC of I": ("AUROC of I",),
    "latency": (", ms",),
}
"""Words by which the measures that attempts were for are known."""

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


def test_the_card_says_what_was_tried_and_at_least_thrice_for_what_is_missed() -> None:
    text = card.render_card(read_metrics())
    assert all(one.what in text for one in ATTEMPTS)
    assert {one.kept for one in ATTEMPTS} == {True, False}
    tried = Counter(aim for one in ATTEMPTS for aim in one.aims)
    missed = {row["name"] for row in read_metrics()["benchmark"]["rows"] if row["holds"] is False}
    for name in missed:
        aims = [aim for aim, words in WORDS.items() if any(word in name for word in words)]
        assert aims, f"no attempt is for {name}"
        assert max(tried[aim] for aim in aims) >= 3, f"fewer than three attempts for {name}"


def test_a_card_without_figures_on_development_sets() -> None:
    metrics = {name: value for name, value in read_metrics().items() if name != "benchmark"}
    assert "## Development sets" not in card.render_card(metrics)
