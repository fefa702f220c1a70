"""``turnwise serve``: the guard as an HTTP service."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.guard import ConfigFile, Preset
from turnwise.cli.output import note
from turnwise.errors import UsageError


def serve(
    preset: Preset = None,
    config: ConfigFile = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 for a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that serve.")] = 1,
    state: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where state is kept: a file or redis://HOST; else as configured."),
    ] = None,
    observer: options.ObserverName = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="API keys, one a line, or tenants in YAML; TURNWISE_API_KEYS may hold more."
        ),
    ] = None,
    rate: Annotated[
        int, typer.Option(min=0, help="Requests a minute of a key in a worker; 0 for no limit.")
    ] = 60_000,
    max_body: Annotated[int, typer.Option(min=1_024, help="Bytes that a request may have.")] = 4 << 20,
    conversations: Annotated[int, typer.Option(min=1, help="Conversations that a worker holds.")] = 10_000,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests that a worker has under way.")] = 256,
    threads: Annotated[
        int,
        typer.Option(min=1, max=1_024, help="Threads of a worker for short texts; more where guardrails wait."),
    ] = 4,
    queue_seconds: Annotated[
        float, typer.Option(min=0.1, max=3_600, help="Time that a text may be expected to wait for its check.")
    ] = 5.0,
    check_seconds: Annotated[
        float, typer.Option(min=0.1, max=3_600, help="Time that a check may take, waiting included.")
    ] = 30.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections of a worker.")] = 4_096,
    header_seconds: Annotated[float, typer.Option(min=0.1, help="Time that headers may take to arrive.")] = 10.0,
    body_seconds: Annotated[
        float, typer.Option(min=0.1, max=3_600, help="Time that a body may take to arrive.")
    ] = 30.0,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show reasons and scores to every caller, not only to operators."),
    ] = False,
    body_bytes: Annotated[int, typer.Option(min=1_024, help="Bytes of the bodies that a worker has at once.")] = 64
    << 20,
    grace_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time that requests under way have when the service ends.")
    ] = 30.0,
) -> None:
    """Serve a pipeline over HTTP, by default the preset basic; needs the extra turnwise[serve].

    API keys are needed unless only this machine can reach it. SIGHUP reads the configuration anew, SIGTERM ends
    the service once what is under way has ended.
    """
    import logging

    try:
        import fastapi  # noqa: F401 - to say early what is missing
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(f"turnwise serve needs {error.name}: pip install 'turnwise[serve]'") from None
    from turnwise.serve.server import LOG_FORMAT, Listening
    from turnwise.serve.server import serve as run
    from turnwise.serve.settings import ConfigSource, ServeSettings

    logging.basicConfig(format=LOG_FORMAT, level=logging.WARNING)
    source = ConfigSource(preset, config, state, observer, keys)
    settings = ServeSettings(
        keys=source.read_keys(),
        max_body=max_body,
        conversations=conversations,
        rate=rate or None,
        in_flight=in_flight,
        threads=threads,
        queue_seconds=queue_seconds,
        check_seconds=check_seconds,
        body_seconds=body_seconds,
        body_bytes=body_bytes,
        explain=explain,
    )
    listening = Listening(host, port, workers, connections, header_seconds, grace_seconds)
    run(source, settings, listening, note)
