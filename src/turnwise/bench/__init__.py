"""The yardstick: any guard, turn by turn, on the same conversations, with a record that can be cited."""

from turnwise.bench.guards import Answer, BenchGuard, GuardFailedError, Options, build_guard
from turnwise.bench.record import html_page, notes_of, read_record, table_of
from turnwise.bench.run import ask_conversation, run_bench
from turnwise.bench.tasks import BenchTask, Item, load_tasks, yardstick

__all__ = [
    "Answer",
    "BenchGuard",
    "BenchTask",
    "GuardFailedError",
    "Item",
    "Options",
    "ask_conversation",
    "build_guard",
    "html_page",
    "load_tasks",
    "notes_of",
    "read_record",
    "run_bench",
    "table_of",
    "yardstick",
]
