"""Labels that are given blind: the queue, what two readers differ on, how far people agree, and files of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.turn_scoring import given_by
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import choice, column, data_table, fact, heading, notify, said, text
from turnwise.explorer.views.conversation_parts import show_turn
from turnwise.rates import Rate
from turnwise.runs.judgements import lines_of
from turnwise.store import LabelCorrection, Store
from turnwise.study.annotation.agreement import Agreement, agreement
from turnwise.study.annotation.queue import SETTLED, LabelQueue, Order, blind_answers

Again = Callable[[], Awaitable[None]]
"""Shows the part anew."""

ANSWERS: Final = {
    Label.ATTACK: ("Attack", "1"),
    Label.BENIGN: ("Benign", "2"),
    Label.UNLABELLED: ("Can't tell", "3"),
}
"""What a person answers: the words and the key of each label."""


class LabelPart(ABC):
    """A part of Label: the page, who says it, and how it is shown anew."""

    def __init__(self, page: Page, again: Again) -> None:
        self.page, self.again, self.author = page, again, ""

    @abstractmethod
    async def show(self) -> None:
        """Show it, in the element that is entered."""

    @abstractmethod
    def csv(self) -> tuple[str, list[list[Any]]]:
        """Its rows as a file: name, and rows with a head."""

    async def keep(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a job of the store gives; the page says so where it can't be kept, and None is returned."""
        try:
            return await self.page.ask(job, *args, **kwargs)
        except TurnwiseError as error:
            notify(error)
            return None


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
        self._turned: int | None = None
        self._turn, self._turns = 1, 0
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
                button = ui.button(f"{words} ({key})", on_click=partial(self._answer, label))
                button.props(f"no-caps outline aria-keyshortcuts={key}")
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
            fact("you", _answered(mine.label))
            fact("data set", str(head.label))
            fact("inbox", "flagged" if name in queue.flagged() else "not flagged")
            for other in answers:
                if other is not mine:
                    fact(other.author, _answered(other.label))
        ui.link(visible(name), self.page.link("/sequence", id=name)).classes("long-name")
        ui.button("Take it back (z)", on_click=self._take_back).props("no-caps flat dense aria-keyshortcuts=z")

    async def _show_rates(self) -> None:
        assert self._queue is not None
        rates = await self.page.ask(self._queue.rates)
        heading("Rates so far", 2)
        text("p", f"Of what is flagged, attacks: {_rate_words(rates.precision)}.")
        text("p", f"Of all conversations, attacks: {_rate_words(rates.prevalence)}.")
        told = f"{rates.flagged:,} of {rates.of:,} are flagged. Intervals are exact, 95 %. Labels of the most "
        told += "informative count for neither rate."
        if rates.unsure:
            told += f" {rates.unsure} that nobody could decide, or people differ on, are left out."
        text("p", told).classes("quiet small")

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


def _answered(label: Label | None) -> str:
    return "can't tell" if label is Label.UNLABELLED else str(label)


def _rate_words(rate: Rate) -> str:
    if not rate.of:
        return "nothing is labelled yet"
    low, high = rate.interval
    return f"{rate.count:,} of {rate.of:,}, {100 * rate.count / rate.of:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


class Settling(LabelPart):
    """Conversations on which two blind readers differ, for a third to settle."""

    async def show(self) -> None:
        """The first of them with both answers, and how many there are."""
        page = self.page
        store = page.record.store
        queue = await page.ask(LabelQueue, store, page.run_name())
        open_ones = await page.ask(queue.disagreements)
        if not open_ones:
            text("p", "No two blind labels differ. Every fifth conversation of the queue is given to two people.")
            return
        first = open_ones[0]
        text("p", f"{len(open_ones)} to settle. What is settled, and what two agree on, has the author {SETTLED}: "
             f"turnwise study compare --corrected-by {SETTLED}").classes("quiet")  # fmt: skip
        with ui.element("p").classes("facts"):
            for one in first.answers:
                fact(one.author, _answered(one.label))
        note = ui.input("Why (may stay empty)").props("dense outlined maxlength=10000").classes("grow")
        with ui.row().classes("inbox-actions"):
            for label, (words, _) in ANSWERS.items():
                settle = partial(self._settle, queue, first.sequence_id, label, note)
                ui.button(words, on_click=settle).props("no-caps outline")
        sequence = await page.ask(store.sequence, first.sequence_id)
        with ui.element("ol").classes("turns"):
            for turn in sequence.conversation:
                show_turn(turn)

    async def _settle(self, queue: LabelQueue, name: str, label: Label, note: Any) -> None:
        if not self.author:
            notify("Enter your name first.", "warning")
        elif await self.keep(queue.settle, name, label, self.author, note.value or "") is not None:
            await self.again()

    def csv(self) -> tuple[str, list[list[Any]]]:
        """What was settled as rows."""
        found = self.page.record.store.people.corrections(author=SETTLED)
        return "settled", [
            ["sequence_id", "label", "note"],
            *([one.sequence_id, one.label, one.note] for one in found),
        ]


