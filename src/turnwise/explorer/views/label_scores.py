"""The part of Label where a person scores turns one after the other, blind to label, source and later turns."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from turnwise.conversation import Side
from turnwise.errors import UsageError
from turnwise.explorer.controls import button, choice
from turnwise.explorer.data.labelling import (
    GUIDELINE,
    MODE_WORDS,
    Judging,
    definitions,
    judging,
    next_conversation,
    score_again,
)
from turnwise.explorer.markup import element, text_lines
from turnwise.explorer.pages import Page
from turnwise.principles import Principle
from turnwise.scoring import Score

_PARTS = {"T": "how far it is kept", "I": "how far it can't be told", "F": "how far it is broken"}


class Scores:
    """Scores of one conversation by one person."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._given: dict[str, str] = {}
        self._note = ""
        self._for: tuple[str, ...] = ()
        self._state: Judging | None = None

    async def heard(self, name: str, value: str) -> str:
        """Do what was asked; return what is to be shown again."""
        page = self._page
        if name == "note":
            self._note = value
        elif name == "mode":
            page.remember(mode=value, mend=None)
            return "body"
        elif name == "mend":
            page.remember(mend=value)
            return "body"
        elif name == "save":
            await self._save()
            return "body"
        elif name == "next":
            found = await page.ask(
                next_conversation, page.record.store, page.get("author").strip(), self._mode, page.get("id")
            )
            if found is None:
                raise UsageError("you have scored every turn of every conversation in this way of reading")
            page.remember(id=found, mend=None)
            return "body"
        elif "." in name:
            self._given[name] = value
        return ""

    @property
    def _mode(self) -> str:
        return self._page.get("mode", "history")

    def _due(self, state: Judging) -> int | None:
        mend = self._page.get("mend")
        return int(mend) if mend.isdecimal() and int(mend) in state.scored else state.now

    async def _save(self) -> None:
        state = self._state
        if state is None:
            return
        turn = self._due(state)
        if turn is None:
            raise UsageError("every turn is scored; choose one to mend")
        scores = {principle.name: self._score(principle.name) for principle in definitions()}
        await self._page.ask(score_again, state, self._page.record.store, turn, scores, self._note)
        self._for = ()
        self._page.remember(mend=None)

    def _score(self, principle: str) -> Score:
        values = []
        for part in "TIF":
            text = self._given.get(f"{principle}.{part}", "").strip().replace(",", ".")
            try:
                value = float(text)
            except ValueError:
                value = -1.0
            if not 0 <= value <= 1:
                raise UsageError(
                    f"{principle}, {part}: give a number from 0 to 1" + (f", not {text}" if text else "")
                )
            values.append(value)
        return Score(*values)

    async def content(self) -> Markup:
        """What the person may see, and the fields for the turn that is due."""
        page = self._page
        author = page.get("author").strip()
        choose = choice("What is scored, and read with it", "mode", MODE_WORDS, self._mode)
        if not author:
            return element(
                "div",
                element("p", "Say who you are first: scores carry the name of their author.", class_="lead"),
                choose,
            )
        state = await page.ask(judging, page.record.store, page.get("id"), author, self._mode)
        self._state = state
        due = self._due(state)
        self._begin(state, due)
        done = len(state.scored)
        turns = len(state.turns)
        progress = element(
            "div", element("span", style=f"width:{100 * done // max(1, turns)}%"), class_="progress",
            role="progressbar", aria_valuenow=done, aria_valuemin=0, aria_valuemax=turns,
            aria_label="Turns that you have scored",
        )  # fmt: skip
        said = (
            f"{done} of {len(state.turns)} turns scored. Later turns are hidden until the earlier are scored."
            if due is not None
            else f"All {len(state.turns)} turns are scored by you."
        )
        return element(
            "div",
            element("div", choose, class_="form"),
            _guideline(),
            element("p", said, role="status"),
            progress,
            _texts(state, due),
            self._form(due) if due is not None else _finished(),
            _given(state),
        )

    def _begin(self, state: Judging, due: int | None) -> None:
        """Empty the fields for another turn, so that no number stands there that nobody gave."""
        about = (state.sequence_id, state.author, state.mode, str(due))
        if about == self._for:
            return
        self._for, self._given, self._note = about, {}, ""
        for principle, one in state.scored.get(due or 0, {}).items():
            self._given |= {f"{principle}.{part}": f"{getattr(one.score, part):g}" for part in "TIF"}
            self._note = one.note

    def _form(self, due: int) -> Markup:
        sets = [self._principle(principle) for principle in definitions()]
        note = element("textarea", self._note, name="note", rows=2, maxlength=10_000)
        return element(
            "section",
            element("h2", f"Your scores of turn {due}"),
            element("div", sets, class_="scores"),
            element("label", "Why (may stay empty)", note),
            element("p", button("Save and go on", "save", main=True)),
        )

    def _principle(self, principle: Principle) -> Markup:
        fields = [
            element(
                "label",
                element("abbr", part, title=said),
                element("input", type="number", name=f"{principle.name}.{part}", min=0, max=1, step=0.05,
                        value=self._given.get(f"{principle.name}.{part}", ""), placeholder="–",
                        aria_label=f"{principle.name} {part}: {said}, 0 to 1"),
            )
            for part, said in _PARTS.items()
        ]  # fmt: skip
        meanings = {"T": principle.truth, "I": principle.indeterminacy, "F": principle.falsity}
        rows = [
            item
            for part, text in meanings.items()
            for item in (element("dt", part), element("dd", text_lines(text.strip())))
        ]
        return element(
            "fieldset",
            element("legend", principle.name),
            element("p", principle.summary, class_="small"),
            element("div", fields, class_="three"),
            element("details", element("summary", "what the numbers mean"), element("dl", rows)),
        )

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The person's scores of the conversation as rows."""
        heads: list[list[Any]] = [["turn", "principle", "T", "I", "F", "note"]]
        rows = [
            [turn, name, one.score.T, one.score.I, one.score.F, one.note]
            for turn, given in sorted(self._state.scored.items() if self._state else ())
            for name, one in given.items()
        ]
        return "scores", heads + rows


