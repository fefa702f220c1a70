"""What people judge: labels and turns corrected, sheets handed out and taken in, corrected labels that count."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import line, write_lines
from tests.conftest import Cli

from turnwise import Label, Store


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


SAID = "what ann, ben made of them; 2 on which they disagree are in no rate"


@pytest.fixture(scope="module")
def store(tmp_path_factory, succeed):
    """Return a store, which no test changes: 60 attacks that rise, 100 benign conversations, and what people said.

    Ann takes a3 to a12 for benign. Of b158 and b159 she and Ben say different things.
    """
    folder = tmp_path_factory.mktemp("corrected")
    lines, scores = [], []
    for number in range(160):
        attack = number < 60
        name = f"{'a' if attack else 'b'}{number}"
        chat = [{"role": "user", "content": f"turn {turn}"} for turn in range(1, 6)]
        label = "attack" if attack else "benign"
        lines.append({"id": name, "label": label, "source": "made", "turns": chat, "metadata": {"group": name}})
        for turn in range(1, 6):
            F = (0.15 * turn if attack else 0.0) + (number * 7 + turn * 3) % 10 / 40
            key = {"sequence_id": name, "turn": turn, "principle": "reciprocity"}
            scores.append({**key, "T": 1 - F, "I": 0.2, "F": F})
    for file, rows in (("chats.jsonl", lines), ("scores.jsonl", scores)):
        (folder / file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    path = str(folder / "work.db")
    succeed("import", folder / "chats.jsonl", "--store", path)
    observer = f"replay:{folder / 'scores.jsonl'}"
    succeed("evaluate", "--store", path, "--run", "r", "--observer", observer, "--principle", "reciprocity")
    with Store(path) as opened:
        for number in range(3, 13):
            opened.people.correct_label(f"a{number}", "benign", "ann")
        for number in (158, 159):
            opened.people.correct_label(f"b{number}", "attack", "ann")
            opened.people.correct_label(f"b{number}", "benign", "ben")
    return path


COMMANDS = {
    "query": ("query", "peak(F) > 0.5"),
    "discover": ("study", "discover", "--max-fpr", "0.2"),
    "tune": ("study", "tune", "--detector", "cusum", "--target-fpr", "0.2"),
    "search": ("study", "tune", "--detector", "cusum", "--target-fpr", "0.2", "--budget", "3"),
    "calibrate": ("study", "calibrate", "--detector", "cusum", "--alpha", "0.2"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_that_counts_labels_takes_corrected_ones_and_says_how_many(command, store, cli):
    plain = cli(*command, "--store", store, "--json")
    assert (plain.json["corrected_by"], plain.json["corrected"], plain.json["disputed"]) == ([], 0, 0)
    assert "people say of 12 of these conversations that their label is another one" in plain.err
    assert "--corrected-by ann --corrected-by ben counts it" in plain.err
    told = cli(*command, "--store", store, "--corrected-by", "ann", "--corrected-by", "ben", "--json")
    assert told.code == 0, told.err
    assert (told.json["corrected_by"], told.json["corrected"], told.json["disputed"]) == (["ann", "ben"], 10, 2)
    assert f"the labels of 10 conversations are not those of their data sets but {SAID}" in told.err
    assert cli(*command, "--store", store, "--corrected-by", "bea").code == 2


def test_a_query_counts_and_lists_by_the_corrected_label(store, cli, tmp_path):
    out = tmp_path / "found.csv"
    question = "query", "peak(F) > 0.5", "--store", store, "--corrected-by", "ann"
    benign = cli(*question, "--label", "benign", "--csv", out, "--json").json
    assert (benign["count"], benign["of"], benign["corrected"]) == (10, 108, 10)
    with out.open(newline="") as file:
        assert {row["label"] for row in csv.DictReader(file)} == {"benign"}
    where = cli(*question, "--where", "label = benign and turns = 5", "--json").json
    assert (where["count"], where["of"]) == (10, 108)
    with Store(store) as opened:
        found = opened.query("peak(F) > 0.5", corrected_by=["ann"])
        assert {label: (rate.count, rate.of) for label, rate in found.by_label.items()} == {
            Label.ATTACK: (50, 52),
            Label.BENIGN: (10, 108),
        }


def test_the_numbers_and_the_file_of_tune_rest_on_the_corrected_labels(store, cli, tmp_path):
    out = tmp_path / "cusum.yaml"
    question = "study", "tune", "--detector", "cusum", "--target-fpr", "0.2", "--store", store
    before = cli(*question, "--json").json
    after = cli(*question, "--corrected-by", "ann", "--out", out, "--json").json
    assert after["flagged_benign"] != before["flagged_benign"]
    written = out.read_text(encoding="utf-8")
    assert written.startswith("# The labels of 12 conversations are not those of their data sets")
    assert yaml.safe_load(written) == after["detector"]


def test_a_calibrated_threshold_rests_on_the_corrected_labels(store, cli):
    question = "study", "calibrate", "--detector", "cusum", "--alpha", "0.2", "--store", store
    assert cli(*question, "--json").json["benign"] == 100
    assert cli(*question, "--corrected-by", "ann", "--json").json["benign"] == 108


def test_discovery_searches_the_corrected_labels(store, cli):
    question = "study", "discover", "--max-fpr", "0.2", "--store", store
    after = cli(*question, "--corrected-by", "ann", "--json").json
    assert after["discovery"]["benign"] + after["held_out"]["benign"] == 108
    assert after["discovery"]["attacks"] + after["held_out"]["attacks"] == 52
