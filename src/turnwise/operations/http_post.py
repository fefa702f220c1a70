"""A POST that ends within its time whatever the other side does; redirects are not followed, no proxy is used."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from turnwise._version import __version__
from turnwise.errors import TurnwiseError

_ANSWER: Final = 65_536
"""Bytes of an answer that are read."""


class DeliveryError(TurnwiseError):
    """An alert or score could not be delivered; the message says why."""


def is_address(url: str) -> bool:
    """Whether a URL is one that can be posted to: http or https, with a host and no name or password."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username


def post(name: str, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
    """Post JSON and return status and body of the answer.

    Raises:
        DeliveryError: there was none within so many seconds; `name` says where.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    # A receiver that sends a byte now and then never runs into the time-out of the socket.
    end = threading.Timer(timeout, _cut, (connection,))
    end.daemon = True
    end.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        about = {"Content-Type": "application/json", "User-Agent": f"turnwise/{__version__}", **headers}
        connection.request("POST", path, body, about)
        answer = connection.getresponse()
        return answer.status, answer.read(_ANSWER)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DeliveryError(f"{name} does not answer: {type(error).__name__}") from error
    finally:
        end.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
