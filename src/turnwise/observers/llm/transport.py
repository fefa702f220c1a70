"""The HTTP transport under the SDK: it bounds a whole exchange, in seconds and in bytes."""

from __future__ import annotations

import threading
import time
import zlib
from importlib import import_module
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

MOST_BYTES = 4 * 2**20
"""Bytes of an answer that are read at most, decompressed; far more than any reply has that can be read."""

HEADERS = {"Accept-Encoding": "gzip"}
"""What a request has to say: the only encoding whose size is bounded while it is undone."""

_CONNECT_S = 10.0
"""Seconds that opening a connection may take at most."""

_IDLE_S = 5.0
"""Seconds that a connection is kept for the next request."""

_WRITTEN = 2**16
"""Bytes that are written at a time, each time within what is left of the whole."""

_KEPT = ("content-type", "retry-after", "retry-after-ms")
"""Headers of an answer that are read; the others may repeat what was sent, and end here."""

_CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}


class BoundedTransport:
    """Sends requests to one server, over the proxy of the environment if there is one; an ``httpx.BaseTransport``.

    The limits of httpx start anew with every piece that arrives. Here each reading and writing gets what is left
    of the whole, and everything received is counted, headers and framing among them: up to twice `most_bytes`. Of
    a body that is too large come `most_bytes` and one more.

    `http` is the library of the SDK's clients, ``httpx`` or a successor; all errors are of its tree.
    """

    def __init__(self, url: str, seconds: float, http: Any, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        core = import_module(_CORES[http.__name__])
        proxy = _proxy_for(url)
        given = http.Proxy(proxy) if proxy else None
        self._http, self._core = http, core
        self._errors = (
            *(core.TimeoutException, core.NetworkError, core.ProtocolError),
            *(core.ProxyError, core.UnsupportedProtocol),
        )
        self._exchange = _Exchange(seconds, http, 2 * most_bytes)
        self._pool = core.ConnectionPool(
            ssl_context=http.create_ssl_context(),
            proxy=given and core.Proxy(str(given.url), auth=given.auth),
            max_connections=None,
            keepalive_expiry=_IDLE_S,
            network_backend=_Backend(core.SyncBackend(), self._exchange),
        )

    def handle_request(self, request: Any) -> Any:
        """Send a request, and read the whole answer."""
        self._exchange.begin()
        try:
            answer = self._pool.handle_request(
                self._core.Request(
                    request.method,
                    str(request.url),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions={"timeout": {"connect": _CONNECT_S}},
                )
            )
            try:
                headers = self._http.Headers(answer.headers)
                content = self._content(answer, headers.get("content-encoding", "identity").strip().lower())
            finally:
                answer.close()
        except self._errors as error:  # both libraries have them under the same names
            raise getattr(self._http, type(error).__name__)(str(error)) from error
        kept = {name: headers[name] for name in _KEPT if name in headers}
        return self._http.Response(answer.status, headers=kept, content=content)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _content(self, answer: Any, encoding: str) -> bytes:
        """The body of an answer, decompressed, up to one byte more than may be."""
        if encoding not in {"identity", "gzip"}:
            raise self._http.DecodingError("the answer is in an encoding that was not asked for")
        raw = bytearray()
        for piece in answer.iter_stream():
            raw += piece
            if len(raw) > self._most_bytes:
                break
        if encoding == "identity":
            return bytes(raw[: self._most_bytes + 1])
        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, self._most_bytes + 1)
        except zlib.error as error:
            raise self._http.DecodingError("the answer is not valid gzip") from error


class _Exchange(threading.local):
    """What is left for the exchange that a thread is in; a connection serves one at a time."""

    def __init__(self, seconds: float, http: Any, most_received: int) -> None:
        self._seconds, self._http, self._most_received = seconds, http, most_received
        self.begin()

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds
        self._bytes_left = self._most_received

    def seconds_left(self, most: float | None) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise self._http.ReadTimeout("the time of the request is up")
        return left if most is None else min(left, most)

    def received(self, data: bytes) -> bytes:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise self._http.DecodingError(
                f"the provider's answer is larger than {self._most_received >> 20} MB with its headers, and no "
                "more of it was read"
            )
        return data


class _Backend:
    """Opens connections, with the methods of ``httpcore.NetworkBackend``."""

    def __init__(self, inner: Any, exchange: _Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        seconds = self._exchange.seconds_left(timeout)
        return _Stream(self._inner.connect_tcp(host, port, seconds, **options), self._exchange)


class _Stream:
    """A connection that waits no longer than there is time left; an ``httpcore.NetworkStream``."""

    def __init__(self, inner: Any, exchange: _Exchange) -> None:
        self._inner, self._exchange = inner, exchange
        self.close, self.get_extra_info = inner.close, inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._exchange.received(self._inner.read(max_bytes, self._exchange.seconds_left(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _WRITTEN):
            self._inner.write(buffer[at : at + _WRITTEN], self._exchange.seconds_left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        seconds = self._exchange.seconds_left(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, seconds), self._exchange)


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL; None where there is none, or ``NO_PROXY`` goes around it."""
    parts = urlsplit(url)
    known, host = getproxies(), parts.hostname or ""
    proxy = known.get(parts.scheme) or known.get("all")
    if not proxy or proxy_bypass(host) or proxy_bypass(parts.netloc):
        return None
    if any(_is_within(host, entry.strip()) for entry in known.get("no", "").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_within(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
