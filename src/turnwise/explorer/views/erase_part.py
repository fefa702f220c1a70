"""Erasing a conversation from the page: what would go, the id typed again, and the receipt."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible, visible_lines
from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import heading, said, text


def erase_button(page: Page, sequence_id: str) -> None:
    """Show a button that erases a conversation, once its id is typed again."""
    ui.button("Erase ...", icon="delete_forever", on_click=partial(_ask, page, sequence_id)).props(
        "no-caps dense flat"
    )


def _ask(page: Page, sequence_id: str) -> None:
    with ui.dialog() as dialog, ui.card() as card:
        dialog.props('aria-label="Erase a conversation"')
        heading("Erase this conversation", 2)
        text(
            "p",
            "Its texts, scores, notes, cached replies and judgements are erased from every file of the store; "
            "a receipt is kept. Backups and exports made before are out of reach.",
        )
        said(f"Type its id to continue: {sequence_id}", "p")
        typed = ui.input("Id of the conversation").props("outlined dense autofocus")
        reason = ui.input("Why, for the receipt").props("outlined dense maxlength=200")

        async def go_on() -> None:
            from turnwise.guard.forgetting import erase

            if (typed.value or "").strip() != sequence_id:
                ui.notify("This is not its id; nothing was erased.", type="warning")
                return
            who = await ui.run_javascript("localStorage.getItem('turnwise-name') || ''", timeout=5.0)
            job = partial(
                erase, page.record.store, [sequence_id], author=str(who or "")[:100], reason=reason.value or ""
            )
            try:
                receipt = await page.ask(job)
            except TurnwiseError as error:
                ui.notify(visible_lines(str(error)), type="negative", multi_line=True)
                return
            card.clear()
            with card:
                _show(receipt, dialog, page)

        with ui.row():
            ui.button("Erase", on_click=go_on).props("no-caps outline color=negative")
            ui.button("Cancel", on_click=dialog.close).props("no-caps flat")
    dialog.open()


def _show(receipt: Any, dialog: Any, page: Page) -> None:
    heading("Erased", 2)
    counts = receipt.store.counts if receipt.store is not None else {}
    text("p", ", ".join(f"{count:,} {visible(table)}" for table, count in counts.items()))
    text("p", "Not reached:")
    with ui.element("ul"):
        for place in receipt.unreached:
            said(place, "li")
    told = json.dumps(receipt.to_dict(), ensure_ascii=False, indent=1)
    with ui.row():
        save = partial(ui.download.content, told, "receipt.json")
        ui.button("Save the receipt", on_click=save).props("no-caps outline")
        ui.button("To the inbox", on_click=lambda: ui.navigate.to(page.link("/"))).props("no-caps flat")
    dialog.on("hide", lambda: ui.navigate.to(page.link("/")))
