"""Why a turn was flagged: a button that asks, and what comes of it in plain sentences."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import failed, heading, said, text
from turnwise.runs.why import explain_flag


def why_button(page: Page, run: str, sequence_id: str, turn: int) -> None:
    """Show a button that says why a turn has its score; the observer reads it again, which takes some seconds."""
    place = ui.element("div").props("aria-live=polite").classes("why")

    async def ask() -> None:
        place.clear()
        with place:
            text("p", "Reading it again with one thing left out at a time …").classes("quiet")
        try:
            found = await page.ask(partial(explain_flag, page.record.store, sequence_id, run, turn=turn))
        except TurnwiseError as error:
            place.clear()
            with place:
                failed(str(error))
            return
        place.clear()
        with place:
            heading("Why", 3)
            with ui.element("ul"):
                for sentence in found.sentences():
                    said(sentence, "li")
            words = found.why.words if found.why is not None else None
            if words is not None:
                with ui.element("div").classes("said").props("dir=auto"):
                    said(found.text[: words.start])
                    said(found.text[words.start : words.end], "mark")
                    said(found.text[words.end :])
            text("p", "This is what the score rests on, not what a person would name.").classes("quiet small")

    with place:
        ui.button("Why?", icon="help_outline", on_click=ask).props("no-caps dense outline")
