"""The page around every view: navigation, theme, exports and help."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from markupsafe import Markup

from turnwise._support.table_files import cell
from turnwise.explorer.markup import element
from turnwise.explorer.pages import KEPT, Page, Region, address, views

_KEYS: Final = {
    "j, k": "next, previous row, turn or match",
    "Enter": "open the row",
    "/": "search",
    "?": "this help",
    "d": "light or dark",
    "Esc": "close, or leave a field",
}


def header(page: Page) -> None:
    """Show the navigation and the buttons at the top of a page."""
    kept = {name: page.state[name] for name in KEPT if name in page.state}
    links = [
        element(
            "a",
            view.title,
            href=address(view.path, kept),
            aria_current="page" if view.path == page.view.path else None,
        )
        for view in views()
        if view.listed
    ]
    skip = element("a", "To the content", href="#content", class_="skip")
    mark = element("a", "turnwise", href=address("/", kept), class_="mark", aria_label="turnwise, overview")
    buttons = [
        element("button", kind, type="button", data_do="save", data_value=kind.lower(), data_export=kind.lower(),
                title=f"Save what is on the screen as {kind}", hidden=True)
        for kind in ("SVG", "PNG", "CSV")
    ]  # fmt: skip
    buttons += [
        element(
            "button", "◐", type="button", data_local="theme", aria_label="Light or dark", title="Light or dark"
        ),
        element(
            "button", "?", type="button", data_local="help", aria_label="Help and keys", title="Help and keys"
        ),
    ]
    where = element("span", page.record.name, class_="where", title=page.record.where)
    bar = element(
        "div",
        skip,
        mark,
        element("nav", links, aria_label="Views"),
        where,
        element("div", buttons, class_="tools"),
    )
    Region(bar, lambda name, value: _saved(page, value) if name == "save" else None, classes="bar")
    Region(_help(page))


def offer_exports(page: Page) -> None:
    """Show the buttons of the exports that there are; again once a view sets `Page.csv` or draws a chart later."""
    from nicegui import ui

    ui.run_javascript(f"turnwise.offer({'true' if page.csv is not None else 'false'})")


def failure(said: str) -> Markup:
    """What a page shows where something went wrong."""
    lines = said.split("\n")
    return element(
        "div", element("p", lines[0]), element("pre", "\n".join(lines[1:])) if lines[1:] else None,
        class_="failure", role="alert",
    )  # fmt: skip


def csv_text(rows: list[list[Any]]) -> str:
    """Rows as CSV; a cell that a spreadsheet would take for a formula is written as text.

    >>> csv_text([["id", "F"], ["=1+1", None]]).splitlines()
    ['id,F', "'=1+1,"]
    """
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([[cell(value) for value in row] for row in rows])
    return written.getvalue()


async def _saved(page: Page, kind: str) -> None:
    from nicegui import ui

    if kind == "csv" and page.csv is not None:
        name, rows = await page.ask(page.csv)
        ui.download.content(csv_text(rows), f"{name}.csv", "text/csv; charset=utf-8")
    elif kind in ("svg", "png"):
        ui.run_javascript(f"turnwise.save('{kind}', 'turnwise')")


def _help(page: Page) -> Markup:
    keys = {**_KEYS, **(page.view.keys or {})}
    rows = [element("tr", element("th", element("kbd", key), scope="row"), element("td", does))
            for key, does in keys.items()]  # fmt: skip
    return element(
        "dialog",
        element("h2", "Keys"),
        element("table", element("tbody", rows)),
        element("p", "The address of the page holds what you see: copy it to come back, or to show it to others."),
        element("form", element("button", "Close"), method="dialog"),
        id="help",
        aria_label="Help and keys",
    )
