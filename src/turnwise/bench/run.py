"""Asks guards turn by turn, keeps what they answered, and makes the record."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise._version import __version__
from turnwise.bench.guards import NO_SCORE, Answer, BenchGuard, GuardFailedError, GuardTimeoutError, within
from turnwise.bench.record import RATES, digest_of, results_of
from turnwise.bench.tasks import BenchTask, Item, yardstick
from turnwise.errors import UsageError

TIMEOUT = 60.0
"""Seconds that an answer may take."""

GIVEN_UP_AFTER = 5
"""A guard whose first conversations, so many, all fail for the same reason can't be run."""

Row = dict[str, Any]
"""What a guard said of a conversation: a line of its file of answers."""


def run_bench(
    guards: Sequence[BenchGuard],
    tasks: Sequence[BenchTask],
    *,
    answers: str | Path | None = None,
    timeout: float = TIMEOUT,
    jobs: int = 1,
    again: bool = False,
    sample: int | None = None,
    tell: Callable[[str, int], None] = lambda guard, done: None,
) -> dict[str, Any]:
    """Ask guards about every turn of all tasks and return the record, JSON values.

    The record's ``sha256`` is that of ``yardstick``, ``settings`` and ``guards``; times and the machine stand
    outside it. A guard that can't be run is in the record with the reason.

    Args:
        guards: what to measure; each by another name.
        tasks: what `load_tasks` gave.
        answers: folder that keeps answers, so that a run that was stopped goes on; None to keep none.
        timeout: seconds that an answer may take.
        jobs: conversations at a time, for guards that wait for answers.
        again: whether what failed before is asked again.
        sample: what `load_tasks` was given, for the record.
        tell: is told the guard, and how many conversations are done.

    Raises:
        UsageError: two guards of one name, or the answers can't be kept.
    """
    names = [guard.name for guard in guards]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two guards are called {min(twice)}: give one another name, as in mine={min(twice)}")
    items = list({item.sha256: item for task in tasks for item in task.items}.values())
    told, times = [], {}
    for guard in guards:
        kept = _Kept(None if answers is None else to_path(answers), guard, again)
        try:
            missing = _ask(guard, items, kept, timeout, jobs, tell)
        finally:
            guard.close()
            kept.close()
        said: dict[str, Any] = {"name": guard.name, "description": dict(guard.description)}
        if missing is not None:
            told.append({**said, "not_run": missing})
            continue
        rows = {item.sha256: kept.rows[item.sha256] for item in items}
        said["versions"] = sorted({row["version"] for row in rows.values() if row["version"] is not None})
        told.append({**said, "results": results_of(tasks, rows)})
        times[guard.name] = _times(rows.values())
    cited = {
        "yardstick": {"version": yardstick()["version"], "tasks": [task.to_dict() for task in tasks]},
        "settings": {"false_alarm_rates": list(RATES), "sample": sample, "timeout_s": timeout},
        "guards": told,
    }
    made = {
        "turnwise": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {**cited, "sha256": digest_of(cited), "ms_a_turn": times, "made": made}


def _ask(
    guard: BenchGuard,
    items: Sequence[Item],
    kept: _Kept,
    timeout: float,
    jobs: int,
    tell: Callable[[str, int], None],
) -> str | None:
    """Ask about what is not kept, and return why the guard can't be run where it can't."""
    todo = [item for item in items if item.sha256 not in kept.rows]
    runs = len(todo) < len(items)
    held: list[Row] = []
    for done, row in enumerate(_rows(guard, todo, timeout, jobs if guard.parallel else 1), start=1):
        held.append(row)
        runs = runs or row["failure"] in (None, NO_SCORE) or len({one["failure"] for one in held}) > 1
        if not runs and len(held) >= min(GIVEN_UP_AFTER, len(items)):
            return str(row["failure"])
        if runs:
            for one in held:
                kept.keep(one)
            held.clear()
        tell(guard.name, len(items) - len(todo) + done)
    return None


def _rows(guard: BenchGuard, items: Iterable[Item], timeout: float, jobs: int) -> Iterator[Row]:
    if jobs <= 1:
        yield from (ask_conversation(guard, item, timeout) for item in items)
        return
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(lambda item: ask_conversation(guard, item, timeout), items)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def ask_conversation(guard: BenchGuard, item: Item, timeout: float = TIMEOUT) -> Row:
    """Return what a guard says of one conversation, turn by turn.

    A guard without scores is asked no more once it has flagged: nothing would change. After a failure neither.
    """
    row: Row = {"key": item.sha256, "id": item.name, "flagged_at": None, "scores": [], "unread": 0}
    row.update(cost_usd=None, asked=0, ms=[], failure=None, version=None)
    try:
        ask = guard.start(item.name)
        for turn in range(1, item.conversation.get_turn_count() + 1):

            def timed(turn: int = turn) -> tuple[Answer, float]:
                began = time.perf_counter()
                return ask(item.conversation, turn), time.perf_counter() - began

            row["asked"] = turn
            answer, seconds = within(timeout, timed)
            row["ms"].append(round(1000 * seconds, 4))
            row["scores"].append(None if answer.score is None else round(answer.score, 9))
            row["unread"] += answer.unread
            row["version"] = answer.version or row["version"]
            if answer.cost_usd is not None:
                row["cost_usd"] = (row["cost_usd"] or 0.0) + answer.cost_usd
            if answer.flagged and row["flagged_at"] is None:
                row["flagged_at"] = turn
            if answer.flagged and answer.score is None:
                break
    except GuardFailedError as error:
        row["failure"] = str(error)
        if isinstance(error, GuardTimeoutError):
            guard.close()
    except Exception as error:  # noqa: BLE001  # a guard is foreign code: what it raises is its failure
        row["failure"] = f"{type(error).__name__}: {error}"[:300]
    return row


class _Kept:
    """The answers of one guard in one configuration, and their file where there is one."""

    def __init__(self, folder: Path | None, guard: BenchGuard, again: bool) -> None:
        self.rows: dict[str, Row] = {}
        self._file = None
        if folder is None:
            return
        safe = "".join(each if each.isalnum() or each in "-_." else "-" for each in guard.name)[:40]
        path = folder / f"{safe}-{digest_of(guard.description)[:12]}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().splitlines() if path.exists() else []
            for line in lines:
                try:
                    row = read_json(line)
                except ValueError:
                    continue  # cut off when a run was killed
                if not (again and row["failure"] is not None):
                    self.rows[row["key"]] = row
            self._file = path.open("w" if len(self.rows) < len(lines) else "a", encoding="utf-8")
            if len(self.rows) < len(lines):
                self._file.writelines(f"{json.dumps(row)}\n" for row in self.rows.values())
                self._file.flush()
        except OSError as error:
            raise UsageError(f"can't keep answers in {folder}: {error.strerror}") from error

    def keep(self, row: Row) -> None:
        self.rows[row["key"]] = row
        if self._file is not None:
            self._file.write(f"{json.dumps(row)}\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _times(rows: Iterable[Row]) -> dict[str, float]:
    spent = sorted(ms for row in rows for ms in row["ms"])
    if not spent:
        return {}
    middle, late = spent[len(spent) // 2], spent[int(0.99 * (len(spent) - 1))]
    return {"median": round(middle, 3), "p99": round(late, 3), "turns": len(spent)}
