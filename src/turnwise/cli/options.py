"""Options that several commands share."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

DEFAULT_STORE = "turnwise.db"

MOST = sys.maxsize
"""The largest number of rows that a ``--limit`` may be: more can't be counted."""


Store: TypeAlias = Annotated[
    str, typer.Option(envvar="TURNWISE_STORE", help="File or sqlite:/// URL of the store.", show_envvar=True)
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Run: TypeAlias = Annotated[str | None, typer.Option(help="Name of the run; the only one where there is one.")]
Sequences: TypeAlias = Annotated[
    list[str] | None, typer.Option("--sequence", help="Only this sequence; may be given several times.")
]
Label: TypeAlias = Annotated[
    str | None, typer.Option(help="Only sequences with this label: attack, benign or unlabelled.")
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Only sequences of this data set.")]
Format: TypeAlias = Annotated[
    str | None, typer.Option(help="Format of the file where it can't be told; see turnwise datasets.")
]
Columns: TypeAlias = Annotated[
    str | None, typer.Option(help="Columns by their other name, such as messages=chat,id=uid.")
]
DefaultLabel: TypeAlias = Annotated[
    str | None, typer.Option(help="Label for conversations that bring none: attack or benign.")
]
Detectors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--detector",
        help="Detector, such as cusum or cusum:drift=0.05,limit=0.2, or a YAML file; may be given several times.",
    ),
]
Principles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--principle",
        help="Principle by name, or the folder of your own; may be given several times. All by default.",
    ),
]
Sides: TypeAlias = Annotated[
    str, typer.Option(help="Halves of a turn to score: prompt, response, or both with a comma.")
]
FailOnFindings: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 where a detector fired.")
]
