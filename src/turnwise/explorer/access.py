"""Who may look: whoever has the token of the address, or the password, and nobody through a page of others."""

from __future__ import annotations

import html
import secrets
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.errors import UsageError

SHORTEST_PASSWORD: Final = 12
"""Characters of a password at least."""

_WRONG_PASSWORDS, _PER_SECONDS = 10, 60.0
"""After so many wrong passwords within so many seconds none is taken for a while, from whomever it comes."""

_LONGEST_FORM = 4_096
"""Bytes that the form with the password may have."""

_LOGIN = "/login"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""With every answer: the browser itself refuses to ask another host, or to show this page inside another."""


class Access:
    """What opens the explorer: a password, or else a token in the address, as notebooks have it.

    A browser that was let in keeps a cookie that ends with the server. A password that is too short is refused
    with a message that does not show it.
    """

    def __init__(self, password: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if password is not None and len(password) < SHORTEST_PASSWORD:
            raise UsageError(f"the password of the explorer needs at least {SHORTEST_PASSWORD} characters")
        self.token = secrets.token_urlsafe(24) if password is None else None
        self._password = password
        self._session = secrets.token_urlsafe(24)
        self._cookie = f"turnwise_explorer_{secrets.token_hex(4)}"  # two explorers on one machine are told apart
        self._clock = clock
        self._wrong: list[float] = []

    @property
    def asks_for_password(self) -> bool:
        """Whether a password opens it, and no token."""
        return self._password is not None

    def knows(self, headers: Headers) -> bool:
        """Whether a request comes from a browser that was let in."""
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._cookie)
        return found is not None and _same(found.value, self._session)

    def opens(self, token: str | None) -> bool:
        """Whether a token of an address is the right one."""
        return self.token is not None and token is not None and _same(token, self.token)

    def takes(self, password: str) -> bool | None:
        """Whether a password is the right one; None where too many wrong ones came just now, from whomever."""
        now = self._clock()
        self._wrong = [when for when in self._wrong if now - when < _PER_SECONDS]
        if len(self._wrong) >= _WRONG_PASSWORDS:
            return None
        if self._password is not None and _same(password, self._password):
            return True
        self._wrong.append(now)
        return False

    def let_in(self, response: Response) -> Response:
        """Give the browser that an answer goes to the cookie that lets it in, and return the answer."""
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return response


class AccessGate:
    """ASGI middleware before everything else: who is not let in sees nothing, not even what views there are."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        known = self._access.knows(headers) and _of_own_page(headers)
        if scope["type"] == "websocket":
            if known:
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return

        gone = False

        async def heard() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    sent.setdefault(name, value)
            await send(message)

        if not known or "token" in dict(parse_qsl(scope["query_string"].decode("latin-1"))):
            response = await self._refused(Request(scope, receive))
            await response(scope, receive, told)
            return
        try:
            await self.app(scope, heard, told)
        except RuntimeError:  # so a page ends whose browser went away before it was answered
            if not gone:
                raise

    async def _refused(self, request: Request) -> Response:
        """The answer to a request without a cookie that lets it in, or with a token in its address."""
        if self._access.asks_for_password:
            if request.url.path == _LOGIN and request.method == "POST" and _of_own_page(request.headers):
                return await self._login(request)
            if request.url.path == _LOGIN:
                return _form("")
            return RedirectResponse(f"{_LOGIN}?{urlencode({'next': _target(request)})}", 303)
        if self._access.opens(request.query_params.get("token")):
            return self._access.let_in(RedirectResponse(_target(request), 303))
        if self._access.knows(request.headers):
            return RedirectResponse(_target(request), 303)
        said = "Open the address that turnwise explore printed: its token lets this browser in."
        return _page("Not let in", f"<p>{said}</p>", 401)

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_FORM:
                return _form("This password is too long.", 413)
        try:
            form = dict(parse_qsl(body.decode("ascii"), max_num_fields=4))
        except ValueError:
            form = {}
        taken = self._access.takes(form.get("password", ""))
        if taken:
            target = request.query_params.get("next", "/")
            own = target.startswith("/") and not target.startswith(("//", "/\\"))
            return self._access.let_in(RedirectResponse(target if own else "/", 303))
        if taken is None:
            return _form("Too many wrong passwords: wait a minute.", 429)
        return _form("Wrong password.", 401)


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _of_own_page(headers: Headers) -> bool:
    """Whether a request was not made by a page of another host."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _target(request: Request) -> str:
    """Path and query of a request without its token, always on this host."""
    left = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    path = "/" + request.url.path.lstrip("/\\")
    return f"{path}?{urlencode(left)}" if left else path


def _form(said: str, status: int = 200) -> Response:
    return _page(
        "Password",
        '<form method="post"><label for="password">Password of this explorer</label>'
        '<input id="password" name="password" type="password" autocomplete="current-password" autofocus required>'
        f'<button type="submit">Open</button><p role="alert">{html.escape(said)}</p></form>',
        status,
    )


def _page(title: str, body: str, status: int) -> Response:
    """A small page that stands alone and loads nothing."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} – turnwise</title>'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>",
        status,
    )


_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:20vh auto;max-width:26rem;"
    "padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem;margin:.4rem .4rem .4rem 0}label{display:block}"
)
