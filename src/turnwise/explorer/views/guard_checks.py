"""What a guard makes of each text: its checks below one another, and the tab of Guard to try a conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible, visible_character, visible_lines
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.trial import Trial, read_pasted
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    Item,
    Paged,
    choice,
    column,
    data_table,
    emptied,
    failed,
    heading,
    number,
    said,
    section,
    text,
)
from turnwise.forensics import in_words
from turnwise.guard import Detail, PipelineResult
from turnwise.scoring import Score

_CHECK = """<q-tr v-for="row in [props.row]" :props="props" :class="row.verdict" data-item="row" tabindex="-1"><td>
<div class="turn-head"><strong>{{ row.where }}</strong><span class="quiet">{{ row.side }}</span>
<span class="tag" :data-word="row.verdict">{{ row.verdict }}</span>
<span v-if="row.stance">stance <span class="tag" :data-word="row.stance">{{ row.stance }}</span></span>
<span v-if="row.trust !== '–'" class="quiet">trust <span class="gauge" aria-hidden="true"><span
:style="{width: 100 * row.trust + '%'}"></span></span> {{ row.trust }}</span>
<span class="quiet small">{{ row.when }}</span></div>
<div v-if="row.text" class="said" dir="auto">{{ row.text[0] }}</div>
<p v-else class="quiet small">The audit keeps no text.</p>
<div v-for="one in row.why" class="why">{{ one }}</div>
<div v-if="row.scores.length" class="triples"><span v-for="one in row.scores" class="triple" :title="one.title">
<span class="gauge" aria-hidden="true"><span :style="{width: 100 * one.F + '%'}"></span></span>
F {{ one.F }} <span class="quiet">{{ one.name }}</span></span><span class="quiet">{{ row.detector }}</span></div>
<p v-if="row.rationale" class="quiet small">Stance: {{ row.rationale }}</p>
<details v-if="row.guardrails.length"><summary>{{ row.ran }}</summary><table><thead><tr>
<th v-for="one in ['guardrail', 'did', 'why', 'ms']" scope="col">{{ one }}</th></tr></thead><tbody>
<tr v-for="cells in row.guardrails"><td v-for="one in cells">{{ one }}</td></tr></tbody></table></details></td>
</q-tr>"""


_PAGE = 50
"""Checks of a page."""


def checks_table(label: str, row: Callable[[Item], dict[str, Any]]) -> Paged[Item]:
    """A table of checks, each made a `check_row` by `row`."""
    table = data_table([column("check")], [], label).classes("checks").props("hide-header")
    table.add_slot("body", _CHECK)
    return Paged(table, row, _PAGE)


def check_row(
    turn: object, side: object, verdict: str, text: str | None, why: Iterable[object], when: str, *,
    stance: str = "", trust: float | None = None, rationale: str = "", scores: Iterable[Mapping[str, str]] = (),
    detector: str = "", ran: str = "", guardrails: Iterable[Sequence[str]] = (),
) -> dict[str, Any]:  # fmt: skip
    """What was made of one text; without a `text` the audit keeps none. `scores` have title, F and name."""
    return {
        "where": "no turn: a rate limit refused it" if turn is None else f"Turn {turn}",
        "side": str(side).replace("_", " "), "verdict": verdict, "when": when, "detector": detector, "ran": ran,
        "text": None if text is None else [visible_lines(text)], "why": [visible(str(one)) for one in why],
        "stance": stance, "trust": number(trust), "rationale": rationale,
        "scores": [{name: visible(value) for name, value in one.items()} for one in scores],
        "guardrails": [[*map(visible, one)] for one in guardrails],
    }  # fmt: skip


def timeline(analysis: Mapping[str, Any], *, texts: bool = False) -> None:
    """The timeline of a forensic analysis, made here or by a service: every check in order of time."""
    entries = analysis.get("timeline")
    known = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    columns = [
        column("when", "when (UTC)", "item"), column("turn", right=True), column("text", kind="lines"),
        column("verdict", kind="tag"), column("stance", kind="tag"), column("why"),
    ]  # fmt: skip
    Paged(data_table(columns, [], "Checks in order of time"), partial(_entry, texts=texts), _PAGE).show(known)


def _entry(entry: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    when = entry.get("time")
    clock = when[11:19] if isinstance(when, str) else "–"
    if entry.get("kind") == "rate_limit":
        return {"when": clock, "turn": "–", "text": ["–"], "verdict": "refused", "stance": "–",
                "why": "a rate limit refused a prompt"}  # fmt: skip
    reasons, warnings = _list(entry.get("reasons")), _list(entry.get("warnings"))
    failures = [f"failed: {one}" for one in _list(entry.get("failures"))]
    unread = [one for one in _list(entry.get("unread")) if one not in (*reasons, *warnings)]
    stance = entry.get("stance")
    side = str(entry.get("pipeline_type", "")).replace("_", " ")
    said = entry.get("response" if side == "output" else "prompt") if texts else None
    return {
        "when": clock, "turn": str(entry.get("turn_number", "–")),
        "text": [visible(line) for line in (side, *(said.split("\n") if isinstance(said, str) else ()))],
        "verdict": "blocked" if entry.get("blocked") else "warned" if warnings else "passed",
        "stance": stance if isinstance(stance, str) and stance else "–",
        "why": "; ".join([*reasons, *warnings, *failures, *unread]),
    }  # fmt: skip


def _list(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


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
            self._checks = checks_table("Checks", _try_row)
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
            with emptied(self._state):
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
                self._show(f"Turn {trial.checks[-1].turn_number} of {texts} …")
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
        with emptied(self._state):
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
            [one.turn_number, one.pipeline_type, _verdict(one), "; ".join((*one.reasons, *one.warnings)),
             *((one.stance.mode, one.stance.trust) if one.stance else ("", None)),
             *(_given(one, "detector").get(name) for name in ("score", "threshold")), round(1000 * one.seconds, 3)]
            for one in (self._trial.checks if self._trial else ())
        ]  # fmt: skip
        return "guard", heads + rows


def _json(messages: object) -> str:
    """Messages as JSON in which everything can be seen, and which is read back as it was."""
    written = json.dumps(messages, ensure_ascii=False, indent=1)
    return "".join(
        one if one == "\n" or visible_character(one) == one else json.dumps(one)[1:-1] for one in written
    )


def _summary(checks: list[PipelineResult]) -> str:
    words = list(map(_verdict, checks))
    first = next((one.turn_number for one in checks if one.blocked), None)
    told = f"{len(checks)} texts checked: {words.count('blocked')} blocked, {words.count('warned')} warned of."
    return told if first is None else f"{told} First blocked at turn {first}."


def _forensics(analysis: dict[str, Any]) -> None:
    heading("Forensic timeline", 2)
    with ui.element("ul"):
        for line in in_words(analysis):
            said(line, "li")
    timeline(analysis)


def _verdict(result: PipelineResult) -> str:
    return "blocked" if result.blocked else "warned" if result.warnings else "passed"


def _given(result: PipelineResult, name: str) -> Mapping[str, Any]:
    """What the first guardrail gave that gives something of this name, such as scores; nothing where none does."""
    return next((one.data for one in result.details.values() if one.data and name in one.data), {})


def _try_row(result: PipelineResult) -> dict[str, Any]:
    stance, drift = result.stance, _given(result, "detector")
    score, limit = drift.get("score"), drift.get("threshold")
    ran = sum(one.status == "evaluated" for one in result.details.values())
    return check_row(
        result.turn_number, result.pipeline_type, _verdict(result), result.text,
        (*result.reasons, *result.warnings), f"{1000 * result.seconds:.1f} ms",
        stance="" if stance is None else str(stance.mode), trust=None if stance is None else stance.trust,
        rationale="" if stance is None else stance.rationale,
        scores=[_score_cell(name, one) for name, one in _given(result, "scores").get("scores", {}).items()],
        detector="" if score is None else f"detector {score:.2f}" + ("" if limit is None else f" of {limit:.2f}"),
        ran=f"{ran} of {len(result.details)} guardrails ran",
        guardrails=[(name, _did(one), one.reason, f"{1000 * one.seconds:.2f}")
                    for name, one in result.details.items()],
    )  # fmt: skip


def _score_cell(name: str, given: Score | Mapping[str, Any]) -> dict[str, str]:
    score = given if isinstance(given, Score) else Score.from_dict(given)
    title = f"{name}: T {score.T:.2f}, I {score.I:.2f}, F {score.F:.2f}"
    return {"name": name, "F": f"{score.F:.2f}", "title": title}


def _did(detail: Detail) -> str:
    """What a guardrail did with a text, in a word; where it was not evaluated, its status."""
    if detail.status != "evaluated":
        return f"{detail.status}, {detail.path}" if detail.path else str(detail.status)
    if detail.blocked:
        return "blocked"
    if detail.redactions:
        return "redacted"
    return "warned" if detail.warned else "found" if detail.found else "clean"
