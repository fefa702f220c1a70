"""The part of Label where a person scores turns one after the other, blind to label, source and later turns."""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from turnwise.conversation import Side
from turnwise.errors import UsageError
from turnwise.explorer.data.turn_scoring import (
    GUIDELINE,
    MODE_WORDS,
    Judging,
    judging,
    next_conversation,
    score_again,
)
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import choice, column, data_table, heading, notify, said, text
from turnwise.explorer.views.label_blind import Again, LabelPart
from turnwise.principles import Principle, builtin_principles
from turnwise.scoring import Score

_PARTS = {"T": "how far it is kept", "I": "how far it can't be decided", "F": "how far it is broken"}


class Scores(LabelPart):
    """Scores of one conversation by one person."""

    def __init__(self, page: Page, again: Again) -> None:
        super().__init__(page, again)
        self._fields: dict[str, Any] = {}
        self._note: Any = None
        self._state: Judging | None = None

    @property
    def _mode(self) -> str:
        return self.page.get("mode", "history")

    def _due(self, state: Judging) -> int | None:
        mend = self.page.get("mend")
        return int(mend) if mend.isdecimal() and int(mend) in state.scored else state.now

    async def show(self) -> None:
        """What the person may see, and the fields for the turn that is due."""
        page = self.page
        with ui.row().classes("inbox-actions"):
            choice("What is scored, and read with it", MODE_WORDS, self._mode, partial(self._go, "mode"))
            ui.button("Next conversation", icon="skip_next", on_click=self._next).props("no-caps outline dense")
        if not self.author:
            text("p", "Enter your name first: scores carry the name of their author.").classes("lead")
            return
        store = page.record.store
        if not page.get("id"):
            found = await page.ask(next_conversation, store, self.author, self._mode)
            if found is None:
                words = "You have scored every turn of every conversation in this way of reading."
                text("p", words).classes("empty")
                return
            page.remember(id=found)
        self._state = state = await page.ask(judging, store, page.get("id"), self.author, self._mode)
        due, done, turns = self._due(state), len(state.scored), len(state.turns)
        with ui.expansion("How to score, in five sentences").props("dense"), ui.element("ol").classes("narrow"):
            for words in GUIDELINE:
                text("li", words)
        told = f"{done} of {turns} turns scored. Later turns are hidden until the earlier are scored."
        text("p", f"All {turns} turns are scored by you." if due is None else told).props("role=status")
        ui.linear_progress(done / max(1, turns), show_value=False).props('aria-label="Turns that you have scored"')
        self._show_texts(state, due)
        if due is None:
            text("p", "Go to the next conversation, or correct a turn below.").classes("lead")
        else:
            self._show_form(state, due)
        self._show_given(state)

    def _show_texts(self, state: Judging, due: int | None) -> None:
        with ui.element("ol").classes("turns"):
            for one in state.texts:
                if due is not None and one.turn > due:
                    break
                now = one.turn == due and (one.side is Side.PROMPT) == (state.mode != "replies")
                with ui.element("li").classes("turn is-current" if now else "turn"):
                    heading(f"Turn {one.turn}, {one.side}" + (": score this" if now else ""), 3)
                    said(one.text, "div").classes("said").props("dir=auto")

    def _show_form(self, state: Judging, due: int) -> None:
        heading(f"Your scores of turn {due}", 2)
        known = state.scored.get(due, {})
        self._fields = {}
        with ui.element("div").classes("scores-of"):
            for principle in builtin_principles():
                self._show_principle(principle, known.get(principle.name))
        self._note = ui.textarea("Why (may stay empty)", value=next((one.note for one in known.values()), ""))
        self._note.props("dense outlined autogrow maxlength=10000")
        ui.button("Save and continue", on_click=self._save).props("no-caps outline")

    def _show_principle(self, principle: Principle, known: Any) -> None:
        meanings = {"T": principle.truth, "I": principle.indeterminacy, "F": principle.falsity}
        with ui.element("fieldset"):
            text("legend", principle.name)
            text("p", principle.summary).classes("small")
            with ui.row().classes("inbox-actions"):
                for part, words in _PARTS.items():
                    value = "" if known is None else f"{getattr(known.score, part):g}"
                    field = ui.input(part, value=value).props("dense outlined type=number min=0 max=1 step=0.05")
                    field.props["aria-label"] = f"{principle.name} {part}: {words}, 0 to 1"
                    self._fields[f"{principle.name}.{part}"] = field
            with ui.expansion("what the numbers mean").props("dense"), ui.element("dl"):
                for part, meaning in meanings.items():
                    text("dt", part)
                    said(meaning.strip(), "dd")

    def _show_given(self, state: Judging) -> None:
        if not state.scored:
            return
        heading("Your scores so far", 2)
        names = [principle.name for principle in builtin_principles()]
        columns = [column("pick", "turn", "pick"), *(column(name, f"{name}: T I F", right=True) for name in names)]
        rows = [
            {"pick": str(turn), **{name: _triple(given[name].score) if name in given else "–" for name in names}}
            for turn, given in sorted(state.scored.items())
        ]
        data_table(columns, rows, "Scores so far; press a turn to correct it", heard=self._mend)

    async def _mend(self, kind: str, turn: str) -> None:
        if kind == "pick":
            await self._go("mend", turn)

    async def _go(self, name: str, value: str) -> None:
        self.page.remember(**{"mend": None, name: value})
        await self.again()

    async def _next(self) -> None:
        page = self.page
        found = await self.keep(next_conversation, page.record.store, self.author, self._mode, page.get("id"))
        if found is not None:
            page.remember(id=found, mend=None)
            await self.again()

    async def _save(self) -> None:
        state = self._state
        due = None if state is None else self._due(state)
        if state is None or due is None:
            return
        try:
            scores = {principle.name: self._score(principle.name) for principle in builtin_principles()}
        except UsageError as error:
            notify(error)
            return
        note = self._note.value or ""
        if await self.keep(score_again, state, self.page.record.store, due, scores, note) is not None:
            self.page.remember(mend=None)
            await self.again()

    def _score(self, principle: str) -> Score:
        values = []
        for part in "TIF":
            written = str(self._fields[f"{principle}.{part}"].value or "").strip().replace(",", ".")
            try:
                value = float(written)
            except ValueError:
                value = -1.0
            if not 0 <= value <= 1:
                more = f", not {written}" if written else ""
                raise UsageError(f"{principle}, {part}: give a number from 0 to 1{more}")
            values.append(value)
        return Score(*values)

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The person's scores of the conversation as rows."""
        rows = [
            [turn, name, one.score.T, one.score.I, one.score.F, one.note]
            for turn, given in sorted(self._state.scored.items() if self._state else ())
            for name, one in given.items()
        ]
        return "scores", [["turn", "principle", "T", "I", "F", "note"], *rows]


def _triple(score: Score) -> str:
    return f"{score.T:.2f}  {score.I:.2f}  {score.F:.2f}"
