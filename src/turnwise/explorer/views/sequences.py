"""The sequences: a table of all, paged, sorted and filtered on the server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from nicegui import ui

from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.answers import SIZES, Filter, SequencePage
from turnwise.explorer.data.record import FACTS, ViewedStore
from turnwise.explorer.data.words import excerpt, search_words
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    choice,
    column,
    data_table,
    drawing,
    emptied,
    failed,
    heading,
    number,
    pager,
    refill,
    text,
    text_field,
)

_POLL_SECONDS = 1.0
"""How often it asks again while a rule or the index of words is at work."""

_HEADS = (
    ("id", "id", False), ("label", "label", False), ("source", "source", False), ("category", "category", False),
    ("tactic", "tactic", False), ("turns", "turns", True), ("flag", "first flag", True), ("T", "lowest T", True),
    ("I", "highest I", True), ("F", "highest F", True),
)  # fmt: skip

_MORE = ("category", "tactic", "least_turns", "most_turns", "first_flag", "last_flag", "least", "most", "rule")
"""Filters that are folded away as long as nothing is chosen there."""

_NOTHING = {"before": "", "found": "", "after": ""}


async def build(page: Page) -> None:
    """Show the table of sequences."""
    await _Sequences(page).build()


class _Sequences:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: SequencePage | None = None
        self._data: ui.table | None = None
        self._excerpts = False
        self._asked = 0

    async def build(self) -> None:
        page = self._page
        heading("Sequences", 1)
        self._choices = await page.ask(page.answers.choices)
        self._fields(await page.run_names())
        self._status = text("p", "").classes("quiet").props("role=status")
        self._table = ui.element("section").props('aria-label="Found sequences"')
        self._below = ui.row()
        await self._show()
        page.csv = self._rows
        ui.timer(_POLL_SECONDS, self._look)

    def _filter(self) -> Filter:
        state = {**self._page.state}
        state.setdefault("run", self._page.run_name() or "")
        return Filter.of_address(state)

    async def _show(self) -> None:
        self._asked += 1
        mine, page = self._asked, self._page
        excerpts: dict[str, dict[str, str]] = {}
        wanted, found, wrong = None, None, ""
        try:
            wanted = self._filter()
            found = await page.ask(page.answers.find, wanted)
            if wanted.words:
                ids = [row.sequence_id for row in found.rows]
                excerpts = await page.ask(_excerpts, page.record, ids, search_words(wanted.words))
        except TurnwiseError as error:
            wrong = str(error)
        if mine != self._asked:  # somebody typed on, and a later question is under way
            return
        self._found = found
        if wanted is None or found is None:
            self._table.clear()
            self._data = None
            with self._table:
                failed(wrong)
        else:
            self._show_found(wanted, found, excerpts)

    async def _look(self) -> None:
        if self._found is not None and not self._found.complete:
            await self._show()

    async def _changed(self, name: str, value: str) -> None:
        self._page.remember(**{name: value, "page": None})
        await self._show()

    async def _sort(self, _: str, by: str) -> None:
        page = self._page
        same = page.get("sort", "imported") == by
        down = (page.get("descending") != "yes") if same else by in ("F", "I", "turns")
        page.remember(sort=by, descending="yes" if down else None, page=None)
        await self._show()

    async def _turned(self, value: str) -> None:
        self._page.remember(page=value if value != "1" else None)
        await self._show()

    def _clear(self) -> None:
        self._page.remember(**dict.fromkeys(set(self._page.state) - {"run"}))
        ui.navigate.to(self._page.link())

    def _fields(self, runs: list[str]) -> None:
        get, choices = self._page.get, self._choices

        def chosen(label: str, name: str, values: Any, default: str = "", every: str = "all") -> None:
            choice(label, values, get(name, default), partial(self._changed, name), every)

        def typed(label: str, name: str, **more: Any) -> None:
            text_field(label, get(name), partial(self._changed, name), **more)

        with ui.row().classes("form").props('role=group aria-label="Filters"'):
            typed("Words in the text", "words", kind="search", live=True, search=True, wide=True,
                  placeholder='word "two words" -not')  # fmt: skip
            chosen("Run", "run", runs, self._page.run_name() or "", "" if runs else "none")
            chosen("Label", "label", [str(one) for one in Label])
            chosen("Source", "source", choices["source"])
            chosen("Flagged", "flagged", ("yes", "no"))
        folded = ui.expansion("More filters", value=any(get(one) for one in _MORE)).props("dense")
        with folded.classes("more"), ui.row().classes("form"):
            typed("Flagged where (pattern or detector)", "rule", wide=True, placeholder="the run's own threshold")
            chosen("Category", "category", choices["category"])
            chosen("Tactic", "tactic", choices["tactic"])
            typed("Turns from", "least_turns", kind="number")
            typed("Turns to", "most_turns", kind="number")
            typed("First flag from turn", "first_flag", kind="number")
            typed("First flag to turn", "last_flag", kind="number")
            chosen("Score of", "principle", choices["principle"], every="any principle")
            chosen("Component", "component", "TIF", "F", "")
            typed("Highest at least", "least", kind="number")
            typed("Lowest at most", "most", kind="number")
            ui.button("Clear all", on_click=self._clear).props("no-caps outline")

    def _show_found(self, wanted: Filter, found: SequencePage, excerpts: Mapping[str, dict[str, str]]) -> None:
        rows = [
            {"id": row.sequence_id, "label": row.label, "source": row.source, "category": row.category,
             "tactic": row.tactic, "turns": row.turns, "flag": "–" if row.flag is None else row.flag,
             "T": number(row.T), "I": number(row.I), "F": number(row.F),
             "excerpt": excerpts.get(row.sequence_id, _NOTHING),
             "series": drawing(row.series, row.turns, row.flag),
             "href": self._page.link("/sequence", run=wanted.run, id=row.sequence_id, rule=wanted.rule,
                                     turn=row.flag, words=wanted.words)}
            for row in found.rows
        ]  # fmt: skip
        self._status.text = _status(found)
        sort, shown = (wanted.sort, wanted.descending), bool(wanted.words)
        if self._data is None or self._excerpts != shown:
            kinds = {"id": "link", "label": "tag"}
            columns = [
                {**column(name, title, kinds.get(name), right=right), "sorts": True}
                for name, title, right in _HEADS
                if name not in FACTS or self._choices[name]
            ]
            columns += [column("excerpt", "found", "excerpt")] if shown else []
            columns.append(column("series", "F over turns", "graph"))
            with emptied(self._table):
                self._data = data_table(columns, rows, "Sequences", sort=sort, heard=self._sort)
            self._excerpts = shown
        else:
            refill(self._data, rows, sort)
        with emptied(self._below):
            if not found.of:
                text("p", f"No conversation yet: turnwise import FILE --store {self._page.record.where}")
            elif not rows:
                text("p", "No conversation fits all of these filters.").classes("empty")
            pager(found.total, wanted.page, wanted.size, self._turned)
            choice("Rows", [str(size) for size in SIZES], str(wanted.size), partial(self._changed, "size"))

    def _rows(self) -> tuple[str, list[list[Any]]]:
        names = [name for name, *_ in _HEADS]
        head = ["sequence_id", *names[1:]]
        rows = self._page.answers.every(self._filter())
        return "sequences", [head, *([getattr(row, name) for name in head] for row in rows)]


def _excerpts(record: ViewedStore, ids: list[str], words: list[str]) -> dict[str, dict[str, str]]:
    """Where some of the words are first in each of some conversations."""
    found = {}
    for sequence in record.store.sequences(ids=ids):
        texts = (one for turn in sequence.conversation for one in (turn.prompt, turn.response) if one)
        first = next(filter(None, (excerpt(one, words) for one in texts)), None)
        if first is not None:
            found[sequence.sequence_id] = first
    return found


def _status(found: SequencePage) -> str:
    said = f"{found.total:,} of {found.of:,} sequences"
    if found.rule:
        said += f", flagged where {found.rule}"
    for what, (done, of) in (("judged", found.judged), ("in the index of words", found.indexed or (1, 1))):
        if done < of:
            said += f"; {done:,} of {of:,} {what} so far"
    return f"{said}; {found.left_out}" if found.left_out else said
