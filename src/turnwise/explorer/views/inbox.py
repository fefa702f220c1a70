"""The inbox: the conversations to read, the most serious first, each with the sentence that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import button, emptied, failed, heading, notify, on_keys, text
from turnwise.explorer.views.inbox_detail import DONE, InboxDetail, link_to
from turnwise.explorer.views.inbox_filters import FILTERS, OPEN, Filters
from turnwise.runs.inbox import FlaggedText, Inbox, InboxItem, inbox, sentence
from turnwise.store import Review, Status

ROWS: Final = 25
"""Conversations of a page of the list."""

_JUDGE_SECONDS: Final = 0.5
"""How long scores that are new are judged before the page shows what there is; it goes on with the rest."""

_COLUMNS: Final = (
    *("sequence_id", "status", "assignee", "note", "detector", "threshold", "turn", "side", "principle", "F", "I"),
    *("score", "reason", "when", "source", "label"),
)
"""What of an item a CSV file has."""


async def build(page: Page) -> None:
    """Show the inbox."""
    await _InboxView(page).build()


class _InboxView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: Inbox | None = None
        self._items: list[InboxItem] = []
        self._texts: dict[str, FlaggedText] = {}
        self._chosen: set[str] = set()
        self._at = 0
        self._run = ""
        self._undo: list[list[InboxItem]] = []
        self._busy = False
        self._newest = 0

    async def build(self) -> None:
        page = self._page
        if page.run_name() is None:
            self._empty_store()
            return
        with ui.row().classes("inbox-top"):
            heading("Inbox", 1)
            self._told = text("p", "").props("role=status").classes("quiet")
            self._fresh = ui.button("New scores: show them", icon="refresh", on_click=self._read)
            self._fresh.props("no-caps dense outline").set_visibility(False)
        self._filters = Filters(page, self._read)
        self._bulk = ui.element("div").classes("inbox-bulk")
        with ui.element("div").classes("inbox"):
            self._list = ui.element("section").props('aria-label="Conversations to read"').classes("inbox-list")
            self._detail = InboxDetail(page, self._decide, self._say)
        await self._read(first=True)
        page.csv = self._rows
        on_keys(self._pressed)
        ui.timer(1.0, self._go_on)
        await self._filters.read_name()

    # What is shown ---------------------------------------------------------------------------------------

    def _empty_store(self) -> None:
        heading("Inbox", 1)
        where = self._page.record.where
        if self._page.record.newest().sequences:
            text("p", "No run has scored these conversations yet. Score them, then come back:").classes("quiet")
            ui.code(f"turnwise evaluate --store {where}", language="bash")
        else:
            text("p", "The store has no conversation yet. Import some, and score them:").classes("quiet")
            ui.code(f"turnwise import FILE --store {where}\nturnwise evaluate --store {where}", language="bash")

    async def _read(self, *, first: bool = False) -> None:
        """Ask for what there is to read, and show it from the beginning."""
        page = self._page
        store, run = page.record.store, page.run_name()
        self._fresh.set_visibility(False)
        if run != self._run:
            self._texts.clear()
        try:
            self._newest = page.record.newest().evaluations
            asked = self._filters.asked()
            self._found = await page.ask(partial(inbox, store, run, limit=None, seconds=_JUDGE_SECONDS, **asked))
        except TurnwiseError as error:
            self._found, self._items = None, []
            self._list.clear()
            self._detail.clear()
            with self._list:
                failed(str(error))
            self._filters.show(None)
            return
        self._items, self._run = list(self._found.items), self._found.run
        wanted = page.get("id")
        places = (at for at, one in enumerate(self._items) if one.sequence_id == wanted)
        self._at = next(places, 0)
        self._chosen &= {one.sequence_id for one in self._items}
        if first:
            self._filters.show(self._found)
        self._tell()
        await self._show_list()
        await self._show_detail()
        self._filters.show_days(self._items)
        self._show_bulk()

    def _tell(self) -> None:
        assert self._found is not None
        counts = self._found.counts
        open_ones = sum(counts[one] for one in OPEN)
        decided = ", ".join(f"{counts[one]:,} {one}" for one in (Status.CONFIRMED, Status.DISMISSED))
        words = f"{open_ones:,} to decide, {decided}"
        judged = " or ".join(f"{one.spec} at {one.detector.threshold:.3g}" for one in self._found.detectors)
        pending = f"; {self._found.pending:,} conversations are still being judged" if self._found.pending else ""
        self._told.text = f"{words}; flagged by {visible(judged)} in run {visible(self._found.run)}{pending}"

    async def _show_list(self) -> None:
        page = self._page
        start = self._at - self._at % ROWS
        shown = self._items[start : start + ROWS]
        missing = [one for one in shown if one.sequence_id not in self._texts]
        self._texts |= await page.ask(
            lambda: {one.sequence_id: sentence(page.record.store, one) for one in missing}
        )
        self._list.clear()
        self._row_of: dict[str, _InboxRow] = {}
        with self._list:
            if not shown:
                self._nothing()
                return
            with ui.element("ol"):
                for at, item in enumerate(shown, start):
                    chosen = item.sequence_id in self._chosen
                    self._row_of[item.sequence_id] = _InboxRow(
                        item, self._texts.get(item.sequence_id), chosen, partial(self._go_to, at), self._choose
                    )
            self._mark()
            if len(self._items) > ROWS:
                last = -(-len(self._items) // ROWS)
                pages = ui.pagination(
                    1, last, value=start // ROWS + 1, direction_links=True, on_change=self._turned
                )
                pages.props('max-pages=7 aria-label="Pages of the list"')

    def _nothing(self) -> None:
        assert self._found is not None
        every = sum(self._found.counts.values())
        filtered = any(self._page.get(name) for name in FILTERS)
        if self._found.pending:
            text("p", "Conversations are being judged; what is flagged appears here.").classes("empty")
        elif every:
            words = "Everything that fits the filters is decided. Choose another status to see it again."
            text("p", words).classes("empty")
        elif filtered:
            text("p", "No flagged conversation fits these filters.").classes("empty")
        else:
            text("p", "Nothing was flagged, which does not show that nothing is there.").classes("empty")
            ui.link("Label a random sample", self._page.link("/label"))

    def _show_bulk(self) -> None:
        with emptied(self._bulk):
            chosen = len(self._chosen)
            every = ui.checkbox(f"All {len(self._items):,}", value=bool(chosen) and chosen == len(self._items))
            every.on_value_change(self._choose_all)
            if chosen:
                text("span", f"{chosen:,} chosen:")
                for status, (word, _, icon) in DONE.items():
                    act = partial(self._decide, status, several=True)
                    button(f"{word} {chosen:,}", act, icon)
            if self._undo:
                button("Undo", self._take_back, "undo").props("aria-keyshortcuts=z")

    # What is done ----------------------------------------------------------------------------------------

    async def _pressed(self, name: str) -> None:
        for status, (_, key, _) in DONE.items():
            if name == key:
                await self._decide(status)
                return
        if name in ("j", "k") and self._items:
            await self._go_to(min(max(self._at + (1 if name == "j" else -1), 0), len(self._items) - 1))
        elif name == "s" and self._items:
            one = self._items[self._at].sequence_id
            self._row_of[one].check.value = one not in self._chosen
        elif name == "z":
            await self._take_back()
        elif name in ("a", "n") and self._items:
            self._detail.focus("assignee" if name == "a" else "note")
        elif name == "Enter" and self._items:
            ui.navigate.to(link_to(self._page, self._run, self._items[self._at]))

    async def _go_to(self, at: int) -> None:
        same_page = self._items and at // ROWS == self._at // ROWS
        self._at = at
        self._page.remember(id=self._items[at].sequence_id)
        if same_page:
            self._mark()
        else:
            await self._show_list()
        await self._show_detail()

    async def _show_detail(self) -> None:
        if not self._items:
            self._detail.clear()
            return
        item = self._items[self._at]
        await self._detail.show(item, self._run, self._texts.get(item.sequence_id))

    async def _turned(self, event: Any) -> None:
        await self._go_to(min((int(event.value) - 1) * ROWS, len(self._items) - 1))

    def _mark(self) -> None:
        now = self._items[self._at].sequence_id
        for name, row in self._row_of.items():
            row.mark(now=name == now)

    def _choose(self, item: InboxItem, *, chosen: bool) -> None:
        (self._chosen.add if chosen else self._chosen.discard)(item.sequence_id)
        self._show_bulk()

    def _choose_all(self, event: Any) -> None:
        self._chosen = {one.sequence_id for one in self._items} if event.value else set()
        for name, row in self._row_of.items():
            row.check.set_value(name in self._chosen)
        self._show_bulk()

    async def _decide(self, status: Status, *, several: bool = False) -> None:
        if not self._items:
            return
        chosen = [one for one in self._items if one.sequence_id in self._chosen]
        items = chosen if several else [self._items[self._at]]
        if not await self._say(items, status=status):
            return
        if several:
            self._chosen.clear()
            await self._show_list()
        elif self._at + 1 < len(self._items):
            await self._go_to(self._at + 1)
        else:
            await self._show_detail()
        self._show_bulk()

    async def _say(self, items: Sequence[InboxItem], **what: Any) -> bool:
        """Keep what is said of some conversations; False where nothing could be kept, which the page then says."""
        if self._busy:
            return False
        name = self._filters.name
        if not name:
            notify("Enter your name first: it is kept with your decisions.", "warning", "bottom")
            self._filters.ask_for_name()
            return False
        self._busy = True
        people = self._page.record.store.people
        ids = [one.sequence_id for one in items]
        try:
            before = {one.sequence_id: one for one in await self._page.ask(people.reviews, ids)}
            made = await self._page.ask(partial(people.review, ids, author=name, **what))
        except TurnwiseError as error:
            notify(error, position="bottom")
            return False
        finally:
            self._busy = False
        for item in items:
            other = before.get(item.sequence_id)
            if other is not None and other.author != name and other.status is not item.status:
                notify(
                    f"{other.author} had said {other.status} of {item.sequence_id} at {other.created_at:%H:%M} "
                    "UTC; your status counts now. z takes it back.",
                    "warning",
                    "bottom",
                )
        self._undo.append([_as_reviewed(one, before.get(one.sequence_id)) for one in items])
        now = {one.sequence_id: one for one in made}
        assert self._found is not None
        counts = Counter(self._found.counts)
        for at, one in enumerate(self._items):
            if one.sequence_id in now:
                said_of = now[one.sequence_id]
                counts.update({one.status: -1})
                counts.update({said_of.status: 1})
                self._items[at] = replace(one, status=said_of.status, assignee=said_of.assignee, note=said_of.note)
                if one.sequence_id in self._row_of:
                    self._row_of[one.sequence_id].say(self._items[at])
        self._found = replace(self._found, counts=counts)
        self._tell()
        return True

    async def _take_back(self) -> None:
        if not self._undo:
            return
        before = self._undo.pop()
        people = self._page.record.store.people
        by_state: dict[tuple[Status, str], list[str]] = {}
        for one in before:
            by_state.setdefault((one.status, one.assignee or ""), []).append(one.sequence_id)
        for (status, assignee), ids in by_state.items():
            await self._page.ask(partial(people.review, ids, status, author=self._filters.name, assignee=assignee))
        notify(f"Taken back: {len(before):,}", "info", "bottom")
        self._page.remember(id=before[0].sequence_id)
        await self._read()

    async def _go_on(self) -> None:
        """Show what is new while conversations are being judged; later offer it, so that no row moves away."""
        if self._found is None or self._busy:
            return
        newest = (await self._page.ask(self._page.record.newest)).evaluations
        if self._found.pending or (newest != self._newest and not self._items):
            await self._read()
        elif newest != self._newest and not self._fresh.visible:
            self._fresh.set_visibility(True)

    def _rows(self) -> tuple[str, list[list[Any]]]:
        return "inbox", [[*_COLUMNS], *([_plain(getattr(one, name)) for name in _COLUMNS] for one in self._items)]


class _InboxRow:
    """A conversation in the list."""

    def __init__(
        self,
        item: InboxItem,
        flagged: FlaggedText | None,
        chosen: bool,
        go: Callable[[], Any],
        choose: Callable[..., None],
    ) -> None:
        with ui.element("li").classes("inbox-row"):
            self.check = ui.checkbox(value=chosen).props("dense")
            self.check.props["aria-label"] = f"Choose {visible(item.sequence_id)}"
            self.check.on_value_change(lambda event: choose(item, chosen=bool(event.value)))
            self._button = ui.button(on_click=go).props("flat no-caps align=left").classes("inbox-item")
            with self._button:
                words = "" if flagged is None else " ".join(flagged.text[flagged.start : flagged.end].split())
                text("span", visible(words[:300]) or "(no text)").classes("inbox-sentence").props("dir=auto")
                with ui.element("span").classes("inbox-meta"):
                    self._status = text("span", str(item.status)).classes(f"status {item.status}")
                    peak = f", highest {item.peak:.2f}" if f"{item.peak:.2f}" != f"{item.F:.2f}" else ""
                    told = (
                        f"F {item.F:.2f} at turn {item.turn} of {item.turns}{peak}",
                        item.principle.replace("_", " "),
                        item.source,
                        f"{item.when:%Y-%m-%d}",
                    )
                    for one in told:
                        text("span", visible(one))
                    self._assignee = text("span", f"for {visible(item.assignee)}" if item.assignee else "")

    def mark(self, *, now: bool) -> None:
        """Show whether it is the chosen one, and bring it into sight."""
        self._button.props(f"aria-current={'true' if now else 'false'}")
        if now:
            ui.run_javascript(f"getHtmlElement({self._button.id})?.scrollIntoView({{block: 'nearest'}})")

    def say(self, item: InboxItem) -> None:
        """Show another status."""
        self._status.text = str(item.status)
        self._status.classes(replace=f"status {item.status}")
        self._assignee.text = f"for {visible(item.assignee)}" if item.assignee else ""


def _as_reviewed(item: InboxItem, review: Review | None) -> InboxItem:
    if review is None:
        return replace(item, status=Status.NEW, assignee=None)
    return replace(item, status=review.status, assignee=review.assignee)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, float | int) else str(value or "")
