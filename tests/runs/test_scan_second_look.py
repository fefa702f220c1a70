"""A scan in two stages: what findings keep of screen and judge, and that no reply is paid for twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from chat_logs import content
from chat_server import ChatServer, scores_by_text
from tests.runs.test_scan import rows

from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.findings import COLUMNS, SCORES, STAGE_COLUMNS, open_findings
from turnwise.observers import ObservationFailure, Request, ScriptedObserver
from turnwise.observers.second_look import SecondLookObserver
from turnwise.principles import load_principle
from turnwise.runs import ProcessEngine, ScanPlan, forecast_scan, plan_scan, second_looks
from turnwise.scoring import Score
from turnwise.store import Store, ask

Logs = Callable[..., Path]
ASK = "F >= 0.4"
SCREEN = "scripted:0.1,0.5,0.1,0.6,0.1,0.7"
PRINCIPLES = [load_principle("reciprocity")]
JUDGE = "llm:openai/gpt-4.1-mini"
TWO = f"second_look:{SCREEN}+{JUDGE}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    with ChatServer() as server:
        yield server


def paid(path: Path, out: Path | str, server: ChatServer, observer: str = TWO, rows: int = 10) -> ScanPlan:
    settings: dict[str, Any] = {"base_url": server.url}
    if observer.startswith("second_look"):
        settings["ask"] = ASK
    return plan_scan(
        path, out, observer=observer, settings=settings, principles=PRINCIPLES, part_rows=rows, threads=4
    )


def test_findings_keep_both_scores_and_why_the_judge_was_asked(logs: Logs, tmp_path: Path) -> None:
    def judge(name: str, turn: Turn, request: Request) -> Score | ObservationFailure:
        if turn.number == 4:
            return ObservationFailure(request.principle.name, request.side, "malformed", "no JSON")
        return Score(0.0, 0.2, 0.9)

    observer = SecondLookObserver((ScriptedObserver("0.1,0.5,0.1,0.6,0.1,0.7"), ScriptedObserver(judge)), ask=ASK)
    result = plan_scan(logs(), tmp_path / "found", observer=observer, principles=PRINCIPLES).run()
    told = "turn, F, screen_F, judge_I, asked, unanswered"
    assert set(rows(tmp_path / "found", SCORES, f"SELECT {told} FROM found")) == {
        (1, 0.1, 0.1, None, None, None),
        (2, 0.9, 0.5, 0.2, "pointed", None),
        (3, 0.1, 0.1, None, None, None),
        (4, 0.6, 0.6, None, "pointed", "malformed"),
        (5, 0.1, 0.1, None, None, None),
        (6, 0.9, 0.7, 0.2, "pointed", None),
    }
    [[asked, failed]] = rows(
        tmp_path / "found", SCORES, "SELECT count(*) FILTER (turn % 2 = 0), count(*) FILTER (turn = 4) FROM found"
    )
    assert (result.counts.asked, result.counts.unanswered) == (asked, {"malformed": failed})
    described = rows(tmp_path / "found", SCORES, "SELECT column_name, column_type FROM (DESCRIBE found)")
    assert dict(described) == {**COLUMNS[SCORES], **STAGE_COLUMNS}
    stages = result.findings.manifest.run["stages"]
    assert {name: one["observer"] for name, one in stages.items()} == {"screen": "scripted", "judge": "scripted"}


def test_a_failure_that_counts_is_asked_about_too(logs: Logs, tmp_path: Path) -> None:
    given = {"ask": ASK, "unanswered": "fail"}
    observer = SecondLookObserver((ScriptedObserver("0.1,0.5"), ScriptedObserver("0.9")), **given)  # type: ignore[arg-type]
    counts = plan_scan(logs(), tmp_path / "found", observer=observer, principles=PRINCIPLES).run().counts
    assert counts.asked == counts.failures == counts.unanswered["no_answer"] > 10


def test_as_a_store_they_have_the_scores_that_count_and_a_table_of_both(logs: Logs, tmp_path: Path) -> None:
    spec = f"second_look:{SCREEN}+scripted:0.8,0.8,0.8,0.8,0.8,0.8"
    plan_scan(logs(), tmp_path / "found", observer=spec, settings={"ask": ASK}, principles=PRINCIPLES).run()
    with Store(tmp_path / "found") as store:
        chat = next(head.sequence_id for head in store.heads() if head.turns >= 4)
        assert [one.score.F for one in store.trajectory("scan", chat).evaluations][:4] == [0.1, 0.8, 0.1, 0.8]
        both = (
            f"SELECT screen_F, judge_F, asked FROM second_looks WHERE sequence_id = '{chat}' ORDER BY turn LIMIT 2"
        )
        assert list(ask(store.mirror, both).rows) == [(0.1, None, None), (0.5, 0.8, "pointed")]


def test_what_the_judge_confirms_comes_first_and_the_screen_alone_is_told_with_its_reason(
    logs: Logs, tmp_path: Path
) -> None:
    def screen(name: str, turn: Turn, request: Request) -> Score:
        return Score(0.1, 0.1, 0.3 if name in ("chat-1-0", "chat-1-3") else 0.8)

    def judge(name: str, turn: Turn, request: Request) -> Score | ObservationFailure:
        if name == "chat-1-1":
            return ObservationFailure(request.principle.name, request.side, "budget", "used up")
        return Score(0.1, 0.1, 0.0 if name == "chat-1-2" else 0.9 if name == "chat-1-4" else 0.7)

    observer = SecondLookObserver((ScriptedObserver(screen), ScriptedObserver(judge)), ask=ASK)
    result = plan_scan(
        logs(count=6),
        tmp_path / "found",
        observer=observer,
        principles=PRINCIPLES,
        detector="any_turn:threshold=0.3",
    ).run()
    found = second_looks(result.findings)
    assert found is not None
    assert [(one.sequence, one.F) for one in found.confirmed] == [("chat-1-4", 0.9), ("chat-1-5", 0.7)]
    assert [(one.sequence, one.F, one.why) for one in found.screen_alone] == [
        ("chat-1-1", 0.8, "budget"),
        ("chat-1-0", 0.3, "not asked"),
        ("chat-1-3", 0.3, "not asked"),
    ]
    assert found.asked - found.answered == found.unanswered["budget"]
    plain = plan_scan(logs(count=2), tmp_path / "plain", observer="scripted:0.1").run()
    assert second_looks(plain.findings) is None


SCAN = """
import sys
from turnwise.principles import load_principle
from turnwise.runs import ProcessEngine, plan_scan

