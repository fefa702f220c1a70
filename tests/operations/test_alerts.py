"""Alerts: what rules tell whom, receivers that are dead, slow or lying, and what a restart goes on with."""

import base64
import hashlib
import hmac
import json
import re
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from receiving import receiving
from typer.testing import CliRunner

from turnwise.cli.app import app
from turnwise.clock import utc_now
from turnwise.conversation import Conversation
from turnwise.errors import GuardError
from turnwise.guard import GuardrailPipeline
from turnwise.guard.audit import read_audit, verify_audit
from turnwise.guard.written_values import NO_LINES
from turnwise.operations import Alert, Alerts, AlertSettings, DeliveryError, ReceiverSettings
from turnwise.serve.metrics import Metrics
from turnwise.store import Store

CONFIG = {"guardrails": [{"keywords": {"keywords": ["forbidden"], "action": "block"}}]}


def settings(url, *rules, **receiver):
    given = [{"name": "blocks", "to": ["hook"]}] if not rules else [{"to": ["hook"], **rule} for rule in rules]
    return AlertSettings.of(
        {"receivers": [{"name": "hook", "kind": "webhook", "url": url, **receiver}], "rules": given}, NO_LINES
    )


def say(pipeline, *prompts, name="chat", person=None):
    chat = (
        Conversation.human_ai(person, "bot", conversation_id=name)
        if person
        else Conversation(conversation_id=name)
    )
    for prompt in prompts:
        pipeline.check_input(prompt, conversation=chat)


def guard(path):
    return GuardrailPipeline(CONFIG, audit=str(path))


@pytest.mark.parametrize("where", ["audit.jsonl", "audit.db"])
def test_every_block_is_told_once_and_the_audit_says_so(tmp_path, where):
    audit = tmp_path / where
    if where.endswith(".db"):
        Store(audit, create=True).close()
        pipeline = GuardrailPipeline({**CONFIG, "audit": {"sink": "store", "path": str(audit)}})
    else:
        pipeline = guard(audit)
    with receiving() as server:
        say(pipeline, "before anybody listens: forbidden")
        pipeline.audit_status and time.sleep(0.3)
        alerts = Alerts(audit, settings(server.url))
        say(pipeline, "Hello", "forbidden fruit", "more of the forbidden", name="one")
        pipeline.close()
        alerts.step()
        assert alerts.finish(10) == 0
        alerts.close()
        again = Alerts(audit, settings(server.url))
        again.step()
        again.finish(10)
        again.close()
    findings = [one["findings"][0] for one in server.taken]
    assert [(one["conversation_id"], one["turn"]) for one in findings] == [("one", 2), ("one", 3)]
    assert [one["reasons"] for one in findings] == [["keywords: forbidden"]] * 2 or findings[0]["reasons"]
    assert "text" not in findings[0] and server.taken[0]["missed"] == 0
    assert verify_audit(audit).intact and len(read_audit(audit).events) == 4


