"""A view, and the page that it is given (record, state in the address)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlencode

from nicegui import ui

from turnwise.explorer.data.answers import Answers

if TYPE_CHECKING:
    from nicegui import Client

Result = TypeVar("Result")
Given = ParamSpec("Given")

Build = Callable[["Page"], Awaitable[None]]
"""Builds a view, once the browser is connected."""

KEPT = ("run",)
"""What of the state goes along to another view."""


@dataclass(frozen=True, slots=True)
class View:
    """A view: the module of `turnwise.explorer.views` that builds it, and its own keys, for the help."""

    path: str
    title: str
    module: str
    listed: bool = True
    keys: Mapping[str, str] = field(default_factory=dict)

    def builder(self) -> Build:
        """What builds it; its module is imported when it is first opened."""
        build: Build = import_module(f"turnwise.explorer.views.{self.module}").build
        return build


def address(path: str, state: Mapping[str, str]) -> str:
    """The address of a view in a state; what is empty is left out.

    >>> address("/sequences", {"run": "a b", "label": ""})
    '/sequences?run=a+b'
    """
    given = {name: value for name, value in state.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


class Page:
    """A view that is open in a browser; `state` is what the address says beside the path, by name.

    `width` is that of the browser, in pixels, when the view is built. A view that has a table sets `csv`, which
    returns the name of a file and the rows on the screen, headings first.
    """

    def __init__(self, view: View, answers: Answers, client: Client, state: Mapping[str, str]) -> None:
        self.view = view
        self.answers = answers
        self._client = client
        self.record = answers.record
        self.state = dict(state)
        self.csv: Callable[[], tuple[str, list[list[Any]]]] | None = None
        self.width = 1280

    def get(self, name: str, default: str = "") -> str:
        """What the address says, or a default where it says nothing."""
        return self.state.get(name) or default

    def link(self, path: str | None = None, **changes: object) -> str:
        """The address of this view, or of another with the run kept, with changes; None takes a value away."""
        state = {name: value for name, value in self.state.items() if path is None or name in KEPT}
        changed = {name: "" if value is None else str(value) for name, value in changes.items()}
        return address(path or self.view.path, {**state, **changed})

    def remember(self, **changes: object) -> None:
        """Change the state, and the address in the browser with it; None takes a value away."""
        for name, value in changes.items():
            if value is None or value == "":
                self.state.pop(name, None)
            else:
                self.state[name] = str(value)
        ui.navigate.history.replace(self.link())

    def run_name(self) -> str | None:
        """The run that the address names, or the latest; None where there is none."""
        return self.get("run") or self.record.latest_run()

    async def ask(self, job: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """What a job of the data layer gives; it runs in a thread, so that the page goes on living.

        Raises CancelledError where the page was left in the meantime, since nothing can be shown on it any more.
        """
        given = await asyncio.to_thread(job, *args, **kwargs)
        if self._client.is_deleted:
            raise asyncio.CancelledError(f"{self.view.title} was left")
        return given
