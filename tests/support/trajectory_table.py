"""Trajectories as the table that compiled patterns are asked of, without a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from turnwise.conversation import Side
from turnwise.scoring import TurnScores

TABLE = "trajectories"


class Columns(Protocol):
    """What a table has: ``T``, ``I`` and ``F`` of each principle and side, under these names."""

    @property
    def scored(self) -> Sequence[tuple[str, Side]]: ...

    @property
    def names(self) -> Sequence[str]: ...


def make_table(
    connection: Any, columns: Columns, conversations: Sequence[Sequence[TurnScores]], table: str = TABLE
) -> None:
    """Make the table anew; the number of a sequence is its place. One without scores has no row."""
    lists = ["turn", "prompt_chars", "response_chars", *columns.names]
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} (sequence INTEGER, {', '.join(f'{name} DOUBLE[]' for name in lists)})"
    )
    marks = ", ".join("?" * (1 + len(lists)))
    for key, turns in enumerate(conversations):
        evaluated = [turn for turn in turns if turn.scores or turn.response_scores]
        if not evaluated:
            continue
        row: list[Any] = [key, [float(turn.turn) for turn in evaluated]]
        row += [[float(turn.length) for turn in evaluated], [float(turn.response_length) for turn in evaluated]]
        for principle, side in columns.scored:
            sides = [turn.scores if side is Side.PROMPT else turn.response_scores for turn in evaluated]
            scores = [by_principle.get(principle) for by_principle in sides]
            row += [[None if score is None else getattr(score, name) for score in scores] for name in "TIF"]
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
