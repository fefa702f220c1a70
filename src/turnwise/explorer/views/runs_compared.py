"""Run against run: what one arm flags and the other does not, by threshold, by facet and week by week."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.errors import TurnwiseError
from turnwise.explorer.curves import redraw, show_chart
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    FLATTERS,
    NumberSlider,
    choice,
    data_table,
    finite,
    heading,
    notify,
    refill,
    text,
    text_field,
)
from turnwise.runs.flips import FACETS, ArmVerdicts, Compared, Flip, Thresholds
from turnwise.study import FacetRate, Trends, TrendWeek, facet_rates, trends
from turnwise.study.facets_and_trends import TIMES

if TYPE_CHECKING:
    from nicegui.elements.table import Table

    from turnwise.rates import Rate

_TABS: Final = {"flips": "Flips", "facets": "By facet", "weeks": "By week"}
_PAGE: Final = 25
"""Flips of a page."""

_FLIPS: Final = (
    "conversation", "label", "source", "flagged by", "turn", "score A", "score B", "F A", "F B", "F B − A",
)  # fmt: skip
_RATES: Final = ("value", "label", "flagged by A", "flagged by B", "A alone", "B alone", "p (Holm)")
_WEEKS: Final = ("value", "week of", "flagged", "median F", "p share", "p F", "drift")
_WORDS: Final = frozenset({"conversation", "label", "source", "flagged by", "value", "week of", "drift"})
"""Columns that are set flush left."""

_COLOURS: Final = (
    "#7a8494", "#2b8fd0", "#dd5a12", "#2a9d7c", "#7a5cc4", "#c98500", "#b0457b", "#5f7a2c", "#4f7fe8",
)  # fmt: skip


async def build(page: Page) -> None:
    """Show two arms beside each other."""
    await _RunsCompared(page).build()


class _RunsCompared:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._pair: Compared | None = None
        self._wanted = [finite(page.get("at_a")), finite(page.get("at_b"))]
        self._shown: list[float | None] = []
        self._busy = False
        self._trends: Trends | None = None

    async def build(self) -> None:
        page = self._page
        heading("Runs compared", 1)
        names = await page.run_names()
        if not names:
            text("p", f"No run yet: turnwise evaluate --store {page.record.where} makes one.").classes("empty")
            return
        latest = page.state.setdefault("b", page.run_name() or names[-1])
        page.state.setdefault("a", next((name for name in reversed(names) if name != latest), latest))
        with ui.row().classes("form").props('role=group aria-label="What is compared"'):
            for arm in "ab":
                self._choice(f"Run {arm.upper()}", arm, names, "", self._lay)
                named, told = f"detector_{arm}", self._telling(f"detector_{arm}", self._lay)
                text_field(f"Detector {arm.upper()}", page.get(named), told, placeholder="as the run is judged")
            kinds = {"corrected": "as people corrected them", "imported": "as imported"}
            self._choice("Labels", "labels", kinds, "corrected", self._lay)
        self._said = text("p", "").classes("lead").props("role=status")
        self._judged = text("p", "").classes("quiet small")
        with ui.element("div").classes("cards"):
            self._controls = [_Threshold(place, self._moved) for place in (0, 1)]
        self._caution = text("p", "").classes("quiet small")
        with ui.tabs(on_change=self._turned).props("align=left no-caps") as tabs:
            for name, said in _TABS.items():
                ui.tab(name, said)
        with ui.tab_panels(tabs, value=page.get("tab", "flips"), animated=False).classes("plain"):
            with ui.tab_panel("flips"):
                self._flips_panel()
            with ui.tab_panel("facets"):
                self._choice("Facet", "facet", FACETS, "source", self._show_facets)
                self._facets = _table(_RATES, "What each flags by facet and label", link="value")
            with ui.tab_panel("weeks"):
                self._weeks_panel()
        page.csv = self._csv
        await self._lay()

    def _telling(self, name: str, then: Callable[[], Any]) -> Callable[[str], Any]:
        """What hears a field: it keeps the value in the address, then shows something anew."""

        async def told(value: str) -> None:
            if then == self._lay:  # thresholds belong to the detectors that they were chosen for
                self._page.remember(at_a=None, at_b=None, page=None)
                self._wanted = [None, None]
            self._page.remember(**{name: value.strip()})
            await then()

        return told

    def _choice(
        self,
        said: str,
        name: str,
        values: Iterable[str] | Mapping[str, str],
        default: str,
        then: Callable[[], Any],
    ) -> None:
        choice(said, values, self._page.get(name, default), self._telling(name, then))

    async def _lay(self) -> None:
        """Judge both arms, and show everything anew."""
        page = self._page
        self._said.set_text("Judging …")
        first, second = ((page.get(arm), page.get(f"detector_{arm}")) for arm in "ab")
        corrected = page.get("labels", "corrected") == "corrected"
        try:
            pair = await page.ask(page.answers.pair, first, second, corrected)
        except TurnwiseError as error:
            self._said.set_text("Nothing is compared.")
            notify(error)
            return
        self._pair, self._trends, self._shown = pair, None, []
        for arm, control, wanted in zip((pair.a, pair.b), self._controls, self._wanted, strict=True):
            control.show_arm(arm, wanted)
        alone = (("A", pair.only_a), ("B", pair.only_b))
        self._judged.set_text(
            "; ".join(f"{count:,} were judged by {arm} alone, and are no flips" for arm, count in alone if count)
        )
        await self._follow()

    @property
    def _thresholds(self) -> Thresholds:
        return self._wanted[0], self._wanted[1]

    async def _moved(self, place: int, value: float | None) -> None:
        self._wanted[place] = value
        kept = None if value is None else f"{value:.6g}"
        self._page.remember(**{f"at_{'ab'[place]}": kept, "page": None})
        await self._follow()

    async def _follow(self) -> None:
        """Show what holds at the thresholds that are wanted; one answer at a time, the last one always."""
        if self._busy or self._pair is None:
            return
        self._busy = True
        try:
            while self._shown != self._wanted:
                self._shown, pair = list(self._wanted), self._pair
                found = await self._page.ask(pair.at, self._thresholds)
                labelled = sum(rate.of for rate in found.rates_a)
                self._caution.set_text(
                    f"{labelled:,} of them have a label. {FLATTERS}" if labelled else
                    "None of them has a label, so there is no recall; label some, and reload this page."
                )  # fmt: skip
                self._said.set_text(
                    f"{found.a_alone + found.b_alone:,} of {len(pair):,} conversations that both judged "
                    f"are flagged by one alone: {found.a_alone:,} by A, {found.b_alone:,} by B."
                )
                for control, rates in zip(self._controls, (found.rates_a, found.rates_b), strict=True):
                    control.show_rates(*rates)
                await self._show_tab()
        finally:
            self._busy = False

    async def _show_tab(self) -> None:
        shown = {"facets": self._show_facets, "weeks": self._show_weeks}
        try:
            await shown.get(self._page.get("tab"), self._show_flips)()
        except TurnwiseError as error:  # a threshold that the detector does not take, another facet in the address
            notify(error)

    # Flips

    def _flips_panel(self) -> None:
        for facet, value in self._where().items():
            chip = ui.chip(f"{facet}: {visible(value)}", removable=True, color=None)
            chip.on("remove", lambda facet=facet: ui.navigate.to(self._page.link(None, **{facet: None})))

        async def turned(event: Any) -> None:
            if int(event.value) != self._number:
                self._page.remember(page=event.value)
                await self._show_flips()

        self._number = 1
        self._flips = _table(_FLIPS, "Flips, the clearest first", link="conversation")
        self._pager = ui.pagination(1, 1, direction_links=True, on_change=turned)
        self._pager.props("max-pages=5 boundary-numbers").props["aria-label"] = "Pages of flips"

    def _where(self) -> dict[str, str]:
        return {facet: value for facet in FACETS if (value := self._page.get(facet))}

    async def _show_flips(self) -> None:
        if self._pair is None:
            return
        compared, thresholds, record = self._pair, self._thresholds, self._page.record
        places = compared.flipped(thresholds, self._where())
        last = max(-(-len(places) // _PAGE), 1)
        number = self._number = min(max(int(finite(self._page.get("page")) or 1), 1), last)
        some = places[(number - 1) * _PAGE : number * _PAGE]
        found = await self._page.ask(compared.flips, record.store, some, thresholds)
        refill(self._flips, _rows(found, [*map(self._flip_link, found)]))
        self._pager.max, self._pager.value = last, number
        self._pager.set_visibility(last > 1)

    def _flip_link(self, one: Flip) -> str:
        a, b, name = self._page.get("a"), self._page.get("b"), one.sequence_id
        if a == b:
            return self._page.link("/sequence", id=name, run=a, turn=one.turn)
        return self._page.link("/compare", a=name, b=name, run_a=a, run_b=b)

    # Facets and weeks

    async def _show_facets(self) -> None:
        if self._pair is None:
            return
        facet = self._page.get("facet", "source")
        found = await self._page.ask(facet_rates, self._pair, facet, self._thresholds)
        links = [self._page.link(None, **{facet: one.value, "tab": "flips", "page": None}) for one in found]
        refill(self._facets, await self._page.ask(_rows, found, links))

    def _weeks_panel(self) -> None:
        with ui.row().classes("form"):
            self._choice("Arm", "of", {"a": "A", "b": "B"}, "b", self._show_weeks)
            self._choice("By", "by", FACETS, "source", self._show_weeks)
            weeks = {str(count): f"the first {count} weeks" for count in (1, 2, 4, 8, 13, 26)}
            self._choice("Reference", "reference", weeks, "4", self._show_weeks)
            times = dict(zip(TIMES, ("when it was said", "when it was imported"), strict=True))
            self._choice("Time", "time", times, "said", self._show_weeks)
        self._told = text("p", "").classes("quiet small")
        self._chart = show_chart(_week_chart([]), "Share flagged and median of the highest F, week by week")
        self._weeks = _table(_WEEKS, "What the arm flags week by week")

    async def _show_weeks(self) -> None:
        page = self._page
        if self._pair is None:
            return
        place = int(page.get("of", "b") == "b")
        arm = (self._pair.a, self._pair.b)[place]
        found = self._trends = await page.ask(
            trends, page.record.store, arm, page.get("by", "source"), time=page.get("time", "said"),
            reference=int(finite(page.get("reference")) or 4), threshold=self._wanted[place],
            facts=self._pair.facts,
        )  # fmt: skip
        self._told.set_text(f"{visible(arm.name)}. {visible(str(found))}")
        self._chart.set_visibility(bool(found.weeks))
        redraw(self._chart, _week_chart(found.weeks))
        refill(self._weeks, await page.ask(_rows, found.weeks))

    async def _turned(self, event: Any) -> None:
        if event.value != self._page.get("tab", "flips"):
            self._page.remember(tab=event.value)
            await self._show_tab()

    def _csv(self) -> tuple[str, list[list[Any]]]:
        """What the chosen tab shows as rows of a file, all pages of it."""
        tab = self._page.get("tab", "flips")
        rows: list[Flip | FacetRate | TrendWeek] = []
        if self._pair is not None and tab == "facets":
            rows = [*facet_rates(self._pair, self._page.get("facet", "source"), self._thresholds)]
        elif tab == "weeks":
            rows = [*self._trends.weeks] if self._trends else []
        elif self._pair is not None:
            places = self._pair.flipped(self._thresholds, self._where())
            rows = [*self._pair.flips(self._page.record.store, places, self._thresholds)]
        found = [one.to_dict() for one in rows]
        return tab, [list(found[0]), *(list(row.values()) for row in found)] if found else []


class _Threshold:
    """The threshold of an arm, by slider or number, and what it comes to."""

    def __init__(self, place: int, moved: Callable[[int, float | None], Any]) -> None:
        self._place, self._tell = place, moved
        self._own = 0.0
        arm = "AB"[place]
        with ui.element("section").classes("card"):
            self._name = text("h2", "").classes("long-name")
            self._number = NumberSlider(f"Threshold of {arm}", self._heard)
            with self._number.row:
                ui.button("reset", on_click=self._reset, color=None).props("outline no-caps")
            self._recall, self._alarms = text("p", ""), text("p", "")

    def show_arm(self, arm: ArmVerdicts, wanted: float | None) -> None:
        """Show an arm at a threshold, None for its own."""
        import numpy as np

        finite = arm.scores[np.isfinite(arm.scores)]
        high = float(finite.max(initial=0.0))
        self._own = arm.detector.threshold if math.isfinite(arm.detector.threshold) else high + 1e-3
        self._name.set_text(f"{'AB'[self._place]}: {visible(arm.name)}")
        low, high = min(float(finite.min(initial=0.0)), self._own), max(high, self._own)
        self._number.show(self._own if wanted is None else wanted, (low, high))

    def show_rates(self, recall: Rate, alarms: Rate) -> None:
        """Show what the threshold comes to."""
        self._recall.set_text(f"recall {recall}")
        self._alarms.set_text(f"false alarms {alarms}")

    def _heard(self, value: float) -> Any:
        return self._tell(self._place, None if f"{value:.6g}" == f"{self._own:.6g}" else value)

    def _reset(self) -> Any:
        self._number.show(self._own)
        return self._heard(self._own)


def _table(columns: Sequence[str], label: str, link: str = "") -> Table:
    """A table whose rows are set later; the cells of the column `link` are links."""
    made = [
        {"name": name, "label": name, "align": "left" if name in _WORDS else "right"}
        | ({"kind": "link"} if name == link else {})
        for name in columns
    ]
    return data_table(made, [], label)


def _rows(shown: Sequence[Flip | FacetRate | TrendWeek], links: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a table, each with the address that it leads to; exact intervals of many take a while."""
    return [{"href": links[at] if links else "", **one.cells()} for at, one in enumerate(shown)]


