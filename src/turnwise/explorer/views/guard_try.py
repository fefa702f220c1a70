"""The part of Guard where a conversation is pasted or typed, and checked turn by turn with a preset."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible_character
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.trial import Checked, Trial, read_pasted
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import choice, failed, heading, said, section, text
from turnwise.explorer.views.guard_parts import check_row, checks_table, timeline
from turnwise.guard.forensics import in_words

_PRESET = "customer_service"
_EXAMPLE = (
    "user: Hello, can you help me with my order?\nassistant: Of course. What is its number?\nuser: It is 1234."
)

_REDRAW_SECONDS: Final = 1.0
"""How often the checks that are done are shown while others go on."""


class TryView:
    """A conversation under a preset."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._trial: Trial | None = None
        self._going = 0

    @property
    def _preset(self) -> str:
        return self._page.get("preset", _PRESET)

    async def build(self) -> None:
        """Show the field to paste into, what the guard says, and the timeline."""
        page = self._page
        self._presets = page.record.named.trials.presets()
        written = ""
        if page.get("id"):
            sequence = await page.ask(page.record.store.sequence, page.get("id"))
            written = _json(sequence.conversation.to_messages())
        with section("Conversation"):
            forms = "lines that begin with user: and assistant:, or JSON in any form that turnwise reads"
            text("p", f"Paste a conversation: {forms}").classes("quiet small")
            self._area = ui.textarea(value=written, placeholder=_EXAMPLE).classes("whole")
            self._area.props("outlined dense rows=8 debounce=300 spellcheck=false data-search")
            self._area.props["aria-label"] = "A conversation"
            with ui.row().classes("form spaced"):
                choice("Preset of the guard", [*self._presets], self._preset, self._choose)
                ui.button("Check turn by turn", on_click=partial(self._do, self._check)).props("no-caps outline")
                ui.button("Clear", on_click=self._clear).props("no-caps flat")
            self._about = text("p", self._presets.get(self._preset, "")).classes("quiet small")
        self._state = section("Progress", live=True)
        self._said = section("What the guard says")
        with self._said:
            self._checks = checks_table("Checks", _row)
        with section("Type a message"), ui.row().classes("form spaced"):
            self._message = ui.input("Or continue: type a message").props("outlined dense autocomplete=off")
            self._message.classes("grow")
            for words, answers in (("send as user", False), ("send as assistant", True)):
                say = partial(self._do, partial(self._say, answers))
                ui.button(words, on_click=say).props("no-caps outline")
        self._end = section("Forensic timeline")
        self._show("")
        page.csv = self._csv

    def _choose(self, preset: str) -> None:
        self._page.remember(preset=preset)
        self._trial = None
        self._about.set_text(self._presets.get(preset, ""))

    def _clear(self) -> None:
        self._going += 1
        self._trial = None
        self._area.set_value("")
        self._page.remember(id=None)
        self._show("")

    async def _do(self, what: Any) -> None:
        self._going += 1
        try:
            await what()
        except TurnwiseError as error:
            self._state.clear()
            with self._state:
                failed(str(error))

    async def _begun(self) -> Trial:
        self._tell(f"Building {self._preset} …")
        return await self._page.ask(self._page.record.named.trials.begin, self._preset)

    async def _check(self) -> None:
        """Check what was pasted, and show checks as they come; another press begins anew."""
        going, loop, due = self._going, asyncio.get_running_loop(), 0.0
        chat = read_pasted(self._area.value or "")
        self._trial = trial = await self._begun()
        checks = trial.replay(chat)
        texts = chat.get_turn_count()
        while going == self._going:
            if await self._page.ask(next, checks, None) is None:
                break
            if loop.time() >= due:
                self._show(f"Turn {trial.checks[-1].turn} of {texts} …")
                due = loop.time() + _REDRAW_SECONDS
        if going == self._going:
            self._show(_summary(trial.checks))

    async def _say(self, answers: bool) -> None:
        if self._trial is None:
            self._trial = await self._begun()
        trial = self._trial
        await self._page.ask(trial.answer if answers else trial.say, self._message.value or "")
        self._message.set_value("")
        self._show(_summary(trial.checks))

    def _tell(self, words: str) -> None:
        self._state.clear()
        with self._state:
            text("p", words).classes("lead").props("role=status")

    def _show(self, words: str) -> None:
        checks = self._trial.checks if self._trial is not None else []
        self._tell(words)
        self._checks.show(checks, last=True)
        self._said.set_visibility(bool(checks))
        self._end.clear()
        if self._trial is not None and checks:
            with self._end:
                _forensics(self._trial.analysis())

    def _csv(self) -> tuple[str, list[list[Any]]]:
        heads: list[list[Any]] = [
            ["turn", "side", "verdict", "why", "stance", "trust", "score", "threshold", "ms"]
        ]
        rows = [
            [one.turn, one.side, one.verdict, "; ".join(one.why), one.stance, one.trust, one.score, one.threshold,
             round(one.milliseconds, 3)]
            for one in (self._trial.checks if self._trial else ())
        ]  # fmt: skip
        return "guard", heads + rows


def _json(messages: object) -> str:
    """Messages as JSON in which everything can be seen, and which is read back as it was."""
    written = json.dumps(messages, ensure_ascii=False, indent=1)
    return "".join(
        one if one == "\n" or visible_character(one) == one else json.dumps(one)[1:-1] for one in written
    )


def _summary(checks: list[Checked]) -> str:
    words = [one.verdict for one in checks]
    first = next((one.turn for one in checks if one.verdict == "blocked"), None)
    told = f"{len(checks)} texts checked: {words.count('blocked')} blocked, {words.count('warned')} warned of."
    return told if first is None else f"{told} First blocked at turn {first}."


def _forensics(analysis: dict[str, Any]) -> None:
    heading("Forensic timeline", 2)
    with ui.element("ul"):
        for line in in_words(analysis):
            said(line, "li")
    timeline(analysis)


def _row(one: Checked) -> dict[str, Any]:
    limit = "" if one.threshold is None else f" of {one.threshold:.2f}"
    ran = sum(word.status == "evaluated" for word in one.guardrails)
    return check_row(
        one.turn, one.side, one.verdict, one.text, one.why, f"{one.milliseconds:.1f} ms",
        stance=one.stance, trust=one.trust, rationale=one.rationale,
        scores=[
            {"name": name, "F": f"{score.F:.2f}",
             "title": f"{name}: T {score.T:.2f}, I {score.I:.2f}, F {score.F:.2f}"}
            for name, score in one.scores.items()
        ],
        detector="" if one.score is None else f"detector {one.score:.2f}{limit}",
        ran=f"{ran} of {len(one.guardrails)} guardrails ran",
        guardrails=[(word.name, word.did, word.reason, f"{word.milliseconds:.2f}") for word in one.guardrails],
    )  # fmt: skip
