"""Input that is broken: the row or file goes to the dead letters, with the reason, and the rest completes."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from chat_logs import SCRIPT, chats, lines

from turnwise.conversation import Label, Sequence
from turnwise.datasets import DATASETS, FileHead, RecordLoader, SequenceBuilder, dataset_loader, get_loader
from turnwise.errors import DatasetError, LocationError
from turnwise.findings import FAILURES, SEQUENCES
from turnwise.runs import ReadOptions, ScanResult, plan_scan


def letters(result: ScanResult) -> list[tuple[str, int, str]]:
    """Return file, row and reason of every dead letter."""
    found = [json.loads(line) for one in result.findings.files(FAILURES) for line in one.read().splitlines()]
    return [(Path(one["file"]).name, one["row"], one["reason"]) for one in found]


def parquet(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records as Parquet, in row groups of 2,048."""
    source = path.with_suffix(".source")
    source.write_bytes(lines(records))
    with duckdb.connect(config={"threads": 1}) as connection:
        query = f"FROM read_json('{source}', maximum_object_size = 100000000)"
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    source.unlink()


def test_rows_that_can_not_be_read_are_named_by_file_and_line(tmp_path: Path) -> None:
    good = lines(chats(2)).splitlines(keepends=True)
    broken = [
        b'{"id": "no messages"}\n',
        b"\n",
        b'{"messages": null}\n',
        b'{"messages": [{"role": "user", "content": null}]}\n',
        b'{"messages": [{"role": "user", "content": "\xff"}]}\n',
        b'{"messages": [\n',
        b"[" * 5_000 + b"]" * 5_000 + b"\n",
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}\n',
        b'{"id": "nan", "note": NaN, "messages": [{"role": "user", "content": "Hi"}]}\n',
    ]
    path = tmp_path / "logs.jsonl"
    path.write_bytes(good[0] + b"".join(broken) + good[1])
    result = plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=3).run()
    told = letters(result)
    assert {row for _, row, _ in told} >= {2, 4, 6, 7, 8, 9}
    assert result.counts.conversations + len(told) == 10  # the blank line is no record
    reasons = {row: reason for _, row, reason in told}
    assert "not UTF-8" in reasons[6] and "not JSON" in reasons[7] and "surrogate" in reasons[9]


def test_a_loader_that_raises_is_told_by_kind_and_place_and_not_by_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DATASETS, "_parts", dict(DATASETS._parts))

    @dataset_loader("numbers")
    class Numbers(RecordLoader):
        info = replace(get_loader("messages").info, name="numbers")

        def sniff(self, head: FileHead) -> bool:
            return False

        def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
            if record["said"] == "ours":
                raise LocationError("the list of numbers is not there")
            metadata = {"number": float(record["said"])}
            return builder.turns([("Hi", None)], default=Label.UNLABELLED, metadata=metadata)

    path = tmp_path / "logs.jsonl"
    path.write_bytes(lines([{"said": said} for said in ("1", "my secret", "ours", "nan")]))
    foreign, ours, kept = letters(
        plan_scan(path, tmp_path / "found", read=ReadOptions(format="numbers"), observer=SCRIPT).run()
    )
    assert re.fullmatch(r"the loader numbers can't read it: ValueError at test_broken_input\.py:\d+", foreign[2])
    assert ours[2] == "the loader numbers can't read it: the list of numbers is not there"
    assert kept[2] == "its metadata can't be kept as JSON: ValueError"


def test_a_file_that_can_not_be_read_is_row_0_and_the_others_complete(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(chats(3)))
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "d.jsonl").write_bytes(lines(chats(4, seed=2)))
    result = plan_scan(tmp_path, tmp_path / "out" / "found", observer=SCRIPT).run()
    assert result.counts.conversations == 7
    told = letters(result)
    assert [(name, row) for name, row, _ in told] == [("b.jsonl", 0), ("c.parquet", 0)]
    assert "is empty" in told[0][2]
    assert "can't be read as Parquet" in told[1][2]


