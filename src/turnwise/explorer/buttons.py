"""Buttons, alone and as a choice among the parts of a view."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from turnwise.explorer.markup import element


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
