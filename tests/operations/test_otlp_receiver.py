"""OTLP over HTTP: what is acknowledged is on disk, nothing twice, in JSON and protobuf, and hostile requests."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from starlette.testclient import TestClient

from turnwise.cli import main
from turnwise.errors import UsageError
from turnwise.findings import open_findings
from turnwise.operations import OTLP_KEY, Spool, otlp_app, scan_received, store_finished
from turnwise.runs import LIVE, plan_scan
from turnwise.store import Store


def span(trace, number, *, chat=None, said="fine"):
    """A call of a model by the conventions of GenAI; each repeats what was said before."""
    messages = []
    for turn in range(1, number + 1):
        messages.append({"role": "user", "parts": [{"type": "text", "content": f"prompt {turn}"}]})
        if turn < number:
            messages.append({"role": "assistant", "parts": [{"type": "text", "content": f"{said} {turn}"}]})
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": f"{said} {number}"}]}]
    values = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages),
              "gen_ai.output.messages": json.dumps(answer)}  # fmt: skip
    values |= {} if chat is None else {"gen_ai.conversation.id": chat}
    return {
        "traceId": f"{trace:032x}", "spanId": f"{trace * 1000 + number:016x}", "name": "chat",
        "startTimeUnixNano": str(1_780_000_000_000_000_000 + number * 10**9),
        "endTimeUnixNano": str(1_780_000_000_500_000_000 + number * 10**9),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()],
    }  # fmt: skip


def request(*spans):
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path / "spool")
    yield made
    made.close()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "work.db", create=True) as made:
        yield made


def test_spans_become_conversations_once_it_is_quiet(spool, store):
    client = TestClient(otlp_app(spool))
    for number in (2, 1, 3):
        assert client.post("/v1/traces", json=request(span(7, number, chat="one"))).json() == {}
    client.post("/v1/traces", json=request(span(8, 1)))
    assert store_finished(spool, store, 60.0) == 0
    assert store_finished(spool, store, 0.0) == 2
    assert {head.sequence_id: head.turns for head in store.heads()} == {"one": 3, f"{8:032x}": 1}
    turns = [(turn.prompt, turn.response) for turn in store.sequence("one").conversation]
    assert turns == [(f"prompt {n}", f"fine {n}") for n in (1, 2, 3)]
    assert client.post("/v1/traces", json=request(span(7, 2, chat="one"))).status_code == 200  # sent again
    assert spool.waiting() == 0 and store_finished(spool, store, 0.0) == 0


def test_what_comes_late_makes_a_later_state_of_the_conversation(spool, store):
    client = TestClient(otlp_app(spool))
    client.post("/v1/traces", json=request(span(7, 1, chat="one")))
    store_finished(spool, store, 0.0)
    client.post("/v1/traces", json=request(span(7, 2, chat="one")))
    assert store_finished(spool, store, 0.0) == 1
    assert {head.sequence_id: head.turns for head in store.heads()} == {"one": 1, "one/2": 2}
    assert store.sequence("one/2").metadata["replaces"] == "one"


def test_a_conversation_whose_name_comes_last_is_one(spool, store):
    client = TestClient(otlp_app(spool))
    client.post("/v1/traces", json=request(span(7, 1)))
    client.post("/v1/traces", json=request(span(7, 2, chat="named")))
    client.post("/v1/traces", json=request(span(9, 3, chat="named")))
    assert store_finished(spool, store, 0.0) == 1
    assert [(head.sequence_id, head.turns) for head in store.heads()] == [("named", 3)]


def test_bad_requests_are_refused_and_bad_spans_counted(spool, store, monkeypatch):
    client = TestClient(otlp_app(spool))
    for body, kind, why in (
        (b"{", "application/json", "not JSON"),
        (b"[]", "application/json", "no request of OTLP"),
        (b"\xff\xff\xff", "application/x-protobuf", ""),
        (b"\x0a\xff\xff\xff\xff\x0f", "application/x-protobuf", ""),
    ):
        answer = client.post("/v1/traces", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 400 and why in answer.text, (body, answer.text)
    bad = client.post("/v1/traces", content=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert bad.status_code == 400
    bomb = gzip.compress(b"\0" * (65 << 20))
    assert client.post("/v1/traces", content=bomb, headers={"Content-Encoding": "gzip"}).status_code == 400
    mixed = client.post("/v1/traces", json=request({"name": "without a trace"}, span(7, 1)))
    assert mixed.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert store_finished(spool, store, 0.0) == 1
    assert client.get("/v1/traces").status_code == 405


def test_a_key_is_asked_for(spool):
    client = TestClient(otlp_app(spool, "secret"))
    assert client.post("/v1/traces", json=request(span(7, 1))).status_code == 401
    for headers in ({"X-API-Key": "secret"}, {"Authorization": "Bearer secret"}):
        assert client.post("/v1/traces", json=request(span(7, 1)), headers=headers).status_code == 200


def test_a_spool_that_can_not_be_is_told(tmp_path):
    (tmp_path / "spool").write_text("hello, I am no database, but long enough to be read as one")
    with pytest.raises(UsageError, match="can't keep what is received"):
        Spool(tmp_path / "spool")


def scanned(tmp_path, spool):
    """Score what has finished into findings, once."""
    stop = threading.Event()
    plan = plan_scan(LIVE, tmp_path / "findings", observer="scripted:0.1,0.9", detector="last_turn:threshold=0.5")
    until_idle = threading.Thread(target=lambda: (wait_until(lambda: not spool.waiting()), stop.set()))
    until_idle.start()
    scan_received(plan, 0.0, spool, stop, patience=0.0)
    until_idle.join()
    return open_findings(str(tmp_path / "findings"))


def wait_until(true, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)


def rows(folder):
    with Store(folder) as store:
        return {head.sequence_id: head.turns for head in store.heads()}


def test_conversations_are_scored_as_they_finish(spool, tmp_path):
    client = TestClient(otlp_app(spool))
    client.post("/v1/traces", json=request(*(span(7, number, chat="one") for number in (1, 2)), span(8, 1)))
    found = scanned(tmp_path, spool)
    assert rows(str(found.folder)) == {"one": 2, f"{8:032x}": 1}
    assert (found.manifest.totals.conversations, found.manifest.totals.fired) == (2, 1)
    client.post("/v1/traces", json=request(span(7, 2, chat="one")))  # sent again
    client.post("/v1/traces", json=request(span(7, 3, chat="one")))
    found = scanned(tmp_path, spool)
    assert rows(str(found.folder)) == {"one": 2, "one/2": 3, f"{8:032x}": 1}
    assert [(part.number, part.first_row, part.counts.rows) for part in found.manifest.parts] == [
        (0, 1, 2),
        (1, 3, 1),
    ]


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_findings_and_spool_scores_each_conversation_once(spool, tmp_path, written):
    client = TestClient(otlp_app(spool))
    client.post("/v1/traces", json=request(span(7, 1, chat="one")))
    if written:  # the part is on disk, and the spool does not know
        scanned(tmp_path, spool)
        spool._file.execute("UPDATE chats SET fresh = 1")
        spool._file.execute("INSERT INTO given VALUES (0, 'one', ?)", (time.time(),))
    else:  # it was given to a part that never was
        (one,) = spool.conversation("one")
        spool.give(0, ["one"], time.time(), [("one", one.content_hash())])
    found = scanned(tmp_path, spool)
    assert rows(str(found.folder)) == {"one": 1} and spool.waiting() == 0
    assert found.manifest.totals.conversations == 1


def started(tmp_path, port=0, command="import"):
    told = {
        "import": ["--store", "work.db"],
        "scan": ["--out", "findings", "--observer", "scripted:0.9", "--detector", "last_turn:threshold=0.5"],
    }[command]
    running = subprocess.Popen(
        [sys.executable, "-m", "turnwise", command, "--listen", f"127.0.0.1:{port}", "--quiet", "2", *told],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    return running, re.search(r"http://127.0.0.1:(\d+)", running.stderr.readline())[1]


def post(port, body):
    about = {"Content-Type": "application/json"}
    made = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", json.dumps(body).encode(), about)
    with urllib.request.urlopen(made, timeout=10) as answer:
        return answer.status


@pytest.mark.integration
@pytest.mark.parametrize("command", ["import", "scan"])
def test_what_was_acknowledged_survives_a_kill_and_comes_once(tmp_path, command):
    running, port = started(tmp_path, command=command)
    for trace in range(1, 41):
        assert post(port, request(*(span(trace, number, chat=f"c{trace}") for number in (1, 2)))) == 200
        if trace == 20:
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
            running.stderr.close()
            running, port = started(tmp_path, int(port), command)
            post(port, request(span(20, 2, chat="c20")))  # a sender that saw no answer sends again
    place = str(tmp_path / ("work.db" if command == "import" else "findings"))
    wait_until(lambda: (tmp_path / place).exists() and len(rows(place)) >= 40, 120.0)
    running.terminate()
    assert running.wait(30) == 0, running.stderr.read()
    running.stderr.close()
    assert rows(place) == {f"c{n}": 2 for n in range(1, 41)}


def test_another_address_needs_a_key(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(OTLP_KEY, raising=False)
    for listen, why in (("0.0.0.0:0", OTLP_KEY), ("here", "an address and a port"), ("127.0.0.1:99999", "port")):
        for command in (
            ["import", "--store", str(tmp_path / "work.db")],
            ["scan", "--out", str(tmp_path / "found")],
        ):
            with pytest.raises(SystemExit):
                main([*command, "--listen", listen])
            assert why in capsys.readouterr().err


def test_a_live_scan_reads_no_files(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["scan", "chats.jsonl", "--sample", "3", "--listen", "127.0.0.1:0", "--out", str(tmp_path / "found")])
    assert "leave out INPUTS, --sample" in capsys.readouterr().err
