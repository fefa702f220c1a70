"""The client over the ``openai`` SDK: one request, one reply, every error in our words."""

from __future__ import annotations

import json
import math
import threading
import time
import weakref
import zlib
from collections.abc import Callable
from importlib import import_module
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from turnwise._support.secret import Secret
from turnwise.clock import Clock, utc_now
from turnwise.errors import ObserverError
from turnwise.observers.llm.chat import ChatReply, ChatRequest
from turnwise.observers.llm.endpoint import Endpoint
from turnwise.observers.llm.faults import ChatError, FaultKind, retry_after, short, status_fault

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

_NO_KEY = "none"
"""What the SDK is given where a server needs no key; it insists on one."""

_MOST_TOKENS = 100_000_000
"""Tokens beyond which a count is nonsense: ten times the longest context that any model has."""

_LOGPROB_TOKENS, _LOGPROB_ALTERNATIVES = 16, 20
"""Tokens of a reply, and alternatives to each, whose log-probabilities are kept: a verdict stands at the start."""

_DIGITS = 18
"""Digits of a whole number that is taken as one."""


class OpenAIClient:
    """Sends requests to an API of the chat-completions form, and takes answers before the SDK reads them."""

    def __init__(
        self, endpoint: Endpoint, key: Secret, clock: Clock = utc_now, most_bytes: int = MOST_BYTES
    ) -> None:
        try:
            openai = import_module("openai")
        except ImportError as error:
            raise ObserverError(
                'observers of the kind llm need the openai package: pip install "turnwise[llm]"'
            ) from error
        # The SDK brings its HTTP library along, under one name or another.
        base = next(kind for kind in openai.DefaultHttpxClient.__mro__ if kind.__name__ == "Client")
        http = import_module(base.__module__.partition(".")[0])
        self._openai, self._http = openai, http
        self._endpoint, self._key, self._clock = endpoint, key, clock
        transport = BoundedTransport(endpoint.base_url, endpoint.settings.timeout, http, most_bytes)
        self._client = openai.OpenAI(
            api_key=key.reveal() or _NO_KEY,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=endpoint.settings.timeout,
            # A key goes where it was sent, and nowhere else.
            http_client=http.Client(transport=transport, follow_redirects=False),
            default_headers=HEADERS,
        )
        # Nobody has to close an observer; its connections end with it.
        weakref.finalize(self, self._client.close)
        if endpoint.provider.name != "openai" or endpoint.settings.base_url:
            # The SDK takes these from the environment; they are nobody else's business.
            self._client.organization = self._client.project = None

    def __repr__(self) -> str:
        return f"OpenAIClient({self._endpoint.spec}, {self._endpoint.base_url})"

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a request and wait for its reply; the message of a `ChatError` holds no key."""
        body = request.body()
        response = self.call(lambda sdk: sdk.post("/chat/completions", body=body, cast_to=self._http.Response))
        answer = self.read(response.content, int(response.status_code))
        if isinstance(answer, ChatError):
            raise answer
        return answer

    def call(self, do: Callable[[Any], Any]) -> Any:
        """What a call of the SDK gives; the message of a `ChatError` holds no key."""
        given = self._given(do)
        if isinstance(given, ChatError):
            raise given  # out here, so that it drags along no request with its headers
        return given

    def _given(self, do: Callable[[Any], Any]) -> Any:
        openai = self._openai
        try:
            return do(self._client)
        except openai.APIStatusError as error:
            headers = error.response.headers
            asked = retry_after(headers.get("retry-after"), headers.get("retry-after-ms"), self._clock())
            return self._status_fault(error.status_code, _json(error.response.content), asked)
        except openai.APITimeoutError:
            limit = self._endpoint.settings.timeout
            return ChatError(FaultKind.TIMEOUT, f"no reply within {limit:g} seconds")
        except openai.APIConnectionError as error:
            return self._connection_fault(error.__cause__)
        except (openai.OpenAIError, self._http.HTTPError) as error:
            return ChatError(FaultKind.CONNECTION, short(self._key.hide(f"{type(error).__name__}: {error}")))

    def read(self, content: bytes, status: int) -> ChatReply | ChatError:
        """The reply in the body of an answer, or why it has none."""
        if len(content) > MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MB"
            return ChatError(
                FaultKind.TRUNCATED, f"the provider's answer is larger than {most}, and no more of it was read"
            )
        answer = _json(content)
        if not isinstance(answer, dict):
            if b"<html" in content[:500].lower():
                return self._status_fault(302, "it answers with an HTML page", None)
            return ChatError(FaultKind.TRUNCATED, "the provider's answer is not complete JSON")
        if answer.get("error"):  # some gateways report the error of a provider behind them as a success
            code = answer["error"].get("code") if isinstance(answer["error"], dict) else None
            return self._status_fault(code if isinstance(code, int) and code >= 400 else 502, answer, None)
        reply = _chat_reply(answer, self._key.hide)
        if reply is None:
            return ChatError(FaultKind.TRUNCATED, f"the provider's answer ({status}) has no choice with a message")
        return reply

    def _status_fault(self, status: int, body: object, asked: float | None) -> ChatError:
        endpoint = self._endpoint
        return status_fault(
            status,
            body,
            asked,
            spec=endpoint.spec,
            base_url=endpoint.base_url,
            key_variable=endpoint.provider.key_variable,
            hide=self._key.hide,
        )

    def _connection_fault(self, cause: BaseException | None) -> ChatError:
        why = short(self._key.hide(str(cause or "no reason given")))
        if isinstance(cause, self._http.ConnectError):
            return ChatError(FaultKind.UNREACHABLE, f"nothing answers at {self._endpoint.base_url} ({why})")
        if isinstance(cause, self._http.DecodingError):
            return ChatError(FaultKind.TRUNCATED, why)
        if isinstance(cause, self._http.RemoteProtocolError) and ("body" in why or "incomplete" in why):
            return ChatError(FaultKind.TRUNCATED, f"the answer broke off ({why})")
        return ChatError(FaultKind.CONNECTION, f"the connection broke ({why})")


def _json(content: bytes) -> object:
    """A body as JSON values, or as text where it is no JSON."""
    try:
        value: object = json.loads(content, parse_int=_whole)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")
    return value


def _whole(digits: str) -> int | float:
    """A whole number; one of absurd length as a float, so that it spoils nothing beside it."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _chat_reply(answer: dict[str, Any], hide: Callable[[str], str]) -> ChatReply | None:
    """The reply in an answer, or None where it has none; a key that a server sends back is hidden."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict) or choice.get("finish_reason") == "error":
        return None
    content = message.get("content")
    if isinstance(content, list):  # some providers answer in parts
        content = "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    usage = answer.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    finish, refusal = choice.get("finish_reason"), message.get("refusal")
    return ChatReply(
        text=hide(_text(content)),
        model=hide(_text(answer.get("model"))),
        finish_reason=hide(finish) if isinstance(finish, str) else None,
        refusal=hide(refusal) if isinstance(refusal, str) and refusal else None,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        logprobs=_logprobs(choice.get("logprobs"), hide),
    )


def _logprobs(given: object, hide: Callable[[str], str]) -> str | None:
    """The first tokens with their likeliest alternatives, as JSON; None where the server gives none."""
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list):
        return None
    tokens = []
    for one in content[:_LOGPROB_TOKENS]:
        if not isinstance(one, dict) or not isinstance(one.get("token"), str):
            return None  # without one of them nobody could tell where the others stand
        others = one.get("top_logprobs")
        known = [one, *(others[:_LOGPROB_ALTERNATIVES] if isinstance(others, list) else [])]
        tokens.append((one["token"], dict(filter(None, map(_logprob, known)))))
    return hide(json.dumps(tokens)) if tokens else None


def _logprob(given: object) -> tuple[str, float] | None:
    token, logprob = (given.get("token"), given.get("logprob")) if isinstance(given, dict) else (None, None)
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    return (token, float(min(logprob, 0))) if math.isfinite(logprob) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    """A number of tokens, or None where it can't be one."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return value if number and 0 <= value <= _MOST_TOKENS else None  # type: ignore[operator, return-value]  # a number


class BoundedTransport:
    """Sends requests to one server, over the proxy of the environment if there is one; an ``httpx.BaseTransport``.

    The limits of httpx start anew with every piece that arrives. Here each reading and writing gets what is left
    of the whole, and everything received is counted, up to twice `most_bytes`. Of a body that is too large come
    `most_bytes` and one more. `http` is the library of the SDK's clients, whose errors it raises.
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
            network_backend=_DeadlineBackend(core.SyncBackend(), self._exchange),
        )

    def handle_request(self, request: Any) -> Any:
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


class _DeadlineBackend:
    """Opens connections, with the methods of ``httpcore.NetworkBackend``."""

    def __init__(self, inner: Any, exchange: _Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _DeadlineStream:
        seconds = self._exchange.seconds_left(timeout)
        return _DeadlineStream(self._inner.connect_tcp(host, port, seconds, **options), self._exchange)


class _DeadlineStream:
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
    ) -> _DeadlineStream:
        seconds = self._exchange.seconds_left(timeout)
        return _DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, seconds), self._exchange)


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
