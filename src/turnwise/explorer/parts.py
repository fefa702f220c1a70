"""What views are built of beside NiceGUI's elements: texts of others, headings, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise._support.visible import visible, visible_lines

if TYPE_CHECKING:
    from nicegui.elements.mixins.text_element import TextElement


def text(tag: str, words: str) -> TextElement:
    """An element of HTML that holds a text of ours, or one in which everything can be seen."""
    from nicegui.elements.mixins.text_element import TextElement

    return TextElement(tag=tag, text=words)


def said(words: str, tag: str = "span") -> TextElement:
    """A text of others as it is, but for characters that could hide or forge something."""
    return text(tag, visible_lines(words))


def heading(words: str, level: int) -> TextElement:
    """A heading, from 1 to 6."""
    return text(f"h{level}", visible(words))


def fact(name: str, value: object) -> None:
    """What something is, behind its name."""
    from nicegui import ui

    with ui.element("span"):
        text("b", f"{name} ")
        text("span", visible(str(value)))


def failed(words: str) -> None:
    """What the page shows where something went wrong; the first line says it, further ones point at the place."""
    from nicegui import ui

    first, *rest = visible_lines(words).split("\n")
    with ui.element("div").classes("failure").props("role=alert"):
        text("p", first)
        if rest:
            text("pre", "\n".join(rest))