def test_a_webhook_is_signed_as_standard_webhooks_say(tmp_path, monkeypatch):
    secret = b"0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + base64.b64encode(secret).decode())
    pipeline = guard(tmp_path / "a.jsonl")
    with receiving() as server:
        alerts = Alerts(tmp_path / "a.jsonl", settings(server.url, secret_env="HOOK_SECRET"))
        say(pipeline, "forbidden")
        pipeline.close()
        alerts.step()
        alerts.finish(10)
        alerts.close()
    headers, body = server.headers[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


def test_what_fails_is_tried_again_with_the_same_id(tmp_path):
    pipeline = guard(tmp_path / "a.jsonl")
    with receiving(500, 302) as server:
        alerts = Alerts(tmp_path / "a.jsonl", settings(server.url))
        say(pipeline, "forbidden")
        pipeline.close()
        alerts.step()
        assert alerts.finish(20) == 0
        alerts.close()
    assert len(server.taken) == 1


def test_what_is_given_up_is_counted_where_it_is_read(tmp_path):
    pipeline = guard(tmp_path / "a.jsonl")
    with receiving(*[500] * 3) as server:
        alerts = Alerts(tmp_path / "a.jsonl", settings(server.url, retry_seconds=0))
        for number in range(5):
            say(pipeline, "forbidden", name=f"c{number}")
        pipeline.close()
        alerts.step()
        assert alerts.finish(20) == 0
        alerts.close()
    assert [one["missed"] for one in server.taken] == [3, 0]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    told = [one for one in lines if one["kind"] == "alert"]
    assert [one["status"] for one in told] == ["begun", *["given up"] * 3, *["sent"] * 2]
    assert told[1]["why"] == "hook answers with status 500" and told[4]["dropped"] == 3


def test_a_full_queue_gives_up_the_oldest_and_counts_them(tmp_path):
    pipeline = guard(tmp_path / "a.jsonl")
    with receiving(wait=0.4) as server:
        alerts = Alerts(tmp_path / "a.jsonl", settings(server.url, queue=3))
        for number in range(10):
            say(pipeline, "forbidden", name=f"c{number}")
        pipeline.close()
        alerts.step()
        assert alerts.finish(20) == 0
        alerts.close()
    assert len(server.taken) + sum(one["missed"] for one in server.taken) == 10
    assert server.taken[-1]["findings"][0]["conversation_id"] == "c9"


def test_nothing_is_lost_where_the_process_dies_before_it_was_sent(tmp_path):
    pipeline = guard(tmp_path / "a.jsonl")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    with receiving() as server:
        first = Alerts(tmp_path / "a.jsonl", settings(server.url))
        say(pipeline, "forbidden", name="told")
        time.sleep(0.5)
        first.step()
        assert first.finish(10) == 0
        first.close()
        second = Alerts(tmp_path / "a.jsonl", settings(dead))
        say(pipeline, "forbidden", name="untold")
        pipeline.close()
        second.step()
        assert second.finish(0.2) == 1
        second.close()
        third = Alerts(tmp_path / "a.jsonl", settings(server.url))
        third.step()
        assert third.finish(10) == 0
        third.close()
    assert [one["findings"][0]["conversation_id"] for one in server.taken] == ["told", "untold"]


def event(n, when, **more):
    return {
        "v": 1, "kind": "check", "time": when.isoformat(), "n": n, "conversation_id": f"c{n % 7}", "turn": 1,
        "session_id": f"s{n % 3}", "participants": {"initiator": f"p{n % 2}"}, "side": "input", "blocked": True,
        "reasons": ["keywords"], "guardrails": {"keywords": {"status": "evaluated", "blocked": True}}, **more,
    }  # fmt: skip


def told_of(tmp_path, rule, events, monkeypatch=None, at=None):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in events), encoding="utf-8")
    with receiving() as server:
        clock = utc_now if at is None else lambda: at
        alerts = Alerts(path, settings(server.url, {"name": "rule", **rule}), since=BEGIN, clock=clock)
        alerts.step()
        alerts.finish(10)
        alerts.close()
        return server.taken


BEGIN = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_a_person_who_is_blocked_again_and_again_is_told_of_once(tmp_path):
    events = [event(n + 1, BEGIN + timedelta(minutes=n)) for n in range(12)]
    told = told_of(tmp_path, {"by": "person", "count": 3, "within": 600}, events)
    assert [one["count"] for one in told] == [3, 3, 3, 3]
    assert "person p1: 3 within 600 s" in told[0]["headline"]
    slow = [event(n + 1, BEGIN + timedelta(hours=n)) for n in range(12)]
    assert told_of(tmp_path, {"by": "person", "count": 3, "within": 600}, slow) == []


def test_a_rate_is_told_of_once_in_a_while(tmp_path):
    events = [event(n + 1, BEGIN + timedelta(seconds=n), blocked=n >= 100 and n % 2 == 0) for n in range(300)]
    told = told_of(tmp_path, {"share": 0.2, "within": 60, "least": 50}, events)
    assert len(told) == 3 and "of 61 checks within 60 s" in told[0]["headline"]
    assert told_of(tmp_path, {"share": 0.6, "within": 60}, events) == []


