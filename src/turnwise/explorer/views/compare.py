"""Two readings side by side: two runs or observers of a conversation, or two conversations, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from turnwise.conversation import Turn
from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import button, choice, field, tag
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data.side_by_side import DIFFERS, Beside, Half, Row, lay_beside, partners
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import element, joined, text_lines
from turnwise.explorer.pages import Page, Region
from turnwise.scoring import Score, TurnScores

_NONE = "(no scores)"


async def build(page: Page) -> None:
    """Show two readings side by side."""
    await _CompareView(page).build()


class _CompareView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: Beside | None = None

    async def build(self) -> None:
        page = self._page
        Region(element("h1", "Compare"))
        self._runs = [run.name for run in await page.ask(page.record.runs)]
        if not page.get("a"):
            first = await page.ask(lambda: next(iter(page.record.store.heads()), None))
            if first is None:
                Region(element("p", "The store has no conversation yet.", class_="empty"))
                return
            page.state["a"] = first.sequence_id
        await self._fill()
        self._form = Region(on=self._chosen, label="What is compared")
        self._head = Region(label="Where they part", live=True)
        self._chart = show_chart(self._options(), "Scores of both over turns")
        self._rows = Region(on=self._chosen, label="Turn by turn")
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

    async def _show(self) -> None:
        page = self._page
        first, second = ((page.get(side), _run(page.get(f"run_{side}"))) for side in "ab")
        try:
            self._found = await page.ask(lay_beside, page.record.store, first, second)
            near = await page.ask(partners, page.record.store, first[0])
        except TurnwiseError as error:
            self._found = None
            self._form.show(self._choices([]))
            self._head.show(failure(str(error)))
            self._rows.show(Markup())
            self._chart.set_visibility(False)
            return
        self._form.show(self._choices(near))
        self._head.show(_said(self._found))
        self._chart.set_visibility(bool(self._found.principles))
        if self._found.principles:
            redraw(self._chart, self._options())
        self._rows.show(self._table(self._found))

    def _choices(self, near: Sequence[tuple[str, str]]) -> Markup:
        page, runs = self._page, [*self._runs, _NONE]
        sides = [
            element(
                "fieldset",
                element("legend", said),
                field("Conversation", side, page.get(side), size=30),
                choice("Scores of run", f"run_{side}", runs, page.get(f"run_{side}")),
            )
            for side, said in (("a", "Left"), ("b", "Right"))
        ]
        wanted = page.get("component", "F")
        tools = element(
            "div",
            choice("Curve of", "component", ("F", "T", "I"), wanted),
            button("⇄ exchange", "swap", title="Exchange left and right"),
            class_="form",
        )
        links = [
            element("button", name, type="button", data_do="b", data_value=name, title=f"has the same {key}")
            for name, key in near[:8]
        ]
        beside = element("p", "Belongs with the left one: ", links, class_="chips") if links else None
        return joined(element("div", sides, tools, class_="form sides"), beside)

    async def _chosen(self, name: str, value: str) -> None:
        page = self._page
        if name == "swap":
            page.remember(a=page.get("b"), b=page.get("a"), run_a=page.get("run_b"), run_b=page.get("run_a"))
        elif name in ("a", "b", "run_a", "run_b", "component"):
            page.remember(**{name: value.strip()})
        else:
            return
        await self._show()

    def _options(self) -> dict[str, Any]:
        found = self._found
        if found is None:
            return chart_options([Panel("", {})], last=2)
        component = self._page.get("component", "F")
        names = f"{component} left", f"{component} right"
        panels = [
            Panel(
                principle,
                {
                    name: list(enumerate(found.curve(half, principle, component), 1))
                    for half, name in enumerate(names)
                },
                dashed=frozenset(names[1:]),
            )
            for principle in found.principles
        ]
        marks = {} if found.parts_at is None else {found.parts_at: "texts part"}
        return chart_options(panels, last=len(found.rows), marks=marks, title=f"{component} of both, turn by turn")

    def _table(self, found: Beside) -> Markup:
        heads = [
            element(
                "th",
                self._name(half),
                " ",
                tag(str(half.label)),
                element("div", f"{half.source}; {half.run or 'no run'}", class_="small"),
                element("div", half.observer, class_="small") if half.observer else None,
                scope="col",
            )
            for half in found.halves
        ]  # fmt: skip
        body = []
        for same, some in groupby(found.rows, key=lambda row: row.same):
            body += [_row(row, same, found) for row in some]
        return element(
            "table",
            element("thead", element("tr", element("th", "turn", scope="col"), heads)),
            element("tbody", body),
            class_="wide pair",
        )

    def _name(self, half: Half) -> Markup:
        link = self._page.link("/sequence", id=half.sequence_id, run=half.run)
        return element("a", half.sequence_id, href=link)

    def _csv(self) -> tuple[str, list[list[Any]]]:
        found = self._found
        heads = [
            "turn",
            "same text",
            "principle",
            *(f"{one} {side}" for side in ("left", "right") for one in "TIF"),
        ]
        rows: list[list[Any]] = [list(heads)]
        for row in () if found is None else found.rows:
            for name in found.principles if found is not None else ():
                given = [None if one is None else one.scores.get(name) for one in row.scores]
                values = [None if one is None else getattr(one, part) for one in given for part in "TIF"]
                rows.append([row.turn, row.same, name, *values])
        return "compare", rows


def _run(name: str) -> str | None:
    return None if name in ("", _NONE) else name


def _said(found: Beside) -> Markup:
    one, other = found.halves
    if one.sequence_id == other.sequence_id:
        texts = "The same conversation."
    elif found.parts_at is None:
        texts = "The texts are the same to the end."
    elif found.parts_at == 1:
        texts = "The texts differ from the first turn on."
    else:
        texts = f"The texts are the same up to turn {found.parts_at - 1} and part at turn {found.parts_at}."
    known = [row for row in found.rows if row.apart is not None]
    if not known:
        scores = "No turn was scored on both sides."
    elif found.differs_at is None:
        scores = f"F never differs by {DIFFERS:g} or more, over {len(known)} turns."
    else:
        most = max(known, key=lambda row: row.apart or 0.0)
        scores = (
            f"F differs by {DIFFERS:g} or more from turn {found.differs_at} on, most at turn {most.turn} "
            f"(by {most.apart:.2f})."
        )
    return element("p", element("strong", texts), " ", scores, class_="lead")


def _row(row: Row, same: bool, found: Beside) -> Markup:
    number = element("th", row.turn, scope="row", class_="number")
    mark = " parts" if row.turn == found.parts_at else ""
    if same and row.texts[0] is not None:
        both = element(
            "td", _text(row.texts[0]), element("div", _scores(row.scores, found), class_="halves"), colspan=2
        )
        return element("tr", number, both, class_="same", data_item="row", tabindex=-1)
    cells = [
        element("td", _text(turn), _score(scores, found))
        for turn, scores in zip(row.texts, row.scores, strict=True)
    ]
    return element("tr", number, cells, class_=f"differs{mark}", data_item="row", tabindex=-1)


def _scores(scores: tuple[TurnScores | None, TurnScores | None], found: Beside) -> list[Markup]:
    return [element("div", _score(one, found)) for one in scores]


def _text(turn: Turn | None) -> Markup:
    if turn is None:
        return element("p", "– at its end –", class_="quiet")
    prompt = element("div", element("span", "prompt", class_="whose"), text_lines(turn.prompt), class_="said")
    if turn.response is None:
        return prompt
    return joined(
        prompt,
        element(
            "div", element("span", "response", class_="whose"), text_lines(turn.response), class_="said answer"
        ),
    )


def _score(scores: TurnScores | None, found: Beside) -> Markup:
    if scores is None:
        return Markup()
    given = [_one(name, scores.scores[name]) for name in found.principles if name in scores.scores]
    return element("div", given or element("span", "not scored", class_="quiet small"), class_="triples")


def _one(name: str, score: Score) -> Markup:
    said = f"F {score.F:.2f}"
    strong = score.F >= 0.5
    return element(
        "span",
        element("b", said) if strong else said,
        f"  T {score.T:.2f}  I {score.I:.2f} ",
        element("span", name, class_="quiet"),
        class_="triple high" if strong else "triple",
        title=f"{name}: T {score.T:.3f}, I {score.I:.3f}, F {score.F:.3f}",
    )
