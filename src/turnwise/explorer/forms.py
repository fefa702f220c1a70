"""Fields and marks that several views share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from turnwise.explorer.markup import element


def choice(
    name: str, label: str, values: Sequence[str], chosen: str, words: Mapping[str, str] | None = None
) -> Markup:
    """Return a field to choose one of several values.

    Args:
        name: its name, as the region hears it.
        label: what is written above it.
        values: the values.
        chosen: the one that is chosen.
        words: what is shown in place of a value.
    """
    said = words or {}
    options = [
        element("option", said.get(value, value), value=value, selected=value == chosen) for value in values
    ]
    return element("label", label, element("select", options, name=name))


def field(
    name: str, label: str, value: str = "", *, kind: str = "text", **more: str | float | bool | None
) -> Markup:
    """Return a field to type into.

    Args:
        name: its name, as the region hears it.
        label: what is written above it.
        value: what stands in it.
        kind: type of the field.
        more: further attributes.
    """
    return element("label", label, element("input", type=kind, name=name, value=value, **more))


def button(
    said: str, do: str, value: str = "", *, main: bool = False, **more: str | float | bool | None
) -> Markup:
    """Return a button.

    Args:
        said: what stands on it.
        do: what the region hears.
        value: the value that it hears.
        main: whether it is what one does here as a rule.
        more: further attributes.
    """
    kind = "main" if main else None
    return element("button", said, type="button", data_do=do, data_value=value, class_=kind, **more)


def tag(word: str) -> Markup:
    """Return a word as a small mark, such as a label; the style sheet gives known words a sign of their own."""
    return element("span", word, class_=f"tag {word}" if word.isalpha() and word.isascii() else "tag")


def tabs(names: Mapping[str, str], chosen: str) -> Markup:
    """Return buttons of which one is chosen; the region hears ``tab``.

    Args:
        names: what stands on each, by value.
        chosen: the value that is chosen.
    """
    made = [
        element("button", said, type="button", data_do="tab", data_value=name,
                aria_pressed="true" if name == chosen else "false")
        for name, said in names.items()
    ]  # fmt: skip
    return element("p", made, class_="chips", role="group", aria_label="Parts of this view")
