"""Label: a blind queue, scores of turns, settling, agreement, and corrections of what is known."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    choice,
    column,
    data_table,
    emptied,
    failed,
    fill_name,
    heading,
    keep_name,
    notify,
    on_keys,
    tabs,
    tag,
    text,
    text_field,
)
from turnwise.explorer.views import label_blind, label_scores
from turnwise.explorer.views.conversation_parts import show_turn
from turnwise.explorer.views.label_blind import Again, LabelPart
from turnwise.store import LabelCorrection

TABS: Final = {
    "queue": "Label blind",
    "score": "Score turns",
    "settle": "Settle",
    "agree": "Agreement and export",
    "correct": "Correct one",
}


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
        if not page.record.newest().sequences:
            text("p", "The store has no conversation yet.").classes("empty")
            return
        tab = page.get("tab") or ("correct" if page.get("id") else "queue")
        kinds: dict[str, type[LabelPart]] = {
            "queue": label_blind.Queue,
            "score": label_scores.Scores,
            "settle": label_blind.Settling,
            "agree": label_blind.Agreements,
            "correct": Corrections,
        }
        tabs(TABS, tab, self._turned)
        who = ui.input("Your name, kept with what you say", value=self._name)
        who.props("dense outlined maxlength=100").classes("choice")
        who.on("change", lambda _: self._named(who.value or ""))
        self._body = ui.element("section").classes("label-body")
        self._body.props(f'aria-label="{TABS.get(tab, "Label")}" aria-live=polite')
        self._part: LabelPart = kinds.get(tab, label_blind.Queue)(page, self.shown)
        if not self._name:
            self._name = await fill_name(who)
        self._part.author = self._name.strip()
        await self.shown()
        page.csv = self._part.csv
        on_keys(self._pressed)

    async def shown(self) -> None:
        """Show the part anew."""
        async with self._showing:  # one after the other, or both would stand there
            with emptied(self._body):
                try:
                    await self._part.show()
                except TurnwiseError as error:
                    failed(str(error))

    async def _named(self, name: str) -> None:
        self._name = self._part.author = name.strip()
        keep_name(self._name)
        await self.shown()

    def _turned(self, tab: str) -> None:
        ui.navigate.to(self._page.link("/label", tab=tab, id=self._page.get("id") or None))

    async def _pressed(self, key: str) -> None:
        if not isinstance(self._part, label_blind.Queue):
            return
        try:
            await self._part.pressed(key)
        except TurnwiseError as error:
            notify(error)


_NOW: Final = "as imported"


class Corrections(LabelPart):
    """Labels of one conversation, and turns marked as the one where it turned. It is not blind."""

    def __init__(self, page: Page, again: Again) -> None:
        super().__init__(page, again)
        self._found: tuple[LabelCorrection, ...] = ()
        self._label = ""
        self._note: Any = None

    async def show(self) -> None:
        """The conversation with what people said of it, and the fields to say more."""
        page = self.page
        store = page.record.store
        if not page.get("id"):
            first = await page.ask(lambda: next(iter(store.heads()), None))
            page.remember(id=None if first is None else first.sequence_id)
        name = page.get("id")
        with ui.row().classes("inbox-actions"):
            text_field("Conversation", name, partial(self._go, "id"), wide=True)
            ui.button("Next conversation", icon="skip_next", on_click=self._next).props("no-caps outline dense")
        sequence = await page.ask(store.sequence, name)
        history = await page.ask(store.people.corrections, ids=[name], history=True)
        self._found = await page.ask(store.people.corrections, ids=[name])
        mine = [one for one in self._found if one.author == self.author]
        turned = next((one.turn for one in mine if one.turn is not None), None)
        with ui.element("div").classes("split"):
            with ui.element("ol").classes("turns"):
                for turn in sequence.conversation:
                    show_turn(turn, now=turn.number == turned, beside=partial(self._marks, turn.number, turned))
            with ui.element("aside").props('aria-label="Judgements"').classes("beside"):
                self._show_form(sequence.label, mine, turned)
                self._show_history(history)

    def _marks(self, number: int, turned: int | None) -> None:
        others = [one.author for one in self._found if one.turn == number]
        button = ui.button("it turned here", on_click=partial(self._mark, number)).props("no-caps flat dense")
        button.props(f"aria-pressed={str(number == turned).lower()}").props["aria-label"] = (
            f"It turned at turn {number}"
        )
        if others:
            text("span", f"▲ turned here: {', '.join(others)}").classes("flag")

    def _show_form(self, imported: Label, mine: list[LabelCorrection], turned: int | None) -> None:
        own = next((str(one.label) for one in mine if one.label is not None), _NOW)
        words = {_NOW: f"as imported ({imported})", **{str(label): str(label) for label in Label}}
        with ui.element("p").classes("quiet"):
            text("span", "The data set says ")
            tag(str(imported))
            text("span", ", which stays as it is.")
        self._label = own
        self._note = ui.textarea("Why (kept with what you save next)")
        self._note.props("dense outlined autogrow maxlength=10000")
        with ui.row().classes("inbox-actions"):
            choice("The label should be", words, own, self._chosen)
            ui.button("Save label", on_click=self._save).props("no-caps outline")
        if turned is None:
            told = "You have marked no turn: press “it turned here” beside one."
        else:
            told = f"You marked that it turned at turn {turned}." if turned else "You marked that it never turned."
        text("p", told)
        with ui.row().classes("inbox-actions"):
            ui.button("It never turned", on_click=partial(self._mark, 0)).props("no-caps outline dense")
            if turned is not None:
                ui.button("Remove my mark", on_click=partial(self._mark, None)).props("no-caps outline dense")

    def _show_history(self, history: tuple[LabelCorrection, ...]) -> None:
        heading("Judgements", 2)
        if not history:
            text("p", "Nobody has judged this conversation yet.").classes("quiet")
            return
        rows = [
            {
                "who": one.author,
                "says": _said(one),
                "note": one.note,
                "when": f"{one.created_at:%Y-%m-%d %H:%M} UTC",
                "counts": "yes" if one in self._found else "replaced",
            }
            for one in reversed(history)
        ]
        data_table([column(name) for name in rows[0]], rows, "Judgements")

    def _chosen(self, label: str) -> None:
        self._label = label

    async def _go(self, name: str, value: str) -> None:
        self.page.remember(**{name: value.strip()})
        await self.again()

    async def _save(self) -> None:
        label = None if self._label in ("", _NOW) else self._label
        people = self.page.record.store.people
        if await self.keep(people.correct_label, self.page.get("id"), label, self.author, self._note.value or ""):
            await self.again()

    async def _mark(self, turn: int | None) -> None:
        people = self.page.record.store.people
        if await self.keep(people.mark_turn, self.page.get("id"), turn, self.author, self._note.value or ""):
            await self.again()

    async def _next(self) -> None:
        self.page.remember(id=await self.page.ask(_after, self.page, self.page.get("id")))
        await self.again()

    def csv(self) -> tuple[str, list[list[Any]]]:
        """Judgements of the conversation as rows."""
        rows = [
            [one.sequence_id, one.kind, one.label, one.turn, one.author, one.created_at.isoformat(), one.note]
            for one in self._found
        ]
        return "corrections", [["sequence", "kind", "label", "turn", "author", "time", "note"], *rows]


def _after(page: Page, sequence_id: str) -> str:
    """The conversation behind one in the order of import; the first behind the last."""
    ids = [head.sequence_id for head in page.record.store.heads()]
    place = ids.index(sequence_id) if sequence_id in ids else -1
    return ids[(place + 1) % len(ids)]


def _said(one: LabelCorrection) -> str:
    if one.kind == "label":
        return "label taken back" if one.label is None else f"label {one.label}"
    if one.turn is None:
        return "mark taken back"
    return f"turned at {one.turn}" if one.turn else "never turned"
