"""The guard at work: a conversation tried, an audit as it grows and what it comes to, a running service."""

from __future__ import annotations

from nicegui import ui

from turnwise.explorer.pages import Page
from turnwise.explorer.parts import heading, tabs
from turnwise.explorer.views import guard_report, guard_try, guard_watch

TABS = {"try": "Try", "audit": "Audit", "report": "Report", "service": "Service"}


async def build(page: Page) -> None:
    """Show the guard at work."""

    def turned(name: str) -> None:
        kept = {key: None for key in page.state if key not in ("run", "preset")}
        ui.navigate.to(page.link(**{**kept, "tab": name}))

    tab = page.get("tab", "try")
    heading("Guard", 1)
    tabs(TABS, tab, turned)
    if tab == "audit":
        await guard_watch.AuditView(page).build()
    elif tab == "report":
        await guard_report.ReportView(page).build()
    elif tab == "service":
        await guard_watch.ServiceView(page).build()
    else:
        await guard_try.TryView(page).build()
