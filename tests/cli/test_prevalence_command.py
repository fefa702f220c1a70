"""``turnwise study prevalence``: from a scan's flags, and from labels that people gave a sample of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_findings import make_findings
from tests.conftest import Cli

from turnwise.findings import Findings


@pytest.fixture
def scanned(tmp_path: Path) -> Findings:
    peaks = [place / 5_000 for place in range(960)] + [0.5 + place / 100 for place in range(40)]
    return make_findings(str(tmp_path / "findings"), [peaks])


def test_flags_of_a_scan_become_a_prevalence_with_its_interval(cli: Cli, scanned: Findings) -> None:
    done = cli("study", "prevalence", scanned.folder)
    assert done.code == 0
    for told in ("40/1000 = 4.0 %", "flags by chance alone", "recall taken for it", "attacks that a model wrote"):
        assert told in done.out
    assert "it holds if recall and false-positive rate are the same here" in done.err


def test_json_has_every_number_with_its_interval(cli: Cli, scanned: Findings) -> None:
    found = cli("study", "prevalence", scanned.folder, "--json").json
    flags = found["from_flags"]
    assert flags["flagged"] == 40
    assert flags["prevalence"]["ci"][0] < flags["prevalence"]["value"] < flags["prevalence"]["ci"][1]
    assert found["from_labels"] is None


def test_a_sample_is_drawn_imported_labelled_and_gives_estimates(
    cli: Cli, scanned: Findings, tmp_path: Path
) -> None:
    drawn = cli("study", "prevalence", scanned.folder, "--label-sample", 60)
    assert drawn.code == 0
    assert "60 conversations drawn with seed 0" in drawn.out
    file, store = scanned.folder.path / "label-sample.jsonl", tmp_path / "labels.db"
    assert cli("import", file, "--store", store).code == 0
    chosen = json.loads((scanned.folder / "label-sample.json").read())["conversations"]
    for one in chosen[:4]:
        assert cli("judgements", "label", one["id"], "benign", "--author", "ann", "--store", store).code == 0
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text(
        "\n".join(
            json.dumps({"id": one["id"], "label": "attack" if one["stratum"] == "flagged, clearly" else "benign"})
            for one in chosen
        )
    )
    few = cli("study", "prevalence", scanned.folder, "--labels", store)
    assert few.code == 0
    assert "56 conversations of the sample have no label" in few.err
    every = cli("study", "prevalence", scanned.folder, "--labels", labelled)
    assert "2.0 % [" in every.out
    assert "far from flagged" in every.out
    found = cli("study", "prevalence", scanned.folder, "--labels", labelled, "--json").json["from_labels"]
    assert found["prevalence"]["value"] == pytest.approx(0.02)
    assert found["recall"]["value"] == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--labels", "labels.jsonl"), "holds no label sample"),
        (("--label-sample", "5", "--labels", "labels.jsonl"), "not both"),
        (("--author", "ann"), "give --labels too"),
        (("--rates", "none.json"), "can't read none.json"),
        (("--label-sample", "2"), "a sample of 2 is too small"),
    ],
)
def test_wrong_use_says_what_to_do(cli: Cli, scanned: Findings, options: tuple[str, ...], told: str) -> None:
    done = cli("study", "prevalence", scanned.folder, *options)
    assert done.code == 2
    assert told in done.err


def test_a_folder_without_findings_is_named(cli: Cli, tmp_path: Path) -> None:
    done = cli("study", "prevalence", tmp_path)
    assert done.code == 1
    assert "has no manifest.json" in done.err
