"""``turnwise tune``: from a run to a file that detects."""

from __future__ import annotations

import json

import pytest
import yaml


@pytest.fixture
def store(tmp_path, cli):
    """Return a store with a run of recorded scores: attacks rise, benign conversations stay low."""
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
    assert cli("import", tmp_path / "chats.jsonl", "--store", path).code == 0
    observer = f"replay:{tmp_path / 'scores.jsonl'}"
    arguments = ["--store", path, "--run", "r", "--observer", observer, "--principle", "reciprocity"]
    assert cli("evaluate", *arguments).code == 0
    return path


@pytest.mark.parametrize("detector", ["learned", "cusum:drift=0.3"])
def test_a_tuned_detector_detects_from_its_file(detector, store, tmp_path, cli):
    out = tmp_path / "mine.yaml"
    arguments = ["--store", store, "--detector", detector, "--target-fpr", "0.05", "--out", str(out)]
    told = cli("tune", *arguments, "--json").json
    assert told["fitted"] == (detector == "learned")
    assert told["train"] + told["calibrate"] == 159
    assert told["flagged_benign"][0] <= 0.05 * told["flagged_benign"][1]
    assert told["flagged_attacks"][0] > 0.8 * told["flagged_attacks"][1]
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == told["detector"]
    verdicts = cli("detect", "--store", store, "--detector", out, "--json").json
    assert sum(row["fired"] for row in verdicts if row["label"] == "attack") > 50
    assert {row["detector"] for row in verdicts} == {str(out)}


def test_it_says_that_this_is_no_test_result(store, cli):
    told = cli("tune", "--store", store, "--target-fpr", "0.05")
    assert "learned:weights={" in told.out
    assert "no test result" in told.err


def test_too_few_benign_conversations_are_told_with_the_number_needed(store, cli):
    done = cli("tune", "--store", store, "--target-fpr", "0.01")
    assert done.code == 2
    assert "at least 99 are needed" in done.err


def test_a_folder_that_is_not_there_is_told_before_the_work(store, tmp_path, cli):
    done = cli("tune", "--store", store, "--out", tmp_path / "none" / "x.yaml")
    assert done.code == 2
    assert "there is no folder" in done.err
