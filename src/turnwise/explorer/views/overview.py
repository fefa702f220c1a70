"""The overview: what the store holds, how scores go over turns, what is flagged, and what is being scored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nicegui import ui

from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data import overview
from turnwise.explorer.data.flags import rule_of
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    RATE_COLUMNS,
    card,
    choice,
    column,
    data_table,
    emptied,
    failed,
    heading,
    rate_cells,
    section,
    term,
    text,
    text_field,
)
from turnwise.rates import Rate
from turnwise.store.source import Newest

_POLL_SECONDS = 2.0
"""How often it looks whether the record has grown."""


async def build(page: Page) -> None:
    """Show the overview."""
    await _Overview(page).build()


class _Overview:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._means: list[overview.Mean] = []
        self._mark: Newest | None = None

    async def build(self) -> None:
        heading("Overview", 1)
        self._top = section("What the store holds")
        self._form = section("Run and rule")
        self._flagged = section("Flagged by source", live=True)
        self._chart = show_chart(self._options(), "Mean T, I and F over turns, by label")
        await self._show()
        self._page.csv = lambda: ("overview", _rows(self._means))
        ui.timer(_POLL_SECONDS, self._look)

    async def _show(self) -> None:
        page, record = self._page, self._page.record
        self._mark = await page.ask(record.newest)
        counts = await page.ask(overview.counts, record)
        with emptied(self._top):
            _counted(counts, self._mark)
        run = page.run_name()
        self._chart.set_visibility(bool(self._mark.evaluations))
        self._form.clear()
        self._flagged.clear()
        if run is None:
            with self._flagged:
                made = f"turnwise evaluate --store {record.where} makes scores."
                text("p", f"No run yet: {made}").classes("empty")
            return
        rule = page.get("rule") or await page.ask(rule_of, record, run)
        with self._form.classes("form"):
            choice("Run", [one.name for one in counts.runs], run, partial(self._chosen, "run"))
            text_field("Flagged where", rule, partial(self._chosen, "rule"), wide=True)
        self._means = await page.ask(overview.means, record, run)
        redraw(self._chart, self._options())
        try:
            rates = await page.ask(overview.detection, record, run, rule)
        except TurnwiseError as error:
            with self._flagged:
                failed(str(error))
            return
        with self._flagged:
            _flags(rates, rule, run, page)

    async def _chosen(self, name: str, value: str) -> None:
        self._page.remember(**{name: value, **({"rule": None} if name == "run" else {})})
        await self._show()

    async def _look(self) -> None:
        """Show everything anew where the record has grown, and say once more how old the last score is."""
        mark = await self._page.ask(self._page.record.newest)
        if mark != self._mark:
            await self._show()

    def _options(self) -> dict[str, Any]:
        labels = [label for label in map(str, Label) if any(mean.label == label for mean in self._means)]
        panels = []
        for label in labels:
            mine = [mean for mean in self._means if mean.label == label]
            lines = {one: [(mean.turn, getattr(mean, one)) for mean in mine] for one in "TIF"}
            panels.append(Panel(f"{label}: mean over {mine[0].scores:,} scores of turn 1", lines))
        last = max((mean.turn for mean in self._means), default=2)
        return chart_options(
            panels, last=last, columns=self._page.panels, title="Mean T, I and F over turns, by label"
        )


def _counted(counts: overview.StoreCounts, mark: Newest) -> None:
    figures = {
        "conversations": sum(one.sequences for one in counts.sources),
        "turns": sum(one.turns for one in counts.sources),
        "runs": len(counts.runs),
        "scores": sum(one.evaluations for one in counts.runs),
        "failed tries": sum(one.failures for one in counts.runs),
        "not read": sum(one.unread for one in counts.runs),
    }
    with ui.element("div").classes("cards"):
        for name, value in figures.items():
            if value or name != "not read":
                card(f"{value:,}", name)
    with ui.element("div").classes("columns"):
        with ui.element("section"):
            _sources(counts.sources)
        with ui.element("section"):
            _runs(counts, mark)


def _sources(sources: Sequence[overview.SourceCount]) -> None:
    heading("Sources", 2)
    labels = [label for label in map(str, Label) if any(label in one.labels for one in sources)]
    columns = [column("source"), *(column(label, right=True) for label in (*labels, "turns"))]
    rows = [
        {"source": one.source, "turns": f"{one.turns:,}"}
        | {label: f"{one.labels.get(label, 0):,}" for label in labels}
        for one in sources
    ]
    data_table(columns, rows, "Sources")


def _runs(counts: overview.StoreCounts, mark: Newest) -> None:
    heading("Runs", 2)
    columns = [column(name) for name in ("run", "observer", "sees", "state")]
    columns += [column(name, right=True) for name in ("scores", "failed", "not read", "cost")]
    every = sum(one.sequences for one in counts.sources)
    rows = [
        {"run": one.name, "observer": one.observer, "sees": one.context, "state": _state(one, every),
         "scores": f"{one.evaluations:,}", "failed": f"{one.failures:,}", "not read": f"{one.unread:,}",
         "cost": "–" if one.cost_usd is None else f"${one.cost_usd:,.2f}"}
        for one in counts.runs
    ]  # fmt: skip
    data_table(columns, rows, "Runs")
    if mark.last is not None:
        text("p", f"Last score {mark.last:%Y-%m-%d %H:%M:%S} UTC").classes("quiet small")


def _state(run: overview.RunCount, every: int) -> str:
    scored = f"{run.sequences:,} of {every:,} conversations" if run.sequences else "no score yet"
    return f"going on: {scored}" if run.going_on else scored if run.sequences < every else f"all {every:,} scored"


def _flags(rates: dict[tuple[Label, str], Rate], rule: str, run: str, page: Page) -> None:
    heading("Flagged by source", 2)
    with ui.element("p").classes("quiet small"):
        text("span", "The share of benign conversations is the ")
        term("false-positive rate")
        text("span", "; the rule begins as the run's own ")
        term("operating point")
        text("span", f" ({rule}).")
    columns = [column("source", kind="link"), column("label", kind="tag"), column("count", "flagged", right=True)]
    rows = [
        {"source": source, "label": str(label), **rate_cells(rate),
         "href": page.link("/sequences", run=run, rule=rule, source=source, label=label, flagged="yes")}
        for (label, source), rate in sorted(rates.items(), key=lambda one: (one[0][1], one[0][0]))
    ]  # fmt: skip
    data_table([*columns, *RATE_COLUMNS], rows, "Flagged by source")


def _rows(means: Sequence[overview.Mean]) -> list[list[Any]]:
    names = ("label", "turn", "scores", "T", "I", "F")
    return [list(names), *([getattr(mean, name) for name in names] for mean in means)]
