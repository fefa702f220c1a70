"""The chosen conversation of the inbox: its sentence, the turns around it, and what can be said of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Side, Turn
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import button, fact, heading, notify, said, text
from turnwise.explorer.views.conversation_parts import SHOWN, erase_button, why_button
from turnwise.runs.inbox import FlaggedText, InboxItem
from turnwise.store import Status, Store

DONE: Final[Mapping[Status, tuple[str, str, str]]] = {
    Status.CONFIRMED: ("Confirm", "c", "check"),
    Status.DISMISSED: ("Dismiss", "x", "close"),
    Status.UNSURE: ("Unsure", "u", "question_mark"),
    Status.READ: ("Read", "r", "drafts"),
}
"""What can be decided of a conversation: the words, key and icon of each status."""


def link_to(page: Page, run: str, item: InboxItem) -> str:
    """The address of the whole conversation, at the flagged turn."""
    return page.link("/sequence", run=run, id=item.sequence_id, turn=item.turn)


class InboxDetail:
    """The chosen conversation; `decide` hears a status, and `say` keeps whatever else is said of conversations."""

    def __init__(
        self, page: Page, decide: Callable[[Status], Awaitable[None]], say: Callable[..., Awaitable[bool]]
    ) -> None:
        self._page, self._decide, self._say = page, decide, say
        self._place = ui.element("section").props('aria-label="Chosen conversation" aria-live=polite')
        self._place.classes("inbox-detail")

    def clear(self) -> None:
        """Show nothing."""
        self._place.clear()

    def focus(self, field: str) -> None:
        """Go to the field ``assignee`` or ``note``."""
        (self._assignee if field == "assignee" else self._note).run_method("focus")

    async def show(self, item: InboxItem, run: str, flagged: FlaggedText | None) -> None:
        """Show a conversation that is flagged in a run, with the sentence that counts."""
        self._item = item
        page = self._page
        turns = await page.ask(_turns_around, page.record.store, item)
        self._place.clear()
        with self._place:
            with ui.element("h2"):
                ui.link(visible(item.sequence_id), link_to(page, run, item)).classes("long-name")
            with ui.element("div").classes("facts"):
                fact("turn", f"{item.turn} of {item.turns}")
                fact("F", f"{item.F:.2f}, {_sure(item.I)}")
                fact("source", item.source)
                fact("label", item.label)
                fact("when", f"{item.when:%Y-%m-%d %H:%M}")
            if flagged is not None:
                said(flagged.text[flagged.start : flagged.end][:SHOWN], "blockquote").props("dir=auto")
            text("p", _sentence_of(item)).classes("why-flagged")
            self._show_actions(item, run)
            for turn in turns:
                self._show_turn(turn, item, flagged)

    def _show_turn(self, turn: Turn, item: InboxItem, flagged: FlaggedText | None) -> None:
        here = turn.number == item.turn
        with ui.element("article").classes("turn flagged" if here else "turn"):
            heading(f"Turn {turn.number}" + (", flagged" if here else ""), 3)
            for side, words in ((Side.PROMPT, turn.prompt), (Side.RESPONSE, turn.response)):
                if words is None:
                    continue
                text("div", str(side).capitalize()).classes("who")
                if here and side is item.side and flagged is not None:
                    with ui.element("div").classes("said").props("dir=auto"):
                        said(words[: flagged.start][-SHOWN:])
                        said(words[flagged.start : flagged.end][:SHOWN], "mark")
                        said(words[flagged.end :][:SHOWN])
                else:
                    with ui.element("div").classes(f"said {side}").props("dir=auto"):
                        said(words[:SHOWN])

    def _show_actions(self, item: InboxItem, run: str) -> None:
        with ui.row().classes("inbox-actions"):
            for status, (word, key, icon) in DONE.items():
                pressed = "true" if item.status is status else "false"
                button(word, partial(self._decide, status), icon).props(
                    f"aria-keyshortcuts={key} aria-pressed={pressed}"
                )
        with ui.row().classes("inbox-actions"):
            self._assignee = ui.input("Assigned to", value=item.assignee or "")
            self._assignee.props("dense outlined maxlength=100")
            self._assignee.on("keydown.enter", partial(self._save, note=False))
            self._note = ui.input("Note", value=item.note).props("dense outlined maxlength=10000").classes("grow")
            self._note.on("keydown.enter", partial(self._save, assignee=False))
            button("Save", self._save)
        with ui.row().classes("inbox-actions"):
            ui.link("Whole conversation", link_to(self._page, run, item))
            ui.link("Correct its label", self._page.link("/label", id=item.sequence_id))
            erase_button(self._page, item.sequence_id)
        why_button(self._page, run, item.sequence_id, item.turn)

    async def _save(self, *, assignee: bool = True, note: bool = True) -> None:
        """Keep what was changed in the fields."""
        item, changed, told = self._item, {}, []
        name, words = self._assignee.value or "", self._note.value
        if assignee and name != (item.assignee or ""):
            changed["assignee"] = name
            told.append(f"Assigned to {name or 'nobody'}")
        if note and words and words != item.note:
            changed["note"] = words
            told.append("Note kept")
        if changed and await self._say([item], **changed):
            notify("; ".join(told), "info", "bottom")


def _turns_around(store: Store, item: InboxItem) -> list[Turn]:
    """The turn before the flagged one, and that."""
    return list(store.turns(item.sequence_id, range(max(1, item.turn - 1), item.turn + 1)))


def _sentence_of(item: InboxItem) -> str:
    """Why a conversation is here, in a sentence."""
    what = item.principle.replace("_", " ")
    return visible(
        f"{item.detector} fired at turn {item.turn}: {item.reason} (threshold {item.threshold:.3g}; {what}: "
        f"F {item.F:.2f}, highest {item.peak:.2f})"
    )


def _sure(indeterminacy: float) -> str:
    """How sure a score is, in words."""
    return "sure" if indeterminacy < 0.25 else "rather sure" if indeterminacy < 0.5 else "unsure"
