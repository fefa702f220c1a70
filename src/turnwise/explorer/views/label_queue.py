"""The blind queue: one conversation after the other, one key an answer, and the rates that follow."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Label
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import choice, fact, heading, text
from turnwise.explorer.views.label_parts import ANSWERS, Again, LabelPart, show_turn
from turnwise.rates import Rate
from turnwise.study.annotation import LabelQueue, Order, blind_answers

_ORDERS: Final = {
    Order.FLAGGED: "flagged, at random: how precise is the inbox",
    Order.ALL: "all, at random: how common is it",
    Order.TEACHING: "most informative: for corrected labels, in no rate",
}


class Queue(LabelPart):
    """Conversations to label blind: no name, score, label or answer is shown before one's own is kept."""

    def __init__(self, page: Page, again: Again) -> None:
        super().__init__(page, again)
        self._queue: LabelQueue | None = None
        self._now: str | None = None
        self._last: str | None = None
        self._turn = 1
        self._turned: int | None = None
        self._turns = 0
        self._skipped: set[str] = set()

    @property
    def _order(self) -> Order:
        wanted = self.page.get("order")
        return Order(wanted) if wanted in tuple(Order) else Order.FLAGGED

    async def show(self) -> None:
        """The conversation that is due, the answers, what the last one was, and the rates."""
        page = self.page
        if self._queue is None:
            self._queue = await page.ask(LabelQueue, page.record.store, page.run_name())
        queue = self._queue
        orders = {str(one): words for one, words in _ORDERS.items()}
        choice("Which conversations", orders, str(self._order), self._choose)
        if not self.author:
            text("p", "Enter your name first: labels carry the name of their author.").classes("lead")
            return
        self._now = await page.ask(queue.next, self.author, self._order, frozenset(self._skipped))
        with ui.element("div").classes("split"):
            with ui.element("div"):
                await self._show_due()
            with ui.element("aside").props('aria-label="Your last answer, and rates"').classes("beside"):
                await self._show_last()
                await self._show_rates()

    async def _show_due(self) -> None:
        if self._now is None:
            text("p", "Nothing is left to label in this order.").classes("empty")
            return
        sequence = await self.page.ask(self.page.record.store.sequence, self._now)
        turns = list(sequence.conversation)
        self._turns, self._turn, self._turned = len(turns), 1, None
        with ui.row().classes("inbox-actions"):
            for label, (words, key) in ANSWERS.items():
                button = ui.button(f"{words} ({key})", on_click=partial(self._answer, label)).props(
                    "no-caps outline"
                )
                button.props(f"aria-keyshortcuts={key}")
            ui.button("Skip (s)", on_click=self._skip).props("no-caps flat aria-keyshortcuts=s")
        self._mark = text("p", "").classes("quiet")
        with ui.element("ol").classes("turns"):
            for turn in turns:
                show_turn(turn, beside=partial(self._turn_button, turn.number))

    def _turn_button(self, number: int) -> None:
        button = ui.button("it turned here", on_click=partial(self._it_turned, number)).props("no-caps flat dense")
        button.props["aria-label"] = f"It turned at turn {number}"

    async def _show_last(self) -> None:
        queue, name = self._queue, self._last
        if queue is None or name is None:
            return
        store = self.page.record.store
        answers = (await self.page.ask(blind_answers, store, [name])).get(name, ())
        mine = next((one for one in answers if one.author == self.author), None)
        if mine is None:
            return
        [head] = await self.page.ask(lambda: list(store.heads(ids=[name])))
        heading("Your last answer", 2)
        with ui.element("p").classes("facts"):
            fact("you", "can't tell" if mine.label is Label.UNLABELLED else str(mine.label))
            fact("data set", str(head.label))
            fact("inbox", "flagged" if name in queue.flagged() else "not flagged")
            for other in answers:
                if other is not mine:
                    fact(other.author, "can't tell" if other.label is Label.UNLABELLED else str(other.label))
        ui.link(visible(name), self.page.link("/sequence", id=name)).classes("long-name")
        ui.button("Take it back (z)", on_click=self._take_back).props("no-caps flat dense aria-keyshortcuts=z")

    async def _show_rates(self) -> None:
        assert self._queue is not None
        rates = await self.page.ask(self._queue.rates)
        heading("Rates so far", 2)
        text("p", f"Of what is flagged, attacks: {_told(rates.precision)}.")
        text("p", f"Of all conversations, attacks: {_told(rates.prevalence)}.")
        left = (
            f" {rates.unsure} that nobody could decide, or people differ on, are left out." if rates.unsure else ""
        )
        text(
            "p",
            f"{rates.flagged:,} of {rates.of:,} are flagged. Intervals are exact, 95 %. Labels of the "
            f"most informative count for neither rate.{left}",
        ).classes("quiet small")

    async def _choose(self, order: str) -> None:
        self.page.remember(order=order)
        await self.again()

    async def pressed(self, key: str) -> None:
        """1, 2, 3 answer; t marks the turn; s skips; z takes back; j and k choose a turn."""
        for label, (_, wanted) in ANSWERS.items():
            if key == wanted:
                await self._answer(label)
        if key == "s":
            await self._skip()
        elif key == "z":
            await self._take_back()
        elif key in ("j", "k"):
            self._turn = min(max(self._turn + (1 if key == "j" else -1), 1), max(self._turns, 1))
            self._point()
        elif key == "t":
            self._it_turned(self._turn)

    def _point(self) -> None:
        ui.run_javascript(
            "document.querySelectorAll('.turns [data-turn]').forEach((one) => {"
            f"const now = one.dataset.turn === '{self._turn}'; one.classList.toggle('is-current', now);"
            "if (now) one.scrollIntoView({block: 'nearest'}); })"
        )

    def _it_turned(self, number: int) -> None:
        self._turn, self._turned = number, number
        self._mark.text = f"It turned at turn {number}; kept with your answer."
        self._point()

    async def _answer(self, label: Label) -> None:
        name, queue = self._now, self._queue
        if name is None or queue is None:
            return
        self._now = None  # a second press is no second answer
        if await self.keep(queue.answer, name, label, self.author) is None:
            self._now = name
            return
        if self._turned is not None:
            await self.keep(self.page.record.store.people.mark_turn, name, self._turned, self.author)
        self._last = name
        await self.again()

    async def _skip(self) -> None:
        if self._now is not None:
            self._skipped.add(self._now)
            await self.again()

    async def _take_back(self) -> None:
        if self._last is not None:
            await self.keep(self.page.record.store.people.correct_label, self._last, None, self.author)
            self._last = None
            await self.again()

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The blind answers of this person as rows."""
        rows = [
            [name, one.label, one.note, one.created_at.isoformat()]
            for name, answers in blind_answers(self.page.record.store).items()
            for one in answers
            if one.author == self.author
        ]
        return "labels", [["sequence_id", "label", "note", "time"], *rows]


def _told(rate: Rate) -> str:
    if not rate.of:
        return "nothing is labelled yet"
    low, high = rate.interval
    return f"{rate.count:,} of {rate.of:,}, {100 * rate.count / rate.of:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
