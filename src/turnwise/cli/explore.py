"""``turnwise explore``: look at trajectories in a browser."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note
from turnwise.cli.stores import opened_store
from turnwise.errors import TurnwiseError, UsageError

if TYPE_CHECKING:
    from turnwise.store import Store


_PATIENCE_SECONDS = 20.0
"""How long the end of the command waits for a score of the demo that is under way."""


def explore(
    store: options.Store = options.DEFAULT_STORE,
    demo: Annotated[
        bool, typer.Option("--demo", help="Open the shipped conversations, scored by two observers.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; other than this machine's own, it needs a password."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 for a free one.")] = 8_010,
    study: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a study, beside those next to the store; may be given several times."),
    ] = None,
    audit: Annotated[
        list[Path] | None, typer.Option(help="Audit file of a guard to watch; may be given several times.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(help="Address of a turnwise serve to watch; its API key is read from TURNWISE_SERVICE_KEY."),
    ] = None,
    patterns: options.PatternsFile = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser of this machine.")] = False,
) -> None:
    """Open conversations, scores and patterns in a browser; needs the extra turnwise[explorer].

    Whoever has the printed address can open it: it holds a token. With another --host the password in
    TURNWISE_EXPLORER_PASSWORD is asked for. Nothing is changed in the store but what people add to it.
    """
    import os

    try:
        import nicegui  # noqa: F401 - to say early what is missing
    except ImportError as error:
        raise UsageError(f"turnwise explore needs {error.name}: pip install 'turnwise[explorer]'") from None
    from turnwise._support.paths import to_path
    from turnwise.explorer.data import SERVICE_KEY, Named, Record
    from turnwise.explorer.server import PASSWORD, access_for
    from turnwise.explorer.server import explore as run

    access = access_for(host, os.environ.get(PASSWORD))

    def told(line: str) -> None:
        note(line)
        if open_:
            typer.launch(line.rpartition(" on ")[2])

    with ExitStack() as stack:
        opened = _demo(stack) if demo else stack.enter_context(opened_store(store))
        named = Named(opened, study or (), audit or (), service, os.environ.get(SERVICE_KEY, ""))
        stack.callback(named.close)
        file = None if patterns is None else to_path(patterns)
        run(Record(opened, "demo" if demo else None, file, named), access, host, port, told)


def _demo(stack: ExitStack) -> Store:
    """A store of the examples, in a folder that ends with the command.

    The scores of the recorded reader are there at once; the embedded observer goes on while one looks.
    """
    import tempfile
    import threading

    from turnwise.cli.demo_run import LOCAL, READER, demo_observer, run_demo
    from turnwise.store import Store

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="turnwise-"))
    store = Store(Path(folder, "demo.db"), create=True)
    ended = threading.Event()

    def go_on() -> None:
        try:
            run_demo(store, {LOCAL: demo_observer(LOCAL)})
        except TurnwiseError as error:
            if not ended.is_set():
                note(f"the embedded observer's scores are not all there: {error}")

    going_on = threading.Thread(target=go_on, name="turnwise demo", daemon=True)

    def end() -> None:
        ended.set()
        store.close()
        if going_on.is_alive():
            going_on.join(_PATIENCE_SECONDS)

    stack.callback(end)
    run_demo(store, {READER: demo_observer(READER)})
    going_on.start()
    return store
