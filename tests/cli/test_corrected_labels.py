"""``--corrected-by``: what people made of labels counts wherever labels are counted, and it is said how many."""

from __future__ import annotations

import csv
import json

import pytest
import yaml

from turnwise import Label, Store

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
