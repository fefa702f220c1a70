"""The query: a pattern typed with completion, counted while typing, its matches with curves, and copies of it."""

from __future__ import annotations

import string
from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Label
from turnwise.errors import PatternError, TurnwiseError
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data import question
from turnwise.explorer.data.answers import Filter, SequencePage
from turnwise.explorer.data.conversations import Chat, read_chat
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    RATE_COLUMNS,
    choice,
    column,
    copy_button,
    data_table,
    drawing,
    emptied,
    failed,
    heading,
    notify,
    number,
    pager,
    rate_cells,
    said,
    tag,
    text,
    text_field,
)
from turnwise.store.query import QueryResult

_FIRST = "peak(F) > 0.7"
"""What is asked before somebody types."""

_ROWS = 12
"""Matches of a page."""

_MOST_COMPLETIONS = 8

_WORD = frozenset(string.ascii_letters + string.digits + '_."')
"""Characters of a word that is completed."""


async def build(page: Page) -> None:
    """Show the query."""
    await _Query(page).build()


class _Query:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked = 0
        self._found: SequencePage | None = None

    async def build(self) -> None:
        page = self._page
        heading("Query", 1)
        runs = await page.run_names()
        if not runs:
            text("p", "No run yet: turnwise evaluate makes scores to ask about.").classes("empty")
            return
        self._known = await page.ask(question.words, page.record)
        self._form(runs)
        self._count = ui.element("section").props('aria-label="Matches in numbers" aria-live=polite')
        with ui.element("div").classes("halves"):
            self._list = ui.element("section").props('aria-label="Matches"')
            with ui.element("section").props('aria-label="Chosen match"') as self._right:
                self._title = ui.element("p")
                self._chart = show_chart(chart_options([], last=2), "The pattern over turns, above the scores")
        with ui.element("section").props('aria-label="Use it elsewhere"'):
            heading("Use it elsewhere", 2)
            self._copies = ui.row().classes("form")
            with ui.row().classes("form"):
                text_field("Save as named pattern", page.get("name"), partial(self._named, "name"), live=True,
                           placeholder="slow_rise")  # fmt: skip
                text_field("What it catches", page.get("description"), partial(self._named, "description"),
                           live=True, wide=True)  # fmt: skip
            self._yaml = ui.element("div")
        await self._show()
        page.csv = self._rows

    @property
    def _pattern(self) -> str:
        return self._page.get("pattern", _FIRST)

    def _filter(self) -> Filter:
        state = {name: self._page.get(name) for name in ("label", "source", "page", "when")}
        run = self._page.run_name() or ""
        given = {**state, "run": run, "rule": self._pattern, "flagged": "yes", "size": str(_ROWS)}
        return Filter.of_address(given)

    async def _show(self) -> None:
        self._asked += 1
        mine, page = self._asked, self._page
        run, pattern = page.run_name() or "", self._pattern
        try:
            wanted = self._filter()
            counted = await page.ask(page.record.query, pattern, run, page.get("when", "ever"))
            found = await page.ask(page.answers.find, wanted)
        except TurnwiseError as error:
            if mine == self._asked:
                with emptied(self._count):
                    failed(str(error))
            return
        if mine != self._asked:
            return
        self._found = found
        with emptied(self._count):
            _counts(counted)
        self._matches()
        self._take_along()
        await self._draw()

    def _chosen(self) -> str | None:
        ids = [row.sequence_id for row in self._found.rows] if self._found else []
        return self._page.get("id") if self._page.get("id") in ids else next(iter(ids), None)

    async def _draw(self) -> None:
        page, chosen, run, pattern = self._page, self._chosen(), self._page.run_name(), self._pattern
        self._right.set_visibility(chosen is not None)
        if chosen is None or run is None:
            return
        chat = await page.ask(read_chat, page.record, chosen, run, pattern)
        values, holds = await page.ask(question.curves, page.record, run, pattern, chosen)
        with emptied(self._title):
            link = page.link("/sequence", run=run, id=chosen, rule=pattern, turn=chat.flag)
            ui.link(visible(chosen), link).classes("long-name")
            tag(str(chat.sequence.label))
            text("span", f" holds at turn {', '.join(map(str, holds[:12]))}" if holds else " holds at no turn")
        redraw(self._chart, _drawing(chat, values))

    async def _changed(self, name: str, value: str) -> None:
        self._page.remember(**{name: value, "page": None, "id": None})
        await self._show()

    async def _typed(self, value: str) -> None:
        self._complete(value)
        await self._changed("pattern", value)

    async def _choose(self, _: str, name: str) -> None:
        self._page.remember(id=name)
        self._matches()
        await self._draw()

    async def _turned(self, value: str) -> None:
        self._page.remember(page=value, id=None)
        await self._show()

    def _named(self, name: str, value: str) -> None:
        self._page.state[name] = value
        self._take_along()

    def _form(self, runs: list[str]) -> None:
        get = self._page.get
        self._field = text_field("Pattern", self._pattern, self._typed, live=True, search=True, wide=True)
        self._field.props('maxlength=10000 aria-controls=completions input-class="code"').classes("whole")
        self._offers = ui.row().props('id=completions role=group aria-label="Completions" aria-live=polite')
        self._offers.classes("chips")
        with ui.row().classes("form"):
            choice("Run", runs, self._page.run_name() or "", partial(self._changed, "run"))
            choice("Must hold", {"ever": "at some turn", "final": "at the last turn"}, get("when", "ever"),
                   partial(self._changed, "when"))  # fmt: skip
            choice("Show matches with label", [str(one) for one in Label], get("label"),
                   partial(self._changed, "label"), every="all")  # fmt: skip

    def _complete(self, typed: str) -> None:
        """Offer what the last word may become: the first by Tab, each by a button."""
        start = len(typed)
        while start and typed[start - 1] in _WORD:
            start -= 1
        before, word = typed[:start], typed[start:].lower()
        fits = [one for one in self._known if word and one[0].lower().startswith(word) and one[0].lower() != word]
        self._field.set_autocomplete([before + one for one, _ in fits[:_MOST_COMPLETIONS]])
        with emptied(self._offers):
            for one, kind in fits[:_MOST_COMPLETIONS]:
                offer = ui.button(visible(one), on_click=partial(self._take, before + one))
                offer.props("no-caps dense outline")
                offer.props["title"] = kind

    def _take(self, pattern: str) -> None:
        self._field.set_value(pattern)
        self._field.run_method("focus")

    def _take_along(self) -> None:
        page, pattern, name = self._page, self._pattern, self._page.get("name")
        command = question.as_command(page.record, page.run_name() or "", pattern, page.get("when", "ever"))
        with emptied(self._copies):
            copy_button("Copy as command", command)
            try:
                copy_button("Copy as guard rule", question.as_rule(page.record, pattern))
            except PatternError as error:
                said(str(error), "p").classes("quiet small")
        self._yaml.clear()
        if not name:
            return
        with self._yaml:
            try:
                made = question.as_named(name, pattern, page.get("description"))
            except PatternError as error:
                failed(str(error))
                return
            said(made, "pre")
            copy_button("Copy YAML", made)
            if page.record.patterns:
                ui.button(f"Save in {visible(str(page.record.patterns))}", on_click=self._keep).props(
                    "no-caps outline"
                )

    async def _keep(self) -> None:
        page = self._page
        given = (page.get("name"), self._pattern, page.get("description"))
        try:
            await page.ask(question.save_named, page.record, *given)
        except TurnwiseError as error:
            notify(error)
        else:
            notify(f"saved in {page.record.patterns}", "positive")

    def _matches(self) -> None:
        found, wanted, chosen = self._found, self._filter(), self._chosen()
        assert found is not None
        with emptied(self._list):
            if not found.rows:
                text("p", "No conversation matches.").classes("empty")
                return
            columns = [column("pick", "match", "pick"), column("label", kind="tag"),
                       column("turn", right=True), column("F", "highest F", right=True),
                       column("series", "F over turns", "graph")]  # fmt: skip
            rows = [
                {"pick": row.sequence_id, "picked": row.sequence_id == chosen, "label": row.label,
                 "turn": "–" if row.flag is None else row.flag, "F": number(row.F),
                 "series": drawing(row.series, row.turns, row.flag)}
                for row in found.rows
            ]  # fmt: skip
            data_table(columns, rows, "Matches in a table", heard=self._choose)
            pager(found.total, wanted.page, wanted.size, self._turned)
            if found.left_out:
                text("p", found.left_out).classes("quiet")

    def _rows(self) -> tuple[str, list[list[Any]]]:
        rows = self._page.answers.every(self._filter())
        names = ["sequence_id", "label", "source", "turns", "flag", "T", "I", "F"]
        return "matches", [names, *([getattr(row, name) for name in names] for row in rows)]


def _counts(found: QueryResult) -> None:
    words = f"{found.rate.count:,} of {found.rate.of:,} evaluated sequences match"
    words += f"; answered in {found.seconds * 1000:.0f} ms"
    if found.not_scored:
        words += f"; {found.not_scored:,} lack a score of something that the pattern reads"
    text("p", words).classes("quiet").props("role=status")
    named = {"all": found.rate, **{str(label): rate for label, rate in found.by_label.items()}}
    columns = [column("label", "conversations"), column("count", "match", right=True), *RATE_COLUMNS]
    data_table(columns, [{"label": name, **rate_cells(rate)} for name, rate in named.items()], "How many match")


def _drawing(chat: Chat, values: list[question.Curve]) -> dict[str, Any]:
    panels = [Panel(curve.name, {curve.name: curve.values}, level=curve.level, low=None, high=None)
              for curve in values]  # fmt: skip
    for principle, side in chat.principles:
        lines = {one: chat.values(principle, side, one) for one in "TIF"}
        panels.append(Panel(principle if side == "prompt" else f"{principle} (response)", lines))
    marks = {chat.flag: "holds"} if chat.flag else {}
    return chart_options(panels, last=len(chat.turns), marks=marks, columns=1, title="The pattern over turns")
