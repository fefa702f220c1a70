"""A scan leaves findings: what is in them, whatever the inputs and the engine."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pytest
import zstandard
from chat_logs import SCRIPT, chats, content, lines

from turnwise.conversation import Side, Turn
from turnwise.datasets import open_dataset
from turnwise.detectors import build_detector, run_detector
from turnwise.errors import DatasetError, LocationError, UsageError
from turnwise.findings import COLUMNS, FAILURES, SCORES, SEQUENCES, TURNS, open_findings
from turnwise.observers import (
    Context,
    ObservationFailure,
    ObserverSession,
    Request,
    ScriptedObserver,
    build_observer,
)
from turnwise.principles import builtin_principles
from turnwise.runs import ProcessEngine, ReadOptions, plan_scan
from turnwise.scoring import Score, TurnScores

Logs = Callable[..., Path]


def rows(findings: Path, table: str, query: str = "SELECT * FROM found") -> list[tuple[Any, ...]]:
    """Ask something of the files of a table."""
    files = [str(one) for one in open_findings(str(findings)).files(table)]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE found AS SELECT * FROM read_parquet(?)", [files])
        return connection.execute(query).fetchall()


def test_every_score_is_a_row_and_the_detector_says_the_same_as_over_a_stored_run(
    logs: Logs, tmp_path: Path
) -> None:
    path = logs()
    result = plan_scan(
        path, tmp_path / "found", observer=SCRIPT, detector="cusum:limit=0.6", sides=["prompt", "response"]
    ).run()
    observer, detector = build_observer(SCRIPT), build_detector("cusum:limit=0.6")
    expected, verdicts = [], []
    for sequence in open_dataset(path):
        session = ObserverSession(observer, Context.parse("history"), sequence.sequence_id)
        told = []
        for turn in sequence.conversation:
            wanted = [Request(principle, side) for side in Side for principle in builtin_principles()]
            given = session.observe(turn, wanted).given
            by_side = {side: {one.principle: one.score for one in given if one.side is side} for side in Side}
            told.append(
                TurnScores(
                    turn.number, by_side[Side.PROMPT], len(turn.prompt), by_side[Side.RESPONSE], len(turn.response)
                )
            )
        verdict = run_detector(detector, told)
        verdicts.append((sequence.sequence_id, verdict.fired, verdict.turn, verdict.score))
        for scores, signal in zip(told, verdict.signals, strict=True):
            for side, held, chars in (
                ("prompt", scores.scores, scores.length),
                ("response", scores.response_scores, scores.response_length),
            ):
                for name in (principle.name for principle in builtin_principles()):
                    one = held[name]
                    about = sequence.sequence_id, scores.turn, side, name
                    expected.append(
                        (*about, one.T, one.I, one.F, signal.score, verdict.fired, verdict.turn, chars)
                    )
    assert rows(tmp_path / "found", SCORES, "SELECT * EXCLUDE (key) FROM found ORDER BY rowid") == expected
    found = rows(
        tmp_path / "found", SEQUENCES, "SELECT sequence, fired, flag_turn, peak FROM found ORDER BY rowid"
    )
    assert found == verdicts
    assert result.counts.conversations == 60
    assert result.counts.fired == sum(fired for _, fired, _, _ in verdicts) > 0


def test_the_columns_are_those_that_are_documented(logs: Logs, tmp_path: Path) -> None:
    plan_scan(logs(), tmp_path / "found", observer=SCRIPT).run()
    for table, columns in COLUMNS.items():
        described = rows(tmp_path / "found", table, "SELECT column_name, column_type FROM (DESCRIBE found)")
        assert dict(described) == dict(columns)


def test_texts_are_kept_with_their_conversation_unless_they_are_not_wanted(logs: Logs, tmp_path: Path) -> None:
    path = logs()
    plan_scan(path, tmp_path / "with", observer=SCRIPT).run()
    expected = [
        (sequence.sequence_id, turn.number, turn.prompt, turn.response)
        for sequence in open_dataset(path)
        for turn in sequence.conversation
    ]
    assert rows(tmp_path / "with", TURNS, "SELECT * EXCLUDE (key) FROM found ORDER BY rowid") == expected
    plan_scan(path, tmp_path / "without", observer=SCRIPT, texts=False).run()
    assert not open_findings(str(tmp_path / "without")).files(TURNS)
    assert b"someone asks" not in b"".join(content(tmp_path / "without").values())


def test_every_engine_gives_the_same_bytes_whatever_the_number_of_workers(logs: Logs, tmp_path: Path) -> None:
    path = logs(count=65)
    plan_scan(path, tmp_path / "one", observer=SCRIPT, part_rows=10).run()
    plan_scan(path, tmp_path / "two", observer=SCRIPT, part_rows=10).run(ProcessEngine(2))
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert len(open_findings(str(tmp_path / "one")).manifest.parts) == 7


def _gzip(plain: bytes, folder: Path) -> str:
    (folder / "logs.jsonl.gz").write_bytes(gzip.compress(plain))
    return str(folder / "logs.jsonl.gz")


def _bzip2(plain: bytes, folder: Path) -> str:
    (folder / "logs.jsonl.bz2").write_bytes(bz2.compress(plain))
    return str(folder / "logs.jsonl.bz2")


def _zstd(plain: bytes, folder: Path) -> str:
    packed = zstandard.compress(plain[:1000]) + zstandard.compress(plain[1000:])
    (folder / "logs.jsonl.zst").write_bytes(packed)
    return str(folder / "logs.jsonl.zst")


def _parquet(plain: bytes, folder: Path) -> str:
    (folder / "source.jsonl").write_bytes(plain)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM read_json('{folder}/source.jsonl')) TO '{folder}/logs.parquet'")
    return str(folder / "logs.parquet")


def _array(plain: bytes, folder: Path) -> str:
    (folder / "logs.json").write_bytes(b"[" + plain.strip().replace(b"\n", b",\n") + b"]")
    return str(folder / "logs.json")


def _url(plain: bytes, folder: Path) -> str:
    fsspec.filesystem("memory").pipe_file(f"/{folder.name}/logs.jsonl", plain)
    return f"memory://{folder.name}/logs.jsonl"


def _parquet_url(plain: bytes, folder: Path) -> str:
    fsspec.filesystem("memory").pipe_file(
        f"/{folder.name}/logs.parquet", Path(_parquet(plain, folder)).read_bytes()
    )
    return f"memory://{folder.name}/*.parquet"


def _marked(plain: bytes, folder: Path) -> str:
    (folder / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + plain)
    return str(folder / "marked.jsonl")


EVERYTHING = "SELECT * FROM found"
TABLES = {SEQUENCES: "SELECT * EXCLUDE (file) FROM found", SCORES: EVERYTHING, TURNS: EVERYTHING}
"""What does not depend on the form of the logs."""


@pytest.fixture(
    scope="module", params=[7, 20], ids=lambda rows: "row groups read " + ("once" if rows == 7 else "by part")
)
def plain_logs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, int, dict[str, list[Any]]]:
    """Return lines of JSON, the conversations of a part, and the rows of each table of their findings."""
    folder, plain = tmp_path_factory.mktemp("plain"), lines(chats(50))
    (folder / "plain.jsonl").write_bytes(plain)
    plan_scan(
        folder / "plain.jsonl",
        folder / "found",
        read=ReadOptions(source="logs"),
        observer=SCRIPT,
        part_rows=request.param,
    ).run()
    return plain, request.param, {table: rows(folder / "found", table, query) for table, query in TABLES.items()}


@pytest.mark.parametrize("form", [_gzip, _bzip2, _zstd, _parquet, _array, _url, _parquet_url, _marked])
def test_the_form_of_the_logs_does_not_change_the_findings(
    form: Callable[[bytes, Path], str], plain_logs: tuple[bytes, int, dict[str, list[Any]]], tmp_path: Path
) -> None:
    plain, part_rows, expected = plain_logs
    plan_scan(
        form(plain, tmp_path),
        tmp_path / "found",
        read=ReadOptions(source="logs"),
        observer=SCRIPT,
        part_rows=part_rows,
    ).run()
    for table, query in TABLES.items():
        assert rows(tmp_path / "found", table, query) == expected[table]


def test_findings_go_to_a_url_as_to_a_folder(logs: Logs, tmp_path: Path) -> None:
    path = logs(count=30)
    out = f"memory://{tmp_path.name}/found"
    plan_scan(path, out, observer=SCRIPT, part_rows=10).run()
    plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run()
    found = open_findings(f"{out}/*.parquet")
    assert found.manifest == open_findings(str(tmp_path / "found")).manifest
    assert [one.read() for one in found.files(SCORES)] == [
        one.read() for one in open_findings(str(tmp_path / "found")).files(SCORES)
    ]
    assert plan_scan(path, out, observer=SCRIPT, part_rows=10).run().repeated == 0


def test_files_folders_and_patterns_name_inputs_in_a_fixed_order(logs: Logs, tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl"):
        logs(name, count=3, seed=ord(name[0]))
    (tmp_path / "notes.md").write_text("no data")
    by_pattern = plan_scan(str(tmp_path / "*.jsonl"), tmp_path / "found" / "one", observer=SCRIPT).run().findings
    by_folder = plan_scan(tmp_path, tmp_path / "found" / "two", observer=SCRIPT).run().findings
    names = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    assert [one.name for one in by_pattern.manifest.inputs] == names
    assert [one.name for one in by_folder.manifest.inputs] == names


def test_ids_may_repeat_since_every_conversation_has_a_key(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_bytes(lines(chats(5) + chats(5)))
    result = plan_scan(path, tmp_path / "found", observer=SCRIPT).run()
    assert result.counts.conversations == 10
    assert rows(
        tmp_path / "found", SEQUENCES, "SELECT count(DISTINCT key), count(DISTINCT sequence) FROM found"
    ) == [(10, 5)]


def test_a_condition_leaves_conversations_out(logs: Logs, tmp_path: Path) -> None:
    path = logs()
    result = plan_scan(
        path, tmp_path / "found", observer=SCRIPT, where='turns >= 3 and metadata.model = "a"'
    ).run()
    expected = [
        one.sequence_id
        for one in open_dataset(path)
        if one.conversation.get_turn_count() >= 3 and one.metadata["model"] == "a"
    ]
    assert [
        name for (name,) in rows(tmp_path / "found", SEQUENCES, "SELECT sequence FROM found ORDER BY rowid")
    ] == (expected)
    assert result.counts.left_out == 60 - len(expected)


def test_a_sample_is_the_same_for_one_seed_whatever_the_engine(logs: Logs, tmp_path: Path) -> None:
    path = logs(count=100)
    drawn = {}
    for name, given in {
        "one": {"seed": 1},
        "again": {"seed": 1},
        "other": {"seed": 2},
        "where": {"seed": 1, "where": "turns >= 4"},
    }.items():
        result = plan_scan(path, tmp_path / name, observer=SCRIPT, sample=12, part_rows=15, **given).run(
            ProcessEngine(2) if name == "again" else None
        )
        assert result.counts.conversations == 12
        drawn[name] = rows(tmp_path / name, SEQUENCES, "SELECT sequence FROM found ORDER BY rowid")
    assert drawn["one"] == drawn["again"] != drawn["other"]
    assert rows(tmp_path / "where", SEQUENCES, "SELECT min(turns) FROM found") == [(4,)]
    # A row of the sample has the place that it has in a whole scan.
    plan_scan(path, tmp_path / "whole", observer=SCRIPT, part_rows=15).run()
    query = "SELECT key, sequence, row, digest FROM found"
    assert {*rows(tmp_path / "one", SEQUENCES, query)} < {*rows(tmp_path / "whole", SEQUENCES, query)}


def test_a_score_that_fails_is_a_dead_letter_and_never_a_row(logs: Logs, tmp_path: Path) -> None:
    def script(name: str, turn: Turn, request: Request) -> Score | ObservationFailure:
        if name == "chat-1-2":
            raise ZeroDivisionError("in a plug-in")
        if name == "chat-1-0" and turn.number == 1 and request.principle.name == "reciprocity":
            return ObservationFailure("reciprocity", request.side, "refused", "the model refused")
        return Score(0.5, 0.5, 0.5)

    result = plan_scan(logs(count=4), tmp_path / "found", observer=ScriptedObserver(script)).run()
    letters = [
        json.loads(line)
        for one in open_findings(str(tmp_path / "found")).files(FAILURES)
        for line in one.read().splitlines()
    ]
    assert result.counts.failures == len(letters)
    assert {key: letters[0][key] for key in ("row", "sequence", "turn", "side", "principle", "reason")} == {
        "row": 1,
        "sequence": "chat-1-0",
        "turn": 1,
        "side": "prompt",
        "principle": "reciprocity",
        "reason": "refused: the model refused",
    }
    assert {letter["sequence"] for letter in letters[1:]} == {"chat-1-2"}
    scored = rows(
        tmp_path / "found", SEQUENCES, "SELECT sequence, scored, peak IS NULL FROM found WHERE NOT scored"
    )
    assert scored == [("chat-1-2", False, True)]


def test_the_embedded_observer_gives_the_scores_of_an_ordinary_run(logs: Logs, tmp_path: Path) -> None:
    path = logs(count=3)
    plan_scan(path, tmp_path / "found", observer="local-small").run()
    observer = build_observer("local-small")
    expected = []
    for sequence in open_dataset(path):
        session = ObserverSession(observer, Context.parse("history"), sequence.sequence_id)
        for turn in sequence.conversation:
            wanted = [Request(principle, Side.PROMPT) for principle in builtin_principles()]
            given = {one.principle: one.score for one in session.observe(turn, wanted).given}
            expected += [given[principle.name].F for principle in builtin_principles()]
    found = [F for (F,) in rows(tmp_path / "found", SCORES, "SELECT F FROM found ORDER BY rowid")]
    assert found == pytest.approx(expected, abs=1e-6)
    manifest = open_findings(str(tmp_path / "found")).manifest
    assert manifest.detector["threshold_source"] == "operating point"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample": 0}, "at least 1 conversation"),
        ({"part_rows": 0}, "a part has 1 to"),
        ({"where": "cost > 1"}, "leave cost out"),
        ({"where": "colour = red"}, "unknown field"),
        ({"principles": []}, "no principle to judge against"),
        ({"principles": builtin_principles()[:1] * 2}, "two principles have one name: reciprocity, reciprocity"),
        ({"sides": []}, "no side to judge"),
        ({"read": ReadOptions(format="messages", columns="colour=red")}, "has no column 'colour'"),
    ],
)
def test_what_can_not_be_is_said_before_anything_is_written(
    logs: Logs, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_scan(logs(count=2), tmp_path / "found", observer=SCRIPT, **given).run()
    assert not (tmp_path / "found" / "manifest.json").exists()


def test_inputs_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(LocationError, match=r"there is no .*none\.jsonl"):
        plan_scan(tmp_path / "none.jsonl", tmp_path / "found", observer=SCRIPT).run()
    with pytest.raises(UsageError, match="no file is named like"):
        plan_scan(tmp_path / "*.parquet", tmp_path / "found", observer=SCRIPT).run()
    (tmp_path / "text.jsonl").write_text("hello\n")
    with pytest.raises(DatasetError, match="format can't be told"):
        plan_scan(tmp_path / "text.jsonl", tmp_path / "found", observer=SCRIPT).run()


def test_progress_tells_how_far_it_is(logs: Logs, tmp_path: Path) -> None:
    told = []
    plan_scan(logs(count=50), tmp_path / "found", observer=SCRIPT, part_rows=10).run(progress=told.append)
    assert [one.here for one in told] == [10, 20, 30, 40, 50]
    assert told[-1].done == told[-1].total == (tmp_path / "logs.jsonl").stat().st_size
    assert told[-1].left == 0.0
    assert not open_findings(str(tmp_path / "found")).files(FAILURES)


PAGE = (Path(__file__).parents[2] / "docs" / "scan.md").read_text(encoding="utf-8")


def test_the_example_in_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(lines(chats(4)))
    code = PAGE.split("```python\n")[1].split("```")[0]
    # The small observer stands for the default one, which takes longer to load.
    code = code.replace('detector="cusum"', 'detector="cusum", observer="local-small"')
    exec(compile(code, "docs/scan.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.endswith("of 4\n")
    assert open_findings("findings").manifest.complete
