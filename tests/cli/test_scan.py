"""``turnwise scan`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from chat_logs import SCRIPT, chats, lines
from tests.conftest import Cli

from turnwise.findings import open_findings


def write(folder: Path, count: int = 30) -> Path:
    """Write logs and return their path."""
    (folder / "logs.jsonl").write_bytes(lines(chats(count)))
    return folder / "logs.jsonl"


def test_it_says_what_it_found_and_where_to_go_on(cli: Cli, tmp_path: Path) -> None:
    done = cli("scan", write(tmp_path), "--out", "found", "--observer", SCRIPT, "--detector", "cusum:limit=0.6")
    assert done.code == 0
    counts = open_findings("found").manifest.totals
    told = done.out.splitlines()
    assert (
        told[1] == f"cusum:limit=0.6 (threshold 0.600, given) fired at {counts.fired} of 30 scored conversations"
    )
    assert told[-1] == "next: turnwise query gradual_drift --store found"
    assert "can't be told" in done.out  # how common attacks are: nobody measured what this observer catches
    assert done.out.startswith(f"30 conversations with {counts.turns} turns: {counts.scores} scores in ")


def test_json_is_for_programs_and_nothing_else_is_on_standard_output(cli: Cli, tmp_path: Path) -> None:
    given = ("scan", write(tmp_path), "--out", "found", "--observer", SCRIPT, "--json", "--part-rows", 10)
    done = cli(*given)
    assert done.json["counts"]["conversations"] == 30
    assert (done.json["parts"], done.json["done_before"], done.json["complete"]) == (3, 0, True)
    assert cli(*given).json["done_before"] == 3


def test_what_failed_is_told_and_the_exit_code_is_1(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"messages": 3}\n')
    done = cli("scan", path, "--out", "found", "--observer", SCRIPT)
    assert done.code == 1
    assert done.out.startswith("30 conversations of 31 rows")
    assert "1 rows or scores failed; found/failures says which and why" in done.err


def test_rates_that_were_measured_say_how_common_attacks_are(cli: Cli, tmp_path: Path) -> None:
    measured = {"recall": {"count": 90, "of": 100}, "false_positive_rate": {"count": 2, "of": 1000}}
    (tmp_path / "rates.json").write_text(json.dumps(measured))
    given = ("scan", write(tmp_path), "--out", "found", "--observer", SCRIPT, "--rates", "rates.json", "--json")
    found = cli(*given).json["prevalence"]
    low, high = found["prevalence"]["ci"]
    assert low < found["prevalence"]["value"] < high
    assert found["expected_by_chance"]["value"] == 30 * 2 / 1000


def test_a_sample_for_people_to_label_is_drawn_on_the_way(cli: Cli, tmp_path: Path) -> None:
    done = cli("scan", write(tmp_path), "--out", "found", "--observer", SCRIPT, "--label-sample", 10)
    assert "10 conversations drawn" in done.out
    assert cli("import", *(tmp_path / "found").glob("*.jsonl"), "--store", "labels.db").code == 0


def test_columns_are_mapped_by_name(cli: Cli, tmp_path: Path) -> None:
    records = [{"name": one["id"], "talk": one["messages"]} for one in chats(5)]
    (tmp_path / "logs.jsonl").write_bytes(lines(records))
    done = cli("scan", "logs.jsonl", "--columns", "messages=talk,id=name", "--out", "found", "--observer", SCRIPT)
    assert done.code == 0
    assert open_findings("found").manifest.reading["columns"] == {"messages": "talk", "id": "name"}


def test_a_dry_run_tells_rows_bytes_and_time_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path)
    given = ("scan", path, "--out", "found", "--observer", SCRIPT, "--part-rows", 10, "--dry-run")
    done = cli(*given)
    assert done.out.startswith("1 files, ") and "30 rows in 3 parts; about 30 conversations" in done.out
    assert "with 1 worker, by 24 conversations" in done.out
    found = cli(*given, "--json").json
    assert (found["rows"], found["bytes"], found["share"]) == (30, path.stat().st_size, 1.0)
    assert not (tmp_path / "found").exists()


def test_a_dry_run_prices_a_language_model_without_a_key(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path)
    turns = sum(len(one["messages"]) // 2 for one in chats(30))
    given = ("--observer", "llm:openai/gpt-4.1-mini", "--context", "turn", "--out", "found", "--dry-run", "--json")
    found = cli("scan", path, "--part-rows", 5, *given).json
    assert found["seconds"] is None
    assert 0 < found["cost_usd"] < found["most_usd"]
    assert found["calls"] == round(3 * turns)


def test_another_scan_in_the_folder_is_refused_with_what_differs(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path)
    cli("scan", path, "--out", "found", "--observer", SCRIPT)
    done = cli("scan", path, "--out", "found", "--observer", "scripted:0.4")
    assert done.code == 1
    assert "found has findings of another scan: run.observer was" in done.err
    assert "choose another folder" in done.err


def test_wrong_use_is_exit_code_2(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    for given, message in (
        (("--engine", "threads"), "unknown engine 'threads'"),
        (("--address", "auto"), "add --engine ray"),
        (("--detector", "cusun"), "did you mean 'cusum'"),
        (("--observer-setting", "device=cuda"), "unknown setting"),
        (("--where", "colour = red"), "unknown field"),
    ):
        done = cli("scan", path, "--out", "found", "--observer", SCRIPT, *given)
        assert (done.code, message in done.err) == (2, True), done.err


def test_findings_can_be_an_exit_code(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path)
    found = cli("scan", path, "--out", "found", "--observer", SCRIPT, "--fail-on-findings")
    assert (found.code, open_findings("found").manifest.totals.fired > 0) == (3, True)
    none = cli("scan", path, "--out", "none", "--observer", "scripted:0.1", "--fail-on-findings")
    assert none.code == 0


def test_dead_letters_say_file_row_and_reason(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    path.write_bytes(path.read_bytes() + b"{\n")
    cli("scan", path, "--out", "found", "--observer", SCRIPT)
    letters = [
        json.loads(line) for line in (tmp_path / "found/failures/failures-000000.jsonl").read_text().splitlines()
    ]
    assert [(one["file"], one["row"], one["sequence"]) for one in letters] == [(str(path), 3, None)]
    assert "not JSON" in letters[0]["reason"]


def test_it_says_how_common_attacks_are_or_why_it_cant(cli: Cli, tmp_path: Path) -> None:
    given = ("scan", write(tmp_path), "--out", "found", "--observer", SCRIPT, "--detector", "cusum:limit=0.6")
    done = cli(*given)
    assert "can't be told: no rates ship for observer" in " ".join(done.out.split())
    (tmp_path / "rates.json").write_text(
        '{"recall": {"count": 9, "of": 10}, "false_positive_rate": {"count": 1, "of": 500}}'
    )
    found = cli(*given, "--rates", "rates.json", "--json").json["prevalence"]
    assert found["flagged"] == open_findings("found").manifest.totals.fired
    assert found["prevalence"]["ci"][0] <= found["prevalence"]["value"] <= found["prevalence"]["ci"][1]
    assert found["expected_by_chance"]["value"] == 30 / 500


def test_it_draws_a_sample_for_people_to_label(cli: Cli, tmp_path: Path) -> None:
    given = ("scan", write(tmp_path), "--observer", SCRIPT, "--detector", "cusum:limit=0.6", "--label-sample", 10)
    done = cli(*given, "--out", "found")
    assert done.code == 0
    assert "10 conversations drawn with seed 0" in done.out
    assert cli("import", "found/label-sample.jsonl", "--store", "labels.db").code == 0
    refused = cli(*given, "--out", "other", "--no-texts")
    assert refused.code == 2
    assert "--label-sample needs the texts" in refused.err
    assert not (tmp_path / "other").exists()


SCREEN = "scripted:0.1,0.5,0.1,0.6,0.1,0.7"
SECOND = "--observer", SCREEN, "--ask-above", "0.4", "--detector", "any_turn:threshold=0.4"


def test_a_second_look_begins_with_what_the_judge_confirms(cli: Cli, tmp_path: Path) -> None:
    given = ("scan", write(tmp_path), "--out", "found", *SECOND, "--second-look", "scripted:0.9,0.9,0.9")
    found = cli(*given, "--json").json["second_look"]
    done = cli(*given)
    told = done.out.splitlines()
    share = found["asked"] / found["turns"]
    assert told[0].startswith(
        f"second look: asked about {found['asked']} of {found['turns']} turns ({share:.1%}), "
    )
    assert f"{found['answered']} answered, {found['unanswered']['no_answer']} failed" in told[0]
    assert found["asked"] == found["answered"] + found["unanswered"]["no_answer"]
    assert told[1] == f"flagged, and the judge confirms it: {len(found['confirmed'])}"
    assert found["confirmed"][0]["F"] == 0.9
    assert f"and {len(found['confirmed']) - 10} more" in done.out
    assert "flagged by the screen alone: none" in told


def test_a_dry_run_of_a_second_look_says_what_the_judge_would_be_asked(cli: Cli, tmp_path: Path) -> None:
    judge = ("--second-look", "llm:openai/gpt-4.1-mini", "--dry-run")
    done = cli("scan", write(tmp_path), "--out", "found", *SECOND, *judge, "-j", 50)
    assert "the judge is asked about " in done.out
    assert "with 1 worker, without waiting for the judge" in done.out
    assert f"calls of second_look:{SCREEN}+llm:openai/gpt-4.1-mini" in done.out
    assert "at most $" in done.out
    assert not (tmp_path / "found").exists()
