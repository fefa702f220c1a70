"""``turnwise judgements``: people correct labels, mark turns, see how far they agree, and take it into a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Cli

from turnwise.store import Store


@pytest.fixture
def said(cli: Cli, imported: Path) -> Path:
    """Return a store in which Ann and Ben have corrected labels and marked turns."""
    store = ("--store", imported)
    for name, label in (("attack_01", "attack"), ("benign_01", "benign"), ("benign_02", "attack")):
        for author in ("ann", "ben"):
            assert cli("judgements", "label", name, label, "--author", author, *store).code == 0
    assert (
        cli("judgements", "turn", "attack_01", "3", "--author", "ann", "--because", "his house", *store).code == 0
    )
    return imported


def test_what_is_said_is_kept_with_its_author(cli: Cli, said: Path) -> None:
    listed = cli("judgements", "list", "--store", said, "--json").json
    assert [(one["author"], one["label"]) for one in listed["corrections"][:2]] == [
        ("ann", "attack"),
        ("ben", "attack"),
    ]
    assert listed["corrections"][-1]["note"] == "his house"
    table = cli("judgements", "list", "--store", said).out
    assert "ann" in table
    assert "ben" in table
    with Store(said) as store:
        assert store.sequence("benign_02").label == "benign"


def test_agreement_comes_with_its_interval_or_a_reason(cli: Cli, said: Path) -> None:
    label, turned = cli("judgements", "agreement", "--store", said, "--json").json
    assert (label["what"], label["alpha"], label["units"]) == ("label", 1.0, 3)
    assert len(label["ci"]) == 2
    assert turned["reason"] == "agreement needs at least 2 units with 2 ratings each, not 0"
    assert "1.00 [" in cli("judgements", "agreement", "--store", said).out


def test_files_and_runs_are_made_of_it(cli: Cli, said: Path, tmp_path: Path) -> None:
    done = cli("judgements", "export", "--out", "people", "--as-runs", "--store", said, "--json").json
    assert done["runs"] == ["turned-by-ann"]
    assert set(done["files"]) == {"ann/turned.jsonl", "ann/corrections.jsonl", "ben/corrections.jsonl"}
    assert (tmp_path / "people/ann/turned.jsonl").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("label", "attack_01", "evil", "--author", "ann"),
            "a label must be one of attack, benign, unlabelled, not 'evil'",
        ),
        (("turn", "attack_01", "4", "--author", "ann"), "has turns 1 to 3, not 4"),
        (("turn", "attack_01", "-1", "--author", "ann"), "No such option"),
        (("turn", "attack_01", "x", "--author", "ann"), "'x' is no turn"),
        (("export", "--out", "people"), "has no corrections or judgements yet"),
    ],
)
def test_what_does_not_fit_is_refused(cli: Cli, imported: Path, arguments: tuple[str, ...], told: str) -> None:
    done = cli("judgements", *arguments, "--store", imported)
    assert done.code != 0
    assert told in " ".join(done.err.split())


def test_a_word_can_be_taken_back(cli: Cli, said: Path) -> None:
    assert "took back" in cli("judgements", "turn", "attack_01", "none", "--author", "ann", "--store", said).out
    assert all(
        one["kind"] == "label" for one in cli("judgements", "list", "--store", said, "--json").json["corrections"]
    )
