"""Run against run: what one arm flags and the other does not, by threshold, by facet and week by week."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from turnwise._support.visible import visible, visible_lines
from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import share
from turnwise.explorer.curves import redraw, show_chart
from turnwise.explorer.data.run_pairs import RunPair
from turnwise.explorer.pages import Page, page
from turnwise.rates import Rate
from turnwise.runs.flips import FACETS, ArmVerdicts, Compared, Flip, Thresholds
from turnwise.study.facets import FacetRate, facet_rates
from turnwise.study.trends import TIMES, Trends, TrendWeek, trends

if TYPE_CHECKING:
    from nicegui.elements.table import Table

Arm = Literal["a", "b"]

_ARMS: Final[tuple[Arm, Arm]] = ("a", "b")
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
_OWN_THRESHOLD = (
    "Intervals are exact, and take the threshold as given: one that was chosen by looking here flatters."
)
_LINK: Final = '<q-td :props="props"><a :href="props.row.href">{{ props.value }}</a></q-td>'


@page("/runs", "Runs compared", order=25)
async def build(page: Page) -> None:
    """Show two arms beside each other."""
    await _RunsCompared(page).build()


class _RunsCompared:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._pair: RunPair | None = None
        self._shown: list[float | None] = [None, None]
        self._wanted: list[float | None] = [None, None]
        self._busy = False
        self._trends: Trends | None = None

    async def build(self) -> None:
        from nicegui import ui

        with ui.element("h1"):
            ui.label("Runs compared")
        names = [run.name for run in await self._page.ask(self._page.record.runs)]
        if not names:
            ui.label(f"No run yet: turnwise evaluate --store {self._page.record.where} makes one.").classes(
                "empty"
            )
            return
        state = self._page.state
        state.setdefault("b", self._page.run_name() or names[-1])
        others = [name for name in names if name != state["b"]]
        state.setdefault("a", others[-1] if others else state["b"])
        self._wanted = [_number(self._page.get(f"at_{arm}")) for arm in _ARMS]
        self._form(names)
        self._said = ui.label().classes("lead").props("role=status aria-live=polite")
        self._judged = ui.label().classes("quiet small")
        with ui.element("div").classes("cards"):
            self._controls = {arm: _Threshold(arm, self._moved) for arm in _ARMS}
        self._caution = ui.label().classes("quiet small")
        with ui.tabs(on_change=self._turned).props("align=left") as tabs:
            for name, said in _TABS.items():
                ui.tab(name, said).props("no-caps")
        with ui.tab_panels(tabs, value=self._page.get("tab", "flips"), animated=False).classes("w-full"):
            with ui.tab_panel("flips"):
                self._flips_panel()
            with ui.tab_panel("facets"):
                self._facet = self._choice("Facet", "facet", dict.fromkeys(FACETS), "source", self._show_facets)
                self._facets = _table(_RATES, "What each flags by facet and label", link="value")
            with ui.tab_panel("weeks"):
                self._weeks_panel()
        self._page.csv = self._csv
        await self._lay()

    def _form(self, names: list[str]) -> None:
        from nicegui import ui

        called = {name: visible(name) for name in names}
        with ui.row().classes("form").props('role=group aria-label="What is compared"'):
            for arm in _ARMS:
                self._choice(f"Run {arm.upper()}", arm, called, names[-1], self._lay)
                detector = ui.input(
                    f"Detector {arm.upper()}",
                    value=self._page.get(f"detector_{arm}"),
                    placeholder="as the run is judged",
                )

                async def typed(arm: Arm = arm, field: Any = detector) -> None:
                    await self._chosen(f"detector_{arm}", field.value.strip(), self._lay)

                detector.on("change", typed)
            kinds = {"corrected": "as people corrected them", "imported": "as imported"}
            self._choice("Labels", "labels", kinds, "corrected", self._lay)

    def _choice(
        self, said: str, name: str, values: Mapping[str, str | None], default: str, then: Callable[[], Any]
    ) -> Any:
        """A field whose value is kept in the address under a name."""
        from nicegui import ui

        async def changed(event: Any) -> None:
            await self._chosen(name, str(event.value), then)

        called = {value: words or value for value, words in values.items()}
        chosen = self._page.get(name, default)
        return ui.select({chosen: chosen, **called}, label=said, value=chosen, on_change=changed).classes("choice")

    async def _chosen(self, name: str, value: str, then: Callable[[], Any]) -> None:
        if then == self._lay:  # thresholds belong to the detectors that they were chosen for
            self._page.remember(at_a=None, at_b=None, page=None)
            self._wanted = [None, None]
        self._page.remember(**{name: value})
        await then()

    async def _lay(self) -> None:
        """Judge both arms, and show everything anew."""
        page = self._page
        self._said.set_text("Judging …")
        sides = [(page.get(arm), page.get(f"detector_{arm}")) for arm in _ARMS]
        try:
            self._pair = await page.ask(
                page.answers.run_pairs.pair, sides[0], sides[1], page.get("labels", "corrected") == "corrected"
            )
        except TurnwiseError as error:
            self._said.set_text("Nothing is compared.")
            _notify(error)
            return
        compared = self._pair.compared
        for arm, control, wanted in zip(
            (compared.a, compared.b), self._controls.values(), self._wanted, strict=True
        ):
            control.show_arm(arm, wanted)
        alone = [f"{count:,} were judged by {arm} alone, and are no flips"
                 for arm, count in (("A", compared.only_a), ("B", compared.only_b)) if count]  # fmt: skip
        self._judged.set_text("; ".join(alone))
        self._caution.set_text(
            f"{self._pair.labelled:,} of them have a label. {_OWN_THRESHOLD}" if self._pair.labelled else
            "None of them has a label, so there is no recall; label some, and look again."
        )  # fmt: skip
        self._shown = [float("nan")] * 2
        self._trends = None
        await self._follow()
        await self._show_weeks()

    # Thresholds

    async def _moved(self, arm: Arm, value: float | None) -> None:
        self._wanted[_ARMS.index(arm)] = value
        self._page.remember(**{f"at_{arm}": None if value is None else f"{value:.6g}", "page": None})
        await self._follow()

    @property
    def _thresholds(self) -> Thresholds:
        return self._wanted[0], self._wanted[1]

    async def _follow(self) -> None:
        """Show what holds at the thresholds that are wanted; one answer at a time, the last one always."""
        if self._busy or self._pair is None:
            return
        self._busy = True
        try:
            while self._shown != self._wanted:
                self._shown = list(self._wanted)
                pair = self._pair
                found = await self._page.ask(pair.at, self._thresholds)
                flips, judged = found.a_alone + found.b_alone, len(pair.compared)
                self._said.set_text(
                    f"{flips:,} of {judged:,} conversations that both judged are flagged by one alone: "
                    f"{found.a_alone:,} by A, {found.b_alone:,} by B."
                )
                for control, rates in zip(self._controls.values(), found.rates, strict=True):
                    control.show_rates(*rates)
                await self._show_flips()
                await self._show_facets()
        except TurnwiseError as error:  # a threshold that the detector does not take
            _notify(error)
        finally:
            self._busy = False

    # Flips

    def _flips_panel(self) -> None:
        from nicegui import ui

        with ui.row().classes("form"):
            for facet in FACETS:
                if value := self._page.get(facet):
                    said = f"{facet}: {visible(value)}"
                    chip = ui.chip(said, removable=True)
                    chip.props["aria-label"] = said
                    chip.on("remove", lambda facet=facet: ui.navigate.to(self._page.link(None, **{facet: None})))

        async def asked(event: Any) -> None:
            self._page.remember(page=event.args["pagination"]["page"])
            await self._show_flips()

        self._flips = _table(_FLIPS, "Flips, the clearest first", link="conversation")
        self._flips.on("request", asked)

    def _where(self) -> dict[str, str]:
        return {facet: value for facet in FACETS if (value := self._page.get(facet))}

    async def _show_flips(self) -> None:
        if self._pair is None:
            return
        compared, thresholds = self._pair.compared, self._thresholds
        first = (max(1, int(_number(self._page.get("page")) or 1)) - 1) * _PAGE
        places = compared.flipped(thresholds, self._where())
        store = self._page.record.store
        found = await self._page.ask(compared.flips, store, places[first : first + _PAGE], thresholds)
        self._flips.rows = [self._flip_row(one, compared) for one in found]
        self._flips.pagination = {"page": first // _PAGE + 1, "rowsPerPage": _PAGE, "rowsNumber": len(places)}

    def _flip_row(self, one: Flip, compared: Compared) -> dict[str, Any]:
        runs = compared.a.run.name, compared.b.run.name
        if runs[0] == runs[1]:
            href = self._page.link("/sequence", id=one.sequence_id, run=runs[0], turn=one.turn)
        else:
            pair = {"a": one.sequence_id, "b": one.sequence_id, "run_a": runs[0], "run_b": runs[1]}
            href = self._page.link("/compare", **pair)
        return _row(one, href)

    # Facets and weeks

    async def _show_facets(self) -> None:
        if self._pair is None:
            return
        facet = self._page.get("facet", "source")
        found = await self._page.ask(facet_rates, self._pair.compared, facet, self._thresholds)
        self._facets.rows = [
            _row(one, self._page.link(None, **{facet: one.value, "tab": "flips", "page": None})) for one in found
        ]

    def _weeks_panel(self) -> None:
        from nicegui import ui

        with ui.row().classes("form"):
            self._choice("Of arm", "of", {"a": "A", "b": "B"}, "b", self._show_weeks)
            self._choice("By", "by", dict.fromkeys(FACETS), "source", self._show_weeks)
            weeks = {str(count): f"the first {count} weeks" for count in (1, 2, 4, 8, 13, 26)}
            self._choice("Reference", "reference", weeks, "4", self._show_weeks)
            times = dict(zip(TIMES, ("when it was said", "when it was imported"), strict=True))
            self._choice("Time", "time", times, "said", self._show_weeks)
        self._told = ui.label().classes("quiet small")
        self._chart = show_chart(_week_chart([]), "Share flagged and median of the highest F, week by week")
        self._weeks = _table(_WEEKS, "What the arm flags week by week")

    async def _show_weeks(self) -> None:
        page = self._page
        if self._pair is None or page.get("tab") != "weeks":
            return
        arm = self._pair.compared.a if page.get("of", "b") == "a" else self._pair.compared.b
        people = page.record.store.people.authors() if page.get("labels", "corrected") == "corrected" else ()
        found = await page.ask(
            trends, page.record.store, arm, page.get("by", "source"),
            reference=int(_number(page.get("reference")) or 4), time=page.get("time", "said"), corrected_by=people,
        )  # fmt: skip
        self._trends = found
        self._told.set_text(f"{visible(arm.name)}. {visible(str(found))}")
        self._chart.set_visibility(bool(found.weeks))
        redraw(self._chart, _week_chart(found.weeks))
        self._weeks.rows = [_row(week) for week in found.weeks]

    async def _turned(self, event: Any) -> None:
        if event.value != self._page.get("tab", "flips"):
            self._page.remember(tab=event.value)
            if self._trends is None:
                await self._show_weeks()

    def _csv(self) -> tuple[str, list[list[Any]]]:
        """What the chosen tab shows as rows of a file, all pages of it."""
        if self._pair is None:
            return "runs", []
        tab, compared = self._page.get("tab", "flips"), self._pair.compared
        found: list[dict[str, Any]]
        if tab == "facets":
            facet = self._page.get("facet", "source")
            found = [one.to_dict() for one in facet_rates(compared, facet, self._thresholds)]
        elif tab == "weeks":
            found = [one.to_dict() for one in self._trends.weeks] if self._trends else []
        else:
            places = compared.flipped(self._thresholds, self._where())
            found = [one.to_dict() for one in compared.flips(self._page.record.store, places, self._thresholds)]
        return tab, [list(found[0]), *(list(row.values()) for row in found)] if found else []


class _Threshold:
    """The threshold of an arm, by slider or number, and what it comes to."""

    def __init__(self, arm: Arm, moved: Callable[[Arm, float | None], Any]) -> None:
        from nicegui import ui

        self._arm, self._tell = arm, moved
        self._own = 0.0
        self._quiet = False
        name = arm.upper()
        with ui.card().classes("arm").props("flat bordered"):
            self._name = ui.label()
            self._slider = ui.slider(min=0, max=1, step=0.001, value=0, on_change=self._moved)
            self._slider.props["aria-label"] = f"Threshold of {name}, slider"
            with ui.row().classes("form"):
                self._number = ui.number(f"Threshold of {name}", on_change=self._moved, format="%.4g", step=0.01)
                ui.button("reset", on_click=self._reset, color=None).props("flat no-caps dense")
            self._recall, self._alarms = ui.label(), ui.label()

    def show_arm(self, arm: ArmVerdicts, wanted: float | None) -> None:
        """Show an arm at a threshold, None for its own."""
        import numpy as np

        finite = arm.scores[np.isfinite(arm.scores)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        self._own = arm.detector.threshold if np.isfinite(arm.detector.threshold) else high + 0.001
        self._name.set_text(f"{self._arm.upper()}: {visible(arm.name)}")
        ends = {"min": min(low, self._own, 0.0), "max": max(high, self._own)}
        self._slider.props.update({**ends, "step": max((ends["max"] - ends["min"]) / 1000, 1e-9)})
        self._set(self._own if wanted is None else wanted)

    def show_rates(self, recall: Rate, alarms: Rate) -> None:
        """Show what the threshold comes to."""
        self._recall.set_text(f"recall {share(recall)} of {recall.of:,} attacks")
        self._alarms.set_text(f"false alarms {share(alarms)} of {alarms.of:,} benign")

    def _set(self, value: float) -> None:
        self._quiet = True
        self._slider.set_value(value)
        self._number.set_value(round(value, 6))
        self._quiet = False

    async def _moved(self, event: Any) -> None:
        if self._quiet or event.value is None:
            return
        value = float(event.value)
        self._set(value)
        await self._tell(self._arm, None if value == round(self._own, 6) else value)

    async def _reset(self) -> None:
        self._set(self._own)
        await self._tell(self._arm, None)


def _table(columns: Sequence[str], label: str, link: str = "") -> Table:
    """A table whose rows are set later; the cells of a column may be links to what the row has as `href`."""
    from nicegui import ui

    made = ui.table(
        columns=[
            {"name": name, "label": name, "field": name, "align": "left" if name in _WORDS else "right"}
            for name in columns
        ],
        rows=[],
        row_key=columns[0],
        pagination={"rowsPerPage": 0},
    )
    made.props("flat dense hide-no-data")
    made.props.update({"role": "region", "aria-label": label})
    if link:
        made.add_slot(f"body-cell-{link}", _LINK)
    return made.classes("w-full")


def _row(shown: Flip | FacetRate | TrendWeek, href: str = "") -> dict[str, str]:
    """A row of a table, which leads somewhere."""
    return {heading: visible(cell) for heading, cell in shown.cells().items()} | {"href": href}


def _week_chart(weeks: Sequence[TrendWeek]) -> dict[str, Any]:
    """The options of a chart: the share flagged above, the median of the highest F below, a triangle at drift."""
    quiet = {"color": "#7a8494"}
    dates = sorted({week.week.isoformat() for week in weeks})
    series = []
    for place, value in enumerate(dict.fromkeys(week.value for week in weeks)):
        mine = [week for week in weeks if week.value == value]
        shares = [week.flagged.count / week.flagged.of for week in mine]
        for at, values in enumerate((shares, [week.median for week in mine])):
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


def _notify(error: TurnwiseError) -> None:
    from nicegui import ui

    ui.notify(visible_lines(str(error)), type="negative", multi_line=True, position="top")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
