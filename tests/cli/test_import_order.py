"""The order in which files are imported, and the rows that conversations get, change no byte of a report."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

SETS = {"attacks": ("attack", 40), "chats": ("benign", 40), "questions": ("benign", 30)}
PRINCIPLES = "reciprocity", "third_party_harm"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return three files of conversations, beside a file of scores and one of a reader's."""
    generator = random.Random(6)
    made, scores, read = [], [], []
    for source, (label, count) in SETS.items():
        lines = []
        for number in range(count):
            name, length = f"{source}-{generator.random():.8f}", generator.randint(3, 6)
            turns = [{"role": "user", "content": f"{name} {turn}"} for turn in range(length)]
            metadata = {"goal": f"{source} {number // 2}", "category": f"kind {number % 3}"}
            lines.append({"id": name, "label": label, "source": source, "turns": turns, "metadata": metadata})
            for turn in range(1, length + 1):
                raised = 0.1 * turn if label == "attack" else 0.0
                for principle in PRINCIPLES:
                    F = min(1.0, round(0.45 * generator.random() + raised, 3))
                    score = {"sequence_id": name, "turn": turn, "principle": principle, "T": 1 - F, "I": 0.2}
                    scores.append({**score, "F": F})
                    read.append({**score, "F": 0.9 if raised > 0.25 else 0.1})
        made.append(write(tmp_path / f"{source}.jsonl", lines))
    write(tmp_path / "scores.jsonl", scores)
    write(tmp_path / "read.jsonl", read)
    return made


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def report(cli, folder: Path, files: list[Path], name: str) -> dict[str, bytes]:
    """Import files in order, score them, tune and compare, and return all that was written."""
    store = folder / f"{name}.db"
    for file in files:
        assert cli("import", file, "--store", store).code == 0
    for run, scores in (("history", "scores"), ("reader", "read")):
        asked = ["--store", store, "--run", run, "--observer", f"replay:{folder / scores}.jsonl"]
        principles = [part for principle in PRINCIPLES for part in ("--principle", principle)]
        assert cli("evaluate", *asked, "--context", "history", *principles).code == 0
    on = ["--store", store, "--run", "history"]
    out, tuned = folder / f"{name}-out", folder / "tuned.yaml"
    assert cli("study", "tune", *on, "--detector", "learned", "--target-fpr", "0.2", "--out", tuned).code == 0
    asked = ["--detector", "cusum", "--detector", "learned", "--target-fpr", "0.2", "--truth", "reader"]
    done = cli("study", "compare", *on, *asked, "--replicates", "20", "--splits", "3", "--report", out)
    assert done.code == 0, done.err
    assert "Against the turns that a reader flags" in done.out
    return {
        "tuned": tuned.read_bytes(),
        **{str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()},
    }


def test_the_order_of_import_changes_no_byte(cli, tmp_path, files):
    other = write(
        tmp_path / "other.jsonl",
        [
            {
                "id": "first of all",
                "label": "unlabelled",
                "source": "o",
                "turns": [{"role": "user", "content": "Hi"}],
            }
        ],
    )
    one = report(cli, tmp_path, files, "one")
    turned = [
        other,
        *(write(file, [*map(json.loads, file.read_text().splitlines())][::-1]) for file in reversed(files)),
    ]
    another = report(cli, tmp_path, turned, "another")
    assert one.keys() == another.keys()
    assert [name for name in one if one[name] != another[name]] == []
    assert {"report.html", "results.json", "verdicts.parquet"} <= one.keys()
