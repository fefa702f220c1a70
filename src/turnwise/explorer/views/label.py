"""Label and judge: correct a label, mark where it turned, score turns blind, see how far people agree."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import button, field, tabs
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import element
from turnwise.explorer.pages import Page, Region, page
from turnwise.explorer.views import label_agreement, label_corrections, label_scores

TABS = {"correct": "Correct", "score": "Score turns", "agree": "Agreement and export"}


@page("/label", "Label", order=70)
async def build(page: Page) -> None:
    """Show what people say of conversations, and let them say more."""
    await _LabelView(page).build()


class _LabelView:
    def __init__(self, page: Page) -> None:
        self._page = page

    async def build(self) -> None:
        page = self._page
        first = await page.ask(lambda: next(iter(page.record.store.heads()), None))
        if first is None:
            Region(element("p", "The store has no conversation yet.", class_="empty"))
            return
        page.state.setdefault("id", first.sequence_id)
        self._head = Region(on=self._heard, label="Who says it, and of what")
        self._body = Region(on=self._heard, label="What people say", live=True)
        self._part: Any = None
        page.csv = lambda: self._part.csv() if self._part is not None else ("label", [])
        await self._show()

    async def _heard(self, name: str, value: str) -> None:
        page = self._page
        if name in ("tab", "author", "id"):
            page.remember(**{name: value.strip(), **({"mend": None} if name == "id" else {})})
            await self._show()
            return
        if self._part is None:
            return
        try:
            again = await self._part.heard(name, value)
        except TurnwiseError as error:
            self._body.show(await self._content(failure(str(error))))
            return
        if again:
            await self._show(head=again == "head")

    async def _show(self, *, head: bool = True) -> None:
        page = self._page
        tab = page.get("tab", "correct")
        kinds: dict[str, Any] = {
            "correct": label_corrections.Corrections,
            "score": label_scores.Scores,
            "agree": label_agreement.Agreements,
        }
        made = kinds.get(tab, label_corrections.Corrections)
        if type(self._part) is not made:
            self._part = made(page)
        if head:
            self._head.show(self._top(tab))
        try:
            self._body.show(await self._content())
        except TurnwiseError as error:
            self._body.show(failure(str(error)))

    async def _content(self, failed: Markup | None = None) -> Markup:
        content: Markup = await self._part.content()
        return element("div", failed, content)

    def _top(self, tab: str) -> Markup:
        page = self._page
        author = field("Your name, kept with what you say", "author", page.get("author"), size=24)
        which = field("Conversation", "id", page.get("id"), size=34)
        follow = button("next conversation ▶", "next")
        # An id may give the label away, so a blind reader does not see it.
        fields = {"score": [author, follow], "agree": []}.get(tab, [author, which, follow])
        return element(
            "div",
            element("h1", "Label and judge"),
            tabs(TABS, tab),
            element("div", fields, class_="form"),
        )
