"""HTML and SVG that are built from parts, in which a text can never be anything but text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from markupsafe import Markup, escape

from turnwise._support.visible import visible, visible_lines

Child = Markup | str | int | float | None | Iterable["Child"]
"""What an element holds: markup as it is; all else as text, in which what could hide or forge is made visible."""

_EMPTY: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "col"})


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element; its tag is ours and never a text of others.

    Markup stays as it is; other children, and values of attributes, become text. ``class_`` is class,
    ``data_turn`` is data-turn; None and False leave an attribute out, True gives it without a value.

    >>> print(element("p", "<b>", element("b", "2"), class_="quiet", hidden=True))
    <p class="quiet" hidden>&lt;b&gt;<b>2</b></p>
    >>> print(element("td", "a\\u202eb"))
    <td>a\\u202eb</td>
    """
    written = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(visible(str(value)))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """What an element with these children holds."""
    return Markup("".join(map(_held, children)))


def text_lines(text: str) -> Markup:
    """A text of several lines as text; what could hide or forge something in it is made visible.

    >>> print(text_lines("one <br>\\n\\u202etwo"))
    one &lt;br&gt;
    \\u202etwo
    """
    return escape(visible_lines(text))


def document(title: str, body: Markup) -> str:
    """A small page that stands alone and loads nothing."""
    style = element("style", Markup(_STYLE))
    head = element("head", element("meta", charset="utf-8"), element("title", f"{title} – turnwise"), style)
    return f"<!doctype html>{element('html', head, element('body', body), lang='en')}"


def _held(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return escape(visible(str(child)))
    return "".join(map(_held, child))


_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:20vh auto;max-width:26rem;"
    "padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem;margin:.4rem .4rem .4rem 0}label{display:block}"
)
