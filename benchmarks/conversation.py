"""What each operation of a conversation costs at turn 10 and at turn 10,000.

Run it with ``python benchmarks/conversation.py``. It prints the median of many single calls in microseconds, and
how many times more the late one costs. Operations that return turns are asked for five of them.

Shows: EDGE-2.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import median
from time import perf_counter_ns

from turnwise.conversation import Conversation, Turn

SHORT, LONG = 10, 10_000
OPEN = 8
"""Turns at the end that wait for a response, so that both conversations can be given as many."""
CALLS = OPEN
ROUNDS = 15
LIMITS = {"turns_per_minute": 60, "turns_per_hour": 5_000, "turns_per_day": 20_000}
START = datetime(2025, 1, 1, tzinfo=UTC)

Operation = Callable[[Conversation], object]

OPERATIONS: dict[str, Operation] = {
    "add_turn": lambda chat: chat.add_turn("prompt", "response"),
    "add_exchange": lambda chat: chat.add_exchange("prompt", "response"),
    "add_prompt": lambda chat: chat.add_prompt("prompt"),
    "limits.try_add_prompt": lambda chat: chat.limits.try_add_prompt("prompt"),
    "add_response": lambda chat: chat.add_response("response"),
    "turn": lambda chat: chat.turn(5),
    "history.last": lambda chat: chat.history.last,
    "turns": lambda chat: chat.turns,
    "get_history(5)": lambda chat: chat.get_history(5),
    "get_incomplete_turns": lambda chat: chat.get_incomplete_turns(),
    "get_turn_count": lambda chat: chat.get_turn_count(),
    "get_complete_turn_count": lambda chat: chat.get_complete_turn_count(),
    "get_duration": lambda chat: chat.get_duration(),
    "limits.exceeded": lambda chat: chat.limits.exceeded(),
    "limits.reset": lambda chat: chat.limits.reset(),
}


def clock_of(turns: int) -> Callable[[], datetime]:
    """Return a clock that a turn moves on by two seconds, so that every window holds its share."""
    ticks = count(turns)
    return lambda: START + timedelta(seconds=2 * next(ticks))


def conversation_of(turns: int) -> Conversation:
    """Return a conversation of that many turns, the last of them open, with rate limits."""
    past = [
        Turn(
            number,
            "prompt",
            "response" if number <= turns - OPEN else None,
            timestamp=START + timedelta(seconds=2 * number),
        )
        for number in range(1, turns + 1)
    ]
    return Conversation.from_turns(past, rate_limit=LIMITS, clock=clock_of(turns))


def cost_us(operation: Operation) -> tuple[float, float]:
    """Return the median microseconds of one call on a short and on a long conversation, called by turns."""
    samples: tuple[list[int], list[int]] = ([], [])
    for _ in range(ROUNDS):
        chats = (conversation_of(SHORT), conversation_of(LONG))
        # The collector walks all turns now and then, whichever operation is running; it is not the operation.
        gc.disable()
        for _ in range(CALLS):
            for chat, times in zip(chats, samples, strict=True):
                before = perf_counter_ns()
                operation(chat)
                times.append(perf_counter_ns() - before)
        gc.enable()
    short, long = samples
    return median(short) / 1000, median(long) / 1000


def drain_us(turns: int) -> float:
    """Return the median microseconds of `add_response` while that many open turns are completed in order."""
    chat = Conversation("initiator", clock=clock_of(0))
    for _ in range(turns):
        chat.add_prompt("prompt")
    samples = []
    for _ in range(turns):
        before = perf_counter_ns()
        chat.add_response("response")
        samples.append(perf_counter_ns() - before)
    return median(samples) / 1000


def main() -> None:
    """Print the table."""
    print(f"{'operation':32}{f'turn {SHORT:,}':>14}{f'turn {LONG:,}':>14}{'ratio':>8}")
    rows = [(name, *cost_us(call)) for name, call in OPERATIONS.items()]
    rows.append(("add_response to a long queue", drain_us(SHORT), drain_us(LONG)))
    for name, short, long in rows:
        print(f"{name:32}{short:11.2f} us{long:11.2f} us{long / short:8.2f}")


if __name__ == "__main__":
    main()
