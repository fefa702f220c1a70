"""What the audit costs a check, and how many checks a second it writes.

Run with ``python benchmarks/audit.py``. A check hands its event over and goes on; one thread makes the record,
redacts it and writes it. The first figures are measured while the writer sleeps on a hung disk, so that they show
the hand-over alone; the next with the writer at work, which takes its share of the interpreter.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from turnwise.clock import utc_now
from turnwise.conversation import Conversation
from turnwise.guard import GuardrailPipeline
from turnwise.guard.audit import AuditEvent, AuditSettings, AuditWriter
from turnwise.guard.audit.record import Recorder, unchanged

CONFIG: dict[str, Any] = {"name": "customer_service", "guardrails": [{"pii": {"action": "redact"}}, "drift"]}
TEXT = "Hello, my parcel has not come yet. I am ann@example.com, and you can call me under +1 202 555 0143 today."
EVENTS = 20_000
HAND_OVER_US = 20.0
WRITTEN_A_SECOND = 1_000


class HungDisk:
    """Takes nothing until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Wait."""
        self.free.wait()

    def close(self) -> None:
        """Have nothing to close."""


def hand_over(writer: AuditWriter, make: Callable[[], AuditEvent], pause: float = 0.0) -> list[float]:
    """Return microseconds of making and handing over an event, for many events."""
    took = []
    for number in range(EVENTS):
        began = time.perf_counter()
        writer.write(make())
        took.append(1e6 * (time.perf_counter() - began))
        if pause and number % 10 == 0:
            time.sleep(pause)
    return took


def row(what: str, value: float, unit: str, required: str, met: bool) -> None:
    """Print a measured figure beside the required one."""
    print(f"{what:<58} {value:>10,.1f} {unit:<8} {required:<18} {'ok' if met else 'MISSED'}")


def main() -> None:
    """Measure, and print measured and required figures."""
    pipeline = GuardrailPipeline(CONFIG)
    chat = Conversation.human_ai("user_123", "some-model")
    result = pipeline.check_input(TEXT, conversation=chat)

    def event() -> AuditEvent:
        return AuditEvent.of(result, chat.conversation_id, chat, "customer_service", utc_now())

    disk = HungDisk()
    writer = AuditWriter(lambda: disk, Recorder("redacted", unchanged), most=EVENTS + 1, characters=10**9)
    took = hand_over(writer, event)
    disk.free.set()
    writer.close()
    middle, late = median(took), quantiles(took, n=100)[98]
    row("hand-over, the disk hung: median", middle, "us", f"<= {HAND_OVER_US:g}", middle <= HAND_OVER_US)
    row(
        "hand-over, the disk hung: 99th percentile",
        late,
        "us",
        f"<= {5 * HAND_OVER_US:g}",
        late <= 5 * HAND_OVER_US,
    )

    with tempfile.TemporaryDirectory() as folder:
        for sink, name in (("jsonl", "audit.jsonl"), ("store", "work.db")):
            path = Path(folder) / name
            settings = AuditSettings(str(path), sink=sink, queue=EVENTS + 1)  # type: ignore[arg-type]
            writer = settings.open()
            began = time.perf_counter()
            took = hand_over(writer, event, pause=0.001)
            writer.close(600.0)
            pace = EVENTS / (time.perf_counter() - began)
            status = writer.status
            assert (status.written, status.dropped, status.unwritten) == (EVENTS, 0, 0)
            middle = median(took)
            row(f"hand-over, {sink} at work: median", middle, "us", f"<= {HAND_OVER_US:g}", middle <= HAND_OVER_US)
            met = pace >= WRITTEN_A_SECOND
            row(f"redacted and written to {sink}", pace, "a second", f">= {WRITTEN_A_SECOND:,}", met)
            row(f"size of a check in {sink}", path.stat().st_size / EVENTS, "bytes", "", True)


if __name__ == "__main__":
    main()
