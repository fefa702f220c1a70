"""A finished comparison: its tables and figures, and what another threshold would change."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from turnwise.explorer.controls import button, choice, field, tag
from turnwise.explorer.data.arm_scores import ArmScores, AtThreshold, Changed
from turnwise.explorer.data.studies import FinishedStudy, ShownTable
from turnwise.explorer.markup import element
from turnwise.explorer.pages import Page, Region
from turnwise.explorer.svg_charts import score_chart
from turnwise.rates import Rate

_SHOWN: Final = 200
"""Conversations that change sides and are listed."""


async def build(page: Page) -> None:
    """Show a study."""
    names = page.record.named.studies()
    if not names:
        Region(_nothing(page))
        return
    name = page.get("study") or names[0]
    study = await page.ask(page.record.named.study, name)
    view = _StudyView(page, study, name)
    Region(view.head(names), view.chose, label="Which study, arm and conversations")
    view.threshold_region = Region(view.controls(), view.moved, label="Threshold")
    view.result = Region(view.outcome(), label="At this threshold", live=True)
    page.csv = view.rows
    tables = await page.ask(study.tables)
    figures = await page.ask(study.figures)
    parts = _Parts(page, tables, figures)
    parts.region = Region(parts.content(), parts.chose, label="Tables and figures of the study")


def _nothing(page: Page) -> Markup:
    return element(
        "div",
        element("h1", "Study"),
        element("p", "No study lies beside this store. Make one, and look again:"),
        element("pre", f"turnwise study compare --store {page.record.where} --report study"),
        element("p", "A study that lies elsewhere is named at the start: turnwise explore --study FOLDER"),
        class_="empty",
    )


class _StudyView:
    """The threshold of an arm, and what moves with it."""

    def __init__(self, page: Page, study: FinishedStudy, name: str) -> None:
        self.page = page
        self.study = study
        self.name = name
        self.part = page.get("part") or study.parts[0]
        self.source = page.get("source")
        self.arm: ArmScores = study.arm(page.get("arm") or study.chosen, self.part)
        self.threshold = _number(page.get("threshold"), self.arm.start)
        self.found: AtThreshold = self._at()
        self.threshold_region: Region | None = None
        self.result: Region | None = None

    def _at(self) -> AtThreshold:
        return self.arm.at(self.threshold, [self.source] if self.source else [])

    def head(self, names: Sequence[str]) -> Markup:
        warnings = [element("li", warning) for warning in self.study.warnings]
        return element(
            "div",
            element("h1", "Study ", self.name),
            element(
                "div",
                choice("Study", "study", names, self.name) if len(names) > 1 else None,
                choice("Arm", "arm", self.study.arms, self.arm.name),
                choice("Conversations", "part", self.study.parts, self.part),
                choice("Data set", "source", self.study.sources, self.source, every="all"),
                class_="form",
            ),
            element(
                "details",
                element("summary", f"{len(warnings)} warnings of the study: read them before any number"),
                element("ul", warnings),
                class_="note",
            )
            if warnings
            else None,
            None if self.part == "test" else _note("These conversations fitted the arm or set its threshold."),
            None if not self.arm.odd else _note(
                f"{self.arm.odd} recorded verdicts do not follow from score and threshold: the study was changed."
            ),
        )  # fmt: skip

    def chose(self, name: str, value: str) -> None:
        """Open the view anew for another study, arm, part or data set."""
        from nicegui import ui

        gone: tuple[str, ...] = ("arm", "part", "source", "threshold") if name == "study" else ("threshold",)
        if name == "source":  # the same arm at the same threshold
            gone = ()
        if name in ("study", "arm", "part", "source"):
            ui.navigate.to(self.page.link(None, **{**dict.fromkeys(gone), name: value}))

    def controls(self) -> Markup:
        steps = self.arm.steps
        low, high = float(steps[0]), float(steps[-1])
        if self.arm.several:
            low, high = min(low, 0.0), max(high, 0.0)
        said = "Threshold moved by" if self.arm.several else "Threshold"
        value = f"{self.threshold:.6g}"
        return element(
            "div",
            element(
                "label",
                said,
                element("input", type="range", name="slider", data_live=True, min=low, max=high,
                        step=max((high - low) / 1000, 1e-9), value=value, aria_label=f"{said}, slider"),
                class_="slider",
            ),
            field("exactly", "threshold", value, size=12),
            button("◀ next change", "down"),
            button("next change ▶", "up"),
            button("as in the study", "reset"),
            class_="form threshold",
        )  # fmt: skip

    def moved(self, name: str, value: str) -> None:
        """Take another threshold, from the slider, the field or a button."""
        if name in ("up", "down"):
            self.threshold = self.arm.next_step(self.threshold, name == "up")
        elif name == "reset":
            self.threshold = self.arm.start
        else:
            self.threshold = _number(value, self.threshold)
        self.found = self._at()
        assert self.result is not None
        assert self.threshold_region is not None
        self.result.show(self.outcome())
        if name != "slider":  # a slider that is replaced while it is dragged would let go
            self.threshold_region.show(self.controls())
        start = self.threshold == self.arm.start
        self.page.remember(threshold=None if start else f"{self.threshold:.8g}", arm=self.arm.name)

    def outcome(self) -> Markup:
        """The rates, where the scores lie, and who changes sides."""
        found = self.found
        better = sum(one.better for one in found.changed)
        worse = len(found.changed) - better
        sides = [
            _card("recall", found.recall, found.before[0], "attacks flagged"),
            _card("false positives", found.false_positives, found.before[1], "benign flagged"),
            element(
                "div",
                element("div", len(found.changed), class_="figure"),
                element("div", f"change sides: {better} for the better, {worse} for the worse", class_="caption"),
                class_="card",
            ),
        ]  # fmt: skip
        if found.missing:
            sides.append(
                element("div", element("div", found.missing, class_="figure"),
                        element("div", "without a score: in neither rate", class_="caption"), class_="card")
            )  # fmt: skip
        bins = self.arm.bins(sources=[self.source] if self.source else [])
        return element(
            "div",
            element("div", sides, class_="cards"),
            score_chart(*bins, self.threshold),
            _note("Intervals are exact, and take the threshold as given: one that was chosen here flatters.")
            if found.changed
            else None,
            self._changed(),
        )

    def _changed(self) -> Markup:
        found = self.found.changed
        if not found:
            return element("p", "As in the study: nobody changes sides. Move the threshold.", class_="quiet")
        more = f" The nearest {_SHOWN} of {len(found)}." if len(found) > _SHOWN else ""
        heads = ("conversation", "label", "data set", "score", "now", "which is", "flagged at turn before")
        body = [self._row(one) for one in found[:_SHOWN]]
        return element(
            "div",
            element("h2", "Conversations that change sides"),
            element("p", "Nearest to the threshold of the study first.", more, class_="quiet small"),
            element(
                "div",
                element(
                    "table",
                    element("thead", element("tr", [
                        element("th", head, scope="col", class_="number" if head == "score" else None)
                        for head in heads
                    ])),
                    element("tbody", body),
                    class_="wide",
                ),
                class_="scroll",
            ),
        )  # fmt: skip

    def _row(self, one: Changed) -> Markup:
        link = self.page.link("/sequence", id=one.sequence_id)
        name = element("a", one.sequence_id, href=link, data_item="row")
        return element(
            "tr",
            element("td", name, class_="name"),
            element("td", tag("attack" if one.attack else "benign")),
            element("td", one.source),
            element("td", f"{one.score:.4f}", class_="number"),
            element("td", "▲ flagged" if one.flagged else "▽ let go"),
            element("td", "✓ right" if one.better else "✗ wrong"),
            element("td", "–" if one.turn is None else one.turn),
        )

    def rows(self) -> tuple[str, list[list[Any]]]:
        """What changes sides as rows of a file."""
        heads: list[list[Any]] = [["sequence", "label", "source", "score", "flagged", "right"]]
        made = [
            [one.sequence_id, "attack" if one.attack else "benign", one.source, one.score, one.flagged, one.better]
            for one in self.found.changed
        ]
        return f"changes at {self.threshold:.4g}", heads + made


class _Parts:
    """Tables and figures of a study, one shown at a time."""

    def __init__(self, page: Page, tables: Sequence[ShownTable], figures: dict[str, bytes]) -> None:
        self.page = page
        self.tables = {table.name: table for table in tables}
        self.figures = figures
        self.region: Region | None = None

    def chose(self, name: str, value: str) -> None:
        if name == "shown" and self.region is not None:
            self.page.remember(shown=value)
            self.region.show(self.content())

    def content(self) -> Markup:
        first = next((name for name in ("detectors", *self.tables) if name in self.tables), "")
        shown = self.page.get("shown") or f"table {first}"
        kind, _, name = shown.partition(" ")
        words = {f"table {one.name}": f"table: {one.title}" for one in self.tables.values()}
        words |= {f"figure {one}": f"figure: {one.replace('_', ' ')}" for one in self.figures}
        if kind == "figure" and name in self.figures:
            chosen = _figure(name, self.figures[name])
        elif name in self.tables:
            chosen = _table(self.tables[name])
        else:
            chosen = element("p", "The study has no such table.", class_="empty")
        return element(
            "div",
            element("h2", "The study's tables and figures"),
            element("div", choice("Table or figure", "shown", words, shown), class_="form"),
            chosen,
        )


def _figure(name: str, drawing: bytes) -> Markup:
    source = f"data:image/svg+xml;base64,{base64.b64encode(drawing).decode()}"  # as an image nothing in it can run
    return element("figure", element("img", src=source, alt=f"Figure {name} of the study"), class_="paper")


def _table(table: ShownTable) -> Markup:
    def row(cells: Sequence[str], kind: str) -> Markup:
        return element("tr", [
            element(kind, cell, class_="number" if numeric else None, scope="col" if kind == "th" else None)
            for cell, numeric in zip(cells, table.numeric, strict=True)
        ])  # fmt: skip

    return element(
        "div",
        element("h3", table.title),
        element("table", element("thead", row(table.columns, "th")), element("tbody", [
            row(cells, "td") for cells in table.rows
        ])),
        element("p", table.note, class_="quiet small narrow") if table.note else None,
        class_="scroll",
    )  # fmt: skip


def _card(name: str, now: Rate, before: Rate, of: str) -> Markup:
    was = "" if now == before else f"; in the study {_percent(before)}"
    return element(
        "div",
        element("div", _percent(now), class_="figure"),
        element("div", f"{name} {_interval(now)}", class_="caption"),
        element("div", f"{now.count} of {now.of} {of}{was}", class_="caption"),
        class_="card",
    )


def _percent(rate: Rate) -> str:
    return f"{100 * rate.count / rate.of:.1f} %" if rate.of else "–"


def _interval(rate: Rate) -> str:
    low, high = rate.interval
    return f"[{100 * low:.1f}, {100 * high:.1f}]" if rate.of else "of none"


def _note(said: str) -> Markup:
    return element("p", said, class_="quiet small")


def _number(text: str, default: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return default
    return value if math.isfinite(value) else default