WOULD = {"action": "log", "reason": "would block: F"}


@pytest.mark.parametrize(
    ("rule", "more", "told"),
    [
        ({"when": "would_block"}, {"blocked": False, "guardrails": {"drift": WOULD}}, 1),
        ({"when": "blocked", "guardrail": "drift"}, {}, 0),
        ({"when": "warned"}, {"blocked": False, "warned": True}, 1),
        ({"when": "failed"}, {"blocked": False, "guardrails": {"drift": {"status": "failed"}}}, 1),
        ({"when": "not_read", "guardrail": "drift"}, {"guardrails": {"drift": {"status": "not_read"}}}, 1),
        ({"when": "blocked", "tenant": "web"}, {"tenant": "desk"}, 0),
        ({"when": "gap"}, {"kind": "gap", "dropped": 4, "unwritten": 0}, 1),
        ({"when": "blocked", "texts": True}, {"text": "as the audit has it"}, 1),
    ],
)  # fmt: skip
def test_rules_choose(tmp_path, rule, more, told):
    found = told_of(tmp_path, rule, [event(1, BEGIN, **more)])
    assert len(found) == told
    if rule.get("texts"):
        assert found[0]["findings"][0]["text"] == "as the audit has it"


def test_what_happens_together_is_told_together_and_not_at_night(tmp_path):
    events = [event(n + 1, BEGIN + timedelta(seconds=n)) for n in range(230)]
    assert [one["count"] for one in told_of(tmp_path, {"group": 60}, events)] == [100, 100, 30]
    night, noon = datetime(2026, 1, 5, 23, tzinfo=UTC), datetime(2026, 1, 5, 12, tzinfo=UTC)
    quiet = {"quiet": "22:00-07:00", "zone": "UTC"}
    assert told_of(tmp_path, quiet, events[:3], at=night) == []
    assert len(told_of(tmp_path, quiet, events[:3], at=noon)) == 3
    [rule] = settings("http://127.0.0.1/", {"name": "r", **quiet, "zone": "Europe/Berlin"}).rules
    assert rule.quiet_until(night) == datetime(2026, 1, 6, 6, tzinfo=UTC) and rule.quiet_until(noon) is None


def test_slow_dripping_and_dead_receivers_fail_within_their_time(tmp_path):
    def drip(server):
        connection, _ = server.accept()
        with connection:
            try:
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)
            except OSError:
                pass

    alert = Alert("tw_1", "rule", "a.jsonl", BEGIN.isoformat(), "head", ())
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        began = time.monotonic()
        one = ReceiverSettings("hook", "webhook", url=f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=0.6)
        with pytest.raises(DeliveryError, match="hook does not answer"):
            one.deliver(alert, BEGIN)
        assert time.monotonic() - began < 3
    with receiving(wait=5) as silent:
        began = time.monotonic()
        with pytest.raises(DeliveryError):
            ReceiverSettings("hook", "slack", url=silent.url, timeout=0.3).deliver(alert, BEGIN)
        assert time.monotonic() - began < 3