class Agreements(LabelPart):
    """Agreement of everybody who said something."""

    def __init__(self, page: Page, again: Again) -> None:
        super().__init__(page, again)
        self._found: tuple[Agreement, ...] = ()

    async def show(self) -> None:
        """The table of agreement, and the files."""
        turns, files = await self.page.ask(self._read)
        if not files:
            text("p", "There are no judgements yet: label in the queue, or score turns.").classes("empty")
            return
        self._show_table()
        self._show_people(turns, files)

    def _read(self) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
        store = self.page.record.store
        scores, corrections = store.people.scores(), store.people.corrections()
        self._found = agreement(scores, corrections, _turns_of(store, corrections))
        return given_by(scores), {author: self._files(author) for author in store.people.authors()}

    def _files(self, author: str) -> dict[str, str]:
        store = self.page.record.store
        corrections = store.people.corrections(author=author)
        return lines_of(store.people.scores(author=author), corrections, _turns_of(store, corrections))

    def _show_table(self) -> None:
        heading("How far people agree", 2)
        columns = [
            column("on"), column("alpha", "Krippendorff’s alpha", right=True), column("interval", "95 % interval"),
            column("units", right=True), column("people"),
        ]  # fmt: skip
        rows = [
            {
                "on": _what(one),
                "alpha": "–" if one.alpha is None else f"{one.alpha.value:.2f}",
                "interval": _interval(one),
                "units": one.units,
                "people": ", ".join(one.authors) or "–",
            }
            for one in self._found
        ]
        data_table(columns, rows, "How far people agree")
        notes = [one.alpha.note for one in self._found if one.alpha is not None]
        for note in dict.fromkeys(part for one in notes for part in one.split("; ") if part):
            text("p", f"* {note}").classes("quiet small narrow")
        text(
            "p",
            "1 is agreement, 0 what chance gives. Units are turns, and conversations for labels; the interval is "
            "a bootstrap over conversations.",
        ).classes("quiet small narrow")

    def _show_people(self, turns: dict[str, int], files: dict[str, dict[str, str]]) -> None:
        heading("Judgements as files", 2)
        for author, made in files.items():
            with ui.row().classes("inbox-actions"):
                said(f"{author}, {turns.get(author, 0)} turns scored")
                for name in made:
                    button = ui.button(name, icon="download", on_click=partial(self._save, author, name))
                    button.props("no-caps outline dense").props["aria-label"] = f"{name} of {visible(author)}"
        where = visible(self.page.record.where)
        text("p", "As runs for turnwise study compare --truth, and as corrected labels:").classes("quiet")
        said(
            f"turnwise judgements export --out people --as-runs --store {where}\n"
            f"turnwise study compare --corrected-by NAME --truth judged-by-NAME --store {where}\n"
            f"turnwise detect --corrected-by NAME --store {where}",
            "pre",
        )

    async def _save(self, author: str, file: str) -> None:
        made = await self.page.ask(self._files, author)
        ui.download.content(made.get(file, ""), file, "application/jsonl; charset=utf-8")

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The table of agreement as rows."""
        rows: list[list[Any]] = [["on", "alpha", "low", "high", "units", "people", "reason"]]
        for one in self._found:
            ends = [None] * 3 if one.alpha is None else [one.alpha.value, one.alpha.low, one.alpha.high]
            rows.append([_what(one), *ends, one.units, ", ".join(one.authors), one.reason])
        return "agreement", rows


def _turns_of(store: Store, corrections: Iterable[LabelCorrection]) -> dict[str, int]:
    """How many turns each conversation has that was corrected."""
    ids = {one.sequence_id for one in corrections}
    return {head.sequence_id: head.turns for head in store.heads(ids=ids)}


def _interval(one: Agreement) -> str:
    if one.alpha is None:
        return one.reason
    shown = f"{one.alpha.low:.2f} – {one.alpha.high:.2f}".replace("-", "−")
    return f"{shown} *" if one.alpha.note else shown


def _what(one: Agreement) -> str:
    names = {"label": "the label", "turned": "whether it has turned, by turn"}
    return f"{names.get(one.what, one.what)} {one.component}".strip()
