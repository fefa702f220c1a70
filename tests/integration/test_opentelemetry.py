"""What OpenTelemetry is told of checks: real SDK and exporters, with a collector on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import GUARDRAILS, Check, Finding, Guardrail, guardrail
from turnwise.integrations.opentelemetry import OpenTelemetryAudit

pytestmark = pytest.mark.integration

SECRET = "the mole said swordfish to jane@example.com"
GUARD: dict[str, Any] = {
    "name": "desk",
    "guardrails": [
        {"pii": {"action": "redact", "on": "all"}},
        {"keywords": {"keywords": ["forbidden"], "action": "block", "on": "all"}},
        {"length": {"max_characters": 5000, "on": "all"}},
    ],
}


class Collector(BaseHTTPRequestHandler):
    """Keeps what exporters send."""

    spans: list[Any]
    events: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    type(self).spans += scope.spans
        else:
            for entry in ExportLogsServiceRequest.FromString(body).resource_logs:
                for logs in entry.scope_logs:
                    type(self).events += logs.log_records
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@dataclass
class Telemetry:
    """Providers that export to a collector, and what came there."""

    tracers: TracerProvider
    loggers: LoggerProvider
    collector: type[Collector]

    def audit(self, **settings: Any) -> OpenTelemetryAudit:
        return OpenTelemetryAudit(tracer_provider=self.tracers, logger_provider=self.loggers, **settings)

    @property
    def spans(self) -> list[Any]:
        return self.collector.spans

    @property
    def events(self) -> list[Any]:
        return self.collector.events

    def all(self) -> str:
        return repr([*self.spans, *self.events])


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    collector = type("Kept", (Collector,), {"spans": [], "events": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), collector)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    tracers, loggers = TracerProvider(), LoggerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    loggers.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    yield Telemetry(tracers, loggers, collector)
    tracers.shutdown()
    loggers.shutdown()
    server.shutdown()
    server.server_close()


def attributes(thing: Any) -> dict[str, Any]:
    """Return attributes as Python's values."""
    values = {}
    for pair in thing.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        values[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return values


def test_ids_are_hashed_where_the_audit_hashes_them(telemetry: Telemetry, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with GuardrailPipeline(GUARD, audit=telemetry.audit(also=log)) as pipeline:
        for name in ("jane@example.com", "ann@example.com"):
            chat = Conversation.human_ai("ann", "gpt-5", conversation_id=name)
            pipeline.check_input("Hello", conversation=chat)
        told = [attributes(one)["gen_ai.conversation.id"] for one in (*telemetry.spans, *telemetry.events)]
        assert pipeline.forget_conversation("jane@example.com").audit == {str(log): 1}
    _, event, *_ = map(json.loads, log.read_text().splitlines())
    assert len(told) > 2 and len(set(told)) == 2 and event["conversation_id"] in told
    assert not any("@" in name for name in told)


def test_a_check_is_a_span_and_what_each_guardrail_said_an_event_in_it(telemetry: Telemetry) -> None:
    pipeline = GuardrailPipeline(GUARD, audit=telemetry.audit())
    chat = Conversation.human_ai("ann", "gpt-5", conversation_id="chat-7")
    with telemetry.tracers.get_tracer("app").start_as_current_span("chat gpt-5"):
        pipeline.check_input("This is forbidden, says jane@example.com", conversation=chat)
    check, parent = telemetry.spans
    assert check.name == "turnwise.check input" and check.parent_span_id == parent.span_id
    assert check.end_time_unix_nano >= check.start_time_unix_nano > 0
    assert attributes(check) == {
        "gen_ai.conversation.id": "chat-7",
        "turnwise.pipeline": "desk",
        "turnwise.kind": "input",
        "turnwise.outcome": "blocked",
        "turnwise.blocked": True,
        "turnwise.rate_limited": False,
        "turnwise.turn": 1,
        "turnwise.blocked_by": ["keywords"],
        "turnwise.warned_by": ["pii"],
    }
    assert {event.event_name for event in telemetry.events} == {"gen_ai.evaluation.result"}
    assert {event.span_id for event in telemetry.events} == {check.span_id}
    said = {values["gen_ai.evaluation.name"]: values for values in map(attributes, telemetry.events)}
    assert {name: values["gen_ai.evaluation.score.label"] for name, values in said.items()} == {
        "pii": "redact",
        "keywords": "block",
        "length": "clean",
    }
    assert all(values["gen_ai.conversation.id"] == "chat-7" for values in said.values())
    assert said["keywords"]["gen_ai.evaluation.score.value"] == 1.0
    assert said["keywords"]["gen_ai.evaluation.explanation"] == "'forbidden'"
    assert said["length"]["gen_ai.evaluation.score.value"] == 0.0


def test_no_text_is_told_unless_it_is_asked_for(telemetry: Telemetry) -> None:
    GuardrailPipeline(GUARD, audit=telemetry.audit()).check_input(SECRET)
    assert "mole" not in telemetry.all() and "jane" not in telemetry.all()
    GuardrailPipeline(
        {"guardrails": [{"length": {"max_characters": 5000}}]}, audit=telemetry.audit(texts="redacted")
    ).check_input(SECRET)
    assert attributes(telemetry.spans[-1])["turnwise.text"] == "the mole said swordfish to [EMAIL]"
    GuardrailPipeline(
        {"guardrails": [{"length": {"max_characters": 5000}}]}, audit=telemetry.audit(texts="raw")
    ).check_input(SECRET)
    assert attributes(telemetry.spans[-1])["turnwise.text"] == SECRET
    with pytest.raises(GuardError, match="texts is 'all'; use none, redacted or raw"):
        telemetry.audit(texts="all")


def test_a_guardrail_that_failed_is_an_error_whichever_way_it_went(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GUARDRAILS, "_parts", dict(GUARDRAILS._parts))

    @guardrail("broken")
    class Broken(Guardrail):
        """Fails."""

        default_timeout = None

        def check(self, check: Check) -> Finding:
            raise LookupError(f"no answer to {check.text}")

    pipeline = GuardrailPipeline({"guardrails": [{"broken": {"on_error": "allow"}}]}, audit=telemetry.audit())
    assert not pipeline.check_input(SECRET).blocked
    (span,), (event,) = telemetry.spans, telemetry.events
    assert span.status.code == span.status.STATUS_CODE_ERROR and span.status.message == "guardrails failed: broken"
    assert attributes(span)["turnwise.failed"] == ["broken"]
    told = attributes(event)
    assert told["error.type"] == "LookupError" and told["gen_ai.evaluation.score.label"] == "failed"
    assert "gen_ai.evaluation.score.value" not in told  # a failure is no score
    assert "mole" not in telemetry.all()


def test_every_kind_of_check_is_told_once(telemetry: Telemetry, tmp_path: Path) -> None:
    with GuardrailPipeline(GUARD, audit=telemetry.audit(also=tmp_path / "audit.jsonl")) as pipeline:
        chat = Conversation.human_ai("ann", "gpt-5", rate_limit={"turns_per_minute": 1})
        pipeline.check_input("Is it cold?", conversation=chat)
        pipeline.check_tool_call("weather", {"city": "Oslo"}, conversation=chat, call_id="call_1")
        pipeline.check_tool_result("3 degrees", conversation=chat, call_id="call_1")
        with pipeline.stream_output(chat) as stream:
            stream.feed("It is ")
            stream.feed("cold.")
        assert pipeline.check_input("And now?", conversation=chat).rate_limited
        asyncio.run(pipeline.acheck_input("Hello!"))
        names = [span.name.removeprefix("turnwise.check ") for span in telemetry.spans]
        assert names == ["input", "tool_call", "tool_result", "output", "input", "input"]
        call = attributes(telemetry.spans[1])
        assert call["gen_ai.tool.name"] == "weather" and call["gen_ai.tool.call.id"] == "call_1"
        assert attributes(telemetry.spans[4])["turnwise.rate_limited"]
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 6


def test_a_provider_that_fails_stops_no_check(telemetry: Telemetry) -> None:
    class Down:
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            return self

        def start_span(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError

    audit = OpenTelemetryAudit(tracer_provider=Down())  # type: ignore[arg-type]
    assert not GuardrailPipeline(GUARD, audit=audit).check_input("Hello!").blocked


def test_off_it_is_not_even_imported() -> None:
    code = (
        "import sys; from turnwise import GuardrailPipeline; from turnwise.guard.audit import AuditSettings; "
        "GuardrailPipeline.from_preset('basic').check_input('Hello!'); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
