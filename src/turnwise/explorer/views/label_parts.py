"""What the parts of Label share: turns to read, and what is told where something can't be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from turnwise._support.visible import visible_lines
from turnwise.conversation import Label, Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import heading, said, text

Again = Callable[[], Awaitable[None]]
"""Shows the part anew."""

ANSWERS: Final = {
    Label.ATTACK: ("Attack", "1"),
    Label.BENIGN: ("Benign", "2"),
    Label.UNLABELLED: ("Can't tell", "3"),
}
"""What a person answers: the words and the key of each label."""

_SHOWN = 20_000
"""Characters of a text that are shown."""


class LabelPart:
    """A part of Label: the page, who says it, and how it is shown anew."""

    def __init__(self, page: Page, again: Again) -> None:
        self.page, self.again, self.author = page, again, ""

    async def pressed(self, key: str) -> None:
        """Do what a key stands for; nothing by default."""

    async def keep(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a job of the store gives; the page says so where it can't be kept, and None is returned."""
        try:
            return await self.page.ask(job, *args, **kwargs)
        except TurnwiseError as error:
            ui.notify(visible_lines(str(error)), type="negative", multi_line=True, position="top")
            return None


def show_turn(turn: Turn, *, now: bool = False, beside: Callable[[], Any] | None = None) -> None:
    """A turn as it was said; `beside` shows what stands in its head."""
    with ui.element("li").classes("turn is-current" if now else "turn") as item:
        item.props["data-turn"] = str(turn.number)
        with ui.element("div").classes("turn-head"):
            heading(f"Turn {turn.number}", 3)
            if beside is not None:
                beside()
        for side in Side:
            words = turn.text(side)
            if words is not None:
                text("div", str(side).capitalize()).classes("who")
                look = "said response" if side is Side.RESPONSE else "said"
                said(words[:_SHOWN], "div").classes(look).props("dir=auto")
                if len(words) > _SHOWN:
                    text("p", f"… {len(words) - _SHOWN:,} more characters").classes("quiet")
