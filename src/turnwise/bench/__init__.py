"""The yardstick: any guard, turn by turn, on the same conversations, with a record that can be cited."""

from turnwise.bench.guards import Answer, Guard, GuardFailedError, build_guard
from turnwise.bench.record import html_page, read_record, table_of
from turnwise.bench.run import run_bench
from turnwise.bench.tasks import Task, load_tasks

__all__ = [
    "Answer",
    "Guard",
    "GuardFailedError",
    "Task",
    "build_guard",
    "html_page",
    "load_tasks",
    "read_record",
    "run_bench",
    "table_of",
]
