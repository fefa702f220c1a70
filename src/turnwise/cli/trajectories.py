"""How a trajectory looks: a table, small graphs, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from turnwise.cli.output import Table, print_table, sparkline

if TYPE_CHECKING:
    from turnwise.conversation import Turn
    from turnwise.detectors import Verdict
    from turnwise.scoring import TurnScores

NOT_CHECKED = "not checked: the run has no score of it that this detector reads"
"""The reason of a verdict that there is not."""

VERDICT_COLUMNS = ("fired", "turn", "score", "threshold", "reason")
"""Headings of `verdict_cells`."""

_TEXT_SHOWN = 60
"""Characters of a prompt or reply in the table."""


def verdict_cells(verdict: Verdict | None) -> tuple[str | list[str], ...]:
    """Return what a detector says, as cells of a table under `VERDICT_COLUMNS`."""
    if verdict is None:
        return "not checked", "", "", "", NOT_CHECKED
    turn = "" if verdict.turn is None else str(verdict.turn)
    threshold = [f"{verdict.threshold:.3f}", str(verdict.threshold_source)]
    return "fired" if verdict.fired else "", turn, f"{verdict.score:.3f}", threshold, verdict.reason


def peak_f(scores: TurnScores) -> float | None:
    """Return the highest F over the principles of a turn, or None where nothing was evaluated."""
    return max((score.F for score in scores.scores.values()), default=None)


def cut(text: str, most: int) -> str:
    """Return a text in one line, its beginning where it is longer than so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[:most] + "…"


def print_trajectory(turns: Sequence[TurnScores], said: Iterable[Turn]) -> None:
    """Print T, I and F of every principle, a row a turn, and a small graph of F a principle.

    Args:
        turns: the scores turn by turn.
        said: the turns.
    """
    principles = sorted({principle for scores in turns for principle in (*scores.scores, *scores.response_scores)})
    table = Table(
        "turn", *(f"{principle}\nT    I    F" for principle in principles), "prompt, > reply", numeric=("turn",)
    )
    for scores, turn in zip(turns, said, strict=True):
        texts = [cut(turn.prompt, _TEXT_SHOWN)]
        if turn.response is not None:
            texts.append(f"> {cut(turn.response, _TEXT_SHOWN)}")
        table.add_row(str(scores.turn), *(_cell(scores, principle) for principle in principles), texts)
    print_table(table)
    graphs = Table("principle", "F over turns", "peak F", numeric=("peak F",))
    for principle in principles:
        values = [scores.scores[principle].F if principle in scores.scores else None for scores in turns]
        known = [value for value in values if value is not None]
        graphs.add_row(principle, sparkline(values), f"{max(known):.2f}" if known else "")
    print_table(graphs)


def _cell(scores: TurnScores, principle: str) -> list[str]:
    prompt, response = scores.scores.get(principle), scores.response_scores.get(principle)
    lines = [f"{prompt.T:.2f} {prompt.I:.2f} {prompt.F:.2f}" if prompt else "-"]
    if response:
        lines.append(f"{response.T:.2f} {response.I:.2f} {response.F:.2f} (response)")
    return lines