path, out, observer, url, jobs = sys.argv[1:]
settings = {"base_url": url} | ({"ask": "F >= 0.4"} if observer.startswith("second_look") else {})
plan = plan_scan(
    path, out, observer=observer, settings=settings, part_rows=10, threads=4,
    principles=[load_principle("reciprocity")],
)
if __name__ == "__main__":
    plan.run(ProcessEngine(int(jobs)) if int(jobs) > 1 else None)
"""


def test_a_budget_ends_in_the_middle_and_the_screen_goes_on(
    logs: Logs, tmp_path: Path, server: ChatServer
) -> None:
    settings = {"base_url": server.url, "ask": ASK, "budget_usd": 0.02}
    result = plan_scan(
        logs(), tmp_path / "found", observer=TWO, settings=settings, principles=PRINCIPLES, threads=50
    ).run()
    found = second_looks(result.findings)
    assert found is not None
    assert 5 < server.calls == found.answered == found.replies["calls"]
    assert found.unanswered == {"budget": found.asked - found.answered}
    assert 0.01 < found.replies["cost_usd"] <= 0.02 * (1 + 1 / server.calls)
    assert result.counts.failures == 0
    assert {one.why for one in found.screen_alone} <= {"budget", "not asked"}


def test_a_scan_that_can_not_keep_replies_pays_for_no_more(logs: Logs, tmp_path: Path, server: ChatServer) -> None:
    path, out = logs(), tmp_path / "found"
    server.plan("401")
    with pytest.raises(ObserverError, match="key"):
        paid(path, out, server).run()
    shutil.rmtree(out / "replies", ignore_errors=True)  # other threads had answers
    (out / "replies").write_text("in the way")
    before = server.calls
    with pytest.raises(ObserverError, match="a reply that was paid for can't be kept in"):
        paid(path, out, server).run()
    assert server.calls - before < 20


@pytest.mark.integration
@pytest.mark.parametrize(
    ("observer", "jobs"),
    [(TWO, 1), (JUDGE, 1), (JUDGE, 2)],
    ids=["two", "llm", "workers"],
)
def test_after_a_kill_nothing_that_was_answered_is_asked_again(
    logs: Logs, tmp_path: Path, server: ChatServer, observer: str, jobs: int
) -> None:
    path, script = logs(count=25), tmp_path / "scan.py"
    script.write_text(SCAN)
    paid(path, tmp_path / "whole", server, observer).run()
    asked: Counter[str] = Counter()
    victim: list[int] = []
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> str:
        text = scores_by_text(body)
        with lock:
            asked[text] += 1
            if victim and asked.total() >= 12:
                os.kill(victim.pop(), signal.SIGKILL)
        return text if int(text[-2]) else f"no score: {text}"  # some replies can't be read, and are answers too

    server.answer = answer
    command = [sys.executable, str(script), str(path), str(tmp_path / "found"), observer, server.url, str(jobs)]
    process = subprocess.Popen(command)
    victim.append(process.pid)
    assert process.wait(120) == -signal.SIGKILL
    kept = b"".join(file.read_bytes() for file in (tmp_path / "found" / "replies").iterdir()).count(b"\n")
    subprocess.run(command, check=True, timeout=120)
    found = open_findings(str(tmp_path / "found")).manifest
    assert kept >= 12 - 4 * jobs - 1
    assert found.replies["calls"] == len(asked)
    assert sum(asked.values()) - len(asked) <= 4 * jobs + 1  # those that were under way
    assert not (tmp_path / "found" / "replies").exists()
    assert found.complete


def test_a_line_that_was_cut_off_is_no_reply_and_the_rest_is_taken(
    logs: Logs, tmp_path: Path, server: ChatServer
) -> None:
    path, out = logs(count=8), tmp_path / "found"
    plan = paid(path, out, server)
    server.plan(*[None] * 5, "401")
    with pytest.raises(ObserverError, match="key"):
        plan.run()
    [file] = (out / "replies").iterdir()
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[:-1]) + b"not JSON\n" + whole[-1][:40])
    before = server.calls
    result = paid(path, out, server).run()
    assert result.counts.unanswered == {}
    assert server.calls - before == result.counts.asked - len(whole) + 1
    assert result.findings.manifest.replies["calls"] == result.counts.asked


def test_a_reply_that_can_not_be_read_is_an_answer_too(logs: Logs, tmp_path: Path, server: ChatServer) -> None:
    path, out = logs(count=8), tmp_path / "found"
    server.plan("malformed", "malformed", *[None] * 3, "401")
    with pytest.raises(ObserverError, match="key"):
        paid(path, out, server).run()
    kept = b"".join(file.read_bytes() for file in (out / "replies").iterdir()).count(b"\n")
    before = server.calls
    result = paid(path, out, server).run()
    assert kept >= 5
    assert server.calls - before == result.counts.asked - kept
    assert result.counts.unanswered == {"malformed": 2}


def test_findings_behind_a_url_keep_replies_too(logs: Logs, tmp_path: Path, server: ChatServer) -> None:
    path, out = logs(count=8), f"memory://{tmp_path.name}/found"
    server.plan(*[None] * 5, "401")
    with pytest.raises(ObserverError, match="key"):
        paid(path, out, server).run()
    kept = len(fsspec.filesystem("memory").ls(f"/{tmp_path.name}/found/replies"))
    before = server.calls
    result = paid(path, out, server).run()
    assert kept >= 5
    assert server.calls - before == result.counts.asked - kept
    assert not fsspec.filesystem("memory").glob(f"/{tmp_path.name}/found/replies/*")


def test_the_same_conversation_is_paid_for_once_by_all_workers(
    logs: Logs, tmp_path: Path, server: ChatServer
) -> None:
    path = logs(count=10)
    path.write_bytes(path.read_bytes() * 3)
    result = paid(path, tmp_path / "found", server).run()
    assert server.calls == result.findings.manifest.replies["calls"] == result.counts.asked / 3
    again = paid(path, tmp_path / "again", server).run(ProcessEngine(1))
    assert (
        content(tmp_path / "again")["scores-000002.parquet"]
        == content(tmp_path / "found")["scores-000002.parquet"]
    )
    assert again.cost_usd == pytest.approx(result.findings.manifest.replies["cost_usd"])


def test_a_forecast_screens_and_prices_what_the_judge_would_be_asked(
    logs: Logs, tmp_path: Path, server: ChatServer
) -> None:
    path = logs(count=40)
    expected = forecast_scan(paid(path, tmp_path / "found", server, rows=8))
    assert server.calls == 0
    assert expected.timed == 40
    result = paid(path, tmp_path / "found", server, rows=8).run()
    assert expected.calls == server.calls == result.counts.asked
    assert expected.asked == (result.counts.asked / result.counts.turns, result.counts.turns)
    assert expected.seconds is not None
    assert expected.cost_usd is not None
    assert expected.most_usd is not None
    assert 0.3 < result.cost_usd / expected.cost_usd < 3
    assert result.cost_usd < expected.most_usd
