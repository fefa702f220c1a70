"""``turnwise train``: weights for the local observer, from the training data and the corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).parents[3]
"""Root of the source tree, where turnwise runs from one; the corpus is not part of the installed package."""


def train(
    data: Annotated[Path, typer.Option(help="Data folder with MANIFEST.json.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write the weights to.", show_default=False)],
    twins: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the twins corpus. That of the source checkout by default.", show_default=False
        ),
    ] = None,
    drills: Annotated[
        Path | None,
        typer.Option(help="Folder of the drills. That of the source checkout by default.", show_default=False),
    ] = None,
    without_pairs: Annotated[
        bool, typer.Option("--without-pairs", help="Train without twins and drills.")
    ] = False,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Also measure what each part brings; three trainings more.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 7,
    threads: Annotated[int, typer.Option(help="Threads; other numbers give other weights.", min=1)] = 1,
    json: options.Json = False,
) -> None:
    """Train the local observer on the files that the data folder's manifest permits.

    With the defaults it reproduces the shipped weights. It needs the train extra.
    """
    from turnwise.cli.output import note, print_json
    from turnwise.observers.local.training.fit import Settings
    from turnwise.observers.local.training.run import Sources, train

    if without_pairs:
        sources = Sources(data)
    else:
        sources = Sources(data, _corpus("twins", twins), _corpus("drills", drills), ablation)
    metrics = train(sources, out, Settings(seed=seed, threads=threads), note)
    note(f"use them with --observer local:{out}")
    if json:
        print_json({"out": str(out), **_summary(metrics)})


def _corpus(name: str, given: Path | None) -> Path:
    folder = given or CHECKOUT / "corpus" / name
    if not folder.is_dir():
        raise DatasetError(
            f"{folder} is no folder: give the {name} of the source repository with --{name} PATH, "
            "or train without them with --without-pairs"
        )
    return folder


def _summary(metrics: Mapping[str, object]) -> dict[str, object]:
    names = ("weights_sha256", "code_sha256", "data_sha256", "training_seconds")
    return {name: metrics[name] for name in names}
