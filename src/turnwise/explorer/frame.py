"""The page around every view: navigation, theme, exports and help."""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.table_files import cell
from turnwise._support.visible import visible
from turnwise.explorer.glossary import TERMS
from turnwise.explorer.pages import KEPT, Page, address
from turnwise.explorer.parts import heading, text
from turnwise.explorer.views import VIEWS

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
