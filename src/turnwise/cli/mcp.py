"""``turnwise mcp``: the guard between an MCP client and a server."""

from __future__ import annotations

import os
from string import Template
from typing import Annotated

import typer

from turnwise.cli.guard import ConfigFile, Preset
from turnwise.cli.output import note
from turnwise.errors import UsageError

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
    preset: Preset = None,
    config: ConfigFile = None,
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
