"""What state stores cost: checks a second with and without, and bytes of a conversation in Redis.

Run with ``python benchmarks/state.py``; it starts a redis-server of its own (Debian's package redis-server), which
writes its log as the documentation says (``appendonly yes``, synced every second). Prints

- checks a second of one process without a store, and of one and two over Redis and over a file, each with
  conversations of its own of ten turns, both sides checked; beside it CPU milliseconds of a check in the workers,
  which say more on a machine with other work;
- bytes that Redis takes for a conversation of so many turns, with what belongs to it.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from redis_server import RedisServer

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import open_state_store

TURNS = 10
ASKED = "My parcel has not come yet, though it was sent on Monday. Can you see where it is, please? Number {}."
ANSWER = "It left our warehouse on Tuesday and usually takes four working days; I would wait until Friday."


def overrides(*, observer: bool) -> dict[str, Any]:
    """Return what is set of the preset: nothing, or an observer that gives fixed scores at once."""
    fixed = {"observer": "scripted:0.1", "warn_above": 0.5, "block_above": 0.8}
    return {} if observer else {"drift": {"observer": "scripted:0.1"}, "prompt_injection": fixed}


def work(number: int, settings: dict[str, Any], where: str, seconds: float, ready: Any, told: Any) -> None:
    """Check texts of conversations of its own until the time is over; tell how many, and what they took."""
    store = open_state_store(where) if where else None
    pipeline = GuardrailPipeline.from_preset("customer_service", overrides=settings, state_store=store)
    pipeline.check_input(ASKED.format(0))
    ready.wait()
    checks, cpu, begin = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        chat = Conversation.human_ai(f"user {number}", "model")
        for turn in range(TURNS):
            pipeline.check_input(ASKED.format(turn), conversation=chat)
            pipeline.check_output(ANSWER, conversation=chat)
        checks += 2 * TURNS
    told.put((checks, time.perf_counter() - begin, time.process_time() - cpu))


def measured(workers: int, settings: dict[str, Any], where: str, seconds: float) -> tuple[float, float]:
    """Return checks a second of all workers together, and CPU milliseconds of a check."""
    context = mp.get_context("spawn")
    ready, told = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=work, args=(number, settings, where, seconds, ready, told))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    rows = [told.get(timeout=60.0 + seconds) for _ in processes]
    for process in processes:
        process.join()
    checks = sum(row[0] for row in rows)
    return sum(row[0] / row[1] for row in rows), 1e3 * sum(row[2] for row in rows) / checks


def speed(server: RedisServer, folder: str, seconds: float, observer: bool) -> None:
    """Measure processes without a store, over Redis and over a file."""
    settings, alone = overrides(observer=observer), 0.0
    print("customer_service" if observer else "customer_service with an observer that gives fixed scores")
    for what, workers, where in (
        ("1 process, no store", 1, ""),
        ("1 process, Redis", 1, server.url),
        ("2 processes, Redis", 2, server.url),
        ("1 process, file", 1, f"{folder}/guard.db"),
        ("2 processes, file", 2, f"{folder}/guard.db"),
    ):
        rate, cpu = measured(workers, settings, where, seconds)
        alone = alone or rate
        print(f"  {what:<22}{rate:8,.0f} checks/s  {rate / alone:5.2f} of one without{cpu:8.2f} CPU ms a check")


def sizes(server: RedisServer) -> None:
    """Measure what Redis takes for conversations of several lengths, the server's own account of it."""
    client, settings = server.client(), overrides(observer=False)
    for turns in (1, 10, 100):
        client.flushall()
        store = open_state_store(server.url)
        pipeline = GuardrailPipeline.from_preset("customer_service", overrides=settings, state_store=store)
        chats = max(2, 60 // turns)
        for number in range(chats):
            chat = Conversation.human_ai(f"user {number}", "model")
            for turn in range(turns):
                pipeline.check_input(ASKED.format(turn), conversation=chat)
                pipeline.check_output(ANSWER, conversation=chat)
        kinds = {"conversation": 0, "session": 0, "lists of both": 0}
        for key in client.keys("turnwise:*"):
            kind = key.decode().split(":")[2] if key.startswith(b"turnwise:state:") else "lists of both"
            kinds[kind] += client.memory_usage(key, samples=0) / chats
        texts = turns * (len(ASKED) + len(ANSWER))
        parts = ", ".join(f"{what} {size:,.0f}" for what, size in kinds.items())
        print(
            f"  {turns:>4} turns: {sum(kinds.values()):10,.0f} bytes a conversation ({parts}; its texts {texts:,})"
        )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time of each measurement")
    parser.add_argument("--sizes", action="store_true", help="measure bytes alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), appendfsync="everysec")
        try:
            for observer in () if given.sizes else (False, True):
                speed(server, folder, given.seconds, observer)
            sizes(server)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
