"""The inbox: the conversations to read, the most serious first, each with the sentence that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from nicegui import ui

from turnwise._support.visible import visible, visible_lines
from turnwise.conversation import Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.saved_views import SavedViews
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import fact, failed, heading, said, text
from turnwise.explorer.views.erase_part import erase_button
from turnwise.explorer.views.why_part import why_button
from turnwise.runs.inbox import FlaggedText, Inbox, InboxItem, inbox, sentence
from turnwise.runs.verdicts import judges_of
from turnwise.store import Status
from turnwise.store.people import NOBODY

if TYPE_CHECKING:
    from nicegui.events import KeyEventArguments

OPEN: Final = (Status.NEW, Status.READ, Status.UNSURE)
"""What is shown where no status is asked for: what nobody has decided."""

ROWS: Final = 25
"""Conversations of a page of the list."""

_JUDGE_SECONDS: Final = 0.5
"""How long scores that are new are judged before the page shows what there is; it goes on with the rest."""

_SHOWN: Final = 20_000
"""Characters of a text that are shown."""

_MOST_DAYS: Final = 62
"""Bars of the time axis for days; beyond it they are of weeks."""

_FILTERS: Final = ("status", "source", "assignee", "principle", "words", "since", "until", "detectors")

_COLUMNS: Final = (
    *("sequence_id", "status", "assignee", "note", "detector", "threshold", "turn", "side", "principle", "F", "I"),
    *("score", "reason", "when", "source", "label"),
)
"""What of an item a CSV file has."""

_DONE: Final = {
    Status.CONFIRMED: ("Confirm", "c", "check"),
    Status.DISMISSED: ("Dismiss", "x", "close"),
    Status.UNSURE: ("Unsure", "u", "question_mark"),
    Status.READ: ("Read", "r", "drafts"),
}


async def build(page: Page) -> None:
    """Show the inbox."""
    await _InboxView(page).build()


class _InboxView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._views = SavedViews(page.record.store.location)
        self._found: Inbox | None = None
        self._items: list[InboxItem] = []
        self._texts: dict[str, FlaggedText] = {}
        self._chosen: set[str] = set()
        self._at = 0
        self._name = ""
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
        self._days = ui.element("div").classes("inbox-days")
        self._filters = ui.element("div").classes("inbox-filters")
        self._bulk = ui.element("div").classes("inbox-bulk")
        with ui.element("div").classes("inbox"):
            self._list = ui.element("section").props('aria-label="Conversations to read"').classes("inbox-list")
            self._detail = (
                ui.element("section")
                .props('aria-label="Chosen conversation" aria-live=polite')
                .classes("inbox-detail")
            )
        await self._read(first=True)
        page.csv = self._rows
        ui.keyboard(self._pressed, ignore=["input", "select", "textarea"], repeating=False)
        ui.timer(1.0, self._go_on)
        kept = await ui.run_javascript("localStorage.getItem('turnwise-name') || ''", timeout=5.0)
        self._name = str(kept or "")[:100]
        self._who.value = self._name

    # What is shown ---------------------------------------------------------------------------------------

    def _empty_store(self) -> None:
        heading("Inbox", 1)
        where = self._page.record.where
        if self._page.record.newest_sequence():
            text("p", "No run has scored these conversations yet. Score them, then come back:").classes("quiet")
            ui.code(f"turnwise evaluate --store {where}", language="bash")
        else:
            text("p", "The store has no conversation yet. Import some, and score them:").classes("quiet")
            ui.code(f"turnwise import FILE --store {where}\nturnwise evaluate --store {where}", language="bash")

    def _asked(self) -> dict[str, Any]:
        get = self._page.get
        statuses = [one for one in get("status").split(",") if one]
        return {
            "detectors": [one.strip() for one in get("detectors").split(";") if one.strip()],
            "patterns": self._page.record.patterns if _exists(self._page) else None,
            "status": None if "all" in statuses else statuses or list(OPEN),
            "source": get("source") or None,
            "assignee": {"": None, "nobody": NOBODY}.get(get("assignee"), get("assignee")),
            "principle": get("principle") or None,
            "since": _day(get("since")),
            "until": _day(get("until"), after=True),
            "words": get("words") or None,
        }

    async def _read(self, *, first: bool = False) -> None:
        """Ask for what there is to read, and show it from the beginning."""
        page = self._page
        store, run = page.record.store, page.run_name()
        self._fresh.set_visibility(False)
        try:
            self._newest = page.record.newest_evaluation()
            asked = self._asked()
            self._found = await page.ask(partial(inbox, store, run, limit=None, seconds=_JUDGE_SECONDS, **asked))
        except TurnwiseError as error:
            self._found, self._items = None, []
            self._list.clear()
            self._detail.clear()
            with self._list:
                failed(str(error))
            self._show_filters()
            return
        self._items = list(self._found.items)
        wanted = page.get("id")
        places = (at for at, one in enumerate(self._items) if one.sequence_id == wanted)
        self._at = next(places, 0)
        self._chosen &= {one.sequence_id for one in self._items}
        if first or not self._filters.default_slot.children:
            self._show_filters()
        self._tell()
        await self._show_list()
        await self._show_detail()
        self._show_days()
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
        self._texts |= await page.ask(_sentences, page.record.store, missing)
        self._list.clear()
        self._row_of: dict[str, _Row] = {}
        with self._list:
            if not shown:
                self._nothing()
                return
            with ui.element("ol"):
                for at, item in enumerate(shown, start):
                    chosen = item.sequence_id in self._chosen
                    self._row_of[item.sequence_id] = _Row(
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
        filtered = any(self._page.get(name) for name in _FILTERS)
        if self._found.pending:
            text("p", "Conversations are being judged; what is flagged appears here.").classes("empty")
        elif every:
            text(
                "p", "Everything that fits the filters is decided. Choose another status to see it again."
            ).classes("empty")
        elif filtered:
            text("p", "No flagged conversation fits these filters.").classes("empty")
        else:
            text("p", "Nothing was flagged, which does not show that nothing is there.").classes("empty")
            said_link("Label a random sample", self._page.link("/label"))

    async def _show_detail(self) -> None:
        self._detail.clear()
        if not self._items:
            return
        page, item = self._page, self._items[self._at]
        turns = await page.ask(_turns_around, page.record.store, item)
        flagged = self._texts.get(item.sequence_id)
        with self._detail:
            with ui.element("h2"):
                ui.link(visible(item.sequence_id), self._link(item)).classes("long-name")
            with ui.element("div").classes("facts"):
                fact("turn", f"{item.turn} of {item.turns}")
                fact("F", f"{item.F:.2f}, {_sure(item.I)}")
                fact("source", item.source)
                fact("label", item.label)
                fact("when", f"{item.when:%Y-%m-%d %H:%M}")
            if flagged is not None:
                said(flagged.text[flagged.start : flagged.end][:_SHOWN], "blockquote").props("dir=auto")
            text("p", _sentence_of(item)).classes("why-flagged")
            self._show_actions(item)
            for turn in turns:
                self._show_turn(turn, item, flagged)

    def _show_turn(self, turn: Turn, item: InboxItem, flagged: FlaggedText | None) -> None:
        here = turn.number == item.turn
        with ui.element("article").classes("turn flagged" if here else "turn"):
            heading(f"Turn {turn.number}" + (", flagged" if here else ""), 3)
            for side, words in ((Side.PROMPT, turn.prompt), (Side.RESPONSE, turn.response)):
                if words is None:
                    continue
                text("div", str(side).capitalize()).classes("who")
                if here and side is item.side and flagged is not None:
                    with ui.element("div").classes("said").props("dir=auto"):
                        said(words[: flagged.start][-_SHOWN:])
                        said(words[flagged.start : flagged.end][:_SHOWN], "mark")
                        said(words[flagged.end :][:_SHOWN])
                else:
                    with (
                        ui.element("div")
                        .classes("said response" if side is Side.RESPONSE else "said")
                        .props("dir=auto")
                    ):
                        said(words[:_SHOWN])

    def _show_actions(self, item: InboxItem) -> None:
        with ui.row().classes("inbox-actions"):
            for status, (word, key, icon) in _DONE.items():
                button = ui.button(word, icon=icon, on_click=partial(self._decide, status)).props(
                    "no-caps dense outline"
                )
                button.props(
                    f"aria-keyshortcuts={key} aria-pressed={'true' if item.status is status else 'false'}"
                )
        with ui.row().classes("inbox-actions"):
            self._assignee = ui.input("Assigned to", value=item.assignee or "").props(
                "dense outlined maxlength=100"
            )
            self._assignee.on("keydown.enter", self._assign)
            self._note = ui.input("Note", value=item.note).props("dense outlined maxlength=10000").classes("grow")
            self._note.on("keydown.enter", self._write_note)
            _button("Save", self._save)
        with ui.row().classes("inbox-actions"):
            said_link("Whole conversation", self._link(item))
            said_link("Correct its label", self._page.link("/label", id=item.sequence_id))
            erase_button(self._page, item.sequence_id)
        assert self._found is not None
        why_button(self._page, self._found.run, item.sequence_id, item.turn)

    def _link(self, item: InboxItem) -> str:
        assert self._found is not None
        return self._page.link("/sequence", run=self._found.run, id=item.sequence_id, turn=item.turn)

    def _show_filters(self) -> None:
        page = self._page
        every = list(self._found.items) if self._found is not None else []
        sources = sorted({one.source for one in every} | ({page.get("source")} - {""}))
        people = sorted(
            {one.assignee for one in every if one.assignee} | ({page.get("assignee")} - {"", "nobody"})
        )
        principles = sorted({one.principle for one in every} | ({page.get("principle")} - {""}))
        runs = [run.name for run in page.record.runs()]
        self._filters.clear()
        with self._filters:
            words = ui.input(
                "Words in the conversation", value=page.get("words"), on_change=partial(self._set, "words")
            )
            words.props("dense outlined clearable debounce=300 data-search")
            shown = page.get("status").split(",") if page.get("status") else [str(one) for one in OPEN]
            options = {"all": "all", **{str(one): str(one) for one in Status}}
            self._select("Status", "status", options, shown, multiple=True)
            given = {"": "all", "nobody": "nobody", **{one: one for one in sorted(people)}}
            self._select("Assigned to", "assignee", given, page.get("assignee"))
            self._who = ui.input("Your name", value=self._name, on_change=self._named)
            self._who.props("dense outlined debounce=300 maxlength=100")
            self._show_views()
            folded = any(page.get(name) for name in _FILTERS if name not in ("words", "status", "assignee"))
            more = ui.expansion("More filters", value=folded).classes("inbox-more").props("dense")
            with more, ui.element("div").classes("inbox-filters"):
                self._select("Run", "run", runs, page.run_name())
                self._select("Source", "source", {"": "all", **{one: one for one in sources}}, page.get("source"))
                given = {"": "all", **{one: one.replace("_", " ") for one in principles}}
                self._select("Principle", "principle", given, page.get("principle"))
                for name, label in (("since", "From day"), ("until", "To day")):
                    day = ui.input(label, value=page.get(name), on_change=partial(self._set, name))
                    day.props("dense outlined type=date stack-label debounce=300")
                self._rule()

    def _rule(self) -> None:
        page = self._page
        usual = "; ".join(one.spec for one in judges_of(page.record.store, page.run_name() or ""))
        rule = ui.input("Flagged by", value=page.get("detectors"), placeholder=usual).classes("grow")
        rule.props('dense outlined stack-label clearable hint="Detectors or patterns, with ; between them; Enter"')
        rule.on("keydown.enter", lambda: self._set_value("detectors", rule.value))
        rule.on("clear", lambda: self._set_value("detectors", ""))

    def _show_views(self) -> None:
        with ui.button("Views", icon="bookmark").props("no-caps dense outline"), ui.menu():
            for name, address in self._views.all().items():
                ui.menu_item(visible(name), partial(ui.navigate.to, address))
            ui.menu_item("Save this view ...", self._save_view)

    def _select(self, label: str, name: str, options: Any, value: Any, *, multiple: bool = False) -> None:
        ui.select(options, label=label, value=value, multiple=multiple, on_change=partial(self._set, name)).props(
            "dense outlined options-dense stack-label"
        )

    def _show_days(self) -> None:
        self._days.clear()
        days: dict[date, int] = {}
        for one in self._items:
            days[one.when.date()] = days.get(one.when.date(), 0) + 1
        if len(days) < 2:
            return
        first, last = min(days), max(days)
        step = timedelta(1 if (last - first).days < _MOST_DAYS else 7)
        bars: list[tuple[str, int]] = []
        start = first
        while start <= last:
            bars.append((start.isoformat(), sum(days.get(start + timedelta(n), 0) for n in range(step.days))))
            start += step
        with self._days:
            chart = ui.echart(_day_options(bars), on_point_click=partial(self._day_clicked, step))
            unit = "day" if step.days == 1 else "week"
            chart.props(f'role=img aria-label="Flagged conversations by {unit}, {bars[0][0]} to {bars[-1][0]}"')

    def _show_bulk(self) -> None:
        self._bulk.clear()
        with self._bulk:
            chosen = len(self._chosen)
            every = ui.checkbox(f"All {len(self._items):,}", value=bool(chosen) and chosen == len(self._items))
            every.on_value_change(self._choose_all)
            if chosen:
                text("span", f"{chosen:,} chosen:")
                for status, (word, _, icon) in _DONE.items():
                    act = partial(self._decide, status, several=True)
                    _button(f"{word} {chosen:,}", act, icon)
            if self._undo:
                ui.button("Undo", icon="undo", on_click=self._take_back).props(
                    "no-caps dense outline aria-keyshortcuts=z"
                )

    # What is done ----------------------------------------------------------------------------------------

    async def _pressed(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta or event.modifiers.alt:
            return
        name = str(event.key)
        for status, (_, key, _) in _DONE.items():
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
            (self._assignee if name == "a" else self._note).run_method("focus")
        elif name == "Enter" and self._items:
            ui.navigate.to(self._link(self._items[self._at]))

    async def _go_to(self, at: int) -> None:
        same_page = self._items and at // ROWS == self._at // ROWS
        self._at = at
        self._page.remember(id=self._items[at].sequence_id)
        if same_page:
            self._mark()
        else:
            await self._show_list()
        await self._show_detail()

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
        items = (
            [one for one in self._items if one.sequence_id in self._chosen] if several else [self._items[self._at]]
        )
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

    async def _assign(self) -> None:
        item = self._items[self._at]
        if await self._say([item], assignee=self._assignee.value or ""):
            self._notify(f"Assigned to {self._assignee.value}" if self._assignee.value else "Assigned to nobody")

    async def _write_note(self) -> None:
        if self._note.value and await self._say([self._items[self._at]], note=self._note.value):
            self._notify("Note kept")

    async def _save(self) -> None:
        item = self._items[self._at]
        changed: dict[str, str] = {}
        if (self._assignee.value or "") != (item.assignee or ""):
            changed["assignee"] = self._assignee.value or ""
        if self._note.value and self._note.value != item.note:
            changed["note"] = self._note.value
        if changed and await self._say([item], **changed):
            self._notify("Kept")

    async def _say(self, items: Sequence[InboxItem], **what: Any) -> bool:
        """Keep what is said of some conversations; False where nothing could be kept, which the page then says."""
        if self._busy:
            return False
        if not self._name.strip():
            self._notify("Enter your name first: it is kept with your decisions.", kind="warning")
            self._who.run_method("focus")
            return False
        self._busy = True
        people = self._page.record.store.people
        ids = [one.sequence_id for one in items]
        try:
            before = {one.sequence_id: one for one in await self._page.ask(people.reviews, ids)}
            made = await self._page.ask(partial(people.review, ids, author=self._name, **what))
        except TurnwiseError as error:
            self._notify(str(error), kind="negative")
            return False
        finally:
            self._busy = False
        for item in items:
            other = before.get(item.sequence_id)
            if other is not None and other.author != self._name and other.status is not item.status:
                self._notify(
                    f"{other.author} had said {other.status} of {item.sequence_id} at {other.created_at:%H:%M} "
                    "UTC; your status counts now. z takes it back.",
                    kind="warning",
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
            await self._page.ask(partial(people.review, ids, status, author=self._name, assignee=assignee))
        self._notify(f"Taken back: {len(before):,}")
        self._page.remember(id=before[0].sequence_id)
        await self._read()

    async def _go_on(self) -> None:
        """Show what is new while conversations are being judged; later offer it, so that no row moves away."""
        if self._found is None or self._busy:
            return
        newest = await self._page.ask(self._page.record.newest_evaluation)
        if self._found.pending or (newest != self._newest and not self._items):
            await self._read()
        elif newest != self._newest and not self._fresh.visible:
            self._fresh.set_visibility(True)

    async def _set(self, name: str, event: Any) -> None:
        value = event.value
        if name == "status":
            chosen = [one for one in value or () if one != "all"] if value and value[-1] != "all" else ["all"]
            value = ",".join(chosen)
        await self._set_value(name, value)

    async def _set_value(self, name: str, value: Any) -> None:
        self._page.remember(**{name: value or None, "id": None})
        self._at = 0
        if name == "run":
            self._texts.clear()
        await self._read()

    async def _day_clicked(self, step: timedelta, event: Any) -> None:
        first = date.fromisoformat(str(event.name))
        self._page.remember(since=first.isoformat(), until=(first + step - timedelta(1)).isoformat(), id=None)
        self._show_filters()
        await self._read()

    def _named(self, event: Any) -> None:
        import json

        self._name = (event.value or "").strip()
        ui.run_javascript(f"localStorage.setItem('turnwise-name', {json.dumps(self._name)})")

    def _save_view(self) -> None:
        with ui.dialog() as dialog, ui.card():
            heading("Save this view", 2)
            name = ui.input("Name").props("outlined dense maxlength=60 autofocus")

            def keep() -> None:
                state = {key: value for key, value in self._page.state.items() if key in (*_FILTERS, "run")}
                try:
                    self._views.keep(
                        name.value or "",
                        self._page.link(**{key: None for key in self._page.state if key not in state}),
                    )
                except TurnwiseError as error:
                    self._notify(str(error), kind="negative")
                    return
                dialog.close()
                self._show_filters()

            with ui.row():
                _button("Save", keep)
                _button("Cancel", dialog.close)
        dialog.open()

    def _notify(self, message: str, kind: Literal["info", "warning", "negative"] = "info") -> None:
        ui.notify(visible_lines(message), type=kind, position="bottom", multi_line=True)

    def _rows(self) -> tuple[str, list[list[Any]]]:
        return "inbox", [[*_COLUMNS], *([_plain(getattr(one, name)) for name in _COLUMNS] for one in self._items)]


class _Row:
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
            self.check = ui.checkbox(value=chosen).props(f'dense aria-label="Choose {_quoted(item.sequence_id)}"')
            self.check.on_value_change(lambda event: choose(item, chosen=bool(event.value)))
            self._button = ui.button(on_click=go).props("flat no-caps align=left").classes("inbox-item")
            with self._button:
                words = "" if flagged is None else " ".join(flagged.text[flagged.start : flagged.end].split())
                text("span", visible(words[:300]) or "(no text)").classes("inbox-sentence").props("dir=auto")
                with ui.element("span").classes("inbox-meta"):
                    self._status = text("span", str(item.status)).classes(f"status {item.status}")
                    told = (
                        f"F {item.F:.2f}",
                        f"turn {item.turn} of {item.turns}",
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


def _button(words: str, act: Callable[[], Any], icon: str | None = None) -> ui.button:
    return ui.button(words, icon=icon, on_click=act).props("no-caps dense outline")


def said_link(words: str, address: str) -> ui.link:
    """A link to another view."""
    return ui.link(words, address)


def _exists(page: Page) -> bool:
    return page.record.patterns is not None and page.record.patterns.exists()


def _day(written: str, *, after: bool = False) -> datetime | None:
    """The beginning of a day in UTC, or with `after` of the next one; None for what is no day."""
    try:
        day = date.fromisoformat(written)
    except ValueError:
        return None
    return datetime.combine(day + timedelta(1 if after else 0), time(), UTC)


def _sentences(store: Any, items: Sequence[InboxItem]) -> dict[str, FlaggedText]:
    return {one.sequence_id: sentence(store, one) for one in items}


def _turns_around(store: Any, item: InboxItem) -> list[Turn]:
    """The turn before the flagged one, and that."""
    return list(store.turns(item.sequence_id, range(max(1, item.turn - 1), item.turn + 1)))


def _as_reviewed(item: InboxItem, review: Any) -> InboxItem:
    if review is None:
        return replace(item, status=Status.NEW, assignee=None)
    return replace(item, status=review.status, assignee=review.assignee)


def _sentence_of(item: InboxItem) -> str:
    """Why a conversation is here, in a sentence."""
    what = item.principle.replace("_", " ")
    return visible(
        f"{item.detector} fired at turn {item.turn}: {item.reason} (threshold {item.threshold:.3g}; {what}: "
        f"F {item.F:.2f}, highest {item.peak:.2f})"
    )


def _sure(indeterminacy: float) -> str:
    """How sure a score is, in words."""
    return "sure" if indeterminacy < 0.25 else "rather sure" if indeterminacy < 0.5 else "unsure"


def _quoted(name: str) -> str:
    return visible(name).replace('"', "'")


def _plain(value: Any) -> Any:
    return (
        value.isoformat()
        if isinstance(value, datetime)
        else value
        if isinstance(value, float | int)
        else str(value or "")
    )


def _day_options(bars: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {
        "animation": False,
        "grid": {"left": 4, "right": 4, "top": 4, "bottom": 18},
        "xAxis": {"type": "category", "data": [day for day, _ in bars], "axisTick": {"show": False}},
        "yAxis": {"type": "value", "show": False, "minInterval": 1},
        "tooltip": {"trigger": "axis"},
        "series": [
            {
                "type": "bar",
                "name": "flagged",
                "data": [count for _, count in bars],
                "itemStyle": {"color": "#2f5fd0"},
            }
        ],
    }
