"""The overview: what the store holds, how scores go over turns, what is flagged, and what is being scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from turnwise.clock import utc_now
from turnwise.conversation import Label
from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import choice, field, table
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data import overview
from turnwise.explorer.data.flags import rule_of
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import element, joined
from turnwise.explorer.pages import Page, Region, page
from turnwise.rates import Rate
from turnwise.store.source import Newest

_POLL_SECONDS = 2.0
"""How often it looks whether the record has grown."""

_LIVE_SECONDS = 30.0
"""A run whose last score is not older than this is going on."""


@page("/overview", "Overview", order=10)
async def build(page: Page) -> None:
    """Show the overview."""
    await _Overview(page).build()


class _Overview:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._means: list[overview.Mean] = []
        self._mark: Newest | None = None

    async def build(self) -> None:
        from nicegui import ui

        page = self._page
        Region(element("h1", "Overview"))
        self._top = Region(label="What the store holds")
        self._form = Region(on=self._chosen, label="Run and rule")
        self._flagged = Region(label="Flagged by source", live=True)
        self._chart = show_chart(self._options(), "Mean T, I and F over turns, by label")
        await self._show()
        page.csv = lambda: ("overview", _rows(self._means))
        ui.timer(_POLL_SECONDS, self._look)

    async def _show(self) -> None:
        page, record = self._page, self._page.record
        self._mark = await page.ask(overview.mark, record)
        counts = await page.ask(overview.counts, record)
        self._top.show(_counted(counts, self._mark))
        run = page.run_name()
        self._chart.set_visibility(run is not None)
        if run is None:
            told = element("p", "No run yet: turnwise evaluate --store ", record.where, " makes scores.")
            self._flagged.show(element("div", told, class_="empty"))
            return
        rule = page.get("rule") or await page.ask(rule_of, record, run)
        self._form.show(_choice([one.name for one in counts.runs], run, rule))
        self._means = await page.ask(overview.means, record, run)
        redraw(self._chart, self._options())
        try:
            rates = await page.ask(overview.detection, record, run, rule)
            self._flagged.show(_flags(rates, rule, run, page))
        except TurnwiseError as error:
            self._flagged.show(failure(str(error)))

    async def _chosen(self, name: str, value: str) -> None:
        if name in ("run", "rule"):
            self._page.remember(**{name: value, **({"rule": None} if name == "run" else {})})
            await self._show()

    async def _look(self) -> None:
        """Show everything anew where the record has grown, and say once more how old the last score is."""
        mark = await self._page.ask(overview.mark, self._page.record)
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
        return chart_options(panels, last=last, title="Mean T, I and F over turns, by label")


def _counted(counts: overview.Counts, mark: Newest) -> Markup:
    sources = counts.sources
    figures = {
        "sequences": sum(one.sequences for one in sources),
        "turns": sum(one.turns for one in sources),
        "runs": len(counts.runs),
        "scores": sum(one.evaluations for one in counts.runs),
        "failed tries": sum(one.failures for one in counts.runs),
    }
    unread = sum(one.unread for one in counts.runs)
    if unread:
        figures["not read"] = unread
    cards = [
        element(
            "div",
            element("div", f"{value:,}", class_="figure"),
            element("div", name, class_="caption"),
            class_="card",
        )
        for name, value in figures.items()
    ]
    return joined(
        element("div", cards, class_="cards"),
        element("div", _sources(sources), _runs(counts, mark), class_="columns"),
    )


def _sources(sources: Sequence[overview.SourceCount]) -> Markup:
    labels = [label for label in map(str, Label) if any(label in one.labels for one in sources)]
    head = [element("th", "source"), *(element("th", label, class_="number") for label in labels)]
    head.append(element("th", "turns", class_="number"))
    rows = [
        element(
            "tr",
            element("td", one.source, class_="name"),
            [element("td", f"{one.labels.get(label, 0):,}", class_="number") for label in labels],
            element("td", f"{one.turns:,}", class_="number"),
        )
        for one in sources
    ]
    return element("section", element("h2", "Sources"), table(head, rows))


def _runs(counts: overview.Counts, mark: Newest) -> Markup:
    head = [element("th", name) for name in ("run", "observer", "sees")]
    head += [
        element("th", name, class_="number")
        for name in ("sequences", "of all", "scores", "failed", "not read", "cost")
    ]
    all_sequences = sum(one.sequences for one in counts.sources)
    rows = [
        element(
            "tr",
            element("td", one.name, class_="name"),
            element("td", one.observer, class_="name"),
            element("td", one.context),
            element("td", f"{one.sequences:,}", class_="number"),
            element("td", f"{100 * one.sequences / max(all_sequences, 1):.0f} %", class_="number"),
            element("td", f"{one.evaluations:,}", class_="number"),
            element("td", f"{one.failures:,}", class_="number"),
            element("td", f"{one.unread:,}", class_="number"),
            element("td", "–" if one.cost_usd is None else f"${one.cost_usd:,.2f}", class_="number"),
        )
        for one in counts.runs
    ]
    told = None
    if mark.last is not None:
        ago = (utc_now() - mark.last).total_seconds()
        going = ago < _LIVE_SECONDS
        told = element(
            "p",
            element("span", "going on" if going else "at rest", class_="tag"),
            f" last score {mark.last:%Y-%m-%d %H:%M:%S} UTC",
            class_="quiet small",
        )
    return element("section", element("h2", "Runs"), table(head, rows), told)


def _choice(runs: Sequence[str], run: str, rule: str) -> Markup:
    return element(
        "div",
        choice("Run", "run", runs, run),
        field("Flagged where", "rule", rule, size=40),
        class_="form",
    )


def _flags(rates: dict[tuple[Label, str], Rate], rule: str, run: str, page: Page) -> Markup:
    head = [element("th", name) for name in ("source", "label")]
    head += [element("th", name, class_="number") for name in ("flagged", "of", "share", "95 % interval")]
    rows = []
    for (label, source), rate in sorted(rates.items(), key=lambda one: (one[0][1], one[0][0])):
        low, high = rate.interval
        link = page.link("/sequences", run=run, rule=rule, source=source, label=label, flagged="yes")
        rows.append(
            element(
                "tr",
                element("td", element("a", source, href=link), class_="name"),
                element("td", element("span", label, class_=f"tag {label}")),
                element("td", f"{rate.count:,}", class_="number"),
                element("td", f"{rate.of:,}", class_="number"),
                element("td", f"{100 * rate.count / rate.of:.1f} %" if rate.of else "–", class_="number"),
                element("td", f"{100 * low:.1f} – {100 * high:.1f} %", class_="number"),
            )
        )
    return element("section", element("h2", "Flagged by source"), table(head, rows))


def _rows(means: Sequence[overview.Mean]) -> list[list[Any]]:
    names = ("label", "turn", "scores", "T", "I", "F")
    return [list(names), *([getattr(mean, name) for name in names] for mean in means)]
