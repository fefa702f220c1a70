"""Label: a blind queue, scores of turns, settling, agreement, and corrections of what is known."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from nicegui import ui

from turnwise._support.visible import visible_lines
from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import failed, heading, tabs, text
from turnwise.explorer.views import label_agreement, label_corrections, label_queue, label_scores

TABS: Final = {
    "queue": "Label blind",
    "score": "Score turns",
    "settle": "Settle",
    "agree": "Agreement and export",
    "correct": "Correct one",
}


class Part(Protocol):
    """One of the parts of the view."""

    author: str

    async def show(self) -> None:
        """Show it, in the element that is entered."""

    async def pressed(self, key: str) -> None:
        """Do what a key stands for."""

    def csv(self) -> tuple[str, list[list[Any]]]:
        """Its rows as a file: name, and rows with a head."""


async def build(page: Page) -> None:
    """Show what people say of conversations, and let them say more."""
    await _LabelView(page).build()


class _LabelView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._name = page.get("author")
        self._showing = asyncio.Lock()

    async def build(self) -> None:
        page = self._page
        heading("Label", 1)
        if not page.record.newest_sequence():
            text("p", "The store has no conversation yet.").classes("empty")
            return
        tab = page.get("tab") or ("correct" if page.get("id") else "queue")
        kinds: dict[str, type[Any]] = {
            "queue": label_queue.Queue,
            "score": label_scores.Scores,
            "settle": label_agreement.Settling,
            "agree": label_agreement.Agreements,
            "correct": label_corrections.Corrections,
        }
        tabs(TABS, tab, self._turned)
        who = ui.input("Your name, kept with what you say", value=self._name)
        who.props("dense outlined maxlength=100").classes("choice")
        who.on("change", lambda _: self._named(who.value or ""))
        self._body = ui.element("section").classes("label-body")
        self._body.props(f'aria-label="{TABS.get(tab, "Label")}" aria-live=polite')
        self._part: Part = kinds.get(tab, label_queue.Queue)(page, self.shown)
        if not self._name:
            kept = await ui.run_javascript("localStorage.getItem('turnwise-name') || ''", timeout=5.0)
            self._name = who.value = str(kept or "")[:100]
        self._part.author = self._name.strip()
        await self.shown()
        page.csv = self._part.csv
        ui.keyboard(self._pressed, ignore=["input", "select", "textarea"], repeating=False)

    async def shown(self) -> None:
        """Show the part anew."""
        async with self._showing:  # one after the other, or both would stand there
            self._body.clear()
            with self._body:
                try:
                    await self._part.show()
                except TurnwiseError as error:
                    failed(str(error))

    async def _named(self, name: str) -> None:
        import json

        self._name = self._part.author = name.strip()
        ui.run_javascript(f"localStorage.setItem('turnwise-name', {json.dumps(self._name)})")
        await self.shown()

    def _turned(self, tab: str) -> None:
        ui.navigate.to(self._page.link("/label", tab=tab, id=self._page.get("id") or None))

    async def _pressed(self, event: Any) -> None:
        plain = not (event.modifiers.ctrl or event.modifiers.meta or event.modifiers.alt)
        if event.action.keydown and plain:
            try:
                await self._part.pressed(str(event.key))
            except TurnwiseError as error:
                ui.notify(visible_lines(str(error)), type="negative", multi_line=True, position="top")
