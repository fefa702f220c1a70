"""What the session memory costs, and its invariants over many runs.

Run with ``python benchmarks/sessions.py``. Prints what was measured beside what is required:

- microseconds of an update for three principles, at turns 10 and 10,000, without and with a response to read;
- bytes of the state as JSON, alone and with the state of each detector after 10,000 turns;
- memory of 200,000 live sessions in the store, all with full histories;
- turns a second through one store from eight threads;
- 10,000 runs of each state machine of the tests (``--runs``).

Shows: LATER-2.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from turnwise.detectors import build_detector, detector_names
from turnwise.errors import TurnwiseError
from turnwise.scoring import Score, TurnScores
from turnwise.sessions import SESSION, MemoryStateStore, SessionMemory, Sessions, SessionState

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
NOW = datetime(2025, 1, 1, tzinfo=UTC)
MEMORY = SessionMemory()
BLOCK = 50
REPEATS = 400
REFUSAL = "I'm sorry, but I can't help with that."
ANSWER = "Sure, I'd be happy to explain this. A lever doesn't change the work; it trades force for distance. " * 15


def turn_scores(turn: int) -> TurnScores:
    """Return scores of three principles that vary from turn to turn, none of them a breaker."""
    scores = {
        name: Score((turn * 0.347 + index) % 1.0, (turn * 0.713) % 1.0, (turn * 0.618034 + index * 0.211) % 0.6)
        for index, name in enumerate(PRINCIPLES)
    }
    return TurnScores(turn, scores, length=300)


def state_before(turn: int) -> SessionState:
    """Return the state of a session before one of its turns, with ids as long as UUIDs."""
    state = MEMORY.start(str(uuid.UUID(int=turn)), NOW)
    for earlier in range(1, turn):
        state, _ = MEMORY.update(
            state, turn_scores(earlier), NOW + timedelta(microseconds=earlier * 1_234_567), conversation_id="chat"
        )
    return state


def microseconds_at(turn: int, response: str | None) -> float:
    """Return the time of an update at a turn: the best of many short repeats, so that other work counts less."""
    state, scores, now = state_before(turn), turn_scores(turn), NOW + timedelta(days=1)
    now = min(now, state.last_at + timedelta(seconds=20))
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(BLOCK):
            MEMORY.update(state, scores, now, response=response, conversation_id="chat")
        best = min(best, time.perf_counter() - began)
    return best / BLOCK * 1e6


def size(value: Any) -> int:
    """Return the bytes of a value as JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def sizes() -> tuple[int, dict[str, int]]:
    """Return the bytes of a session's state, and of each detector's, after 10,000 turns."""
    state = MEMORY.start(str(uuid.UUID(int=7)), NOW)
    detectors = {}
    for name in detector_names():
        try:
            detectors[name] = build_detector(name)
        except TurnwiseError:
            continue  # it can't be built without parameters
    states = {name: detector.start() for name, detector in detectors.items()}
    for turn in range(1, 10_001):
        scores = turn_scores(turn)
        chat = str(uuid.UUID(int=turn // 100))
        state, _ = MEMORY.update(
            state, scores, NOW + timedelta(microseconds=turn * 1_234_567), conversation_id=chat, response=REFUSAL
        )
        for name, detector in detectors.items():
            detector.update(states[name], scores)
    return size(state.to_dict()), {name: size(kept) for name, kept in states.items()}


def resident() -> float:
    """Return the memory that this process holds, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4_096 / 1e6


def live_memory(sessions: int) -> float:
    """Return the memory that so many sessions take in the store, in MB; each has full histories and UUIDs."""
    turns = [turn_scores(turn) for turn in range(1, 13)]
    store = MemoryStateStore(limit=sessions)
    gc.collect()
    before = resident()
    for number in range(sessions):
        session_id = str(uuid.UUID(int=number * 7_919))
        chat = str(uuid.UUID(int=number * 104_729))
        state = MEMORY.start(session_id, NOW + timedelta(microseconds=number))
        for turn in range(12):
            scores = turns[(turn + number) % 12]
            state, _ = MEMORY.update(
                state, scores, NOW + timedelta(seconds=turn, microseconds=number), conversation_id=chat
            )
        kept = state
        store.change(SESSION, session_id, lambda _, kept=kept: (kept, None))
    gc.collect()
    assert len(store) == sessions
    return resident() - before


def turns_a_second(threads: int, turns: int) -> float:
    """Return how many turns a second go through one store from several threads."""
    sessions = Sessions(MemoryStateStore(), lambda: NOW)
    scores = turn_scores(3)

    def take(thread: int) -> None:
        for number in range(turns // threads):
            sessions.take(f"user-{(thread * 7 + number) % 1_000}", scores)

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(take, range(threads)))
    return turns / (time.perf_counter() - began)


def machines() -> ModuleType:
    """Return the state machines of the tests."""
    path = Path(__file__).parent.parent / "tests" / "sessions" / "breaker_machine.py"
    spec = importlib.util.spec_from_file_location("breaker_machine", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prove(runs: int) -> None:
    """Run each state machine so many times, and print how long it took; a broken invariant is an error."""
    from hypothesis import HealthCheck, settings
    from hypothesis.stateful import run_state_machine_as_test

    chosen = settings(
        max_examples=runs,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    module = machines()
    for machine in (module.BreakerMachine, module.MemoryMachine):
        began = time.perf_counter()
        run_state_machine_as_test(machine, settings=chosen)
        print(f"{machine.__name__}: {runs:,} runs of up to 30 steps held, {time.perf_counter() - began:.0f} s")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="runs of each state machine; 0 for none")
    parser.add_argument("--sessions", type=int, default=200_000, help="live sessions whose memory is measured")
    given = parser.parse_args()

    print(f"{'update, 3 principles':34} {'turn 10':>8} {'turn 10,000':>12}   us; required: at most 15")
    for label, response in (
        ("scores", None),
        ("scores and a refusal", REFUSAL),
        (f"scores and {len(ANSWER):,} characters", ANSWER),
    ):
        print(f"{label:34} {microseconds_at(10, response):8.2f} {microseconds_at(10_000, response):12.2f}")

    alone, beside = sizes()
    largest = max(beside, key=beside.__getitem__)
    print(f"state as JSON: {alone} bytes; largest detector ({largest}): {beside[largest]}")
    over = {name: alone + extra for name, extra in beside.items() if alone + extra > 1_024}
    print(f"session and detector: at most {alone + beside[largest]} bytes; required: 1,024; over: {over or 0}")

    if given.sessions:
        taken = live_memory(given.sessions)
        each = taken / given.sessions * 1e6
        print(f"{given.sessions:,} live sessions: {taken:.0f} MB, {each:.0f} bytes each; required: at most 400 MB")
    print(f"one store, 8 threads: {turns_a_second(8, 100_000):,.0f} turns a second")
    if given.runs:
        prove(given.runs)


if __name__ == "__main__":
    main()