def test_chats_and_siems_get_no_mark_up_of_others(tmp_path):
    hostile = {
        "time": BEGIN.isoformat(), "conversation_id": "<!channel> a|b=c\nCEF:0|forged", "turn": 1, "blocked": True,
        "reasons": ["says `<http://evil>` & more\n2nd"], "guardrails": ["keywords"], "person": "ann=admin",
    }  # fmt: skip
    alert = Alert("tw_1", "ru|le", "a.jsonl", BEGIN.isoformat(), "head\nline", (hostile,))
    with receiving() as server:
        ReceiverSettings("chat", "slack", url=server.url).deliver(alert, BEGIN)
    text = server.taken[0]["text"]
    assert "<" not in text and "`" not in text and len(text.splitlines()) == 2
    for kind in ("cef", "ecs"):
        ReceiverSettings("siem", kind, path=str(tmp_path / kind)).deliver(alert, BEGIN)
    [line] = (tmp_path / "cef").read_text().splitlines()
    assert line.startswith("CEF:0|turnwise|guard|") and "|ru\\|le|head line|8|" in line
    assert "suser=ann\\=admin" in line and "\\nCEF:0|forged" in line
    record = json.loads((tmp_path / "ecs").read_text())
    assert record["event"]["kind"] == "alert" and record["labels"]["conversation"] == hostile["conversation_id"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("receivers: []\nrules: []", "give a list of receivers"),
        ("receivers: [{name: a, kind: webhook}]\nrules: [{name: r, to: [a]}]", "give url, or url_env"),
        ("receivers: [{name: a, kind: cef}]\nrules: [{name: r, to: [a]}]", "give the path"),
        ("receivers: [{name: a, kind: cef, path: x}]\nrules: [{name: r, to: [b]}]", "line 2.*is called 'b'"),
        ("receivers: [{name: a, kind: cef, path: x}]\nrules: [{name: r, to: [a], when: bad}]", "when"),
        ("receivers: [{name: a, kind: cef, path: x}]\nrules: [{name: r, to: [a], quiet: late}]", "22:00-07:00"),
        ("receivers: [{name: a, kind: cef, path: x}]\nrules: [{name: r, to: [a], count: 3}]", "needs by"),
        ("receivers: [{name: a, kind: webhook, url: 'file:///x'}]\nrules: [{name: r, to: [a]}]", "must be like https://"),
        ("hello", "give receivers and rules"),
    ],
)  # fmt: skip
def test_wrong_rules_are_refused_with_their_line(tmp_path, text, why):
    (tmp_path / "alerts.yaml").write_text(text)
    with pytest.raises(GuardError, match=why):
        AlertSettings.read(tmp_path / "alerts.yaml")


def test_the_command_tells_and_tests(tmp_path):
    with receiving() as server:
        (tmp_path / "alerts.yaml").write_text(
            f"receivers:\n  - {{name: hook, kind: webhook, url: '{server.url}'}}\n"
            "rules:\n  - {name: blocks, to: [hook]}\n"
        )
        pipeline = guard(tmp_path / "a.jsonl")
        say(pipeline, "forbidden")
        pipeline.close()
        about = [str(tmp_path / "a.jsonl"), "--config", str(tmp_path / "alerts.yaml")]
        done = CliRunner().invoke(app, ["guard", "alert", *about, "--test"])
        assert (done.exit_code, done.output) == (0, "hook: arrived\n")
        done = CliRunner().invoke(app, ["guard", "alert", *about, "--once", "--since", "2026-01-01"])
        assert done.exit_code == 0, done.output
        running = subprocess.Popen([sys.executable, "-m", "turnwise", "guard", "alert", *about])
        pipeline = guard(tmp_path / "a.jsonl")
        for _ in range(100):
            if len(server.taken) > 2:
                break
            say(pipeline, "forbidden", name="live")
            time.sleep(0.2)
        pipeline.close()
        running.terminate()
        assert running.wait(20) == 0
    assert [one["rule"] for one in server.taken[:3]] == ["test", "blocks", "blocks"]


MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"


def test_the_examples_are_about_what_there_is():
    assert len(AlertSettings.read(MONITORING / "alerts.yaml").rules) == 5
    metrics = Metrics()
    pipeline = GuardrailPipeline(CONFIG)
    metrics.tell(pipeline.check_input("forbidden"), "web")
    known = set(re.findall(r"^# TYPE (\w+)", metrics.text().decode(), re.MULTILINE))
    used = {
        name
        for file in ("prometheus-rules.yaml", "grafana-dashboard.json")
        for name in re.findall(r"turnwise_\w+", (MONITORING / file).read_text(encoding="utf-8"))
    }
    assert {name.removesuffix("_bucket") for name in used} <= known
    assert json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]
