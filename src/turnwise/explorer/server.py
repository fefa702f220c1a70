"""The explorer served on an address, until it is ended."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import Final

from turnwise.errors import UsageError
from turnwise.explorer.access import Access
from turnwise.explorer.data.answers import Answers
from turnwise.explorer.data.record import Record

PASSWORD: Final = "TURNWISE_EXPLORER_PASSWORD"
"""The environment variable that holds the password."""


def access_for(host: str, password: str | None) -> Access:
    """What opens an explorer on an address: its password, or without one a token, on this machine alone."""
    if password is None and not _is_loopback(host):
        raise UsageError(
            f"{host} is reached from other machines: set a password in {PASSWORD}, or leave --host at 127.0.0.1 "
            "and reach it through ssh -L"
        )
    return Access(password)


def explore(record: Record, access: Access, host: str, port: int, told: Callable[[str], None]) -> None:
    """Serve until a signal ends it; port 0 is a free one, and `told` hears the address once it listens."""
    import uvicorn

    from turnwise.explorer.app import create_app

    with contextlib.closing(_listen(host, port)) as opened, Answers(record) as answers:
        app = create_app(answers, access)
        shown = f"[{host}]" if ":" in host else host
        question = f"/?token={access.token}" if access.token else "/"
        told(f"turnwise explores {record.where} on http://{shown}:{opened.getsockname()[1]}{question}")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
        )
        uvicorn.Server(config).run(sockets=[opened])


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise UsageError(f"{host}:{port} can't be listened on: {error}") from error
    return opened
