"""``turnwise query`` and ``turnwise show --plot`` as a person uses them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.shows("FR-004")
def test_matches_with_rates_first_turn_and_graph(cli: Cli, evaluated: Path) -> None:
    done = cli("query", "peak(reciprocity.F) >= 0.5", "--store", evaluated)
    assert done.code == 0
    assert "1 of 3 evaluated sequences of run first match at some turn: peak(reciprocity.F) >= 0.5" in done.out
    assert "1/1 = 100.0 % [2.5, 100.0]" in done.out
    assert "0/2 = 0.0 % [0.0, 84.2]" in done.out
    [row] = [line for line in done.out.splitlines() if line.strip().startswith("attack_01")]
    assert row.split() == ["attack_01", "attack", "made", "2", "still", "holds", "▁▅█"]


def test_json_is_the_documented_shape(cli: Cli, evaluated: Path) -> None:
    found = cli("query", "slope(reciprocity.F) > 0.1", "--store", evaluated, "--json").json
    assert found.pop("seconds") > 0
    match = {"sequence_id": "attack_01", "label": "attack", "source": "made", "turns": 3, "turn": 2, "final": True}
    labels = {"corrected_by": [], "corrected": 0, "disputed": 0}
    assert found == {"count": 1, "of": 3, "not_scored": 0, **labels, "matches": [match]}


def test_final_is_not_ever(cli: Cli, evaluated: Path) -> None:
    question = "query", "turn == 2", "--store", evaluated, "--json"
    assert cli(*question).json["count"] == 2
    assert [match["sequence_id"] for match in cli(*question, "--when", "final").json["matches"]] == ["benign_01"]


def test_a_named_pattern_and_one_of_a_users_file(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    assert cli("query", "gradual_drift", "--store", evaluated, "--json").json["count"] == 1
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "warm:\n  expression: peak(F) > limit\n  description: Rather high.\n  parameters: {limit: 0.15}\n"
    )
    assert cli("query", "warm", "--patterns", mine, "--store", evaluated, "--json").json["count"] == 2


def test_fewer_rows_than_matches_is_said_and_csv_has_all(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    done = cli("query", "F >= 0", "--store", evaluated, "--limit", "1", "--csv", tmp_path / "all.csv")
    assert "1 of 3 matches shown" in done.err
    assert "benign_01" not in done.out
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sequence_id"] for row in rows] == ["attack_01", "benign_01", "benign_02"]
    assert rows[0] == {
        "sequence_id": "attack_01",
        "label": "attack",
        "source": "made",
        "turns": "3",
        "turn": "1",
        "final": "true",
    }


def test_only_one_label(cli: Cli, evaluated: Path) -> None:
    found = cli("query", "F >= 0", "--label", "benign", "--source", "made", "--store", evaluated, "--json").json
    assert (found["count"], found["of"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["peek(reciprocity.F) > 0.5"], "column 1"),
        (["peak(recprocity.F) > 0.5"], "did you mean 'reciprocity'"),
        (["peak(reciprocity.F)"], "compare it"),
        (["gradual_drft"], "did you mean 'gradual_drift'"),
        ([], "give a pattern"),
        (["F > 0.5", "--sql", "SELECT 1"], "give a pattern"),
        (["--sql", "SELECT 1", "--label", "attack"], "--sql works only with"),
        (["--sql", "DROP TABLE copied.runs"], "one statement that asks"),
        (["--sql", "SELECT F FROM evaluation"], "evaluations"),
        (["F > 0.5", "--run", "frist"], "did you mean 'first'"),
        (["F > 0.5", "--when", "always"], "ever, final"),
        (["F > 0.5", "--label", "wicked"], "wicked"),
        (["F > 0.5", "--source", "maid"], "did you mean 'made'"),
        (["F > 0.5", "--plot", "chart.gif"], ".html, .svg, .png, .pdf"),
        (["F > 0.5", "--plot", "no/chart.svg"], "no folder no"),
        (["F > 0.5", "--csv", "no/rows.csv"], "can't write no/rows.csv"),
        (["F > 0.5", "--export", "rows.xls"], "must end with .csv, .parquet, .arrow"),
        (["F > 0.5", "--export", "no/rows.arrow"], "there is no folder no"),
        (["F > 0.5", "--where", "tactic = x"], "unknown field 'tactic'"),
        (["F > 0.5", "--where", "kind = test"], "write metadata.kind"),
        (["F > 0.5", "--where", "metadata.knd = test"], "did you mean 'kind'"),
        (["F > 0.5", "--where", "source = maid"], "did you mean 'made'"),
        (["F > 0.5", "--where", "turns >="], "column 9"),
        (["--sql", "SELECT 1", "--where", "turns > 1"], "--sql works only with"),
        (["response.F > 0.5"], "response.F is not scored"),
        (["response.F > 0.5", "--json"], "response.F is not scored"),
        (['run("first").response.F > 0.5'], "is not scored"),
        (['run("frist").F > 0.5'], "did you mean 'first'"),
        (["F > 0.5", "--limit", "-1"], "--limit"),
    ],
)
def test_wrong_use_is_answered_in_plain_words(cli: Cli, evaluated: Path, arguments: list[str], said: str) -> None:
    done = cli("query", *arguments, "--store", evaluated)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_several_runs_ask_for_a_choice(cli: Cli, evaluated: Path) -> None:
    cli("evaluate", "--store", evaluated, "--run", "second", "--observer", "scripted:0.5")
    assert "first, second" in cli("query", "F > 0.5", "--store", evaluated).err


def test_sql_as_a_table_as_json_and_as_csv(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    ask = (
        "query",
        "--sql",
        "SELECT label, max(F) AS top, DATE '2025-01-02' AS day FROM evaluations GROUP BY ALL ORDER BY ALL",
    )
    done = cli(*ask, "--store", evaluated)
    assert done.out.splitlines()[1].split() == ["label", "top", "day"]
    assert cli(*ask, "--store", evaluated, "--json").json == [
        {"label": "attack", "top": 0.9, "day": "2025-01-02"},
        {"label": "benign", "top": 0.2, "day": "2025-01-02"},
    ]
    shown = cli(*ask, "--store", evaluated, "--limit", "1")
    assert "only the first 1 rows" in shown.err
    assert "benign" not in shown.out
    assert "2 rows written" in cli(*ask, "--store", evaluated, "--csv", tmp_path / "rows.csv").err
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "attack,0.9,2025-01-02"
    told = cli(*ask, "--store", evaluated, "--csv", tmp_path / "rows.csv", "--json").json
    assert told == {"columns": ["label", "top", "day"], "count": 2, "csv": str(tmp_path / "rows.csv")}


def test_what_a_sequence_lacks_is_counted(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    rows = [
        {
            "sequence_id": "attack_01",
            "turn": 1,
            "side": side,
            "principle": "reciprocity",
            "T": 0.1,
            "I": 0,
            "F": 0.9,
        }
        for side in ("prompt", "response")
    ]
    rows.append({**rows[0], "sequence_id": "benign_01"})
    replies.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    cli(
        "evaluate", "--store", evaluated, "--run", "both", "--observer", f"replay:{replies}",
        "--sides", "prompt,response", "--principle", "reciprocity",
    )  # fmt: skip
    ask = "query", "response.F > 0.5", "--store", evaluated, "--run", "both"
    found = cli(*ask, "--json").json
    assert (found["count"], found["of"], found["not_scored"]) == (1, 2, 1)
    assert "1 of the 2 are not scored" in cli(*ask).err
    assert cli(*ask, "--quiet").err == ""


@pytest.mark.shows("FR-010")
def test_only_some_sequences_by_what_is_known_of_them(cli: Cli, evaluated: Path) -> None:
    def matches(where: str) -> list[str]:
        found = cli("query", "F >= 0", "--where", where, "--store", evaluated, "--json").json
        return [match["sequence_id"] for match in found["matches"]]

    assert matches('turns >= 3 and not label = attack and metadata.kind = "test"') == ["benign_02"]
    assert matches("chars < 30 or id = attack_01") == ["attack_01", "benign_01", "benign_02"]
    assert matches("cost > 0") == []


def test_two_runs_are_compared(cli: Cli, evaluated: Path) -> None:
    cli("evaluate", "--store", evaluated, "--run", "flat", "--observer", "scripted:0.5")
    ask = "query", 'abs(run("flat").reciprocity.F - reciprocity.F) >= 0.4', "--run", "first"
    found = cli(*ask, "--store", evaluated, "--json").json
    assert [(match["sequence_id"], match["turn"]) for match in found["matches"]] == [
        ("attack_01", 1), ("benign_01", 1)
    ]  # fmt: skip
    assert (
        "compares runs"
        in cli("detect", "--store", evaluated, "--run", "first", "--detector", f"pattern:{ask[1]}").err
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_results_are_exported(cli: Cli, evaluated: Path, tmp_path: Path, suffix: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    read = {".csv": arrow_csv.read_csv, ".parquet": parquet.read_table, ".arrow": feather.read_table}[suffix]
    file = tmp_path / f"found{suffix}"
    assert cli("query", "F >= 0.5", "--store", evaluated, "--export", file).code == 0
    table = read(str(file))
    assert isinstance(table, pyarrow.Table)
    row = {"sequence_id": "attack_01", "label": "attack", "source": "made", "turns": 3, "turn": 2, "final": True}
    assert [{**one, "final": str(one["final"]) in {"True", "true"}} for one in table.to_pylist()] == [row]
    asked = cli("query", "--sql", "SELECT max(F) AS top FROM evaluations", "--export", file, "--store", evaluated)
    assert "1 rows written" in asked.err
    assert read(str(file)).to_pylist() == [{"top": 0.9}]


@pytest.mark.shows("US-3.1")
def test_the_strongest_matches_are_drawn_and_counted(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    chart = tmp_path / "strongest.svg"
    ask = "query", "F > 0.01", "--when", "ever", "--store", evaluated, "--plot", chart, "--limit", "2"
    assert "2 of 3 matches drawn, the strongest" in cli(*ask).err
    drawn = chart.read_text()
    assert "attack_01" in drawn
    assert "benign_02" in drawn
    assert "benign_01" not in drawn


def test_matches_are_drawn(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    chart = tmp_path / "matches.svg"
    done = cli("query", "F > 0.3 and context_integrity.T > 0", "--store", evaluated, "--plot", chart)
    assert done.code == 0
    assert chart.read_bytes().startswith(b"<svg")
    assert all(name in chart.read_text() for name in ("attack_01", "context_integrity"))


def test_a_trajectory_is_drawn(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    chart = tmp_path / "trajectory.png"
    assert cli("show", "attack_01", "--store", evaluated, "--plot", chart).code == 0
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_show_json_and_plot_go_together(cli: Cli, evaluated: Path, tmp_path: Path) -> None:
    done = cli("show", "attack_01", "--store", evaluated, "--plot", tmp_path / "one.svg", "--json")
    assert json.loads(done.out)["sequence_id"] == "attack_01"
    assert "one.svg written" in done.err
    drawn = (tmp_path / "one.svg").read_text()
    assert all(name in drawn for name in ("attack_01", "reciprocity", "third_party_harm"))
    assert cli("show", "attack_01", "--store", evaluated, "--plot", "one.gif").code == 2


def test_a_question_in_sql_has_a_limit_of_time(cli: Cli, evaluated: Path) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b"
    done = cli("query", "--sql", endless, "--timeout", "0.2", "--store", evaluated)
    assert done.code == 2
    assert "the SQL query was stopped after 0.2 s: ask for less, or give more with --timeout" in done.err
    assert cli("query", "--sql", "SELECT 1", "--timeout", "60", "--store", evaluated).code == 0
    assert "--timeout needs --sql" in cli("query", "F > 0", "--timeout", "1", "--store", evaluated).err