def test_parquet_that_was_cut_off_is_one_dead_letter(tmp_path: Path) -> None:
    parquet(tmp_path / "whole.parquet", chats(50))
    content = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(content[: len(content) // 2])
    result = plan_scan(tmp_path, tmp_path / "out" / "found", observer=SCRIPT).run()
    assert result.counts.conversations == 50
    assert [(name, row) for name, row, _ in letters(result)] == [("cut.parquet", 0)]


@pytest.mark.parametrize("part_rows", [100, 2_000], ids=["read by the driver", "read by workers"])
def test_parquet_that_is_damaged_within_loses_rows_of_that_row_group(tmp_path: Path, part_rows: int) -> None:
    parquet(tmp_path / "logs.parquet", chats(4_500))
    content = bytearray((tmp_path / "logs.parquet").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2_000] = b"\x7f" * 2_000
    (tmp_path / "logs.parquet").write_bytes(content)
    result = plan_scan(tmp_path / "logs.parquet", tmp_path / "found", observer=SCRIPT, part_rows=part_rows).run()
    told = letters(result)
    assert told and all(reason.startswith(f"rows {row} to ") for _, row, reason in told)
    files = [str(one) for one in result.findings.files(SEQUENCES)]
    with duckdb.connect() as connection:
        found = connection.execute("SELECT row FROM read_parquet(?)", [files]).fetchall()
    assert (1,) in found and len(found) < 4_500
    assert part_rows == 2_000 or (4_500,) in found  # a part of several row groups ends at the first bad one
    assert result.findings.manifest.complete


def test_a_packed_file_that_was_cut_off_gives_what_was_before(tmp_path: Path) -> None:
    packed = gzip.compress(lines(chats(200)))
    (tmp_path / "logs.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    result = plan_scan(tmp_path / "logs.jsonl.gz", tmp_path / "found", observer=SCRIPT, part_rows=30).run()
    told = letters(result)
    assert len(told) == 1 and "breaks off here" in told[0][2]
    assert 50 < result.counts.conversations < 200


def test_files_of_several_schemas_are_read_each_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(chats(3)))
    (tmp_path / "b.jsonl").write_bytes(
        lines([{"id": "own", "label": "benign", "turns": [{"role": "user", "content": "Hi"}]}])
    )
    (tmp_path / "c.jsonl").write_bytes(lines([{"colour": "red"}, {"colour": "blue"}]))
    parquet(tmp_path / "d.parquet", [{"conversation_id": "row", **chats(1)[0]}])
    result = plan_scan(tmp_path, tmp_path / "out" / "found", observer=SCRIPT).run()
    assert result.counts.conversations == 5
    assert [(name, row) for name, row, _ in letters(result)] == [("c.jsonl", 0)]


def test_a_turn_of_50_mb_and_a_conversation_of_10_000_turns_are_scored(tmp_path: Path) -> None:
    long = {"id": "long", "messages": [{"role": "user", "content": "tide " * 10_000_000}]}
    many = {"id": "many", "messages": [{"role": "user", "content": "Again?"}] * 10_000}
    path = tmp_path / "logs.jsonl"
    path.write_bytes(lines([long, many, *chats(2)]))
    result = plan_scan(path, tmp_path / "found", observer=SCRIPT, detector="any_turn").run()
    assert result.counts.failures == 0
    assert len(result.findings.manifest.parts) == 2  # a part ends after 32 MiB
    files = [str(one) for one in result.findings.files(SEQUENCES)]
    with duckdb.connect() as connection:
        turns = connection.execute("SELECT sequence, turns FROM read_parquet(?) LIMIT 2", [files]).fetchall()
    assert turns == [("long", 1), ("many", 10_000)]


def test_a_line_of_more_than_64_mib_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "logs.jsonl"
    good = lines(chats(2)).splitlines(keepends=True)
    path.write_bytes(good[0] + b'{"id": "' + b"x" * (65 << 20) + b'"}\n' + good[1])
    result = plan_scan(path, tmp_path / "found", observer=SCRIPT).run()
    assert result.counts.conversations == 2
    assert [(row, reason[:27]) for _, row, reason in letters(result)] == [(2, "the line has more than 64 M")]


def test_where_no_input_can_be_read_it_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    with pytest.raises(DatasetError, match="is empty"):
        plan_scan(tmp_path / "a.jsonl", tmp_path / "found", observer=SCRIPT).run()
    assert not (tmp_path / "found").exists()
