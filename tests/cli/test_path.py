"""The path of a user: import, evaluate, detect, show, check, in the shapes that programs read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
PRINCIPLES = {"reciprocity", "context_integrity", "third_party_harm"}


def test_import_counts_what_is_new_and_what_was_there(cli: Cli, chats: Path) -> None:
    for imported, skipped in ((3, 0), (0, 3)):
        told = cli("import", chats, "--json").json
        counts = {"imported": imported, "skipped": skipped, "unknown_labels": {}}
        of_file = {"file": str(chats), **counts, "relabelled": 0, "other_labels": 0, "bad": 0}
        of_file |= {"whole": True, "error": None}
        assert told == {**counts, "relabelled": [], "other_labels": [], "errors": [], "files": [of_file]}
    assert Path("turnwise.db").is_file()


def test_the_store_comes_from_the_environment(
    cli: Cli, chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_STORE", str(tmp_path / "elsewhere.db"))
    assert cli("import", chats).code == 0
    assert (tmp_path / "elsewhere.db").is_file()
    assert not Path("turnwise.db").exists()


def test_the_store_may_be_a_url(cli: Cli, chats: Path, tmp_path: Path) -> None:
    assert cli("import", chats, "--store", f"sqlite:///{tmp_path}/by-url.db").code == 0
    assert (tmp_path / "by-url.db").is_file()


def test_evaluating_again_makes_nothing_and_counts_what_is_there(cli: Cli, chats: Path, scores: Path) -> None:
    cli("import", chats)
    command = ("evaluate", "--run", "first", "--observer", f"replay:{scores}", "--json")
    first, again = cli(*command).json, cli(*command).json
    assert first.pop("seconds") >= 0
    spent = {"calls": 0, "cached": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": None}
    counts = {"sequences": 3, "evaluations": 18, "failures": 0, "skipped": 0, "gaps": 6}
    told = {"commonest_failure": None, "structured": {}, "unread": {}}
    assert first == {"run": "first", **counts, **spent, **told}
    assert again["evaluations"] == 0
    assert again["skipped"] == 18


def test_a_finished_run_needs_no_settings_to_be_continued(cli: Cli, evaluated: Path) -> None:
    again = cli("evaluate", "--store", evaluated, "--run", "first", "--json").json
    assert (again["evaluations"], again["skipped"]) == (0, 18)


def test_a_further_principle_is_scored_alone(cli: Cli, chats: Path, candour: Path) -> None:
    cli("import", chats)
    base = ("evaluate", "--run", "r", "--observer", "scripted:0.1,0.2,0.3", "--json")
    assert cli(*base, "--principle", "reciprocity").json["evaluations"] == 8
    both = cli(*base, "--principle", "reciprocity", "--principle", candour).json
    assert (both["evaluations"], both["skipped"]) == (8, 8)


def test_detect_gives_a_row_a_sequence_and_detector(cli: Cli, evaluated: Path) -> None:
    rows = cli(
        "detect", "--store", evaluated, "--detector", "any_turn", "--detector", "cusum:limit=0.2", "--json"
    ).json
    assert len(rows) == 6
    columns = {"sequence_id", "label", "detector", "fired", "turn", "score", "threshold", "threshold_source"}
    assert all(columns < set(row) for row in rows)
    attack = {row["detector"]: row for row in rows if row["sequence_id"] == "attack_01"}
    assert (attack["any_turn"]["fired"], attack["any_turn"]["turn"], attack["any_turn"]["score"]) == (True, 2, 0.9)
    assert attack["cusum:limit=0.2"]["turn"] == 2
    assert not any(row["fired"] for row in rows if row["label"] == "benign")


def test_detect_prints_rates_with_intervals_and_says_what_was_not_scored(cli: Cli, evaluated: Path) -> None:
    done = cli("detect", "--store", evaluated, "--detector", "any_turn")
    assert "1/1 = 100.0 % [2.5, 100.0]" in done.out
    assert "0/2 = 0.0 % [0.0, 84.2]" in done.out
    assert "1 sequences have turns without an evaluation" in done.err


def test_fail_on_findings_gives_exit_code_three(cli: Cli, evaluated: Path) -> None:
    command = ("detect", "--store", evaluated, "--detector", "any_turn", "--fail-on-findings")
    assert cli(*command).code == 3
    assert cli(*command, "--label", "benign").code == 0


@pytest.mark.shows("US-3.3")
def test_show_puts_all_principles_side_by_side(cli: Cli, evaluated: Path) -> None:
    shown = cli("show", "benign_02", "--store", evaluated, "--json").json
    assert [turn["turn"] for turn in shown["turns"]] == [1, 2, 3]
    assert set(shown["turns"][0]["scores"]) == PRINCIPLES
    assert shown["turns"][0]["scores"]["reciprocity"] == {"T": 0.8, "I": 0.2, "F": 0.2}
    assert shown["turns"][1]["scores"] == {}
    table = cli("show", "attack_01", "--store", evaluated, "--run", "first").out
    assert "0.10 0.20 0.90" in table
    assert "▁▅█" in table
    assert "Now my neighbour's" in table


@pytest.mark.parametrize("through", ["file", "stdin"])
def test_check_scores_one_conversation(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    messages = [
        {"role": "system", "content": "Be helpful."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Now the other thing"},
    ]
    if through == "stdin":
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(messages)))
    (tmp_path / "chat.json").write_text(json.dumps(messages))
    file = "-" if through == "stdin" else tmp_path / "chat.json"
    command = ("check", file, "--observer", "scripted:0.1,0.9", "--detector", "any_turn")
    checked = cli(*command, "--json").json
    assert [turn["turn"] for turn in checked["turns"]] == [1, 2]
    assert set(checked["turns"][0]["scores"]) == PRINCIPLES
    assert checked["detectors"][0]["turn"] == 2
    assert checked["fired"] is True
    if through == "file":
        assert cli(*command, "--fail-on-findings").code == 3
        assert "fired" in cli(*command).out


def test_check_with_the_embedded_observer(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": "How do I bake bread?"}]))
    checked = cli("check", tmp_path / "chat.json", "--json").json
    assert set(checked["turns"][0]["scores"]) == PRINCIPLES
    assert {row["detector"] for row in checked["detectors"]} == {"any_turn", "cusum"}


def test_a_failed_score_is_shown_and_is_never_a_verdict(cli: Cli, chats: Path, tmp_path: Path) -> None:
    cli("import", chats)
    # Recorded scores of other texts: each fails with the reason text_changed.
    recorded = tmp_path / "others.jsonl"
    turns = [("attack_01", 3), ("benign_01", 2), ("benign_02", 3)]
    stale = {"side": "prompt", "scores": {"reciprocity": [0.9, 0.1, 0.9]}, "seen": "prompt", "digest": "0" * 64}
    recorded.write_text(
        "".join(
            json.dumps({"sequence_id": name, "turn": turn, **stale}) + "\n"
            for name, count in turns
            for turn in range(1, count + 1)
        )
    )
    asked = ("--observer", f"replay:{recorded}", "--principle", "reciprocity")
    done = cli("evaluate", "--run", "r", *asked, "--json")
    assert (done.json["evaluations"], done.json["failures"], done.code) == (0, 8, 1)
    assert "8 evaluations failed; turnwise evaluate --failed --run r tries them again" in done.err
    rows = cli("detect", "--run", "r", "--detector", "any_turn", "--json").json
    assert [row["fired"] for row in rows] == [None, None, None]
    assert "not checked" in cli("detect", "--run", "r").out
    assert len(cli("show", "benign_01", "--run", "r", "--json").json["failures"]) == 2
    messages = tmp_path / "chat.json"
    messages.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
    assert cli("check", messages, *asked).code == 1


@pytest.mark.parametrize("command", ["observers", "detectors", "principles", "datasets"])
def test_what_there_is_can_be_listed(cli: Cli, command: str) -> None:
    rows = cli("list", command, "--json").json
    assert all(row["name"] for row in rows)
    assert rows[0]["name"] in cli("list", command).out


def test_one_of_them_is_told_in_full(cli: Cli, tmp_path: Path) -> None:
    assert cli("list", "detectors", "cusum", "--json").json["parameters"]["drift"] > 0
    told = cli("list", "detectors", "cusum").out
    assert "drift=" in told
    assert "limit=" in told
    assert cli("list", "detectors", "cusum", "--out", "cusum.txt").code == 0
    assert (tmp_path / "cusum.txt").read_text(encoding="utf-8") == told
    assert "unknown detector 'cusun'; did you mean 'cusum'?" in cli("list", "detectors", "cusun").err
    assert "unknown kind 'detector'; did you mean 'detectors'?" in cli("list", "detector").err


def test_what_failed_is_scored_as_its_run_scores(cli: Cli, evaluated: Path) -> None:
    for option in (("--observer", "local"), ("--context", "turn"), ("--sides", "response")):
        done = cli("evaluate", "--failed", "--store", evaluated, *option)
        assert (done.code, f"leave out {option[0]}: --failed" in done.err) == (2, True)


def test_observers_say_version_contexts_and_needs(cli: Cli) -> None:
    known = {row["name"]: row for row in cli("list", "observers", "--json").json}
    assert {"turn", "history"} <= set(known["local"]["contexts"])
    assert known["local"]["version"]
    assert "JSONL" in known["replay"]["needs"]
    assert known["local"]["needs"] == ""
