"""One sequence: its turns as a chat, its curves and detectors, and what scores rest on; for print as well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Label, Side
from turnwise.detectors import DETECTORS, Signal
from turnwise.errors import TurnwiseError
from turnwise.explorer.curves import Panel, chart_options, redraw, show_chart
from turnwise.explorer.data.conversations import Chat, read_chat
from turnwise.explorer.data.words import search_words
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    choice,
    column,
    data_table,
    emptied,
    fact,
    failed,
    heading,
    highlighted,
    said,
    tag,
    term,
    text,
    text_field,
)
from turnwise.explorer.views.conversation_parts import SHOWN, detail, erase_button, why_button
from turnwise.sessions import Outcomes, ReplyOutcome, Stance

_AROUND = 40
"""Turns before and after the chosen one that the chat shows."""

_SIMULATION = "Session memory, a simulation with default settings"

_CELL = """<q-td :props="props"><button v-if="props.col.turn" type="button" :class="props.value.look"
:title="props.value.why" :aria-label="props.row.name + ', turn ' + props.col.turn + ': ' + props.value.said"
:data-turn="props.col.turn" @click="() => $parent.$emit('turn', props.col.turn)">{{ props.value.said }}</button>
<template v-else>{{ props.value }}</template></q-td>"""


async def build(page: Page) -> None:
    """Show the sequence that the address names."""
    if not page.get("id"):
        heading("Sequence", 1)
        ui.link("Choose a sequence in the table", page.link("/sequences"))
        return
    await _SequenceView(page).build()


class _SequenceView:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._chat: Chat | None = None
        self._beside: Chat | None = None
        self._print = bool(page.get("print"))
        self._words = search_words(page.get("words"))

    async def build(self) -> None:
        page = self._page
        self._runs = await page.run_names()
        self._chat = await self._read()
        page.csv = self._rows
        self._head = ui.element("section").props('aria-label="Sequence"')
        if self._print:
            ui.button("Print", on_click=lambda: ui.run_javascript("print()")).props("no-caps outline")
            self._header()
            for number in range(1, len(self._chat.turns) + 1):
                self._turn(number)
            return
        self._fields()
        self._chart = show_chart(
            chart_options([], last=2), "T, I and F of every principle over turns", self._point
        )
        self._bands = ui.element("section").props('aria-label="Detectors over turns"')
        with ui.element("div").classes("split"):
            self._chatted = ui.element("section").props('aria-label="Conversation"').classes("chat")
            self._detail = ui.element("section").props('aria-label="Scores of the chosen turn" aria-live=polite')
            self._detail.props("tabindex=0").classes("beside detail")
        await self._show()

    async def _read(self) -> Chat:
        page = self._page
        detectors = [one.strip() for one in page.get("detectors").split(";") if one.strip()]
        return await page.ask(
            read_chat, page.record, page.get("id"), page.run_name(), page.get("rule"), detectors,
            simulate=page.get("simulation") == "yes",
        )  # fmt: skip

    async def _show(self) -> None:
        page, beside = self._page, self._page.get("beside")
        wrong = ""
        try:
            self._chat = await self._read()
            self._beside = await page.ask(read_chat, page.record, page.get("id"), beside) if beside else None
        except TurnwiseError as error:
            wrong = str(error)
        self._header()
        if wrong:
            with self._head:
                failed(wrong)
            return
        assert self._chat is not None
        self._chart.set_visibility(bool(self._chat.principles))
        redraw(self._chart, self._options())
        with emptied(self._bands):
            self._band_table(self._chat)
        self._told(turns=True)

    @property
    def _at(self) -> int:
        """The chosen turn: that of the address, else the flagged one, else the first."""
        last = len(self._chat.turns) if self._chat else 1
        given = self._page.get("turn")
        wanted = int(given) if given.isdecimal() and len(given) < 10 else (self._chat.flag if self._chat else None)
        return min(max(wanted or 1, 1), max(last, 1))

    async def _changed(self, name: str, value: str) -> None:
        self._page.remember(**{name: value})
        await self._show()

    def _point(self, turn: int) -> None:
        before = self._at
        self._page.remember(turn=turn)
        redraw(self._chart, self._options())
        self._told(turns=abs(before - turn) > 1 or turn % _AROUND == 0)

    def _told(self, *, turns: bool) -> None:
        assert self._chat is not None
        if turns:
            with emptied(self._chatted):
                self._turns()
        with emptied(self._detail):
            detail(self._chat, self._at)
        ui.run_javascript(f"setTimeout(() => turnwise.point({self._at}), 0)")

    # What is shown ---------------------------------------------------------------------------------------

    def _header(self) -> None:
        chat = self._chat
        assert chat is not None
        sequence = chat.sequence
        with emptied(self._head):
            with heading(f"{sequence.sequence_id} ", 1):
                tag(str(sequence.label))
            with ui.element("div").classes("facts"):
                fact("source", sequence.source)
                fact("turns", len(chat.turns))
                for name, value in sequence.metadata.items():
                    fact(name, _value(value))
                if chat.run is not None:
                    found = f"▲ flagged at turn {chat.flag}" if chat.flag else "not flagged"
                    said(f"{found} by {chat.rule}").classes("flag" if chat.flag else "quiet")
            if (outcomes := chat.outcomes) is not None:
                told = outcomes.in_words(benign=sequence.label is Label.BENIGN, alarm=chat.flag)
                alarm = chat.alarming and outcomes.broke and sequence.label is not Label.BENIGN
                said(told, "p").classes("flag" if alarm else "small")
            if chat.verdicts:
                with ui.element("div").classes("facts small"):
                    term("detector")
                    for one in chat.verdicts:
                        fired = f"fired at turn {one.turn}" if one.fired else "did not fire"
                        fact(one.detector, f"{fired}: {one.reason}")
            if chat.run is not None and not chat.principles:
                text("p", f"Run {chat.run} has no score of this conversation.").classes("quiet")
            if not self._print:
                self._elsewhere(chat)

    def _fields(self) -> None:
        page, chat = self._page, self._chat
        assert chat is not None
        with ui.row().classes("form").props('role=group aria-label="What is shown"'):
            choice("Run", self._runs, chat.run or "", partial(self._changed, "run"), "" if self._runs else "none")
            others = [one for one in self._runs if one != chat.run]
            choice("Beside it", others, page.get("beside"), partial(self._changed, "beside"), "no other run")
            text_field("Flagged where (pattern or detector)", page.get("rule"), partial(self._changed, "rule"),
                       placeholder=chat.rule, wide=True)  # fmt: skip
            names = "; ".join(one.detector for one in chat.verdicts) or ", ".join(DETECTORS.names()[:3])
            text_field("Detectors, with ; between them", page.get("detectors"),
                       partial(self._changed, "detectors"), placeholder=names, wide=True)  # fmt: skip
            ui.switch(
                "Simulate a session memory", value=page.get("simulation") == "yes",
                on_change=lambda event: self._changed("simulation", "yes" if event.value else ""),
            )  # fmt: skip

    def _elsewhere(self, chat: Chat) -> None:
        """Links to the other views that show a conversation, and to a page for print."""
        page, name = self._page, chat.sequence.sequence_id
        links = {
            "compare with another": page.link("/compare", a=name, run_a=chat.run),
            "correct its label": page.link("/label", id=name),
            "try it in the guard": page.link("/guard", id=name),
            "print it for a case file": page.link(print=1),
        }
        with ui.element("div").classes("facts small no-print"):
            for words, link in links.items():
                ui.link(words, link)
            erase_button(page, name)
        if chat.run is not None and chat.trajectory:
            with ui.element("div").classes("no-print"):
                why_button(page, chat.run, name, self._at)

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
        return chart_options(
            panels, last=len(chat.turns), at=self._at, marks=marks, title=title, columns=self._page.panels
        )

    def _turns(self) -> None:
        chat = self._chat
        assert chat is not None
        total = len(chat.turns)
        first, last = max(1, self._at - _AROUND), min(total, self._at + _AROUND)
        if first > 1:
            self._more(f"turns 1 to {first - 1}", max(1, first - _AROUND))
        outcomes = chat.outcomes
        for number in range(first, last + 1):
            self._turn(number, outcomes)
        if last < total:
            self._more(f"turns {last + 1} to {total}", min(total, last + _AROUND))

    def _more(self, words: str, turn: int) -> None:
        ui.button(f"Show {words}", on_click=lambda: self._point(turn)).props("no-caps flat")

    def _turn(self, number: int, outcomes: Outcomes | None = None) -> None:
        chat = self._chat
        assert chat is not None
        turn, (scored, lost), flagged = chat.turns[number - 1], chat.at(number), chat.flag == number
        fired = [one.detector for one in chat.verdicts if one.turn == number]
        with ui.element("article").classes("turn flagged" if flagged else "turn") as shown:
            with ui.element("header"):
                text("b", f"Turn {number}")
                if flagged:
                    text("span", "▲ flagged").classes("flag")
                if fired:
                    said(f"{', '.join(fired)} fired here").classes("flag")
                if outcomes is not None and (outcome := outcomes.by_turn.get(number)) is not None:
                    alarm = chat.alarming and outcome is ReplyOutcome.GAVE_WAY
                    text("span", f"reply: {outcome}").classes("flag" if alarm else "quiet")
                if lost:
                    text("span", f"{len(lost)} not scored")
                if unread := chat.unread_at(number):
                    said(unread)
            for who, words in (("Prompt", turn.prompt), ("Response", turn.response)):
                if words is not None:
                    text("div", who).classes("who")
                    with ui.element("div").classes(f"said {who.lower()}").props("dir=auto"):
                        self._words_of(words)
            if self._print and scored:
                detail(chat, number, brief=True)
                return
            with ui.element("div").classes("scores"):
                if not scored:
                    text("span", "not scored")
                for one in scored:
                    side = " (response)" if one.key.side is Side.RESPONSE else ""
                    with ui.element("span"):
                        said(f"{one.key.principle}{side} ")
                        text("b", f"F {one.score.F:.2f}")
                        text("span", f" I {one.score.I:.2f} T {one.score.T:.2f}")
        if not self._print:
            shown.props(
                f'id=turn-{number} tabindex=0 aria-label="Turn {number}" data-turn={number} data-item=follow'
            )
            shown.on("click", lambda: self._point(number))

    def _words_of(self, words: str) -> None:
        if self._words:
            highlighted(words[:SHOWN], self._words)
        else:
            said(words[:SHOWN])
        if len(words) > SHOWN:
            text("span", f" … {len(words) - SHOWN:,} more characters").classes("quiet")

    def _band_table(self, chat: Chat) -> None:
        """A row for each detector and, where asked for, each part of the session memory; a cell for each turn."""
        turns = range(1, len(chat.turns) + 1)
        bands = {
            one.detector: [
                (
                    _score(signal) + (" ▲" if one.turn == turn else ""),
                    "bad" if signal.active else "",
                    signal.reason,
                )
                for turn, signal in zip(turns, one.signals, strict=False)
            ]
            for one in chat.verdicts
        }
        if chat.session:
            bands |= _memory_bands(chat.session)
            text("p", f"{_SIMULATION}: trust, circuit breaker, stance and heading.").classes("quiet small")
        if not bands:
            return
        columns = [column("name", "turn"), *({**column(f"turn-{one}", str(one)), "turn": one} for one in turns)]
        alarming = chat.alarming
        rows = [
            {"name": name}
            | {f"turn-{turn}": {"said": words, "look": look if alarming else "", "why": visible(why)}
                              for turn, (words, look, why) in zip_longest(turns, cells, fillvalue=("–", "", ""))}
            for name, cells in bands.items()
        ]  # fmt: skip
        table = data_table(columns, rows, "By turn").classes("bands")
        table.add_slot("body-cell", _CELL)
        table.on("turn", lambda event: self._point(int(event.args)))

    def _rows(self) -> tuple[str, list[list[Any]]]:
        chat = self._chat
        assert chat is not None
        head = ["sequence_id", "run", "turn", "side", "principle", "T", "I", "F", "reasoning"]
        rows = [
            [chat.sequence.sequence_id, chat.run, one.key.turn, str(one.key.side), one.key.principle, one.score.T,
             one.score.I, one.score.F, one.reasoning]
            for one in chat.evaluations
        ]  # fmt: skip
        return "sequence", [head, *rows]


def _memory_bands(session: Sequence[Stance]) -> dict[str, list[tuple[str, str, str]]]:
    """Of each part of the session memory its words, look and reason at each turn."""
    bands: dict[str, list[tuple[str, str, str]]] = {}
    for one in session:
        for name, words, look in (
            ("trust", f"{one.trust:.2f}", "bad" if one.trust < 0.3 else "middle" if one.trust < 0.6 else ""),
            ("circuit breaker", str(one.phase), "" if one.phase == "normal" else "bad"),
            ("stance", str(one.mode), {"normal": "", "cautious": "middle"}.get(one.mode, "bad")),
            ("heading", str(one.trajectory), "bad" if one.trajectory in ("degrading", "hostile") else ""),
        ):
            bands.setdefault(name, []).append((words, look, one.rationale))
    return bands


def _score(signal: Signal) -> str:
    return f"{signal.score:.2f}" if signal.evidence else "–"


def _value(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 200 else shown[:200] + " …"
