"""A finished comparison: its tables and figures, and what another threshold would change."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.explorer.curves import redraw, score_bars, show_chart
from turnwise.explorer.data.studies import AtThreshold, Changed, FinishedStudy, ShownTable, StudyScores
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    FLATTERS,
    NumberSlider,
    Paged,
    card,
    choice,
    column,
    data_table,
    emptied,
    finite,
    heading,
    said,
    section,
    text,
)
from turnwise.rates import Rate

_LIST_SECONDS: Final = 0.25
"""How often the list follows a threshold that moves: it takes a browser longer than the rates."""

_CHANGES: Final = (
    column("id", "conversation", "link"), column("label", kind="tag"), column("source", "data set"),
    column("score", right=True), column("now"), column("right", "which is"),
    column("turn", "flagged at turn before"),
)  # fmt: skip


async def build(page: Page) -> None:
    """Show a study."""
    names = page.record.named.studies()
    if not names:
        _nothing(page)
        return
    name = page.get("study") or names[0]
    study = await page.ask(page.record.named.study, name)
    _StudyView(page, study, name).build(names)
    _StudyParts(page, await page.ask(study.tables), await page.ask(study.figures)).build()


def _nothing(page: Page) -> None:
    heading("Study", 1)
    with ui.element("div").classes("empty"):
        text("p", "There is no study beside this store. Make one, and reload this page:")
        said(f"turnwise study compare --store {page.record.where} --report study", "pre")
        text("p", "Name a study that is elsewhere at the start: turnwise explore --study FOLDER")


class _StudyView:
    """The threshold of an arm, and what moves with it."""

    def __init__(self, page: Page, study: FinishedStudy, name: str) -> None:
        self._page = page
        self._study = study
        self._name = name
        self._part = page.get("part") or study.parts[0]
        self._source = page.get("source")
        self._arm: StudyScores = study.arm(page.get("arm") or study.chosen, self._part)
        wanted = finite(page.get("threshold"))
        self._threshold = self._arm.start if wanted is None else wanted
        self._found: AtThreshold = self._at()
        self._listed: AtThreshold | None = None

    def _at(self) -> AtThreshold:
        return self._arm.at(self._threshold, [self._source] if self._source else [])

    def build(self, names: Sequence[str]) -> None:
        """Show what can be chosen, the threshold, and what comes of it."""
        arm = self._arm
        self._head(names)
        with section("Which threshold"):
            moved = "Threshold moved by" if arm.several else "Threshold"
            self._number = NumberSlider(moved, self._moved)
            ends = float(arm.steps[0]), float(arm.steps[-1])
            self._number.show(self._threshold, (min(*ends, 0.0), max(*ends, 0.0)) if arm.several else ends)
            with self._number.row:
                for words, next_one in (
                    ("◀ next change", lambda: arm.next_step(self._threshold, False)),
                    ("next change ▶", lambda: arm.next_step(self._threshold, True)),
                    ("as in the study", lambda: arm.start),
                ):
                    ui.button(words, on_click=partial(self._jump, next_one)).props("no-caps outline")
        with section("At this threshold"):
            self._cards = ui.element("div").classes("cards").props("aria-live=polite")
            self._bins = arm.bins(sources=[self._source] if self._source else [])
            self._chart = show_chart(score_bars(*self._bins, self._threshold), "")
            same = "As in the study: no conversation changes sides. Move the threshold."
            self._same = text("p", same).classes("quiet")
            with ui.element("div") as self._sides:
                text("p", FLATTERS)
                heading("Conversations that change sides", 2)
                text("p", "Nearest to the threshold of the study first.").classes("quiet small")
                self._table = Paged(data_table(_CHANGES, [], "Conversations that change sides"), self._row)
        self._show()
        self._list()
        self._page.csv = self._rows
        ui.timer(_LIST_SECONDS, self._list)

    def _head(self, names: Sequence[str]) -> None:
        study, warnings = self._study, self._study.warnings
        heading(f"Study {self._name}", 1)
        with ui.row().classes("form").props('role=group aria-label="Which study, arm and conversations"'):
            if len(names) > 1:
                choice("Study", names, self._name, partial(self._choose, "study"))
            choice("Arm", study.arms, self._arm.name, partial(self._choose, "arm"))
            choice("Conversations", study.parts, self._part, partial(self._choose, "part"))
            choice("Data set", study.sources, self._source, partial(self._choose, "source"), every="all")
        if warnings:
            told = f"{len(warnings)} warnings of the study: read them before any number"
            with ui.expansion(told).classes("more").props("dense"), ui.element("ul"):
                for warning in warnings:
                    said(warning, "li")
        if self._part != "test":
            text("p", "These conversations fitted the arm or set its threshold.").classes("quiet small")
        if odd := self._arm.odd:
            words = f"{odd} recorded verdicts do not follow from score and threshold: the study was changed."
            text("p", words).classes("quiet small")

    def _choose(self, name: str, value: str) -> None:
        """Open the view anew for another study, arm, part or data set."""
        gone = {"study": ("arm", "part", "source", "threshold"), "source": ()}.get(name, ("threshold",))
        ui.navigate.to(self._page.link(None, **{**dict.fromkeys(gone), name: value}))

    def _jump(self, next_one: Any) -> None:
        value = next_one()
        self._number.show(value)
        self._moved(value)

    def _moved(self, value: float) -> None:
        self._threshold = value
        self._found = self._at()
        self._show()
        start = value == self._arm.start
        self._page.remember(threshold=None if start else f"{value:.8g}", arm=self._arm.name)

    def _show(self) -> None:
        """The rates, and where the scores lie."""
        found, changed = self._found, self._found.changed
        better = sum(one.better for one in changed)
        with emptied(self._cards):
            _rate_card("recall", found.recall, found.before[0], "attacks flagged")
            _rate_card("false positives", found.false_positives, found.before[1], "benign flagged")
            worse = len(changed) - better
            card(str(len(changed)), f"change sides: {better} for the better, {worse} for the worse")
            if found.missing:
                card(str(found.missing), "without a score: in neither rate")
        attacks, benign, low, high = self._bins
        self._chart.props["aria-label"] = (
            f"Scores from {low:.3g} to {high:.3g} of {sum(attacks)} attacks and {sum(benign)} benign "
            f"conversations, threshold {self._threshold:.4g}"
        )
        redraw(self._chart, score_bars(*self._bins, self._threshold))

    def _list(self) -> None:
        """Who changes sides, where that is not yet shown."""
        if self._listed is self._found:
            return
        self._listed, changed = self._found, self._found.changed
        self._same.set_visibility(not changed)
        self._sides.set_visibility(bool(changed))
        self._table.show(changed)

    def _row(self, one: Changed) -> dict[str, Any]:
        return {
            "id": one.sequence_id, "href": self._page.link("/sequence", id=one.sequence_id),
            "label": "attack" if one.attack else "benign", "source": one.source, "score": f"{one.score:.4f}",
            "now": "▲ flagged" if one.flagged else "▽ let go", "right": "✓ right" if one.better else "✗ wrong",
            "turn": "–" if one.turn is None else one.turn,
        }  # fmt: skip

    def _rows(self) -> tuple[str, list[list[Any]]]:
        """What changes sides as rows of a file."""
        heads: list[list[Any]] = [["sequence", "label", "source", "score", "flagged", "right"]]
        made = [
            [one.sequence_id, "attack" if one.attack else "benign", one.source, one.score, one.flagged, one.better]
            for one in self._found.changed
        ]
        return f"changes at {self._threshold:.4g}", heads + made


class _StudyParts:
    """Tables and figures of a study, one shown at a time."""

    def __init__(self, page: Page, tables: Sequence[ShownTable], figures: dict[str, bytes]) -> None:
        self._page = page
        self._tables = {table.name: table for table in tables}
        self._figures = figures

    def build(self) -> None:
        """Show a field to choose one, and the one of the address."""
        first = next((name for name in ("detectors", *self._tables) if name in self._tables), "")
        chosen = self._page.get("shown", f"table {first}")
        words = {f"table {one.name}": f"table: {one.title}" for one in self._tables.values()}
        words |= {f"figure {one}": f"figure: {one.replace('_', ' ')}" for one in self._figures}
        with section("Tables and figures of the study"):
            heading("The study's tables and figures", 2)
            choice("Table or figure", words, chosen, self._choose).classes("grow")
            self._place = ui.element("div")
        self._show(chosen)

    def _choose(self, value: str) -> None:
        self._page.remember(shown=value)
        self._show(value)

    def _show(self, chosen: str) -> None:
        kind, _, name = chosen.partition(" ")
        with emptied(self._place):
            if kind == "figure" and name in self._figures:
                _figure(name, self._figures[name])
            elif name in self._tables:
                _table(self._tables[name])
            else:
                text("p", "The study has no such table.").classes("empty")


def _figure(name: str, drawing: bytes) -> None:
    with ui.element("figure").classes("paper"):
        image = ui.element("img")
        image.props["alt"] = visible(f"Figure {name} of the study")
        encoded = base64.b64encode(drawing).decode()
        image.props["src"] = f"data:image/svg+xml;base64,{encoded}"  # as an image nothing in it can run


def _table(table: ShownTable) -> None:
    heading(table.title, 3)
    columns = [
        column(str(at), visible(name), right=numeric)
        for at, (name, numeric) in enumerate(zip(table.columns, table.numeric, strict=True))
    ]
    data_table(columns, [{str(at): cell for at, cell in enumerate(row)} for row in table.rows], table.title)
    if table.note:
        said(table.note, "p").classes("quiet small narrow")


def _rate_card(name: str, now: Rate, before: Rate, of: str) -> None:
    low, high = now.interval
    interval = f"[{100 * low:.1f}, {100 * high:.1f}]" if now.of else "of none"
    was = "" if now == before else f"; in the study {_percent(before)}"
    card(_percent(now), f"{name} {interval}", f"{now.count} of {now.of} {of}{was}")


def _percent(rate: Rate) -> str:
    return f"{100 * rate.count / rate.of:.1f} %" if rate.of else "–"
