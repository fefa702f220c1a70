"""``turnwise teach``: the embedded observer learns a principle of a user's own from annotated turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, say, say_text
from turnwise.cli.study import require_study
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Side
    from turnwise.observers.local.observer import LocalObserver
    from turnwise.store import Store


def teach(
    principle: Annotated[Path, typer.Argument(help="Folder of the principle.", show_default=False)],
    *,
    annotations: Annotated[
        Path | None,
        typer.Option(
            help="CSV or JSONL of annotated turns: text (and before), or sequence_id and turn; breaks (yes or "
            "no), or T, I and F; conversation, side.",
            metavar="FILE",
        ),
    ] = None,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="Write the principle's folder, and with --store a CSV of the turns worth annotating first.",
        ),
    ] = False,
    store: Annotated[
        str | None, typer.Option(envvar="TURNWISE_STORE", show_envvar=True, help="Store that has the turns.")
    ] = None,
    side: Annotated[str, typer.Option(help="Side of a turn that is taught: prompt or response.")] = "prompt",
    turns: Annotated[int, typer.Option(help="With --draft: turns to pick.", min=1, max=5000)] = 300,
    out: Annotated[
        Path | None,
        typer.Option(help="With --draft: CSV to write. [default: PRINCIPLE/annotations-SIDE.csv]", metavar="FILE"),
    ] = None,
    observer: Annotated[
        str, typer.Option(help="Observer that learns: local, or local:FOLDER with weights of your own.")
    ] = "local",
    seed: Annotated[int, typer.Option(help="Seed of folds and draws.")] = 0,
    json: options.Json = False,
) -> None:
    """Teach the embedded observer a principle of your own from a few hundred annotated turns.

    What it learned is written into the principle's folder: taught-SIDE.json and a page about it, taught-SIDE.md.
    """
    half = options.read_side(side)
    if draft == (annotations is not None):
        raise UsageError("give --annotations FILE to teach, or --draft to begin a principle")
    if observer.partition(":")[0] != "local":
        raise UsageError(f"observer {observer} can't be taught; use local, or local:FOLDER")
    with _opened(store) as opened:
        if draft:
            _draft(principle, opened, half, turns, out, observer, seed, json)
            return
        from turnwise.conversation import Side
        from turnwise.study.teaching import read_annotations
        from turnwise.study.teaching import teach as taught_from

        assert annotations is not None
        require_study()
        found = read_annotations(annotations, half, opened)
        note(f"reading {len(found.turns)} annotated turns")
        taught = taught_from(principle, found, _observer(observer), seed)
    if json:
        print_json({"file": str(taught.file.path), "sha256": taught.file.sha256, **taught.about})
        return
    say_text(taught.card.read_text(encoding="utf-8"))
    sides = "" if half is Side.PROMPT else f" --sides {half}"
    say(f"next: turnwise evaluate --observer {observer} --principle {principle}{sides}")


@contextlib.contextmanager
def _opened(store: str | None) -> Iterator[Store | None]:
    from turnwise.store import Store

    if store is None:
        yield None
        return
    with Store(store) as opened:
        yield opened


def _observer(spec: str) -> LocalObserver:
    from turnwise.observers.local.observer import LocalObserver

    _, colon, folder = spec.partition(":")
    return LocalObserver(folder if colon else None)


def _draft(
    folder: Path,
    store: Store | None,
    side: Side,
    turns: int,
    out: Path | None,
    observer: str,
    seed: int,
    json: bool,
) -> None:
    from turnwise.principles import load_principle
    from turnwise.study.teaching import MOST_LOOKED_AT, draft_principle, pick, write_candidates

    if out is not None and store is None:
        raise UsageError("--out needs --store, which has the turns to pick from")
    written = draft_principle(folder)
    path = None
    if store is not None:
        path = out or folder / f"annotations-{side}.csv"
        if path.exists():
            raise UsageError(f"{path} is there already, maybe filled in: name another file with --out")
        note(f"reading the turns of {store.location}, at most {MOST_LOOKED_AT:,} of them")
        picked = pick(store, load_principle(folder), side, _observer(observer), turns, seed)
        write_candidates(path, picked, side)
    if json:
        print_json({"folder": str(folder), "written": written, "annotations": None if path is None else str(path)})
        return
    if written:
        say(f"{folder}: say in principle.toml and prompt.md what the principle asks for")
    else:
        say(f"{folder} is there already and stays as it is")
    if path is None:
        say(f"next: turnwise teach {folder} --draft --store STORE picks turns worth annotating first")
    else:
        say(
            f"{path}: {len(picked)} turns; fill in the column breaks with yes or no, or leave it empty",
            f"next: turnwise teach {folder} --annotations {path} --store {store.location if store else ''}",
        )
