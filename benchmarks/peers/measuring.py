"""Feeds conversations to a guard turn by turn and writes what it said, in the guard's own environment.

Standard library alone, since nothing else is common to all environments. A module beside this one names its
guard's `PARTS`; ``python -m benchmarks.peers.NAME --conversations FILE --out FOLDER`` measures them. What was
written before is kept, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Answer:
    """What a guard says of one message.

    Args:
        blocked: whether it may not go on.
        warned: whether the guard said something short of that.
        by: names of the guard's parts that spoke; never any text.
    """

    blocked: bool
    warned: bool = False
    by: tuple[str, ...] = ()


class Guard(Protocol):
    """One part of a guard, ready to be asked."""

    def begin(self) -> None:
        """Begin another conversation."""

    def check(self, prompt: str) -> Answer:
        """Return what it says of the next prompt."""

    def answered(self, reply: str) -> Answer | None:
        """Take the reply that the prompt before got, and return what is said of it where replies are checked."""


class MissingError(Exception):
    """A part that can't be measured here: it says what is missing."""


class SingleMessages:
    """A guard that looks at each message by itself."""

    def __init__(self, look: Callable[[str], Answer]) -> None:
        self.look = look

    def begin(self) -> None:
        """Nothing is kept between conversations."""

    def check(self, prompt: str) -> Answer:
        """Return what it says of one prompt."""
        return self.look(prompt)

    def answered(self, reply: str) -> None:
        """Nothing is kept of a reply."""


class Reader(Protocol):
    """A part that reads whole conversations after the fact."""

    def read(self, messages: Sequence[Mapping[str, str]]) -> tuple[int | None, tuple[str, ...]]:
        """Return the first turn that it finds, or None, and which of its parts found it."""


Parts = Mapping[str, Callable[[], Guard | Reader]]
"""By name: what makes a guard ready. It raises where weights, keys or files are missing."""


def needs_key(name: str) -> None:
    """Raise `MissingError` where an environment variable with a key is missing."""
    if not os.environ.get(name):
        raise MissingError(f"needs the key {name}")


def measure(parts: Parts) -> None:
    """Measure the parts that the command line asks for; the last line of each says how it ended.

    Args:
        parts: what there is.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for PART.jsonl")
    parser.add_argument("--part", action="append", choices=[*parts], help="only this one; may be given again")
    parser.add_argument("--core", type=int, help="run on this processor core alone")
    asked = parser.parse_args()
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})
    asked.out.mkdir(parents=True, exist_ok=True)
    chats = [json.loads(line) for line in asked.conversations.read_text(encoding="utf-8").splitlines()]
    for name in asked.part or parts:
        target = asked.out / f"{name}.jsonl"
        began = time.perf_counter()
        try:
            guard = parts[name]()
            ready = time.perf_counter() - began
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, the part is not to be had here
            missing = f"{type(error).__name__}: {error}" if not isinstance(error, MissingError) else str(error)
            target.write_text(json.dumps({"not_measured": missing.splitlines()[0][:300]}) + "\n", encoding="utf-8")
            print(f"{name}: not measured: {missing.splitlines()[0][:200]}", file=sys.stderr)
            continue
        count = run(guard, chats, target)
        print(f"{name}: {count} conversations, ready in {ready:.1f} s, {target}", file=sys.stderr)


def run(guard: Guard | Reader, chats: Iterable[Mapping[str, Any]], target: Path) -> int:
    """Ask a guard about the conversations that its file lacks, and return how many it has now.

    Args:
        guard: ready to be asked.
        chats: rows of the file of conversations.
        target: JSON lines: ``id``, ``blocked_at`` and ``warned_at`` (a turn from 1, or None), ``by``, ``failed``
            (the kind of error, or None), and for every prompt up to a block ``ms``, how long it took, and ``cpu``,
            milliseconds of the processor.
    """
    lines = target.read_text(encoding="utf-8").splitlines() if target.exists() else []
    done = {row["id"] for row in map(json.loads, lines) if "id" in row}
    with target.open("w" if not done else "a", encoding="utf-8") as out:
        for chat in chats:
            if chat["id"] not in done:
                done.add(chat["id"])
                out.write(json.dumps(ask(guard, chat)) + "\n")
                out.flush()
    return len(done)


def ask(guard: Guard | Reader, chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a guard says of one conversation, which ends where something is blocked.

    Of a guard that reads the whole at once, the time is shared out evenly over the prompts.
    """
    row: dict[str, Any] = {"id": chat["id"], "blocked_at": None, "warned_at": None, "by": [], "failed": None}
    row.update(ms=[], cpu=[])
    turn = 0
    try:
        if not hasattr(guard, "check"):
            turns = sum(message["role"] == "user" for message in chat["messages"])
            began = clocks()
            at, by = guard.read(chat["messages"])
            wall, cpu = ([each / turns] * turns for each in since(began))
            return {**row, "blocked_at": at, "by": list(by), "ms": wall, "cpu": cpu}
        guard.begin()
        for message in chat["messages"]:
            if message["role"] == "user":
                turn += 1
                began = clocks()
                answer = guard.check(message["content"])
                for name, spent in zip(("ms", "cpu"), since(began), strict=True):
                    row[name].append(spent)
            else:
                answer = guard.answered(message["content"]) or Answer(False)
            if answer.warned and row["warned_at"] is None:
                row["warned_at"] = turn
            if answer.blocked:
                row.update(blocked_at=turn, by=list(answer.by))
                break
    except Exception as error:  # noqa: BLE001  # a guard that fails is a result, not the end of the measurement
        row["failed"] = f"{type(error).__name__} at turn {turn}"
    return row


def clocks() -> tuple[float, float]:
    """Return the time, and what the process has had of the processor, in seconds."""
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    """Return milliseconds since `clocks`: as a user waits, and of the processor alone."""
    wall, cpu = (1000 * (now - then) for now, then in zip(clocks(), began, strict=True))
    return round(wall, 4), round(cpu, 4)
