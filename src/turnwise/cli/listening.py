"""What commands share that receive OTLP: an address, and when a conversation has finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.output import note
from turnwise.errors import UsageError

if TYPE_CHECKING:
    import threading

    from turnwise.operations import Spool

Listen = Annotated[
    str | None,
    typer.Option(
        help="Receive OpenTelemetry traces (OTLP over HTTP) at this address and port, such as 127.0.0.1:4318, "
        "until interrupted.",
        show_default=False,
    ),
]

Quiet = Annotated[
    float,
    typer.Option(
        min=0.0, help="With --listen: seconds without a new span after which a conversation has finished."
    ),
]

QUIET = 300.0


def refuse_files(given: Sequence[str]) -> None:
    """Refuse options that need files, or an end."""
    if given:
        raise UsageError(
            f"--listen reads no files, and goes on until it is interrupted: leave out {', '.join(given)}"
        )


def receive_at(listen: str, place: str, work: Callable[[Spool, threading.Event], None]) -> None:
    """Receive until a signal comes, while `work` takes on what has finished; `place` is where that goes."""
    from turnwise.operations import receive

    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen is {listen!r}; use an address and a port, such as 127.0.0.1:4318")
    if "://" in place:
        raise UsageError(f"--listen keeps what it receives beside {place}: use a local path")
    try:
        receive(
            f"{place.rstrip('/')}-otlp", host.strip("[]"), int(port), work,
            lambda address: note(f"receiving OTLP on {address}/v1/traces into {place}"),
        )  # fmt: skip
    except ImportError as error:
        raise UsageError(f"--listen needs {error.name}: pip install 'turnwise[otlp,serve]'") from None
