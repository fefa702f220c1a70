"""The guard at work: a conversation tried turn by turn, an audit as it grows, a running service."""

from __future__ import annotations

from turnwise.explorer.controls import tabs
from turnwise.explorer.markup import element
from turnwise.explorer.pages import Page, Region
from turnwise.explorer.views import guard_try, guard_watch

TABS = {"try": "Try a conversation", "audit": "Watch an audit", "service": "Watch a service"}


async def build(page: Page) -> None:
    """Show the guard at work."""
    from nicegui import ui

    tab = page.get("tab", "try")

    def chosen(name: str, value: str) -> None:
        if name == "tab":
            kept = {key: None for key in page.state if key not in ("run", "preset")}
            ui.navigate.to(page.link(**{**kept, "tab": value}))

    Region(element("div", element("h1", "Guard"), tabs(TABS, tab)), chosen)
    if tab == "audit":
        await guard_watch.AuditView(page).build()
    elif tab == "service":
        await guard_watch.ServiceView(page).build()
    else:
        await guard_try.TryView(page).build()
