"""A scan over texts in other languages: counted and named, no failures, and the same when it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_logs import lines

from turnwise.cli import main
from turnwise.findings import _DIGEST, open_findings
from turnwise.runs import plan_scan
from turnwise.store import Store
from turnwise.study.prevalence import summarise

RECORDS: list[dict[str, Any]] = [
    {"id": "english", "messages": [{"role": "user", "content": "Hello, how do I get to the station from here?"}]},
    {"id": "russian", "messages": [{"role": "user", "content": "Как мне пройти на вокзал?"}]},
    {
        "id": "both",
        "messages": [
            {"role": "user", "content": "Good morning to everybody in this house."},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "怎么去火车站"},
        ],
    },
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "logs.jsonl").write_bytes(lines(RECORDS))
    return tmp_path / "logs.jsonl"


def test_texts_are_counted_by_language_and_are_no_failures(path: Path, tmp_path: Path) -> None:
    result = plan_scan(path, tmp_path / "found", observer="local-small", part_rows=2).run()
    counts = result.counts
    assert (counts.failures, counts.scored, counts.scores) == (0, 2, 6)
    assert counts.unread == {"ru": 1, "zh": 1}
    again = plan_scan(path, tmp_path / "found", observer="local-small", part_rows=2).run()
    assert again.counts == counts and again.repeated == 0
    assert any("2 not read (ru 1, zh 1)" in one for one in summarise(result.findings).cautions)
    letters = [json.loads(line) for file in result.findings.files("failures") for line in file.read().splitlines()]
    told = [(one["sequence"], one["turn"], one["side"], one["language"], one["reason"]) for one in letters]
    assert told == [("russian", 1, "prompt", "ru", "not_read: ru"), ("both", 2, "prompt", "zh", "not_read: zh")]


def test_findings_as_a_store_tell_it_apart(path: Path, tmp_path: Path) -> None:
    plan_scan(path, tmp_path / "found", observer="local-small").run()
    with Store(str(tmp_path / "found")) as store:
        run = store.only_run()
        assert store.failures(run) == () and store.failed(run) == set()
        told = {(one.key.sequence_id, one.key.turn, one.language) for one in store.unread(run)}
        assert told == {("russian", 1, "ru"), ("both", 2, "zh")} and len(store.unread(run)) == 6
        tally = store.tally(run)
        assert (tally.failed, tally.failures, tally.unread) == (0, 0, {"ru": 1, "zh": 1})
        assert store.counts()["unread"] == 2


def test_a_manifest_from_before_opens(path: Path, tmp_path: Path) -> None:
    plan_scan(path, tmp_path / "found", observer="scripted:0.1,0.2").run()
    place = tmp_path / "found" / "manifest.json"
    told = json.loads(place.read_text())
    del told[_DIGEST], told["totals"]["unread"]
    for part in told["parts"]:
        del part["counts"]["unread"]
    place.write_text(json.dumps(told))
    assert open_findings(str(tmp_path / "found")).manifest.totals.unread == {}


def test_the_command_says_so_and_leaves_with_0(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["scan", str(path), "--observer", "local-small", "--out", str(tmp_path / "found")])
    out = capsys.readouterr().out
    assert leaving.value.code in (0, None), out
    assert "2 not read (ru 1, zh 1): texts in languages that the observer does not read" in out
