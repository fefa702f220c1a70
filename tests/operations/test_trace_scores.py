"""Scores that go back to traces: what each tool gets, nothing twice, and what a refusal leaves."""

import json
from uuid import UUID

import pytest
from receiving import receiving

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.operations import DeliveryError, send_scores, trace_scores, write_scores
from turnwise.principles import load_principle
from turnwise.runs import evaluate
from turnwise.store import Store

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "work.db", create=True) as made:
        for name in ("traced", "typed"):
            chat = Conversation(conversation_id=name)
            for turn in (1, 2):
                provenance = {"traces": [TRACE], "spans": ["1" * 16, SPAN[:-1] + str(turn)], "models": ["m"]}
                about = {"provenance": provenance} if name == "traced" else {}
                chat.add_turn(f"prompt {turn}", response="fine", metadata=about)
            made.add_sequences([Sequence(name, Label.UNLABELLED, "made", chat)])
        wanted = [load_principle(name) for name in ("reciprocity", "context_integrity")]
        evaluate(made, "run", "scripted:0.2,0.9", principles=wanted)
        yield made


def test_scores_and_verdicts_belong_to_the_last_span_of_their_turn(store):
    found = list(trace_scores(store, "run"))
    told = {(one.span[-1], one.name, one.value, one.label) for one in found}
    assert told == {
        ("1", "turnwise.reciprocity", 0.2, ""), ("1", "turnwise.context_integrity", 0.2, ""),
        ("2", "turnwise.reciprocity", 0.9, ""), ("2", "turnwise.context_integrity", 0.9, ""),
        ("2", "turnwise.flagged", 1.0, "flagged"),
    }  # fmt: skip
    assert {one.trace for one in found} == {TRACE}
    assert [one.score_id for one in found] == [one.score_id for one in trace_scores(store, "run")]
    assert len({one.score_id for one in found}) == 5


def test_each_tool_gets_its_own_form(store, tmp_path):
    lines = {}
    for target in ("langfuse", "langsmith", "phoenix", "otel"):
        path = tmp_path / target
        assert write_scores(trace_scores(store, "run"), target, path) == 5
        lines[target] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    fuse, smith, phoenix = (lines[name][0] for name in ("langfuse", "langsmith", "phoenix"))
    assert (fuse["traceId"], fuse["observationId"], fuse["dataType"]) == (TRACE, SPAN[:-1] + "1", "NUMERIC")
    assert UUID(smith["id"]).hex == fuse["id"] == phoenix["identifier"] and smith["run_id"] == SPAN[:-1] + "1"
    assert phoenix["result"]["score"] == fuse["value"] == smith["score"] and phoenix["annotator_kind"] == "CODE"
    [request] = lines["otel"]
    records = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert {one["eventName"] for one in records} == {"gen_ai.evaluation.result"} and len(records) == 5
    values = {one["key"]: one["value"] for one in records[0]["attributes"]}
    assert values["gen_ai.evaluation.score.value"] == {"doubleValue": fuse["value"]}
    assert records[0]["traceId"] == TRACE and int(records[0]["timeUnixNano"]) > 10**18


@pytest.mark.parametrize(("target", "path", "requests"), [
    ("langfuse", "/api/public/scores", 5), ("langsmith", "/feedback", 5), ("phoenix", "/v1/span_annotations", 1),
    ("otel", "/v1/logs", 1),
])  # fmt: skip
def test_nothing_is_sent_twice_and_what_was_refused_is_sent_later(
    store, tmp_path, monkeypatch, target, path, requests
):
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk"), monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    with receiving() as server:
        url = server.url.partition("/hook")[0]
        first = send_scores(trace_scores(store, "run"), target, url, tmp_path / "sent")
        again = send_scores(trace_scores(store, "run"), target, f"{url}/", tmp_path / "sent")
        assert (first.sent, first.before, again.sent, again.before) == (5, 0, 0, 5)
        assert server.paths == [path] * requests
        server.statuses += [400]
        with pytest.raises(DeliveryError, match=f"{target} answers with status 400"):
            send_scores(trace_scores(store, "run"), target, url, tmp_path / "other")
        resumed = send_scores(trace_scores(store, "run"), target, url, tmp_path / "other")
        assert resumed.sent + resumed.before == 5
    if target == "langfuse":
        assert server.headers[0][0]["Authorization"] == "Basic cGs6c2s="


def test_a_busy_tool_is_asked_again(store, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    with receiving(503, 429) as server:
        done = send_scores(
            trace_scores(store, "run"), "phoenix", server.url.partition("/hook")[0], tmp_path / "sent"
        )
    assert done.sent == 5 and len(server.taken) == 1 and list(filter(None, waits)) == [1.0, 2.0]


def test_the_command_writes_and_sends(store, tmp_path, cli):
    publish = ["runs", "publish", "run", "--store", tmp_path / "work.db", "--to"]
    done = cli(*publish, "phoenix", "--out", tmp_path / "f")
    assert (done.code, done.out + done.err) == (0, "5 scores written\n")
    with receiving() as server:
        url = server.url.partition("/hook")[0]
        for told in ("5 scores sent\n", "0 scores sent, 5 were sent before\n"):
            done = cli(*publish, "otel", "--url", url)
            assert (done.code, done.out + done.err) == (0, told)
    assert (tmp_path / "work.db-sent").exists()
    assert "unknown target of scores 'nobody'" in cli(*publish, "nobody", "--url", "http://a").err
    for wrong in (["otel"], ["otel", "--url", "ftp://a"]):
        assert cli(*publish, *wrong).code == 2
