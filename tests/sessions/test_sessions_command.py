"""``turnwise study session-rules`` on a file and on a run, the presets, and bad input."""

from __future__ import annotations

import io
import json

import pytest


@pytest.mark.shows("SESSION-7")
def test_audit_prints_the_table_with_intervals(cli, recorded_file):
    done = cli("study", "session-rules", recorded_file)
    assert done.code == 0
    assert "20 sessions: 10 attack, 10 benign" in done.out
    lines = {line.strip().split("  ")[0]: line for line in done.out.splitlines()}
    assert "6/10 = 60.0 % [26.2, 87.8]" in lines["trust < 0.60 at the end"]
    assert "0/10 = 0.0 % [0.0, 30.8]" in lines["trust < 0.60 at the end"]
    assert "7/10 = 70.0 %" in lines["option 2 as written: three of four weak signals"]
    assert "over 60 turns" in done.out


def test_audit_as_json(cli, recorded_file):
    found = cli("study", "session-rules", recorded_file, "--json").json
    assert (found["records"], found["attack"], found["benign"]) == (20, 10, 10)
    assert found["trust_difference"] < 1e-9
    row = found["rules"][1]
    assert row["rule"] == "trust < 0.60 at any turn"
    assert row["benign"]["count"] == 1
    assert row["benign"]["interval"] == pytest.approx([0.0025, 0.4450], abs=1e-3)
    assert row["flagged"][-1] == "benign_05"


def test_audit_reads_standard_input(cli, recorded_file, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(recorded_file.read_text(encoding="utf-8")))
    assert cli("study", "session-rules", "-", "--json").json["records"] == 20


@pytest.fixture
def store(cli, tmp_path):
    """Return a store with a run of an attack that turns, a benign chat, and one whose scores are missing."""
    chats, scores = [], []
    for name, label, falsities in (
        ("attack_01", "attack", (0.1, 0.9, 0.9)),
        ("benign_01", "benign", (0.1, 0.1, 0.1)),
        ("benign_02", "benign", ()),
    ):
        turns = [{"role": "user", "content": f"turn {number} of {name}"} for number in (1, 2, 3)]
        chats.append({"id": name, "label": label, "source": "made", "turns": turns})
        scores += [
            {"sequence_id": name, "turn": number, "principle": "reciprocity", "T": 0.8, "I": 0.3, "F": F}
            for number, F in enumerate(falsities, start=1)
        ]
    for file, rows in (("chats.jsonl", chats), ("scores.jsonl", scores)):
        (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    path = tmp_path / "work.db"
    assert cli("import", tmp_path / "chats.jsonl", "--store", path).code == 0
    observer = f"replay:{tmp_path / 'scores.jsonl'}"
    cli("evaluate", "--store", path, "--run", "first", "--observer", observer, "--principle", "reciprocity")
    return path


def test_audit_of_a_run(cli, store):
    done = cli("study", "session-rules", "--store", store, "--json")
    found = done.json
    assert (found["attack"], found["benign"]) == (1, 1)
    assert found["trust_difference"] is None
    rules = {row["rule"]: row["flagged"] for row in found["rules"]}
    assert rules["trust < 0.60 at the end"] == ["attack_01"]
    assert rules["degrading at the end"] == ["attack_01"]
    assert "1 sequences were left out" in done.err
    assert (
        "2 sessions: 1 attack, 1 benign" in cli("study", "session-rules", "--store", store, "--run", "first").out
    )


def test_without_a_file_and_a_store_it_says_what_to_name(cli):
    done = cli("study", "session-rules")
    assert done.code == 1
    assert "name a FILE of recorded sessions" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON at line 1, column 2"),
        ("{}", "records must be a JSON list"),
        ("[" * 100_000, "nested more than 200 levels deep"),
        ('[{"scenario": "a"}]', "record 1 has no key 'label'"),
        ('[{"scenario": "a", "label": "benign", "balances": [1], "trust": [0.65]}]', "no recorded_trajectory"),
        ('[{"scenario": "a", "label": "benign", "balances": [NaN], "trust": [0.65]}]', "balances must be"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(cli, tmp_path, text, message):
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    done = cli("study", "session-rules", file)
    assert done.code == 1
    assert message in done.err
    assert "bad.json" in done.err


def test_a_file_that_is_not_there(cli):
    done = cli("study", "session-rules", "nowhere.json")
    assert done.code == 1
    assert "can't read the records in nowhere.json" in done.err


def test_presets(cli):
    done = cli("list", "session-presets")
    assert done.code == 0
    for name in ("default", "original", "trust_only", "multi_signal", "short_windows"):
        assert name in done.out
    found = {info["name"]: info["settings"] for info in cli("list", "session-presets", "--json").json}
    assert found["default"]["half_life"] == 7 * 86_400
    assert found["trust_only"]["boundary"]["trust_below"] == 0.6


def test_the_command_explains_itself(cli):
    done = cli("study", "session-rules", "--help")
    assert done.code == 0
    assert "recorded sessions" in " ".join(done.out.split())
