"""The part of Guard where a conversation is pasted or typed, and checked turn by turn with a preset."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import button, choice, tag
from turnwise.explorer.data.trial import Checked, Trial, read_pasted
from turnwise.explorer.frame import failure, offer_exports
from turnwise.explorer.markup import element, text_lines
from turnwise.explorer.pages import Page, Region
from turnwise.explorer.views.guard_parts import gauge, timeline
from turnwise.guard.forensics import in_words
from turnwise.scoring import Score

_PRESET = "customer_service"
_EXAMPLE = (
    "user: Hello, can you help me with my order?\nassistant: Of course. What is its number?\nuser: It is 1234."
)


class TryView:
    """A conversation under a preset."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._text = ""
        self._typed = ""
        self._trial: Trial | None = None
        self._going = 0

    async def build(self) -> None:
        """Show the field to paste into, what the guard says, and the timeline."""
        page = self._page
        presets = page.record.named.trials.presets()
        self._presets = presets
        if page.get("id"):
            sequence = await page.ask(page.record.store.sequence, page.get("id"))
            self._text = json.dumps(sequence.conversation.to_messages(), ensure_ascii=False, indent=1)
        self._form = Region(self._fields(), self._heard, label="Conversation")
        self._state = Region(label="How far it is", live=True)
        self._checks = Region(label="What the guard says")
        self._type = Region(self._line(), self._heard, label="Type a message")
        self._end = Region(label="Forensic timeline")
        page.csv = self._csv

    def _fields(self) -> Markup:
        page = self._page
        preset = page.get("preset", _PRESET)
        text = element("textarea", self._text, name="text", rows=8, data_search=True, spellcheck="false",
                       placeholder=_EXAMPLE, aria_label="A conversation")  # fmt: skip
        return element(
            "div",
            element("label", "Paste a conversation: lines that begin with user: and assistant:, or JSON in any "
                    "form that turnwise reads", text),
            element(
                "div",
                choice("Preset of the guard", "preset", tuple(self._presets), preset),
                button("Check turn by turn", "check", main=True),
                button("Clear", "clear"),
                class_="form spaced",
            ),
            element("p", self._presets.get(preset, ""), class_="quiet small"),
        )  # fmt: skip

    def _line(self) -> Markup:
        field = element("input", name="typed", value=self._typed, size=60, aria_label="A message")
        return element(
            "div",
            element("label", "Or type on, message by message", field),
            button("say as user", "say"),
            button("answer as assistant", "answer"),
            class_="form",
        )

    async def _heard(self, name: str, value: str) -> None:
        page = self._page
        if name == "text":
            self._text = value
        elif name == "typed":
            self._typed = value
        elif name == "preset":
            page.remember(preset=value)
            self._trial = None
            self._form.show(self._fields())
        elif name == "clear":
            self._going += 1
            self._text, self._trial = "", None
            page.remember(id=None)
            self._form.show(self._fields())
            self._show("")
        elif name in ("check", "say", "answer"):
            await self._do(name)

    async def _do(self, what: str) -> None:
        self._going += 1
        try:
            if what == "check":
                await self._check(self._going)
            else:
                await self._said(what)
        except TurnwiseError as error:
            self._state.show(failure(str(error)))

    async def _begun(self) -> Trial:
        page = self._page
        preset = page.get("preset", _PRESET)
        self._state.show(element("p", f"Building {preset} …", role="status", class_="quiet"))
        return await page.ask(page.record.named.trials.begin, preset)

    async def _check(self, going: int) -> None:
        """Check what was pasted, and show each check as it comes; another press begins anew."""
        page = self._page
        chat = read_pasted(self._text)
        self._trial = trial = await self._begun()
        checks = trial.replay(chat)
        texts = chat.get_turn_count()
        while going == self._going:
            if await page.ask(next, checks, None) is None:
                break
            self._show(f"Turn {trial.checks[-1].turn} of {texts} …")
        if going == self._going:
            self._show(_summary(trial.checks))

    async def _said(self, what: str) -> None:
        page, text = self._page, self._typed
        if self._trial is None:
            self._trial = await self._begun()
        await page.ask(self._trial.say if what == "say" else self._trial.answer, text)
        self._typed = ""
        self._type.show(self._line())
        self._show(_summary(self._trial.checks))

    def _show(self, said: str) -> None:
        trial = self._trial
        self._state.show(element("p", said, role="status", class_="lead"))
        if trial is None or not trial.checks:
            self._checks.show(Markup())
            self._end.show(Markup())
            return
        self._checks.show(element("ol", [_check(one) for one in trial.checks], class_="turns"))
        analysis = trial.analysis()
        told = element("ul", [element("li", line) for line in in_words(analysis)])
        self._end.show(element("section", element("h2", "Forensic timeline"), told, timeline(analysis)))
        offer_exports(self._page)

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


def _summary(checks: list[Checked]) -> str:
    words = [one.verdict for one in checks]
    first = next((one.turn for one in checks if one.verdict == "blocked"), None)
    told = f"{len(checks)} texts checked: {words.count('blocked')} blocked, {words.count('warned')} warned of."
    return told if first is None else f"{told} First blocked at turn {first}."


def _check(one: Checked) -> Markup:
    where = "no turn: a rate limit refused it" if one.turn is None else f"Turn {one.turn}"
    stance = None
    if one.stance:
        trust = element("span", "trust ", gauge(one.trust, "trust"), f" {one.trust or 0:.2f}", class_="quiet")
        stance = element("span", "stance ", tag(one.stance), " ", trust)
    return element(
        "li",
        element(
            "div",
            element("strong", where),
            element("span", one.side.replace("_", " "), class_="quiet"),
            tag(one.verdict),
            stance,
            element("span", f"{one.milliseconds:.1f} ms", class_="quiet small"),
            class_="meta",
        ),
        element("div", text_lines(one.text), class_="said"),
        [element("div", why, class_="why") for why in one.why],
        _scored(one),
        _details(one),
        class_=one.verdict,
        data_item="row",
        tabindex=-1,
    )


def _scored(one: Checked) -> Markup | None:
    if not one.scores:
        return None
    given = [_bar(name, score) for name, score in one.scores.items()]
    if one.score is not None:
        limit = "" if one.threshold is None else f" of {one.threshold:.2f}"
        given.append(element("span", f"detector {one.score:.2f}{limit}", class_="triple quiet"))
    return element("div", given, class_="triples")


def _bar(name: str, score: Score) -> Markup:
    said = f"T {score.T:.2f}, I {score.I:.2f}, F {score.F:.2f}"
    quiet = element("span", name, class_="quiet")
    return element("span", gauge(score.F), f" F {score.F:.2f} ", quiet, class_="triple", title=f"{name}: {said}")


def _details(one: Checked) -> Markup:
    rows = [
        element(
            "tr",
            element("th", word.name, scope="row"),
            element("td", word.did),
            element("td", word.reason, class_="name"),
            element("td", f"{word.milliseconds:.2f}", class_="number"),
        )
        for word in one.guardrails
    ]
    heads = ("guardrail", "did", "why", "ms")
    table = element(
        "table",
        element("thead", element("tr", [element("th", head, scope="col") for head in heads])),
        element("tbody", rows),
    )
    rationale = element("p", f"Stance: {one.rationale}") if one.rationale else None
    ran = sum(word.status == "evaluated" for word in one.guardrails)
    return element("details", element("summary", f"{ran} of {len(rows)} guardrails ran"), rationale, table)
