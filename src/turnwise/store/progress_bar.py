"""DuckDB without the progress bar that it draws over what a program prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def hide_progress_bar(database: DuckDBPyConnection) -> None:
    """Switch the progress bar off where it is on; the configuration must not be locked yet.

    In a notebook without ipywidgets it is off, and DuckDB refuses to be told so.
    """
    shown = database.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    if shown is not None and shown[0]:
        database.execute("SET enable_progress_bar = false")
