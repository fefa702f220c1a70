"""The explorer: an application, served on an address until it is ended. There is one in a process, since NiceGUI
keeps its pages in the module."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable
from importlib.resources import files
from threading import Thread
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from turnwise._support.visible import visible
from turnwise.errors import TurnwiseError, UsageError
from turnwise.explorer.access import Access, AccessGate
from turnwise.explorer.data.answers import Answers
from turnwise.explorer.data.record import ViewedStore
from turnwise.explorer.pages import THEME, VIEWS, Page, View, header, offer_exports
from turnwise.explorer.parts import failed, heading, text
from turnwise.runs.inbox import inbox

if TYPE_CHECKING:
    from fastapi import Request
    from nicegui import Client
    from nicegui.element import Element

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


def explore(record: ViewedStore, access: Access, host: str, port: int, told: Callable[[str], None]) -> None:
    """Serve until a signal ends it; port 0 is a free one, and `told` hears the address once it listens."""
    import uvicorn

    with contextlib.closing(_listen(host, port)) as opened, Answers(record) as answers:
        app = create_app(answers, access)
        shown = f"[{host}]" if ":" in host else host
        question = f"/?token={access.token}" if access.token else "/"
        told(f"turnwise explores {record.where} on http://{shown}:{opened.getsockname()[1]}{question}")
        Thread(target=_warm_up, args=(record,), daemon=True).start()
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
        )
        uvicorn.Server(config).run(sockets=[opened])


def _warm_up(record: ViewedStore) -> None:
    """Load what the first page needs, and read what it shows once, while the browser comes."""
    try:
        VIEWS[0].builder()
        inbox(record.store, limit=1, seconds=0.0)
    except Exception:  # noqa: BLE001 - the page itself will say it
        _log.debug("the first page could not be prepared", exc_info=True)


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


_CONNECT_SECONDS = 30.0
"""How long a browser may take to connect after it got the page."""

_STATIC = "/static"

_log = logging.getLogger("turnwise.explorer")


def create_app(answers: Answers, access: Access) -> ASGIApp:
    """Build the application that shows `answers` to whom `access` lets in."""
    from fastapi import FastAPI
    from nicegui import app as pages
    from nicegui import ui

    folder = files("turnwise.explorer") / "static"
    pages.add_static_files(_STATIC, str(folder), max_cache_age=0)
    for view in VIEWS:
        ui.page(view.path, title=f"{view.title} – turnwise", dark=None, language="en-US")(_shown(view, answers))
    pages.exception_handler(404)(_missing(answers))
    outer = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(
        outer,
        title="turnwise",
        favicon=str(folder / "icon.svg"),
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )
    pages.config.quasar_config["loadingBar"]["skipHijack"] = True  # a bar without a name, which nobody needs
    return AccessGate(outer, access)


def _shown(view: View, answers: Answers):  # type: ignore[no-untyped-def]  # NiceGUI reads the signature of what it returns
    async def shown(request: Request, client: Client) -> None:
        page = Page(view, answers, client, dict(request.query_params))
        content = _frame(page, request)
        with content:
            waiting = text("p", "Reading the record …").classes("waiting").props("role=status")
        await client.connected(timeout=_CONNECT_SECONDS)
        try:
            page.width = await client.run_javascript("innerWidth", timeout=_CONNECT_SECONDS)
        except TimeoutError:
            return
        if client.is_deleted:
            return
        try:
            with content:
                build = await asyncio.to_thread(view.builder)
                await build(page)
        except TurnwiseError as error:
            with content:
                failed(str(error))
        except asyncio.CancelledError:
            if client.is_deleted:
                return
            raise
        except Exception:  # noqa: BLE001 - the page says so, whatever it was
            _log.exception("the view %s failed", view.title)
            with content:
                failed("This view failed: the terminal in which turnwise explore runs says where.")
        if client.is_deleted:
            return
        waiting.delete()
        with content:
            offer_exports(page)

    shown.__annotations__ = _annotations()
    return shown


def _frame(page: Page, request: Request) -> Element:
    """Lay out what is around a view, and return the element that it goes into."""
    from nicegui import ui

    ui.add_head_html(
        f'<link rel="stylesheet" href="{_STATIC}/explorer.css">'
        f'<link rel="stylesheet" href="{_STATIC}/work.css">'
        f'<script src="{_STATIC}/explorer.js"></script>'
    )
    if page.get("print"):
        ui.dark_mode(False)
    else:
        header(page, request.cookies.get(THEME))
    return ui.element("div").props('id=content tabindex="-1"').classes("content")


def _missing(answers: Answers):  # type: ignore[no-untyped-def]  # NiceGUI reads the signature of what it returns
    async def missing(request: Request, error: Exception) -> Response:
        from nicegui import Client, ui

        if "." in request.url.path.rpartition("/")[2]:  # a file, which nobody reads
            return PlainTextResponse("not found", 404)
        view = View(request.url.path, "Not found", "", listed=False)
        with (
            Client(ui.page("", title="Not found – turnwise", language="en-US"), request=request) as client,
            _frame(Page(view, answers, client, {}), request),
        ):
            heading("There is no such page", 1)
            text("p", f"{visible(request.url.path[:200])} is none of these:").classes("long-name")
            with ui.element("ul"):
                for one in VIEWS:
                    if one.listed:
                        with ui.element("li"):
                            ui.link(one.title, one.path)
        return client.build_response(request, 404)

    return missing


def _annotations() -> dict[str, object]:
    """The types of a page's arguments as objects: the names of NiceGUI are imported late here."""
    from fastapi import Request
    from nicegui import Client

    return {"request": Request, "client": Client, "return": None}
