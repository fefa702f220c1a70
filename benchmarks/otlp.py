"""The receiver of OTLP under load, killed twice: nothing that was acknowledged is lost, nothing is there twice.

    python benchmarks/otlp.py --seconds 300 --rate 2000
    python benchmarks/otlp.py --seconds 300 --rate 500 --scan local-small   # scored as they come, into findings

A sender posts requests of 200 spans in protobuf, as the OpenTelemetry SDK does, at a steady rate; what is not
acknowledged it sends again. The receiver is killed after a third and two thirds of the time. Required: the rate is
held, and every span is in the store, or in the findings, once.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from turnwise.store import Store

BATCH = 200
TURNS = 5
"""Calls of a conversation; each repeats what was said before."""


def request(first: int) -> bytes:
    """A request of `BATCH` spans, the first of them of conversation `first`."""
    made = ExportTraceServiceRequest()
    spans = made.resource_spans.add().scope_spans.add().spans
    for at in range(BATCH):
        chat, turn = first + at // TURNS, at % TURNS + 1
        said = [{"role": role, "parts": [{"type": "text", "content": f"{role} {number} of {chat}"}]}
                for number in range(1, turn + 1) for role in ("user", "assistant")]  # fmt: skip
        span = spans.add(
            name="chat", trace_id=chat.to_bytes(16, "big"), span_id=(chat * 10 + turn).to_bytes(8, "big")
        )
        span.start_time_unix_nano = 1_780_000_000_000_000_000 + turn * 10**9
        span.end_time_unix_nano = span.start_time_unix_nano + 10**8
        for key, value in {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": f"c{chat}",
            "gen_ai.input.messages": json.dumps(said[:-1]),
            "gen_ai.output.messages": json.dumps(said[-1:]),
        }.items():
            span.attributes.add(key=key).value.string_value = value
    return made.SerializeToString()


def start(store: Path, port: int, observer: str | None) -> tuple[subprocess.Popen[str], int]:
    """Start the receiver; returns it with its port."""
    into = ["import", "--store", str(store)] if observer is None else ["scan", "--out", str(store)]
    into += [] if observer is None else ["--observer", observer]
    command = [sys.executable, "-m", "turnwise", *into, "--listen", f"127.0.0.1:{port}", "--quiet", "5"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    found = re.search(r"127.0.0.1:(\d+)", running.stderr.readline())
    assert found
    return running, int(found[1])


def kept(store: Path) -> dict[str, int]:
    """Conversations that are there, with their turns."""
    with Store(str(store)) as opened:
        return {head.sequence_id: head.turns for head in opened.heads()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--scan", metavar="OBSERVER", help="score what is received, into findings")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / ("work.db" if given.scan is None else "findings")
        running, port = start(store, 0, given.scan)
        total = int(given.seconds * given.rate) // BATCH
        kills = [total // 3, 2 * total // 3]
        began, late, again, waits = time.perf_counter(), 0.0, 0, []
        for number in range(total):
            body = request(number * BATCH // TURNS + 1)
            late = max(late, time.perf_counter() - began - number * BATCH / given.rate)
            time.sleep(max(0.0, began + number * BATCH / given.rate - time.perf_counter()))
            if number in kills:
                os.kill(running.pid, signal.SIGKILL)
                running.wait()
                running, _ = start(store, port, given.scan)
            sent = time.perf_counter()
            while True:
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                    if connection.getresponse().status == 200:
                        break
                except OSError:
                    time.sleep(0.2)
                again += 1
            waits.append(time.perf_counter() - sent)
            if number in kills:  # an answer that got lost: the same request once more
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                connection.getresponse()
        seconds = time.perf_counter() - began
        rate = total * BATCH / seconds
        print(f"{total * BATCH:,} spans in {seconds:.0f} s: {rate:,.0f} a second, at most {late:.1f} s behind")
        print(f"a request takes {1000 * sorted(waits)[len(waits) // 2]:.0f} ms (median); {again} were sent again")
        wanted, began = total * BATCH // TURNS, time.perf_counter()
        while len(kept(store)) < wanted and time.perf_counter() - began < 600:
            time.sleep(2.0)
        names = kept(store)
        turns = collections.Counter(names.values())
        running.send_signal(signal.SIGTERM)
        running.wait(60)
        lost = sum(f"c{number}" not in names for number in range(1, wanted + 1))
        print(
            f"{len(names):,} of {wanted:,} conversations stored {time.perf_counter() - began:.0f} s after the last"
        )
        print(f"lost {lost}, more than there are {len(names) - wanted + lost}; by turns {dict(turns)}")


if __name__ == "__main__":
    main()
