"""Two readings side by side: two runs or observers of a conversation, or two conversations, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible, visible_lines
from turnwise.conversation import Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data.conversations import DIFFERS, ComparedTurn, SideBySide, lay_beside, partners
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import choice, column, data_table, failed, heading, section, text, text_field
from turnwise.scoring import TurnScores

_NONE = "(no scores)"

_HEAD = """<q-th :props="props"><a :href="props.col.href">{{ props.col.label }}</a>
<span class="tag" :data-word="props.col.word">{{ props.col.word }}</span>
<div v-for="one in props.col.more" class="small">{{ one }}</div></q-th>"""

_ROW = """<q-tr :props="props" :class="props.row.look" data-item="row" tabindex="-1">
<th scope="row" class="text-right">{{ props.row.turn }}</th>
<td v-for="cell in props.row.cells" :colspan="3 - props.row.cells.length">
<p v-if="!cell.texts.length" class="quiet">– at its end –</p>
<template v-for="[who, words] in cell.texts"><div class="who">{{ who }}</div>
<div :class="['said', who]" dir="auto">{{ words }}</div></template>
<div class="halves"><div v-for="scores in cell.scores" class="triples"><template v-if="scores">
<span v-if="!scores.length" class="quiet">not scored</span>
<span v-for="one in scores" :class="['triple', {high: one.high}]" :title="one.title"><b>F {{ one.F }}</b>&ensp;
T {{ one.T }}&ensp; I {{ one.I }} <span class="quiet">{{ one.name }}</span></span></template></div></div></td>
</q-tr>"""


async def build(page: Page) -> None:
    """Show two readings side by side."""
    await _CompareView(page).build()


class _CompareView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: SideBySide | None = None

    async def build(self) -> None:
        page = self._page
        heading("Compare", 1)
        self._runs = await page.run_names()
        if not page.get("a"):
            first = await page.ask(lambda: next(iter(page.record.store.heads()), None))
            if first is None:
                text("p", "The store has no conversation yet.").classes("empty")
                return
            page.state["a"] = first.sequence_id
        await self._fill()
        self._fields()
        self._told = section("Where they differ", live=True)
        self._chart = show_chart(self._options(), "Scores of both over turns")
        self._rows = ui.element("div")
        page.csv = self._csv
        await self._show()

    async def _fill(self) -> None:
        """Choose what the address leaves open: the twin and the same run, else the same text in another run."""
        page = self._page
        if not page.get("run_a"):
            page.state["run_a"] = page.run_name() or _NONE
        if not page.get("b"):
            near = await page.ask(partners, page.record.store, page.get("a"))
            page.state["b"] = near[0][0] if near else page.get("a")
        if not page.get("run_b"):
            others = [name for name in reversed(self._runs) if name != page.get("run_a")]
            same = page.get("a") == page.get("b")
            page.state["run_b"] = others[0] if same and others else page.get("run_a")

    def _fields(self) -> None:
        page, runs = self._page, [*self._runs, _NONE]
        with section("What is compared"):
            with ui.row().classes("form"):
                for side, words in (("a", "Left"), ("b", "Right")):
                    with ui.element("fieldset"):
                        text("legend", words)
                        self._right = text_field("Conversation", page.get(side), partial(self._chosen, side))
                        run = f"run_{side}"
                        choice("Scores of run", runs, page.get(run), partial(self._chosen, run))
                choice("Curve of", "FTI", page.get("component", "F"), partial(self._chosen, "component"))
                ui.button("exchange", icon="swap_horiz", on_click=self._exchange).props("no-caps outline")
            self._near = ui.row().classes("chips")

    async def _show(self) -> None:
        page = self._page
        self._found, near, wrong = None, [], ""
        first, second = ((page.get(side), _run(page.get(f"run_{side}"))) for side in "ab")
        try:
            found = await page.ask(lay_beside, page.record.store, first, second)
            near = await page.ask(partners, page.record.store, first[0])
            self._found = found
        except TurnwiseError as error:
            wrong = str(error)
        for one in (self._near, self._told, self._rows):
            one.clear()
        self._offer(near)
        self._chart.set_visibility(self._found is not None and bool(self._found.principles))
        if self._found is None:
            with self._told:
                failed(wrong)
            return
        with self._told, text("p", "").classes("lead"):
            for tag, words in zip(("strong", "span"), _told(self._found), strict=True):
                text(tag, f"{words} ")
        redraw(self._chart, self._options())
        with self._rows:
            self._table(self._found)

    def _offer(self, near: Sequence[tuple[str, str]]) -> None:
        """Buttons for the conversations that belong with the left one."""
        with self._near:
            if near:
                text("span", "Related to the left one:")
            for name, key in near[:8]:
                offer = ui.button(visible(name), on_click=partial(self._take, name)).props("no-caps dense outline")
                offer.props["title"] = f"has the same {key}"

    async def _take(self, name: str) -> None:
        self._right.set_value(name)
        await self._chosen("b", name)

    def _exchange(self) -> None:
        get = self._page.get
        ui.navigate.to(self._page.link(a=get("b"), b=get("a"), run_a=get("run_b"), run_b=get("run_a")))

    async def _chosen(self, name: str, value: str) -> None:
        self._page.remember(**{name: value.strip()})
        await self._show()

    def _options(self) -> dict[str, Any]:
        found = self._found
        if found is None:
            return chart_options([Panel("", {})], last=2)
        component = self._page.get("component", "F")
        names = f"{component} left", f"{component} right"
        panels = []
        for principle in found.principles:
            curves = (found.curve(half, principle, component) for half in (0, 1))
            lines = {name: list(enumerate(one, 1)) for name, one in zip(names, curves, strict=True)}
            panels.append(Panel(principle, lines, dashed=frozenset(names[1:])))
        marks = {} if found.parts_at is None else {found.parts_at: "texts part"}
        title = f"{component} of both, turn by turn"
        return chart_options(panels, last=len(found.rows), marks=marks, columns=self._page.panels, title=title)

    def _table(self, found: SideBySide) -> None:
        heads = [
            {**column(side, visible(half.sequence_id)), "word": str(half.label),
             "href": self._page.link("/sequence", id=half.sequence_id, run=half.run),
             "more": [visible(one) for one in (f"{half.source}; {half.run or 'no run'}", half.observer) if one]}
            for side, half in zip("ab", found.halves, strict=True)
        ]  # fmt: skip
        rows = [_row(row, found) for row in found.rows]
        table = data_table([column("turn", right=True), *heads], rows, "Turn by turn").classes("pair")
        table.add_slot("body", _ROW)
        for head in heads:
            table.add_slot(f"header-cell-{head['name']}", _HEAD)

    def _csv(self) -> tuple[str, list[list[Any]]]:
        found = self._found
        heads = [
            "turn",
            "same text",
            "principle",
            *(f"{one} {side}" for side in ("left", "right") for one in "TIF"),
        ]
        rows: list[list[Any]] = [heads]
        for row in () if found is None else found.rows:
            for name in found.principles if found is not None else ():
                given = [None if one is None else one.scores.get(name) for one in row.scores]
                values = [None if one is None else getattr(one, part) for one in given for part in "TIF"]
                rows.append([row.turn, row.same, name, *values])
        return "compare", rows


def _run(name: str) -> str | None:
    return None if name in ("", _NONE) else name


def _told(found: SideBySide) -> tuple[str, str]:
    """Where the texts part, and where the scores do."""
    one, other = found.halves
    if one.sequence_id == other.sequence_id:
        texts = "The same conversation."
    elif found.parts_at is None:
        texts = "The texts are the same to the end."
    elif found.parts_at == 1:
        texts = "The texts differ from the first turn on."
    else:
        texts = f"The texts are the same up to turn {found.parts_at - 1} and differ from turn {found.parts_at}."
    known = [row for row in found.rows if row.apart is not None]
    if not known:
        return texts, "No turn was scored on both sides."
    if found.differs_at is None:
        return texts, f"F never differs by {DIFFERS:g} or more, over {len(known)} turns."
    most = max(known, key=lambda row: row.apart or 0.0)
    return texts, (
        f"F differs by {DIFFERS:g} or more from turn {found.differs_at} on, most at turn {most.turn} "
        f"(by {most.apart:.2f})."
    )


def _row(row: ComparedTurn, found: SideBySide) -> dict[str, Any]:
    """A row of the table: a cell for each half, or one for both where they say the same."""
    texts, scores = [_texts(turn) for turn in row.texts], [_scores(one, found) for one in row.scores]
    if row.same:
        return {"turn": row.turn, "look": "same", "cells": [{"texts": texts[0], "scores": scores}]}
    cells = [{"texts": one, "scores": [given]} for one, given in zip(texts, scores, strict=True)]
    return {"turn": row.turn, "look": "parts" if row.turn == found.parts_at else "", "cells": cells}


def _texts(turn: Turn | None) -> list[tuple[str, str]]:
    given = ((side, None if turn is None else turn.text(side)) for side in Side)
    return [(str(side), visible_lines(words)) for side, words in given if words is not None]


def _scores(scores: TurnScores | None, found: SideBySide) -> list[dict[str, Any]] | None:
    if scores is None:
        return None
    given = [(name, scores.scores[name]) for name in found.principles if name in scores.scores]
    return [
        {"name": visible(name), "high": score.F >= 0.5,
         "title": f"T {score.T:.3f}, I {score.I:.3f}, F {score.F:.3f}"}
        | {one: f"{getattr(score, one):.2f}" for one in "TIF"}
        for name, score in given
    ]  # fmt: skip
