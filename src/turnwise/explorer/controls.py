"""Labelled form fields, buttons and marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup

from turnwise.explorer.markup import element


def choice(
    label: str, name: str, values: Iterable[str] | Mapping[str, str], chosen: str, every: str = ""
) -> Markup:
    """A field to choose one of some values, or of a mapping from values to what each is called.

    `every` is what choosing nothing is called; empty where something has to be chosen.
    """
    called = dict(values) if isinstance(values, Mapping) else {value: value for value in values}
    if chosen and chosen not in called:
        called[chosen] = chosen
    options = [element("option", every, value="", selected=not chosen)] if every else []
    options += [element("option", said, value=value, selected=value == chosen) for value, said in called.items()]
    return labelled(label, name, element("select", options, name=name, id=f"field-{name}"))


def field(
    label: str, name: str, value: str, *, kind: str = "text", size: int = 10, placeholder: str = "",
    live: bool = False, search: bool = False, step: float | None = None, least: float | None = None,
) -> Markup:  # fmt: skip
    """A field to type into; `live` reports every change of it, `search` is where the key / leads."""
    made = element(
        "input", name=name, id=f"field-{name}", value=value, type=kind, size=size,
        placeholder=placeholder or None, spellcheck="false", autocomplete="off", data_live=live,
        data_search=search, step=step, min=least,
        style=f"width: {size * 0.62 + 1.6:.1f}em" if kind == "number" else None,
    )  # fmt: skip
    return labelled(label, name, made)


def labelled(label: str, name: str, control: Markup) -> Markup:
    """A field, whose id is ``field-`` and its name, below its label."""
    return element("div", element("label", label, for_=f"field-{name}"), control, class_="field")


def tag(word: str) -> Markup:
    """A word, such as a label or a verdict, as a small mark; known words have a sign before them."""
    return element("span", word, class_=f"tag {word}" if word.isalpha() and word.isascii() else "tag")


def button(
    said: str, do: str, value: str = "", *, main: bool = False, **more: str | float | bool | None
) -> Markup:
    """A button; the region hears `do` and `value`. `main` marks what one usually does here."""
    kind = "main" if main else None
    return element("button", said, type="button", data_do=do, data_value=value, class_=kind, **more)


def tabs(names: Mapping[str, str], chosen: str) -> Markup:
    """Buttons of which one is chosen, from values to what stands on each; the region hears ``tab``."""
    made = [
        element("button", said, type="button", data_do="tab", data_value=name,
                aria_pressed="true" if name == chosen else "false")
        for name, said in names.items()
    ]  # fmt: skip
    return element("p", made, class_="chips", role="group", aria_label="Parts of this view")