def _guideline() -> Markup:
    return element(
        "details",
        element("summary", "How to score, in five sentences"),
        element("ol", [element("li", said) for said in GUIDELINE], class_="narrow"),
        class_="note",
    )


def _texts(state: Judging, due: int | None) -> Markup:
    items = []
    for one in state.texts:
        if due is not None and one.turn > due:
            break
        side = "prompt" if one.side is Side.PROMPT else "response"
        now = due is not None and one.turn == due and (one.side is Side.PROMPT) == (state.mode != "replies")
        items.append(
            element(
                "li",
                element("div", element("strong", f"Turn {one.turn}"), element("span", side, class_="quiet"),
                        element("span", "▶ score this", class_="tag") if now else None, class_="meta"),
                element("div", text_lines(one.text), class_="said"),
                class_="now" if now else None, data_item="row", tabindex=-1,
            )
        )  # fmt: skip
    return element("ol", items, class_="turns")


def _finished() -> Markup:
    return element("p", "Go to the next conversation, or mend a turn below.", class_="lead")


def _given(state: Judging) -> Markup | None:
    if not state.scored:
        return None
    names = [principle.name for principle in definitions()]
    rows = []
    for turn, given in sorted(state.scored.items()):
        cells = [
            element("td", _triple(given[name].score) if name in given else "–", class_="number") for name in names
        ]
        mend = button("mend", "mend", str(turn), aria_label=f"Mend the scores of turn {turn}")
        rows.append(element("tr", element("th", turn, scope="row", class_="number"), cells, element("td", mend)))
    heads = [element("th", f"{name}: T I F", scope="col", class_="number") for name in names]
    return element(
        "section",
        element("h2", "What you gave so far"),
        element("div", element(
            "table",
            element("thead", element("tr", element("th", "turn", scope="col"), heads, element("th", ""))),
            element("tbody", rows),
        ), class_="scroll"),
    )  # fmt: skip


def _triple(score: Score) -> str:
    return f"{score.T:.2f}  {score.I:.2f}  {score.F:.2f}"