def _week_chart(weeks: Sequence[TrendWeek]) -> dict[str, Any]:
    """The options of a chart: the share flagged above, the median of the highest F below, a triangle at drift."""
    quiet = {"color": "#7a8494"}
    dates = sorted({week.week.isoformat() for week in weeks})
    series = []
    for place, value in enumerate(dict.fromkeys(week.value for week in weeks)):
        mine = [week for week in weeks if week.value == value]
        shares = [week.flagged.count / week.flagged.of for week in mine]
        for at, values in enumerate((shares, [week.median or 0.0 for week in mine])):
            points = [
                {"value": [week.week.isoformat(), round(one, 4)], "symbol": "triangle" if week.drift else "circle",
                 "symbolSize": 14 if week.drift else 4}
                for week, one in zip(mine, values, strict=True)
            ]  # fmt: skip
            line = {"width": 2 if value else 3.5, "type": "solid" if place < 5 else "dashed"}
            colour = {"color": _COLOURS[place % len(_COLOURS)]}
            series.append(
                {"name": visible(value) or "all", "type": "line", "xAxisIndex": at, "yAxisIndex": at,
                 "data": points, "lineStyle": line, "itemStyle": colour}
            )  # fmt: skip
    return {
        "animation": False, "backgroundColor": "transparent", "height": 520, "series": series,
        "aria": {"enabled": True}, "legend": {"type": "scroll", "top": 0, "left": 0, "textStyle": quiet},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "title": [{"text": name, "top": 30 + 240 * at, "left": 0, "textStyle": {"fontSize": 13, **quiet}}
                  for at, name in enumerate(("share flagged", "median of the highest F"))],
        "grid": [{"left": 48, "right": 16, "top": 58 + 240 * at, "height": 170} for at in range(2)],
        "xAxis": [{"type": "category", "gridIndex": at, "data": dates, "axisLabel": quiet} for at in range(2)],
        "yAxis": [{"type": "value", "gridIndex": at, "min": 0, "axisLabel": quiet} for at in range(2)],
    }  # fmt: skip
