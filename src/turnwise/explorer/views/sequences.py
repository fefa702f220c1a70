"""The sequences: a table of all, paged, sorted and filtered on the server."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import choice, field, number, table, tag
from turnwise.explorer.data.record import FACTS
from turnwise.explorer.data.sequences import SIZES, Filter, Found
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import breakable, element, joined
from turnwise.explorer.pages import Page, Region, page
from turnwise.explorer.svg_charts import small_graph

_POLL_SECONDS = 1.0
"""How often it asks again while a rule or the index of words is at work."""

_HEADS = (
    ("id", "id", False), ("label", "label", False), ("source", "source", False), ("category", "category", False),
    ("tactic", "tactic", False), ("turns", "turns", True), ("flag", "first flag", True), ("T", "lowest T", True),
    ("I", "highest I", True), ("F", "highest F", True),
)  # fmt: skip

_MORE = ("category", "tactic", "least_turns", "most_turns", "first_flag", "last_flag", "least", "most")
"""Filters that are folded away as long as nothing is chosen there."""


@page("/sequences", "Sequences", order=20)
async def build(page: Page) -> None:
    """Show the table of sequences."""
    await _Sequences(page).build()


class _Sequences:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: Found | None = None
        self._asked = 0

    async def build(self) -> None:
        from nicegui import ui

        page = self._page
        Region(element("h1", "Sequences"))
        self._choices = await page.ask(page.answers.sequences.choices)
        runs = [run.name for run in await page.ask(page.record.runs)]
        self._form = Region(self._fields(runs), self._changed, label="Filters")
        self._table = Region(on=self._changed, label="Sequences", live=False)
        await self._show()
        page.csv = self._rows
        ui.timer(_POLL_SECONDS, self._look)

    def _filter(self) -> Filter:
        state = {**self._page.state}
        state.setdefault("run", self._page.run_name() or "")
        return Filter.of_address(state)

    async def _show(self) -> None:
        self._asked += 1
        mine = self._asked
        try:
            wanted = self._filter()
            found = await self._page.ask(self._page.answers.sequences.find, wanted)
            content = _table(self._page, wanted, found, self._choices)
        except TurnwiseError as error:
            found, content = None, failure(str(error))
        if mine == self._asked:  # else somebody typed on, and a later question is under way
            self._found = found
            self._table.show(content)

    async def _look(self) -> None:
        if self._found is not None and not self._found.complete:
            await self._show()

    async def _changed(self, name: str, value: str) -> None:
        page = self._page
        if name == "sort":
            same = page.get("sort", "imported") == value
            down = (page.get("descending") != "yes") if same else value in ("F", "I", "turns")
            page.remember(sort=value, descending="yes" if down else None, page=None)
        elif name == "page":
            page.remember(page=value if value != "1" else None)
        elif name == "clear":
            page.remember(**dict.fromkeys(set(page.state) - {"run"}))
            from nicegui import ui

            ui.navigate.to(page.link())
            return
        else:
            page.remember(**{name: value, "page": None})
        await self._show()

    def _fields(self, runs: list[str]) -> Markup:
        get, choices = self._page.get, self._choices
        more = any(get(one) for one in _MORE)
        first = element(
            "div",
            field("Words in the text", "words", get("words"), kind="search", size=24, live=True, search=True,
                  placeholder='word "two words" -not'),
            choice("Run", "run", runs, self._page.run_name() or "", every="" if runs else "none"),
            choice("Label", "label", map(str, Label), get("label"), every="all"),
            choice("Source", "source", choices["source"], get("source"), every="all"),
            field("Flagged where (pattern or detector)", "rule", get("rule"), size=26,
                  placeholder="the run's own threshold"),
            choice("Flagged", "flagged", {"yes": "yes", "no": "no"}, get("flagged"), every="all"),
            class_="form",
        )  # fmt: skip
        second = element(
            "div",
            choice("Category", "category", choices["category"], get("category"), every="all"),
            choice("Tactic", "tactic", choices["tactic"], get("tactic"), every="all"),
            field("Turns from", "least_turns", get("least_turns"), kind="number", size=5, least=1),
            field("to", "most_turns", get("most_turns"), kind="number", size=5, least=1),
            field("First flag from turn", "first_flag", get("first_flag"), kind="number", size=5, least=1),
            field("to", "last_flag", get("last_flag"), kind="number", size=5, least=1),
            choice("Score of", "principle", choices["principle"], get("principle"), every="any principle"),
            choice("component", "component", "TIF", get("component", "F")),
            field("highest at least", "least", get("least"), kind="number", size=6, step=0.05, least=0),
            field("lowest at most", "most", get("most"), kind="number", size=6, step=0.05, least=0),
            element("button", "Clear all", type="button", data_do="clear"),
            class_="form",
        )  # fmt: skip
        return joined(first, element("details", element("summary", "More filters"), second, open=more))

    def _rows(self) -> tuple[str, list[list[Any]]]:
        names = [name for name, *_ in _HEADS]
        head = ["sequence_id", *names[1:]]
        rows = self._page.answers.sequences.every(self._filter())
        return "sequences", [head, *([getattr(row, name) for name in head] for row in rows)]


def _table(page: Page, wanted: Filter, found: Found, choices: dict[str, list[str]]) -> Markup:
    if not found.of:
        return element(
            "p", "No conversation yet: turnwise import FILE --store ", page.record.where, class_="empty"
        )
    facts = [name for name in FACTS if choices[name]]
    head = [_head(wanted, *one) for one in _HEADS if one[0] not in FACTS or one[0] in facts]
    head.append(element("th", "F over turns"))
    rows = []
    for row in found.rows:
        link = page.link("/sequence", run=wanted.run, id=row.sequence_id, rule=wanted.rule, turn=row.flag)
        rows.append(
            element(
                "tr",
                element("td", element("a", breakable(row.sequence_id), href=link, data_item=True), class_="name"),
                element("td", tag(row.label)),
                [element("td", breakable(getattr(row, name)), class_="name") for name in ("source", *facts)],
                element("td", row.turns, class_="number"),
                element("td", "–" if row.flag is None else row.flag, class_="number"),
                [element("td", number(one), class_="number") for one in (row.T, row.I, row.F)],
                element("td", small_graph(row.series, row.turns, row.flag)),
            )
        )
    empty = element("p", "No conversation fits all of these filters.", class_="empty") if not rows else None
    return joined(_status(wanted, found), table(head, rows, "Sequences"), empty, _pager(wanted, found))


def _status(wanted: Filter, found: Found) -> Markup:
    said = f"{found.total:,} of {found.of:,} sequences"
    if found.rule:
        said += f", flagged where {found.rule}"
    for what, (done, of) in (("judged", found.judged), ("in the index of words", found.indexed or (1, 1))):
        if done < of:
            said += f"; {done:,} of {of:,} {what} so far"
    if found.left_out:
        said += f"; {found.left_out}"
    return element("p", said, class_="quiet", role="status")


def _head(wanted: Filter, name: str, title: str, right: bool) -> Markup:
    chosen = wanted.sort == name
    arrow = (" ▼" if wanted.descending else " ▲") if chosen else ""
    button = element("button", title + arrow, type="button", data_do="sort", data_value=name, class_="sort")
    way = ("descending" if wanted.descending else "ascending") if chosen else None
    return element("th", button, class_="number" if right else None, aria_sort=way, scope="col")


def _pager(wanted: Filter, found: Found) -> Markup:
    last = max(1, -(-found.total // wanted.size))
    first = (wanted.page - 1) * wanted.size + 1
    upto = min(first + wanted.size - 1, found.total)
    shown = f"{first:,} – {upto:,} of {found.total:,}" if found.rows else f"0 of {found.total:,}"

    def step(said: str, to: int, label: str) -> Markup:
        able = 1 <= to <= last and to != wanted.page
        return element(
            "button", said, type="button", data_do="page", data_value=to, disabled=not able, aria_label=label
        )

    return element(
        "div",
        step("«", 1, "first page"), step("‹", wanted.page - 1, "page before"),
        element("span", shown), step("›", wanted.page + 1, "next page"), step("»", last, "last page"),
        choice("Rows", "size", map(str, SIZES), str(wanted.size)),
        class_="pager", role="navigation", aria_label="Pages",
    )  # fmt: skip
