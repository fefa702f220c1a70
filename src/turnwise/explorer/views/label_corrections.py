"""The part of Label where labels are corrected, and turns marked as the one where it turned."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from turnwise.conversation import Label, Sequence, Turn
from turnwise.explorer.controls import button, choice, tag
from turnwise.explorer.markup import element, text_lines
from turnwise.explorer.pages import Page
from turnwise.store import Correction

_NOW = "as imported"


class Corrections:
    """Labels of one conversation, and turns marked as the one where it turned."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._note = ""
        self._label = ""
        self._found: tuple[Correction, ...] = ()

    async def heard(self, name: str, value: str) -> str:
        """Do what was asked; return what is to be shown again."""
        page, people = self._page, self._page.record.store.people
        sequence_id, author = page.get("id"), page.get("author")
        if name == "note":
            self._note = value
        elif name == "label":
            self._label = value
        elif name == "save":
            label = None if self._label in ("", _NOW) else self._label
            await page.ask(people.correct_label, sequence_id, label, author, self._note)
            self._note = ""
            return "body"
        elif name in ("turned", "never", "unturn"):
            turned = int(value) if value.isdecimal() else 0
            turn = {"turned": turned, "never": 0, "unturn": None}[name]
            await page.ask(people.mark_turn, sequence_id, turn, author, self._note)
            self._note = ""
            return "body"
        elif name == "next":
            page.remember(id=await page.ask(_after, page, sequence_id))
            self._label = ""
            return "head"
        return ""

    async def content(self) -> Markup:
        """The conversation with what people said of it, and the fields to say more."""
        page = self._page
        store, sequence_id = page.record.store, page.get("id")
        sequence = await page.ask(store.sequence, sequence_id)
        history = await page.ask(store.people.corrections, ids=[sequence_id], history=True)
        self._found = await page.ask(store.people.corrections, ids=[sequence_id])
        mine = [one for one in self._found if one.author == page.get("author").strip()]
        return element("div", element("div", self._form(sequence, mine), _said(history, self._found)),
                       element("div", _chat(sequence, self._found, mine)), class_="two")  # fmt: skip

    def _form(self, sequence: Sequence, mine: list[Correction]) -> Markup:
        own = next((str(one.label) for one in mine if one.label is not None), _NOW)
        chosen = self._label or own
        words = {_NOW: f"as imported ({sequence.label})", **{str(label): str(label) for label in Label}}
        turned = next((one.turn for one in mine if one.turn is not None), None)
        if turned is None:
            marked = "You have marked no turn: press “it turned here” beside one."
        else:
            marked = f"You say that it turned at turn {turned}." if turned else "You say that it never turned."
        note = element("textarea", self._note, name="note", rows=3, maxlength=10_000)
        return element(
            "section",
            element("p", "The data set says ", tag(str(sequence.label)), " and keeps saying so.", class_="quiet"),
            element("label", "Why (goes with the next thing you save)", note),
            element(
                "div",
                choice("The label should be", "label", words, chosen),
                button("Save label", "save", main=True),
                class_="form spaced",
            ),
            element("p", marked),
            element(
                "p",
                button("It never turned", "never"),
                button("Take my mark back", "unturn") if turned is not None else None,
                class_="chips",
            ),
        )

    def csv(self) -> tuple[str, list[list[Any]]]:
        """What people said of the conversation as rows."""
        heads: list[list[Any]] = [["sequence", "kind", "label", "turn", "author", "time", "note"]]
        rows = [
            [one.sequence_id, one.kind, one.label, one.turn, one.author, one.created_at.isoformat(), one.note]
            for one in self._found
        ]
        return "corrections", heads + rows


def _after(page: Page, sequence_id: str) -> str:
    """The conversation behind one in the order of import; the first behind the last."""
    ids = [head.sequence_id for head in page.record.store.heads()]
    place = ids.index(sequence_id) if sequence_id in ids else -1
    return ids[(place + 1) % len(ids)]


def _said(history: tuple[Correction, ...], latest: tuple[Correction, ...]) -> Markup:
    if not history:
        return element("p", "Nobody has said anything of this conversation yet.", class_="quiet")
    rows = []
    for one in reversed(history):
        if one.kind == "label":
            what = "label taken back" if one.label is None else f"label {one.label}"
        elif one.turn is None:
            what = "mark taken back"
        else:
            what = f"turned at {one.turn}" if one.turn else "never turned"
        counts = any(one is other or one == other for other in latest)
        rows.append(
            element(
                "tr",
                element("td", one.author, class_="name"),
                element(
                    "td",
                    what if counts else element("s", what),
                    element("div", one.note, class_="small"),
                    element("div", f"{one.created_at:%Y-%m-%d %H:%M} UTC", class_="quiet small"),
                ),
            )
        )
    heads = element("tr", [element("th", head, scope="col") for head in ("who", "says")])
    return element(
        "section",
        element("h2", "What people said"),
        element("table", element("thead", heads), element("tbody", rows), class_="wide"),
    )


def _chat(sequence: Sequence, found: tuple[Correction, ...], mine: list[Correction]) -> Markup:
    turned = next((one.turn for one in mine if one.turn is not None), None)
    others: dict[int, list[str]] = {}
    for one in found:
        if one.turn:
            others.setdefault(one.turn, []).append(one.author)
    items = [_turn(turn, turn.number == turned, others.get(turn.number, [])) for turn in sequence.conversation]
    return element("ol", items, class_="turns")


def _turn(turn: Turn, is_mine: bool, authors: list[str]) -> Markup:
    marks = element("span", "▲ turned here, say ", ", ".join(authors), class_="why") if authors else None
    press = "true" if is_mine else "false"
    return element(
        "li",
        element(
            "div",
            element("strong", f"Turn {turn.number}"),
            button("it turned here", "turned", str(turn.number), aria_pressed=press,
                   aria_label=f"It turned at turn {turn.number}"),
            marks,
            class_="meta",
        ),
        element("div", element("span", "prompt", class_="whose"), text_lines(turn.prompt), class_="said"),
        None if turn.response is None else element(
            "div", element("span", "response", class_="whose"), text_lines(turn.response), class_="said answer"
        ),
        class_="now" if is_mine else None,
        data_item="row",
        tabindex=-1,
    )  # fmt: skip
