"""One sequence: its turns as a chat, its curves, detectors and session memory, and what scores rest on."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from turnwise.conversation import Label, Side
from turnwise.detectors import DETECTORS, Signal
from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import choice, field, tag
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data.sequence import Chat, read_chat
from turnwise.explorer.frame import failure
from turnwise.explorer.markup import breakable, element, joined, text_lines
from turnwise.explorer.pages import Page, Region, page
from turnwise.explorer.views.turn_detail import detail
from turnwise.sessions import Outcome, Outcomes

_SHOWN = 20_000
"""Characters of a text that are shown."""

_AROUND = 100
"""Turns before and after the chosen one that the chat shows."""


@page("/sequence", "Sequence", order=30, listed=False, keys={"j, k": "next, previous turn"})
async def build(page: Page) -> None:
    """Show the sequence that the address names."""
    if not page.get("id"):
        Region(element("p", "Choose a sequence in ", element("a", "the table", href=page.link("/sequences")), "."))
        return
    await _Sequence(page).build()


class _Sequence:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._chat: Chat | None = None
        self._beside: Chat | None = None

    async def build(self) -> None:
        from nicegui import ui

        page = self._page
        self._runs = [run.name for run in await page.ask(page.record.runs)]
        self._head = Region(on=self._changed, label="Sequence")
        self._chart = show_chart(
            chart_options([], last=2), "T, I and F of every principle over turns", self._point
        )
        self._bands = Region(on=self._changed, label="Detectors and session memory over turns")
        with ui.element("div").classes("split"):
            self._chatted = Region(on=self._changed, label="Conversation", classes="chat")
            self._detail = Region(label="Scores of the chosen turn", classes="beside detail", live=True)
        await self._show()
        page.csv = self._rows

    async def _show(self) -> None:
        page = self._page
        run, beside = page.run_name(), page.get("beside")
        detectors = [one.strip() for one in page.get("detectors").split(";") if one.strip()]
        try:
            self._chat = await page.ask(read_chat, page.record, page.get("id"), run, page.get("rule"), detectors)
            self._beside = await page.ask(read_chat, page.record, page.get("id"), beside) if beside else None
        except TurnwiseError as error:
            if self._chat is None:
                raise
            self._head.show(joined(self._header(), failure(str(error))))
            return
        self._head.show(self._header())
        self._chart.set_visibility(bool(self._chat.principles))
        redraw(self._chart, self._options())
        self._bands.show(_bands(self._chat, self._at))
        self._chatted.show(self._turns())
        self._told(scroll=True)

    @property
    def _at(self) -> int:
        """The chosen turn: that of the address, else the flagged one, else the first."""
        last = len(self._chat.turns) if self._chat else 1
        text = self._page.get("turn")
        wanted = int(text) if text.isdecimal() and len(text) < 10 else (self._chat.flag if self._chat else None)
        return min(max(wanted or 1, 1), max(last, 1))

    async def _changed(self, name: str, value: str) -> None:
        if name == "turn":
            self._point(int(value))
            return
        self._page.remember(**{name: value})
        await self._show()

    def _point(self, turn: int) -> None:
        before = self._at
        self._page.remember(turn=turn)
        redraw(self._chart, self._options())
        if abs(before - turn) > 1 or turn % _AROUND == 0:
            self._chatted.show(self._turns())
        self._told(scroll=True)

    def _told(self, *, scroll: bool) -> None:
        from nicegui import ui

        assert self._chat is not None
        self._detail.show(detail(self._chat, self._at))
        ui.run_javascript(f"turnwise.point({self._at}, {'true' if scroll else 'false'})")

    # What is shown ---------------------------------------------------------------------------------------

    def _header(self) -> Markup:
        page, chat = self._page, self._chat
        assert chat is not None
        sequence = chat.sequence
        facts = [
            element("span", element("b", f"{name} "), _value(value)) for name, value in sequence.metadata.items()
        ]
        found = chat.verdicts
        told = [
            element("span", element("b", f"{one.detector} "), f"fired at turn {one.turn}: " if one.fired else
                    "did not fire: ", one.reason)
            for one in found
        ]  # fmt: skip
        flagged = outcome = None
        if (outcomes := chat.outcomes) is not None:
            benign = sequence.label is Label.BENIGN
            said = outcomes.in_words(benign=benign, alarm=chat.flag)
            outcome = element("div", said, class_="facts small" if benign or not outcomes.broke else "facts flag")
        if chat.run is not None:
            said = f"flagged at turn {chat.flag}" if chat.flag else "not flagged"
            flagged = element("span", ("▲ " if chat.flag else "") + said, f" by {chat.rule}",
                              class_="flag" if chat.flag else "quiet")  # fmt: skip
        return joined(
            element("h1", breakable(sequence.sequence_id), " ", tag(sequence.label)),
            element("div", element("span", element("b", "source "), sequence.source),
                    element("span", element("b", "turns "), len(chat.turns)), facts, flagged, class_="facts"),
            outcome,
            element(
                "div",
                choice("Run", "run", self._runs, chat.run or "", every="" if self._runs else "none"),
                choice("Beside it", "beside", [one for one in self._runs if one != chat.run], page.get("beside"),
                       every="no other run"),
                field("Flagged where (pattern or detector)", "rule", page.get("rule"), size=26,
                      placeholder=chat.rule),
                field("Detectors, with ; between them", "detectors", page.get("detectors"), size=26,
                      placeholder="; ".join(one.detector for one in found) or ", ".join(DETECTORS.names()[:3])),
                class_="form",
            ),
            element("div", told, class_="facts small") if told else None,
            element("div", self._elsewhere(), class_="facts small"),
        )  # fmt: skip

    def _elsewhere(self) -> list[Markup]:
        """Links to the other views that show a conversation."""
        page, chat = self._page, self._chat
        assert chat is not None
        name = chat.sequence.sequence_id
        links = {
            "compare with another": page.link("/compare", a=name, run_a=chat.run),
            "correct its label": page.link("/label", id=name),
            "try it in the guard": page.link("/guard", id=name),
        }
        return [element("a", said, href=link) for said, link in links.items()]

    def _options(self) -> dict[str, Any]:
        chat, beside = self._chat, self._beside
        assert chat is not None
        panels = []
        for principle, side in chat.principles:
            lines = {one: chat.values(principle, side, one) for one in "TIF"}
            dashed: set[str] = set()
            if beside is not None and (principle, side) in beside.principles:
                other = {f"{one} in {beside.run}": beside.values(principle, side, one) for one in "TIF"}
                lines |= other
                dashed = set(other)
            title = principle if side is Side.PROMPT else f"{principle} (response)"
            panels.append(Panel(title, lines, dashed=frozenset(dashed)))
        marks = {chat.flag: "flagged"} if chat.flag else {}
        title = f"T, I and F over turns of {chat.sequence.sequence_id}"
        return chart_options(panels, last=len(chat.turns), at=self._at, marks=marks, title=title)

    def _turns(self) -> Markup:
        chat = self._chat
        assert chat is not None
        first = max(1, self._at - _AROUND)
        last = min(len(chat.turns), self._at + _AROUND)
        outcomes = chat.outcomes
        shown = [_turn(chat, number, outcomes) for number in range(first, last + 1)]
        before = _more(f"turns 1 to {first - 1}", max(1, first - _AROUND)) if first > 1 else None
        total = len(chat.turns)
        after = _more(f"turns {last + 1} to {total}", min(total, last + _AROUND)) if last < total else None
        return joined(before, shown, after)

    def _rows(self) -> tuple[str, list[list[Any]]]:
        chat = self._chat
        assert chat is not None
        head = ["sequence_id", "run", "turn", "side", "principle", "T", "I", "F", "reasoning"]
        rows = [
            [chat.sequence.sequence_id, chat.run, one.key.turn, str(one.key.side), one.key.principle, one.score.T,
             one.score.I, one.score.F, one.reasoning]
            for one in (chat.trajectory.evaluations if chat.trajectory is not None else ())
        ]  # fmt: skip
        return "sequence", [head, *rows]


def _turn(chat: Chat, number: int, outcomes: Outcomes | None) -> Markup:
    turn = chat.turns[number - 1]
    scored, failed = chat.at(number)
    flagged = chat.flag == number
    fired = [one.detector for one in chat.verdicts if one.turn == number]
    outcome = None if outcomes is None else outcomes.by_turn.get(number)
    scores = [
        element("span", one.key.principle, " (response) " if one.key.side is Side.RESPONSE else " ",
                element("b", f"F {one.score.F:.2f}"), f" I {one.score.I:.2f} T {one.score.T:.2f}")
        for one in scored
    ]  # fmt: skip
    return element(
        "article",
        element(
            "header",
            element("b", f"Turn {number}"),
            element("span", "▲ flagged", class_="flag") if flagged else None,
            element("span", f"{', '.join(fired)} fired here", class_="flag") if fired else None,
            None if outcome is None else element("span", f"reply: {outcome}",
                                                 class_="flag" if outcome is Outcome.GAVE_WAY else "quiet"),
            f"{len(failed)} not scored" if failed else None,
            chat.unread_at(number),
        ),
        element("div", "Prompt", class_="who"),
        element("div", _cut(turn.prompt), class_="said", dir="auto"),
        [element("div", "Response", class_="who"), element("div", _cut(turn.response), class_="said response",
                                                           dir="auto")] if turn.response is not None else None,
        element("div", scores or "not scored", class_="scores"),
        id=f"turn-{number}", class_="turn flagged" if flagged else "turn", tabindex="0",
        aria_label=f"Turn {number}", data_do="turn", data_value=number, data_turn=number, data_item="follow",
    )  # fmt: skip


def _score_cell(signal: Signal) -> str:
    return f"{signal.score:.2f}" if signal.evidence else "–"


def _bands(chat: Chat, at: int) -> Markup:
    """A row for each detector and each part of the session memory, with a cell for each turn."""
    if not chat.session and not chat.verdicts:
        return Markup()
    turns = range(1, len(chat.turns) + 1)
    rows = [
        element("tr", element("th", "turn", scope="row"), [_cell(turn, str(turn), "head", "") for turn in turns])
    ]
    for verdict in chat.verdicts:
        cells = [
            _cell(turn, _score_cell(signal) + (" ▲" if verdict.turn == turn else ""),
                  "bad" if signal.active else "", signal.reason)
            for turn, signal in zip(turns, verdict.signals, strict=False)
        ]  # fmt: skip
        rows.append(element("tr", element("th", verdict.detector, scope="row"), cells))
    if chat.session:
        bands = {
            "trust": [(f"{one.trust:.2f}", "bad" if one.trust < 0.3 else "middle" if one.trust < 0.6 else "")
                      for one in chat.session],
            "circuit breaker": [(one.phase, "" if one.phase == "normal" else "bad") for one in chat.session],
            "stance": [(one.mode, {"normal": "", "cautious": "middle"}.get(one.mode, "bad"))
                       for one in chat.session],
            "heading": [(one.heading, "bad" if one.heading in ("degrading", "hostile") else "")
                        for one in chat.session],
        }  # fmt: skip
        for name, values in bands.items():
            cells = [
                _cell(one.turn, said, look, one.rationale)
                for one, (said, look) in zip(chat.session, values, strict=True)
            ]
            rows.append(element("tr", element("th", name, scope="row"), cells))
    return element("div", element("table", element("tbody", rows), aria_label="By turn"), class_="bands")


def _cell(turn: int, said: str, look: str, title: str) -> Markup:
    return element("td", said, class_=look, title=title, data_do="turn", data_value=turn, data_turn=turn)


def _more(said: str, turn: int) -> Markup:
    return element("p", element("button", f"Show {said}", type="button", data_do="turn", data_value=turn))


def _cut(text: str) -> Markup:
    if len(text) <= _SHOWN:
        return text_lines(text)
    return joined(
        text_lines(text[:_SHOWN]), element("span", f" … {len(text) - _SHOWN:,} more characters", class_="quiet")
    )


def _value(value: object) -> str:
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= 200 else said[:200] + " …"
