"""What a person does with the embedded observer itself: read its card, and train their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.observers.local.weights import SHIPPED, read_metrics

Cli = Callable[..., Any]


def test_the_card_says_what_a_reader_needs(cli: Cli) -> None:
    done = cli("observers", "card", "local")
    assert done.code == 0
    for heading in ("## Intended use", "## Weights and training data", "## Known failures"):
        assert heading in done.out
    assert cli("observers", "card", "local", "--json").json == read_metrics()


def test_weights_of_ones_own_have_a_card(cli: Cli, tmp_path: Path) -> None:
    folder = shutil.copytree(SHIPPED, tmp_path / "model")
    assert cli("observers", "card", f"local:{folder}").out == cli("observers", "card", "local").out


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


def test_training_says_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "--data", tmp_path, "--out", tmp_path / "out", "--twins", tmp_path / "none")
    assert done.code == 1
    assert "give the twins of the source repository with --twins PATH" in done.err
    assert not (tmp_path / "out").exists()


def test_training_needs_its_extra_or_its_data(cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "--data", tmp_path, "--out", tmp_path / "out", "--without-pairs")
    assert done.code == 1
    assert "turnwise[train]" in done.err or "MANIFEST.json" in done.err
