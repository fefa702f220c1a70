"""The pages of the explorer: which views there are, what a view is given, and what stands around it."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from urllib.parse import urlencode

from nicegui import ui

from turnwise._support.table_files import cell
from turnwise._support.visible import visible
from turnwise.explorer import TERMS
from turnwise.explorer.data.answers import Answers
from turnwise.explorer.parts import heading, text

if TYPE_CHECKING:
    from nicegui import Client


Result = TypeVar("Result")
Given = ParamSpec("Given")

Build = Callable[["Page"], Awaitable[None]]
"""Builds a view, once the browser is connected."""

KEPT = ("run",)
"""What of the state goes along to another view."""


@dataclass(frozen=True, slots=True)
class View:
    """A view: the module of `turnwise.explorer.views` that builds it, and its own keys, for the help."""

    path: str
    title: str
    module: str
    listed: bool = True
    keys: Mapping[str, str] = field(default_factory=dict)

    def builder(self) -> Build:
        """What builds it; its module is imported when it is first opened."""
        build: Build = import_module(f"turnwise.explorer.views.{self.module}").build
        return build


VIEWS: Final = (
    View(
        "/",
        "Inbox",
        "inbox",
        keys={
            "j, k": "next, previous conversation",
            "c, x, u, r": "confirm, dismiss, unsure, read; then the next",
            "a, n": "assign it, write a note",
            "z": "undo",
            "s": "choose it for an action on several",
            "Enter": "open the conversation",
        },
    ),
    View("/overview", "Overview", "overview"),
    View("/sequences", "Sequences", "sequences"),
    View("/runs", "Runs compared", "runs_compared"),
    View("/sequence", "Sequence", "sequence", listed=False, keys={"j, k": "next, previous turn"}),
    View("/query", "Query", "query", keys={"Tab": "take the completion that is offered"}),
    View("/compare", "Compare", "compare"),
    View("/study", "Study", "study"),
    View(
        "/label",
        "Label",
        "label",
        keys={
            "1, 2, 3": "attack, benign, can't tell; then the next",
            "t": "it turned at the chosen turn",
            "s, z": "skip, take the last answer back",
        },
    ),
    View("/guard", "Guard", "guard"),
)
"""The views in the order of the navigation."""


def address(path: str, state: Mapping[str, str]) -> str:
    """The address of a view in a state; what is empty is left out.

    >>> address("/sequences", {"run": "a b", "label": ""})
    '/sequences?run=a+b'
    """
    given = {name: value for name, value in state.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


class Page:
    """A view that is open in a browser; `state` is what the address says beside the path, by name."""

    def __init__(self, view: View, answers: Answers, client: Client, state: Mapping[str, str]) -> None:
        self.view, self.answers, self.record, self._client = view, answers, answers.record, client
        self.state = dict(state)
        self.csv: Callable[[], tuple[str, list[list[Any]]]] | None = None
        """Where the view has a table: the name of a file and the rows on the screen, headings first."""
        self.width = 1280  # pixels of the browser, when the view is built

    def get(self, name: str, default: str = "") -> str:
        """What the address says, or a default where it says nothing."""
        return self.state.get(name) or default

    def link(self, path: str | None = None, **changes: object) -> str:
        """The address of this view, or of another with the run kept, with changes; None takes a value away."""
        state = {name: value for name, value in self.state.items() if path is None or name in KEPT}
        changed = {name: "" if value is None else str(value) for name, value in changes.items()}
        return address(path or self.view.path, {**state, **changed})

    def remember(self, **changes: object) -> None:
        """Change the state, and the address in the browser with it; None takes a value away."""
        for name, value in changes.items():
            if value is None or value == "":
                self.state.pop(name, None)
            else:
                self.state[name] = str(value)
        ui.navigate.history.replace(self.link())

    def run_name(self) -> str | None:
        """The run that the address names, or the latest; None where there is none."""
        return self.get("run") or self.record.latest_run()

    async def run_names(self) -> list[str]:
        """The names of all runs, oldest first."""
        return [run.name for run in await self.ask(self.record.store.runs)]

    @property
    def panels(self) -> int:
        """Panels of a chart that fit beside one another."""
        return max(1, min(3, self.width // 350))

    async def ask(self, job: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """What a job of the data layer gives, from a thread; CancelledError where the page was left meanwhile."""
        given = await asyncio.to_thread(job, *args, **kwargs)
        if self._client.is_deleted:
            raise asyncio.CancelledError(f"{self.view.title} was left")
        return given


THEME: Final = "turnwise-theme"
"""The cookie in which a browser keeps whether it shows pages light or dark."""

_KEYS: Final = {
    "j, k": "next, previous row, turn or match",
    "Enter": "open the row",
    "/": "search",
    "?": "this help",
    "d": "light or dark",
    "Esc": "close, or leave a field",
}


def header(page: Page, theme: str | None) -> None:
    """Show the navigation and the buttons at the top of a page, in the theme that the browser keeps."""
    dark = ui.dark_mode({"dark": True, "light": False}.get(theme or ""))
    help_dialog = _help(page)

    async def turn() -> None:
        dark.value = not await ui.run_javascript("Quasar.Dark.isActive")
        kept = "dark" if dark.value else "light"
        ui.run_javascript(f"document.cookie = '{THEME}={kept}; path=/; max-age=31536000; samesite=strict'")

    ui.link("Skip to the content", "#content").classes("skip")
    with ui.header(wrap=False).classes("bar"):
        with (
            ui.button(icon="menu").props('flat dense color=inherit aria-label="Views"').classes("lt-md"),
            ui.menu() as menu,
        ):
            menu.props('role=navigation aria-label="Views in a menu"').classes("views-menu")
            _links(page)
        ui.link("turnwise", address("/", _kept(page))).classes("mark").props('aria-label="turnwise, first page"')
        with ui.element("nav").props('aria-label="Views"').classes("gt-sm"):
            _links(page)
        where = text("span", visible(page.record.name)).classes("where")
        where.props["title"] = page.record.where
        for kind in ("SVG", "PNG", "CSV"):
            button = ui.button(kind, on_click=partial(_saved, page, kind.lower())).props(
                "flat dense no-caps color=inherit"
            )
            button.props(f'data-export={kind.lower()} hidden title="Save what is on the screen as {kind}"')
        ui.button(icon="contrast", on_click=turn).props(
            'flat dense color=inherit data-key=d aria-label="Light or dark" title="Light or dark"'
        )
        ui.button(icon="help_outline", on_click=help_dialog.open).props(
            'flat dense color=inherit data-key=? aria-label="Help and keys" title="Help and keys"'
        )
    ui.keyboard(ignore=["input", "select", "textarea"]).on("key", js_handler="(e) => turnwise.pressed(e)")


def offer_exports(page: Page) -> None:
    """Show the buttons of the exports that there are; again once a view sets `Page.csv` or draws a chart later."""
    ui.run_javascript(f"turnwise.offer({'true' if page.csv is not None else 'false'})")


def csv_text(rows: list[list[Any]]) -> str:
    """Rows as CSV; a cell that a spreadsheet would take for a formula is written as text.

    >>> csv_text([["id", "F"], ["=1+1", None]]).splitlines()
    ['id,F', "'=1+1,"]
    """
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([[cell(value) for value in row] for row in rows])
    return written.getvalue()


def _kept(page: Page) -> dict[str, str]:
    return {name: page.state[name] for name in KEPT if name in page.state}


def _links(page: Page) -> None:
    for view in VIEWS:
        if view.listed:
            link = ui.link(view.title, address(view.path, _kept(page)))
            link.props("aria-current=page" if view.path == page.view.path else "")


async def _saved(page: Page, kind: str) -> None:
    if kind == "csv" and page.csv is not None:
        name, rows = await page.ask(page.csv)
        ui.download.content(csv_text(rows), f"{name}.csv", "text/csv; charset=utf-8")
    elif kind in ("svg", "png"):
        ui.run_javascript(f"turnwise.save('{kind}', 'turnwise')")


def _help(page: Page) -> Any:
    with ui.dialog() as dialog, ui.card().classes("help"):
        dialog.props('aria-label="Help and keys"')
        heading("Keys", 2)
        _defined({**_KEYS, **page.view.keys}, "kbd")
        heading("Words", 2)
        _defined(TERMS, "b")
        text("p", "The address of the page holds what you see: copy it to come back, or to show it to others.")
        ui.button("Close", on_click=dialog.close).props("no-caps outline")
    return dialog


def _defined(said: Any, tag: str) -> None:
    with ui.element("dl"):
        for name, meaning in said.items():
            with ui.element("dt"):
                text(tag, name)
            text("dd", meaning)
