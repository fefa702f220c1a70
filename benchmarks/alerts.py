"""Alerts: what receivers that are dead, slow or lying do to checks, and whether each finding arrives.

    python benchmarks/alerts.py --findings 1000 --checks 400

Three times the same checks: without alerts, with alerts and a good receiver, with alerts and three bad ones (one
that nobody listens at, one that takes 60 s, one that answers 500). Alerts run in a process of their own, as
``turnwise guard alert`` does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from turnwise.conversation import Conversation
from turnwise.guard import GuardrailPipeline

CONFIG = {"guardrails": [{"keywords": {"keywords": ["forbidden"], "action": "block"}}, "pii", "prompt_injection"]}
TEXT = "Could you tell me when my order arrives, and whether it comes with a receipt?"
ROUNDS = 5


class Answering(BaseHTTPRequestHandler):
    """Counts what arrives; answers after a while, or wrongly."""

    def do_POST(self) -> None:
        """Take an alert."""
        server: Server = self.server  # type: ignore[assignment]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(server.wait)
        if server.status == 200:
            found = json.loads(body)
            server.arrived += found["count"]
            server.missed += found["missed"]
        self.send_response(server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A receiver of alerts."""

    daemon_threads = True

    def __init__(self, status: int = 200, wait: float = 0.0) -> None:
        self.status, self.wait, self.arrived, self.missed = status, wait, 0, 0
        super().__init__(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}/"


@contextmanager
def alerting(audit: Path, urls: dict[str, str]) -> Iterator[None]:
    """Run ``turnwise guard alert`` beside a block."""
    file = audit.with_suffix(".yaml")
    receivers = [{"name": name, "kind": "webhook", "url": url} for name, url in urls.items()]
    file.write_text(json.dumps({"receivers": receivers, "rules": [{"name": "blocks", "to": list(urls)}]}))
    command = [sys.executable, "-m", "turnwise", "guard", "alert", str(audit), "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        running.stderr.readline()
        yield
        running.kill()


def checks(audit: Path, count: int) -> float:
    """Seconds of the median check, every fifth of which is blocked."""
    pipeline = GuardrailPipeline(CONFIG, audit=str(audit))
    seconds = []
    for number in range(count):
        chat = Conversation(conversation_id=f"c{number}")
        text = f"{TEXT} forbidden" if number % 5 == 0 else TEXT
        began = time.perf_counter()
        pipeline.check_input(text, conversation=chat)
        seconds.append(time.perf_counter() - began)
    pipeline.close()
    return statistics.median(seconds)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=int, default=1000)
    parser.add_argument("--checks", type=int, default=400)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good, slow, lying = Server(), Server(wait=60.0), Server(500)
        bad = {"dead": "http://127.0.0.1:9/", "slow": slow.url, "lying": lying.url}
        found: dict[str, list[float]] = {"without": [], "good": [], "bad": []}
        for number in range(ROUNDS):
            found["without"].append(checks(folder / f"without{number}.jsonl", given.checks))
            for kind, urls in (("good", {"good": good.url}), ("bad", bad)):
                audit = folder / f"{kind}{number}.jsonl"
                with alerting(audit, urls):
                    found[kind].append(checks(audit, given.checks))
        for kind, medians in found.items():
            told = ", ".join(f"{1000 * one:.2f}" for one in medians)
            print(f"median check, alerts {kind:8} {1000 * statistics.median(medians):6.2f} ms ({told})")
        good.arrived = good.missed = 0
        audit = folder / "many.jsonl"
        with alerting(audit, {"good": good.url}):
            began = time.perf_counter()
            pipeline = GuardrailPipeline({"guardrails": [CONFIG["guardrails"][0]]}, audit=str(audit))
            for number in range(given.findings):
                pipeline.check_input("forbidden", conversation=Conversation(conversation_id=f"c{number}"))
            pipeline.close()
            while good.arrived + good.missed < given.findings and time.perf_counter() - began < 120:
                time.sleep(0.1)
        seconds = time.perf_counter() - began
        print(
            f"{given.findings} findings: {good.arrived} arrived, {good.missed} counted as missed, {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
