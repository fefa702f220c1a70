"""Commands over the findings of a scan: ``--store findings/`` wherever a store is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.found import conversation, make_findings

Cli = Callable[..., Any]

RISING = [conversation(f"rise-{n}", 0.1, 0.2 + n / 100, 0.5 + n / 100, label="attack") for n in range(20)]
FLAT = [conversation(f"flat-{n}", 0.1 + n / 200, 0.2, 0.1, label="benign") for n in range(60)]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_findings(tmp_path_factory.mktemp("scan") / "findings", RISING, FLAT)


def test_query_reads_findings_by_any_of_their_names(cli: Cli, findings: str) -> None:
    for name in (findings, f"{findings}/*.parquet", f"{findings}/manifest.json"):
        done = cli("query", "gradual_drift", "--store", name)
        assert (done.code, done.err) == (0, "20 of 20 matches shown\n" if "shown" in done.err else "")
        assert "20 of 80 evaluated sequences of run scan match at some turn" in done.out
        assert "attack" in done.out


def test_query_in_sql_and_as_json(cli: Cli, findings: str) -> None:
    asked = (
        "SELECT label, count(*) AS chats, count(*) FILTER (fired) AS fired FROM findings GROUP BY ALL ORDER BY ALL"
    )
    assert cli("query", "--sql", asked, "--store", findings, "--json").json == [
        {"label": "attack", "chats": 20, "fired": 20},
        {"label": "benign", "chats": 60, "fired": 0},
    ]
    found = cli("query", "peak(F) >= 0.5", "--store", findings, "--json", "--limit", "2").json
    assert (found["count"], found["of"], len(found["matches"])) == (20, 80, 2)


def test_runs_detect_and_show(cli: Cli, findings: str) -> None:
    [run] = cli("runs", "list", "--store", findings, "--json").json
    assert (run["name"], run["observer"], run["evaluations"], run["sequences"]) == (
        "scan",
        "scripted:words",
        480,
        80,
    )
    found = cli("detect", "--detector", "any_turn", "--label", "attack", "--store", findings, "--json").json
    assert [(one["fired"], one["turn"], one["threshold"]) for one in found] == [(True, 3, 0.5)] * 20
    shown = cli("show", "rise-3", "--store", findings)
    assert "what about part 2?" in shown.out


def test_the_doctor_names_the_findings(cli: Cli, findings: str) -> None:
    told = cli("doctor", "--store", findings, "--json").json
    assert told["settings"]["store"]["value"] == findings
    assert told["health"]["store"]["well"]


def test_compare_and_calibrate_take_labels_from_findings_and_people(cli: Cli, findings: str) -> None:
    done = cli(
        "study",
        "calibrate",
        "--detector",
        "any_turn",
        "--alpha",
        "0.2",
        "--confidence",
        "0.8",
        "--store",
        findings,
        "--json",
    )
    assert done.code == 0, done.err
    settings = "--splits", "1", "--replicates", "20", "--target-fpr", "0.2"
    done = cli("study", "compare", "--detector", "any_turn", *settings, "--store", findings, "--json")
    assert done.code == 0, done.err


def test_what_people_say_is_kept_beside_the_findings(cli: Cli, tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "findings", [conversation("a", 0.2), conversation("b", 0.7)])
    assert "no correction" in cli("judgements", "list", "--store", folder).err
    done = cli("judgements", "label", "b", "attack", "--author", "Ann", "--store", folder)
    assert done.code == 0, done.err
    [said] = cli("judgements", "list", "--store", folder, "--json").json["corrections"]
    assert (said["sequence_id"], said["label"], said["author"]) == ("b", "attack", "Ann")
    assert (tmp_path / "findings" / "people.db").exists()


def test_a_scan_that_has_not_ended_is_read_and_says_so(cli: Cli, tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "findings", RISING, complete=False)
    for command in (("query", "F > 0.5"), ("runs", "list"), ("detect",)):
        done = cli(*command, "--store", folder)
        assert done.code == 0
        assert "has not ended: 20 records are there, in 1 parts of 1 of 1 input files" in done.err


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (("evaluate", "--observer", "scripted:0.1"), "into another folder"),
        (("export", "--out", "out"), "Parquet already"),
        (("runs", "rename", "scan", "other", "--yes"), "scan into another folder"),
        (("runs", "delete", "scan", "--yes"), "remove the folder"),
        (("llm", "cache"), "turnwise import, then turnwise evaluate"),
    ],
)
def test_what_findings_cannot_do_says_what_to_do_instead(
    cli: Cli, findings: str, command: tuple[str, ...], instead: str
) -> None:
    done = cli(*command, "--store", findings)
    assert done.code == 2, done.err
    assert "findings of a scan can be read alone" in done.err
    assert instead in done.err


def test_import_does_not_write_into_findings(cli: Cli, findings: str, tmp_path: Path) -> None:
    chat = tmp_path / "a.json"
    chat.write_text('{"messages": [{"role": "user", "content": "hello"}]}\n')
    done = cli("import", chat, "--store", findings)
    assert done.code == 2
    assert "turnwise import FILE --store work.db" in done.err


def test_damaged_and_other_folders_are_errors_in_a_line(cli: Cli, findings: str, tmp_path: Path) -> None:
    folder = Path(make_findings(tmp_path / "findings", RISING))
    (folder / "scores-000000.parquet").write_bytes(b"PAR1")
    done = cli("query", "F > 0.5", "--store", folder)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "scores-000000.parquet is damaged" in done.err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is a folder; name a file" in cli("query", "F > 0.5", "--store", empty).err
    done = cli("query", "F > 0.5", "--store", empty / "*.parquet")
    assert "has no manifest.json" in done.err
