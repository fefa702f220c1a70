"""The HTTP client under the SDK: it bounds a whole exchange, in seconds and in bytes."""

from __future__ import annotations

import threading
import time
import zlib
from typing import Any

MOST_BYTES = 4 * 2**20
"""Bytes of an answer that are read at most, decompressed; far more than any reply has that can be read."""

HEADERS = {"Accept-Encoding": "gzip"}
"""What a request has to say: the only encoding whose size is bounded while it is undone."""

_CONNECT_S = 10.0
"""Seconds that opening a connection may take at most."""

_KEPT = ("content-type", "retry-after", "retry-after-ms")
"""Headers of an answer that are read; the others may repeat what was sent, and end here."""


def bounded_client(seconds: float, base: Any, http: Any) -> Any:
    """An HTTP client whose every exchange ends in time, with an answer of bounded size.

    The library's own limit starts anew with every piece that arrives, so here each reading and writing gets what
    is left of the whole. Of an answer that is too large come `MOST_BYTES` and one more. `base` is the class of
    clients that the SDK brings, which knows the proxies of the environment; `http` its library, ``httpx`` or a
    successor.
    """
    clock = _Clock(seconds, http)

    def watch(event: str, info: Any) -> None:
        if event.endswith("connect_tcp.complete"):
            clock.bind(info["return_value"])

    class Client(base):  # type: ignore[misc]  # the library is found when it runs
        def send(self, request: Any, **options: Any) -> Any:
            clock.start()
            request.extensions["trace"] = watch
            answer = super().send(request, **{**options, "stream": True})
            try:
                content = _content(answer, http)
            finally:
                answer.close()
            headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            return http.Response(answer.status_code, headers=headers, content=content, request=request)

    limits = http.Timeout(seconds, connect=min(seconds, _CONNECT_S))
    return Client(timeout=limits, follow_redirects=False)  # a key goes where it was sent, and nowhere else


class _Clock:
    """What is left of the time of the exchange that a thread is in; a connection serves one at a time."""

    def __init__(self, seconds: float, http: Any) -> None:
        self._seconds, self._http = seconds, http
        self._of_thread = threading.local()

    def start(self) -> None:
        self._of_thread.until = time.monotonic() + self._seconds

    def left(self, most: float | None) -> float:
        left: float = self._of_thread.until - time.monotonic()
        if left <= 0:
            raise self._http.ReadTimeout("the time of the request is up")
        return left if most is None else min(left, most)

    def bind(self, stream: Any) -> Any:
        """Have a connection wait no longer than there is time left."""
        inner_read, inner_write, inner_start_tls = stream.read, stream.write, stream.start_tls

        def read(max_bytes: int, timeout: float | None = None) -> Any:
            return inner_read(max_bytes, self.left(timeout))

        def write(buffer: bytes, timeout: float | None = None) -> None:
            inner_write(buffer, self.left(timeout))

        def start_tls(ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
            return self.bind(inner_start_tls(ssl_context, server_hostname, self.left(timeout)))

        stream.read, stream.write, stream.start_tls = read, write, start_tls
        return stream


def _content(answer: Any, http: Any) -> bytes:
    """The body of an answer, decompressed, up to one byte more than may be."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise http.DecodingError("the answer is in an encoding that was not asked for")
    raw = bytearray()
    for piece in answer.iter_raw():
        raw += piece
        if len(raw) > MOST_BYTES:
            break
    if encoding == "identity":
        return bytes(raw[: MOST_BYTES + 1])
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, MOST_BYTES + 1)
    except zlib.error as error:
        raise http.DecodingError("the answer is not valid gzip") from error
