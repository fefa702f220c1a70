"""``turnwise serve``, ``mcp``, ``hook``, ``explore``: the guard between programs, and the record in a browser."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.files import opened_store
from turnwise.cli.output import note
from turnwise.errors import TurnwiseError, UsageError

if TYPE_CHECKING:
    from turnwise.store import Store


def serve(
    preset: options.Preset = None,
    config: options.ConfigFile = None,
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
        bool, typer.Option("--explain", help="Show reasons and scores to every caller, not only to operators.")
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


DESCRIPTIONS = ("leave-out", "withhold")


def mcp(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND ARGS...]", help="The server, where it is started here.", show_default=False
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="The server, where it is reached over streamable HTTP.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="Sent to --url; ${VARIABLE} is read from the environment."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="127.0.0.1:PORT", help="Serve --url at this address, not over stdio.")
    ] = None,
    preset: options.Preset = None,
    config: options.ConfigFile = None,
    descriptions: Annotated[
        str,
        typer.Option(
            metavar="|".join(DESCRIPTIONS),
            help="Whether a tool with a blocked description is left out, or stays without its description.",
        ),
    ] = "leave-out",
    on_error: Annotated[
        str, typer.Option(metavar="block|allow", help="What to do with a message that can't be checked.")
    ] = "block",
    audit: Annotated[str | None, typer.Option(metavar="FILE", help="Write every check to this file.")] = None,
) -> None:
    """Check everything that passes between an MCP client and a server, by default with the preset mcp.

    In the client's settings put turnwise mcp -- before the server's command. --url needs the extra turnwise[mcp].
    """
    from turnwise.cli.guard import read_config
    from turnwise.guard import GuardrailPipeline
    from turnwise.integrations.mcp import McpScreen
    from turnwise.integrations.mcp.stdio import serve_command

    if bool(command) == (url is not None):
        raise UsageError("name one server: -- COMMAND ARGS..., or --url")
    if url is None and (listen is not None or header):
        raise UsageError("--listen and --header need --url")
    if descriptions not in DESCRIPTIONS or on_error not in ("block", "allow"):
        raise UsageError("--descriptions must be leave-out or withhold, --on-error must be block or allow")
    default = None if config is not None else preset or "mcp"
    with GuardrailPipeline(read_config(default, config), audit=audit) as pipeline:

        def screen() -> McpScreen:
            return McpScreen(
                pipeline,
                descriptions="withhold" if descriptions == "withhold" else "leave_out",
                on_error="allow" if on_error == "allow" else "block",
                elicits=listen is None,
            )

        if command:
            status = serve_command(command, screen())
            raise typer.Exit(status if 0 <= status < 256 else 1)
        try:
            from turnwise.integrations.mcp.http import local_app, serve_url
        except ImportError as error:
            raise UsageError(f"turnwise mcp --url needs {error.name}: pip install 'turnwise[mcp]'") from None
        headers = dict(map(_header, header or ()))
        assert url is not None
        if listen is None:
            serve_url(url, headers, screen())
            return
        import uvicorn

        host, _, port = listen.rpartition(":")
        if host not in ("127.0.0.1", "localhost", "[::1]") or not port.isdigit():
            raise UsageError(f"--listen is {listen}; use an address of this machine, such as 127.0.0.1:8100")
        note(f"the guarded server is at http://{listen}/mcp")
        uvicorn.run(local_app(url, headers, screen), host=host.strip("[]"), port=int(port), log_level="warning")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header {text!r} must have the form 'NAME: VALUE'")
    try:
        return name.strip().lower(), Template(value.strip()).substitute(os.environ)
    except (KeyError, ValueError) as error:
        raise UsageError(f"--header {name}: set the environment variable {error}, or write $$ for a $") from None


def hook(
    preset: options.Preset = None,
    config: options.ConfigFile = None,
    on_error: Annotated[
        str, typer.Option(metavar="ask|allow|deny", help="The answer where an event can't be checked.")
    ] = "ask",
    agent: Annotated[
        str, typer.Option(metavar="auto|claude|codex", help="Whose hook it is; auto tells by the event.")
    ] = "auto",
) -> None:
    """Answer a hook event of Claude Code or Codex on standard input, by default with the preset agent.

    A helper stays in the background after the first event, and ends when none came for half an hour.
    """
    from turnwise.integrations.hook_client import AGENTS, ON_ERROR, HookSettings, run

    if preset is not None and config is not None:
        raise UsageError("--preset and --config name a configuration each: give one of them")
    if on_error not in ON_ERROR or agent not in AGENTS:
        raise UsageError(f"--on-error must be one of {', '.join(ON_ERROR)}; --agent one of {', '.join(AGENTS)}")
    raise typer.Exit(run(HookSettings(preset, config, on_error, agent)))


_PATIENCE_SECONDS = 20.0
"""How long the end of the command waits for a score of the demo that is under way."""


def explore(
    store: options.Store = options.DEFAULT_STORE,
    demo: Annotated[
        bool, typer.Option("--demo", help="Open the shipped conversations, scored by two observers.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine's own, it needs a password.")
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
    from turnwise._support.locations import to_path
    from turnwise.explorer import PASSWORD, SERVICE_KEY, NamedInputs, ViewedStore, access_for
    from turnwise.explorer import explore as run

    access = access_for(host, os.environ.get(PASSWORD))

    def told(line: str) -> None:
        note(line)
        if open_:
            typer.launch(line.rpartition(" on ")[2])

    with ExitStack() as stack:
        opened = _demo(stack) if demo else stack.enter_context(opened_store(store))
        named = NamedInputs(opened, study or (), audit or (), service, os.environ.get(SERVICE_KEY, ""))
        stack.callback(named.close)
        file = None if patterns is None else to_path(patterns)
        run(ViewedStore(opened, "demo" if demo else None, file, named), access, host, port, told)


def _demo(stack: ExitStack) -> Store:
    """A store of the examples, for as long as the command; the embedded observer goes on while one looks."""
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
