"""The query: a pattern typed with completion, counted while typing, its matches with curves, and copies of it."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from turnwise.errors import PatternError, TurnwiseError
from turnwise.explorer.controls import choice, field, labelled, number, share, table, tag
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data import question
from turnwise.explorer.data.question import Counted
from turnwise.explorer.data.sequence import Chat, read_chat
from turnwise.explorer.data.sequences import Filter, Found
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import breakable, element, joined
from turnwise.explorer.pages import Page, Region, page
from turnwise.explorer.svg_charts import small_graph

_FIRST = "peak(F) > 0.7"
"""What is asked before somebody types."""

_ROWS = 12
"""Matches of a page."""


@page("/query", "Query", order=40, keys={"Tab": "take the completion that is offered"})
async def build(page: Page) -> None:
    """Show the query."""
    await _Query(page).build()


class _Query:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked = 0
        self._found: Found | None = None
        self._counted: Counted | None = None

    async def build(self) -> None:
        from nicegui import ui

        page = self._page
        Region(element("h1", "Query"))
        runs = [run.name for run in await page.ask(page.record.runs)]
        if not runs:
            Region(element("p", "No run yet: turnwise evaluate makes scores to ask about.", class_="empty"))
            return
        words = await page.ask(question.words, page.record)
        Region(self._form(runs, words), self._changed, label="What is asked")
        self._count = Region(label="Matches in numbers", live=True)
        with ui.element("div").classes("halves"):
            self._list = Region(on=self._changed, label="Matches")
            with ui.element("div").classes("region") as self._right:
                self._title = Region()
                self._chart = show_chart(chart_options([], last=2), "The pattern over turns, above the scores")
        self._copies = Region(on=self._changed, label="Take it along")
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
        run, pattern, wanted = page.run_name() or "", self._pattern, self._filter()
        try:
            counted = await page.ask(question.count, page.record, run, pattern, page.get("when", "ever"))
            found = await page.ask(page.answers.sequences.find, wanted)
        except TurnwiseError as error:
            if mine == self._asked:
                self._count.show(_wrong(error))
            return
        if mine != self._asked:
            return
        self._counted, self._found = counted, found
        self._count.show(_counts(counted))
        self._list.show(_matches(found, self._chosen(), wanted))
        self._copies.show(self._take_along(run))
        await self._draw(pattern)

    def _chosen(self) -> str | None:
        ids = [row.sequence_id for row in self._found.rows] if self._found else []
        return self._page.get("id") if self._page.get("id") in ids else next(iter(ids), None)

    async def _draw(self, pattern: str) -> None:
        page, chosen, run = self._page, self._chosen(), self._page.run_name()
        self._right.set_visibility(chosen is not None)
        if chosen is None or run is None:
            return
        chat = await page.ask(read_chat, page.record, chosen, run, pattern)
        values, holds = await page.ask(question.curves, page.record, run, pattern, chosen)
        link = page.link("/sequence", run=run, id=chosen, rule=pattern, turn=chat.flag)
        holding = f"holds at turn {', '.join(map(str, holds[:12]))}" if holds else "holds at no turn"
        self._title.show(
            element("p", element("a", breakable(chosen), href=link), " ", tag(chat.sequence.label), f" {holding}")
        )
        redraw(self._chart, _drawing(chat, values))

    async def _changed(self, name: str, value: str) -> None:
        page = self._page
        if name == "choose":
            page.remember(id=value)
            if self._found is not None:
                self._list.show(_matches(self._found, value, self._filter()))
            await self._draw(self._pattern)
        elif name in ("pattern", "when", "run", "label"):
            page.remember(**{name: value, "page": None, "id": None})
            await self._show()
        elif name == "page":
            page.remember(page=value, id=None)
            await self._show()
        elif name in ("name", "description"):
            page.state[name] = value
            self._copies.show(self._take_along(page.run_name() or ""))
        elif name == "keep":
            from nicegui import ui

            given = (page.get("name"), self._pattern, page.get("description"))
            await page.ask(question.save_named, page.record, *given)
            ui.notify(f"saved in {page.record.patterns}", type="positive", position="top")

    def _form(self, runs: list[str], words: list[tuple[str, str]]) -> Markup:
        get = self._page.get
        area = element(
            "textarea", self._pattern, name="pattern", id="field-pattern", rows=2, spellcheck="false",
            autocomplete="off", data_live=True, data_search=True, data_words=json.dumps(words),
            role="combobox", aria_expanded="false",
            aria_controls="completions", aria_autocomplete="list", maxlength=10_000,
        )  # fmt: skip
        return joined(
            element("div", labelled("Pattern", "pattern", area),
                    element("ul", id="completions", role="listbox", aria_label="Completions", hidden=True),
                    class_="typing"),
            element(
                "div",
                choice("Run", "run", runs, self._page.run_name() or ""),
                choice("Has to hold", "when", {"ever": "at some turn", "final": "at the last turn"},
                       get("when", "ever")),
                choice("Show matches with label", "label", ("attack", "benign", "unlabelled"), get("label"),
                       every="all"),
                class_="form",
            ),
        )  # fmt: skip

    def _take_along(self, run: str) -> Markup:
        page, when = self._page, self._page.get("when", "ever")
        command = question.as_command(page.record, run, self._pattern, when)
        try:
            rule = element("div", element("button", "Copy as guard rule", type="button",
                                          data_copy=question.as_rule(page.record, self._pattern)))  # fmt: skip
        except PatternError as error:
            rule = element("p", str(error), class_="quiet small")
        name, saved = page.get("name"), None
        if name:
            try:
                text = question.as_named(name, self._pattern, page.get("description"))
                keep = element("button", f"Save in {page.record.patterns}", type="button", data_do="keep")
                saved = joined(
                    element("pre", text),
                    element("div", element("button", "Copy YAML", type="button", data_copy=text), " ",
                            keep if page.record.patterns else None),
                )  # fmt: skip
            except PatternError as error:
                saved = failure(str(error))
        return element(
            "section",
            element("h2", "Take it along"),
            element("div", element("button", "Copy as command", type="button", data_copy=command), rule,
                    class_="form"),
            element("div", field("Save as named pattern", "name", name, size=20, placeholder="slow_rise"),
                    field("What it catches", "description", page.get("description"), size=40), class_="form"),
            saved,
        )  # fmt: skip

    def _rows(self) -> tuple[str, list[list[Any]]]:
        rows = self._page.answers.sequences.every(self._filter())
        names = ["sequence_id", "label", "source", "turns", "flag", "T", "I", "F"]
        return "matches", [names, *([getattr(row, name) for name in names] for row in rows)]


def _wrong(error: TurnwiseError) -> Markup:
    return failure(str(error))


def _counts(found: Counted) -> Markup:
    head = [element("th", "") if not name else element("th", name, class_="number")
            for name in ("", "match", "of", "share", "95 % interval")]  # fmt: skip
    rows = []
    named = {"all": found.rate, **{str(label): rate for label, rate in found.by_label.items()}}
    for name, rate in named.items():
        low, high = rate.interval
        rows.append(
            element(
                "tr",
                element("td", name if name == "all" else tag(name)),
                element("td", f"{rate.count:,}", class_="number"),
                element("td", f"{rate.of:,}", class_="number"),
                element("td", share(rate).partition(" [")[0], class_="number"),
                element("td", f"{100 * low:.1f} – {100 * high:.1f} %" if rate.of else "–", class_="number"),
            )
        )
    said = f"{found.rate.count:,} of {found.rate.of:,} evaluated sequences match"
    said += f"; answered in {found.seconds * 1000:.0f} ms"
    if found.not_scored:
        said += f"; {found.not_scored:,} lack a score of something that the pattern reads"
    return joined(element("p", said, class_="quiet", role="status"),
                  element("div", element("table", element("thead", element("tr", head)), element("tbody", rows)),
                          class_="scroll"))  # fmt: skip


def _matches(found: Found, chosen: str | None, wanted: Filter) -> Markup:
    if not found.rows:
        return element("p", "No conversation matches.", class_="empty")
    head = [element("th", name) for name in ("match", "label")]
    head += [element("th", name, class_="number") for name in ("turn", "highest F")] + [
        element("th", "F over turns")
    ]
    rows = [
        element(
            "tr",
            element("td", element("button", breakable(row.sequence_id), type="button", data_do="choose",
                                  data_value=row.sequence_id, data_item="follow",
                                  class_="sort is-current" if row.sequence_id == chosen else "sort",
                                  aria_pressed="true" if row.sequence_id == chosen else "false"), class_="name"),
            element("td", tag(row.label)),
            element("td", row.flag if row.flag is not None else "–", class_="number"),
            element("td", number(row.F), class_="number"),
            element("td", small_graph(row.series, row.turns, row.flag)),
        )
        for row in found.rows
    ]  # fmt: skip
    last = max(1, -(-found.total // wanted.size))
    pages = element(
        "div",
        element("button", "‹", type="button", data_do="page", data_value=wanted.page - 1,
                disabled=wanted.page <= 1, aria_label="page before"),
        element("span", f"page {wanted.page:,} of {last:,}"),
        element("button", "›", type="button", data_do="page", data_value=wanted.page + 1,
                disabled=wanted.page >= last, aria_label="next page"),
        class_="pager", role="navigation", aria_label="Pages",
    )  # fmt: skip
    left_out = element("p", found.left_out, class_="quiet") if found.left_out else None
    return joined(table(head, rows, "Matches"), pages, left_out)


def _drawing(chat: Chat, values: list[question.Curve]) -> dict[str, Any]:
    panels = [Panel(curve.name, {curve.name: curve.values}, level=curve.level, low=None, high=None)
              for curve in values]  # fmt: skip
    for principle, side in chat.principles:
        lines = {one: chat.values(principle, side, one) for one in "TIF"}
        panels.append(Panel(principle if side == "prompt" else f"{principle} (response)", lines))
    marks = {chat.flag: "holds"} if chat.flag else {}
    return chart_options(panels, last=len(chat.turns), marks=marks, columns=1, title="The pattern over turns")
