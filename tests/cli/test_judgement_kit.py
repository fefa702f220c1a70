"""``turnwise judgements hand-out`` and ``take-in``: sheets go out, and come back as the truth of a study."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.cli.conftest import line, write_lines
from tests.conftest import Cli

from turnwise.conversation import Label
from turnwise.store import Store

TOLD = ("--who", "two students", "--trained", "an hour", "--paid", "15 EUR an hour", "--when", "May 2026")


def fill(path: Path, attack: str, benign: str, store: Path, kit: list[dict[str, str]]) -> None:
    """Fill a sheet by the label that the conversation has."""
    ids = {one["id"]: one["sequence_id"] for one in kit}
    with Store(store) as opened:
        labels = {head.sequence_id: head.label for head in opened.heads()}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        value = attack if labels[ids[row["id"]]] is Label.ATTACK else benign
        row.update({name: value for name in row if name == "label" or name[:4] in ("T of", "I of", "F of")})
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@pytest.fixture
def work(cli: Cli, tmp_path: Path) -> Path:
    """Return a store of two dozen conversations, half of them attacks, with a run of scores."""
    labels = {f"{label}_{number}": label for number in range(12) for label in ("attack", "benign")}
    chats = [line(name, label, f"{name}?", "And then?", "Go on") for name, label in labels.items()]
    scores = [
        {"sequence_id": name, "turn": turn, "principle": "reciprocity", "T": 0.5, "I": 0.2, "F": grave}
        for place, (name, label) in enumerate(labels.items())
        for turn in (1, 2, 3)
        for grave in [place / 40 + (turn / 10 if label == "attack" else 0)]
    ]
    assert cli("import", write_lines(tmp_path / "chats.jsonl", *chats), "--store", "work.db").code == 0
    observer = f"replay:{write_lines(tmp_path / 'scores.jsonl', *scores)}"
    asked = ("--observer", observer, "--principle", "reciprocity", "--run", "first")
    assert cli("evaluate", *asked, "--store", "work.db").code == 0
    return tmp_path / "work.db"


def handed_out(cli: Cli, store: Path, *how: str) -> list[dict[str, str]]:
    """Hand all out to Ann and Ben, and return the rows of the manifest."""
    names = ("--annotator", "ann", "--annotator", "ben")
    done = cli("judgements", "hand-out", "--out", "kit", *names, *how, "--store", store)
    assert done.code == 0, done.err
    assert "keep manifest.json to yourself" in done.out
    return list(json.loads(Path("kit/manifest.json").read_bytes())["items"].values())


COMPARE = (
    "study", "compare", "--run", "first", "--detector", "any_turn", "--target-fpr", "0.3", "--folds", "0",
    "--splits", "1", "--replicates", "100",
)  # fmt: skip


def test_scores_become_a_run_that_compare_takes_for_truth(cli: Cli, work: Path) -> None:
    kit = handed_out(cli, work, "--twice", "1", "--seed", "7")
    fill(Path("kit/sheets/ann.csv"), "0.9", "0.1", work, kit)
    fill(Path("kit/sheets/ben.csv"), "0.3", "0.1", work, kit)
    first = cli("judgements", "take-in", "kit", "--out", "sets", "--store", work)
    assert first.code == 0, first.err
    assert "kit/adjudicate.csv: 36 rows on which people disagree" in first.out
    assert "reciprocity F" in first.out
    fill(Path("kit/adjudicate.csv"), "0.8", "0.8", work, kit)
    settled = ("--adjudicated", "kit/adjudicate.csv", "--adjudicator", "carl")
    done = cli("judgements", "take-in", "kit", "--out", "sets", *settled, *TOLD, "--store", work, "--json").json
    assert done["truth"] == "judged-by-set-people"
    assert done["files"] == ["sets/set-people/history.jsonl", "sets/set-people/readings.json"]
    assert done["agreement"][0]["authors"] == ["ann", "ben"]
    compared = cli(*COMPARE, "--truth", done["truth"], "--store", work)
    assert compared.code == 0, compared.err
    assert done["truth"] in compared.out


def test_a_set_is_recorded_in_another_store_as_readings_are(cli: Cli, work: Path) -> None:
    kit = handed_out(cli, work, "--twice", "0", "--only-f")
    for name in ("ann", "ben"):
        fill(Path(f"kit/sheets/{name}.csv"), "0.9", "0.1", work, kit)
    assert cli("judgements", "take-in", "kit", "--out", "sets", *TOLD, "--store", work).code == 0
    done = cli("import", "chats.jsonl", "--judged", "sets/set-people", "--store", "other.db", "--json").json
    assert [(one["run"], one["evaluations"], one["failures"]) for one in done["judgements"]] == [
        ("judged-history", 216, 0)
    ]


def test_labels_become_those_that_corrected_by_takes(cli: Cli, work: Path) -> None:
    kit = handed_out(cli, work, "--twice", "0.5", "--mode", "label")
    for name in ("ann", "ben"):
        fill(Path(f"kit/sheets/{name}.csv"), "benign", "attack", work, kit)
    done = cli("judgements", "take-in", "kit", "--out", "sets", *TOLD, "--store", work)
    assert done.code == 0, done.err
    assert "turnwise study compare --corrected-by set-people" in done.out
    compared = cli(*COMPARE, "--corrected-by", "set-people", "--store", work)
    assert compared.code == 0, compared.err
    found = cli("query", "peak(F) > 0.5", "--corrected-by", "set-people", "--store", work, "--json").json
    assert (found["corrected"], found["disputed"]) == (24, 0)


def test_findings_of_a_scan_keep_what_people_gave(cli: Cli, work: Path) -> None:
    asked = ("--observer", "scripted:0.2", "--principle", "reciprocity", "--out", "findings")
    scanned = cli("scan", "chats.jsonl", *asked)
    assert scanned.code == 0, scanned.err
    kit = handed_out(cli, Path("findings"))
    for name in ("ann", "ben"):
        fill(Path(f"kit/sheets/{name}.csv"), "0.9", "0.1", work, kit)
    done = cli("judgements", "take-in", "kit", "--out", "sets", *TOLD, "--store", "findings", "--json").json
    assert (done["truth"], done["files"][0]) == (None, "sets/set-people/history.jsonl")
    assert "set-people" in cli("judgements", "list", "--store", "findings").out


def test_what_is_wrong_is_told_by_file_line_and_column(cli: Cli, work: Path) -> None:
    handed_out(cli, work)
    done = cli("judgements", "take-in", "kit", "--out", "sets", *TOLD, "--store", work)
    assert done.code == 1
    assert "kit/sheets/ann.csv, line 2 ('c" in done.err
    assert "column T of reciprocity: empty, where a number from 0 to 1 is needed" in done.err
    assert cli("judgements", "hand-out", "--out", "kit", "--annotator", "ann", "--store", work).code == 2
