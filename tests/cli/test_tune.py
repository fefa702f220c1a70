"""``turnwise study tune``: from a run to a file that detects."""

from __future__ import annotations

import json
import sys

import pytest
import yaml


@pytest.fixture(scope="module")
def store(tmp_path_factory, succeed):
    """Return a store, which no test changes, with recorded scores: attacks rise, benign conversations stay low."""
    tmp_path = tmp_path_factory.mktemp("tune")
    lines, scores = [], []
    for number in range(160):
        attack = number < 60
        name = f"{'a' if attack else 'b'}{number}"
        turns = [{"role": "user", "content": f"turn {turn}"} for turn in range(1, 6)]
        label = "unlabelled" if number == 159 else "attack" if attack else "benign"
        row = {
            "id": name,
            "label": label,
            "source": "made",
            "turns": turns,
            "metadata": {"group": f"g{number // 2}"},
        }
        lines.append(json.dumps(row))
        for turn in range(1, 6):
            F = (0.15 * turn if attack else 0.0) + (number * 7 + turn * 3) % 10 / 40
            score = {"sequence_id": name, "turn": turn, "principle": "reciprocity", "T": 1 - F, "I": 0.2, "F": F}
            scores.append(json.dumps(score))
    (tmp_path / "chats.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "scores.jsonl").write_text("\n".join(scores[:-5]), encoding="utf-8")
    path = str(tmp_path / "work.db")
    succeed("import", tmp_path / "chats.jsonl", "--store", path)
    observer = f"replay:{tmp_path / 'scores.jsonl'}"
    arguments = ["--store", path, "--run", "r", "--observer", observer, "--principle", "reciprocity"]
    succeed("evaluate", *arguments)
    return path


@pytest.mark.parametrize("detector", ["learned", "cusum:drift=0.3"])
def test_a_tuned_detector_detects_from_its_file(detector, store, tmp_path, cli):
    out = tmp_path / "mine.yaml"
    arguments = ["--store", store, "--detector", detector, "--target-fpr", "0.05", "--out", str(out)]
    told = cli("study", "tune", *arguments, "--json").json
    assert told["fitted"] == (detector == "learned")
    assert told["train"] + told["calibrate"] == 159
    assert told["flagged_benign"][0] <= 0.05 * told["flagged_benign"][1]
    assert told["flagged_attacks"][0] > 0.8 * told["flagged_attacks"][1]
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == told["detector"]
    verdicts = cli("detect", "--store", store, "--detector", out, "--json").json
    assert sum(row["fired"] for row in verdicts if row["label"] == "attack") > 50
    assert {row["detector"] for row in verdicts} == {str(out)}


def test_parameters_are_searched_and_the_file_detects(store, tmp_path, cli):
    out, again = tmp_path / "cusum.yaml", tmp_path / "again.yaml"
    arguments = ["--store", store, "--detector", "cusum", "--target-fpr", "0.1", "--budget", "5"]
    told = cli("study", "tune", *arguments, "--out", out, "--json").json
    assert told["detector"]["detector"] == "cusum"
    assert told["after"]["recall"][0] >= told["before"]["recall"][0]
    assert (told["trials"], told["seed"], told["run"]["name"]) == (5, 0, "r")
    assert told["split"]["attacks"] + told["split"]["benign"] < 60
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == told["detector"]
    shown = cli("study", "tune", *arguments, "--out", again)
    assert "5, of which number" in shown.out
    assert "not a test result" in shown.err
    assert again.read_bytes() == out.read_bytes()
    verdicts = cli("detect", "--store", store, "--detector", out, "--json").json
    assert {row["detector"] for row in verdicts} == {str(out)}
    compared = cli(
        "study",
        "compare",
        "--store",
        store,
        "--detector",
        out,
        "--target-fpr",
        "0.1",
        "--replicates",
        "10",
        "--json",
    )
    assert "cusum.yaml@r" in {row["name"] for row in compared.json["detectors"]}
    assert not any("comes from a file" in warning for warning in compared.json["warnings"])


def test_a_search_that_can_not_be_is_told(store, tmp_path, cli, monkeypatch):
    learned = cli("study", "tune", "--store", store, "--budget", "5")
    assert learned.code == 2
    assert "unknown detector with parameters to search 'learned'" in learned.err
    folder = cli("study", "tune", "--store", store, "--detector", "cusum", "--budget", "5", "--out", tmp_path)
    assert folder.code == 2
    assert "it is a folder" in folder.err
    monkeypatch.setitem(sys.modules, "optuna", None)
    lacking = cli("study", "tune", "--store", store, "--detector", "cusum", "--budget", "5")
    assert lacking.code == 2
    assert 'a study needs optuna: python -m pip install "turnwise[study]"' in lacking.err


def test_it_says_that_this_is_no_test_result(store, cli):
    told = cli("study", "tune", "--store", store, "--target-fpr", "0.05")
    assert "learned:weights={" in told.out
    assert "not a test result" in told.err


def test_too_few_benign_conversations_are_told_with_the_number_needed(store, cli):
    done = cli("study", "tune", "--store", store, "--target-fpr", "0.01")
    assert done.code == 2
    assert "at least 99 are needed" in done.err


def test_a_folder_that_is_not_there_is_told_before_the_work(store, tmp_path, cli):
    done = cli("study", "tune", "--store", store, "--out", tmp_path / "none" / "x.yaml")
    assert done.code == 2
    assert "there is no folder" in done.err


def test_tuning_for_f1_is_said_in_the_file(store, tmp_path, cli):
    out = tmp_path / "mine.yaml"
    arguments = ["study", "tune", "--store", store, "--detector", "cusum", "--objective", "f1", "--out", out]
    told = cli(*arguments, "--json").json
    assert (told["objective"], told["target_fpr"]) == ("f1", None)
    assert 0.8 < told["f1"] <= 1
    assert "attacks and" in out.read_text(encoding="utf-8")
    assert "for the highest F1" in out.read_text(encoding="utf-8")
    shown = cli(*arguments, "--budget", "4")
    assert shown.code == 0, shown.err
    assert "F1 there, tuned" in shown.out
    written = out.read_text(encoding="utf-8")
    assert "# F1 there, cross-fitted by group: " in written
    origin = json.loads(next(line for line in written.splitlines() if line.startswith("# origin: "))[10:])
    assert (origin["objective"], origin["target_fpr"]) == ("f1", None)
    assert cli("detect", "--store", store, "--detector", out).code == 0
    wrong = cli("study", "tune", "--store", store, "--objective", "accuracy", "--budget", "4")
    assert (wrong.code, "unknown objective 'accuracy'" in wrong.err) == (2, True)
