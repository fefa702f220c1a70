"""The parts of Guard that watch: the audit of a guard as it grows, and the conversations of a running service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.named_sources import SERVICE_KEY
from turnwise.explorer.data.watch import ServiceWatch
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    choice,
    column,
    data_table,
    failed,
    heading,
    refill,
    said,
    section,
    text,
    text_field,
)
from turnwise.explorer.views.guard_parts import check_row, checks_table, timeline
from turnwise.guard.forensics import in_words

_LOOK_SECONDS = 1.0
_ASK_SECONDS = 2.0

_SHOWN = 100
"""Conversations that are shown at most."""


_HOW = """audit: {sink: store, path: work.db}      # in the guard's YAML file
turnwise explore --audit audit.jsonl     # a file, named at the start"""


class _Watching(ABC):
    """What both ways to watch share: conversations to pick from, and a line that says how it goes."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._last, self._wrong = "", False
        self._rows: list[dict[str, Any]] = []

    def _build(self, columns: Iterable[dict[str, Any]], label: str) -> None:
        """Show the line and the conversations; what is known of one goes into `self._one`."""
        self._told = section("Activity", live=True)
        with ui.element("div").classes("two") as self._both:
            with section("Conversations"):
                shown = [column("pick", "conversation", "pick"), *columns]
                self._list = data_table(shown, self._rows, "Conversations, the latest first", heard=self._picked)
            self._one = section(label)
        self._both.set_visibility(False)

    def _tell(self, words: str, *, wrong: bool = False) -> None:
        if words == self._last:
            return
        self._last, self._wrong = words, wrong
        self._told.clear()
        with self._told:
            failed(words) if wrong else text("p", words).classes("quiet")

    def _list_rows(self, rows: list[dict[str, Any]], chosen: str) -> None:
        self._rows[:] = [{**row, "picked": row["pick"] == chosen} for row in rows]
        refill(self._list, self._rows)
        self._both.set_visibility(bool(rows))

    async def _picked(self, _: str, name: str) -> None:
        self._page.remember(conversation=name)
        await self._look(anew=True)

    @abstractmethod
    async def _look(self, *, anew: bool = False) -> None:
        """Show what came; all of it where that is asked for."""


class AuditView(_Watching):
    """An audit that is watched."""

    async def build(self) -> None:
        """Show the conversations of an audit, and the checks of one, as they come."""
        page = self._page
        places = page.record.named.audits()
        if not places:
            words = (
                "Findings of a scan have no audit. Name the audit file of a guard with --audit to watch it here."
            )
            text("p", words)
            return
        name = page.get("audit") if page.get("audit") in places else next(iter(places))
        self._watch = await page.ask(page.record.named.audit, name)
        choice("Audit", places, name, self._choose).classes("grow")
        numbers = column("turns", right=True), column("blocked", right=True), column("stance", kind="tag")
        self._build(numbers, "Checks of the conversation")
        with self._one:
            self._name = heading("", 2)
            self._checks = checks_table("Checks", _checked)
        with ui.element("div").classes("empty") as self._empty:
            text("p", "No check yet. A guard writes its audit into this store, or into a file, like so:")
            text("pre", _HOW)
        page.csv = self._csv
        await self._look(anew=True)
        ui.timer(_LOOK_SECONDS, self._look)

    def _choose(self, audit: str) -> None:
        ui.navigate.to(self._page.link(audit=audit, conversation=None))

    async def _look(self, *, anew: bool = False) -> None:
        try:
            came = await self._page.ask(self._watch.look)
        except TurnwiseError as error:
            self._tell(str(error), wrong=True)
            return
        if came or anew or self._wrong:
            self._show()

    def _show(self) -> None:
        watch = self._watch
        found = watch.conversations()
        missing = f" The audit reports {watch.missing} missing events." if watch.missing else ""
        count = f"{len(watch.events)} checks of {len(found)} conversations"
        self._tell(f"{count}; new ones appear by themselves.{missing}")
        self._empty.set_visibility(not found)
        chosen = self._page.get("conversation") or (found[0].conversation_id if found else "")
        rows = [
            {"pick": one.conversation_id, "under": one.who, "turns": one.turns, "stance": one.stance or "–",
             "blocked": f"■ {one.blocked}" if one.blocked else "–"}
            for one in found[:_SHOWN]
        ]  # fmt: skip
        self._list_rows(rows, chosen)
        self._name.set_text(visible(chosen))
        self._checks.show(watch.checks(chosen), last=True)

    def _csv(self) -> tuple[str, list[list[Any]]]:
        heads: list[list[Any]] = [
            ["time", "conversation", "turn", "side", "blocked", "stance", "trust", "reasons"]
        ]
        rows = [
            [*(event.get(name) for name in ("time", "conversation_id", "turn", "side", "blocked")),
             *((event.get("stance") or {}).get(name) for name in ("mode", "trust")),
             "; ".join(map(str, event.get("reasons") or ()))]
            for event in self._watch.events
        ]  # fmt: skip
        return "audit", heads + rows


def _checked(event: Mapping[str, Any]) -> dict[str, Any]:
    stance = event.get("stance") or {}
    trust, words = stance.get("trust"), event.get("text")
    return check_row(
        event.get("turn") or "–",
        event.get("side", ""),
        "blocked" if event.get("blocked") else "warned" if event.get("warned") else "passed",
        words if isinstance(words, str) else None,
        [*(event.get("reasons") or ()), *(event.get("warnings") or ())],
        str(event.get("time", ""))[:19].replace("T", " "),
        stance=str(stance.get("mode") or "") if isinstance(trust, float) else "",
        trust=trust if isinstance(trust, float) else None,
        rationale=str(stance.get("rationale") or ""),
    )


class ServiceView(_Watching):
    """A service that is watched."""

    async def build(self) -> None:
        """Show the conversations of a service, and the analysis of one, brought up to date every two seconds."""
        named = self._page.record.named.service
        self._seen: Any = None
        self._analysis: dict[str, Any] = {}
        if named is None:
            with ui.element("div").classes("empty"):
                text("p", "No service is watched. Name one at the start, with its API key in the environment:")
                text("pre", f"{SERVICE_KEY}=... turnwise explore --service http://127.0.0.1:8080")
            return
        self._watch = ServiceWatch(named.url, named.key)  # a key that is typed stays with this page
        with ui.row().classes("form"):
            with text("p", "Service "):
                said(named.url, "code")
            if named.key == "":
                self._key = text_field(
                    "API key of the service, where it asks for one", "", self._open, kind="password", wide=True
                )
        self._build(
            (column("turns", right=True), column("last", "last turn", "tag")), "Analysis of the conversation"
        )
        self._page.csv = self._csv
        await self._look()
        ui.timer(_ASK_SECONDS, self._look)

    async def _open(self, key: str) -> None:
        if key.strip():
            self._watch.key = key.strip()
            self._key.set_value("")  # the page need not hold it any longer
            await self._look()

    async def _look(self, *, anew: bool = False) -> None:
        page, watch = self._page, self._watch
        try:
            found = await page.ask(watch.conversations)
            names = [str(one.get("conversation_id")) for one in found]
            chosen = page.get("conversation") or (names[0] if names else "")
            self._analysis = await page.ask(watch.forensics, chosen) if chosen else {}
        except TurnwiseError as error:
            self._tell(str(error), wrong=True)
            return
        self._tell(f"{len(found)} conversations, the most recently used first.")
        seen = (chosen, found, self._analysis)
        if seen == self._seen and not anew:
            return
        self._seen = seen
        rows = [
            {"pick": name, "under": str(one.get("initiator", "")), "turns": str(one.get("turns", "–")),
             "last": "blocked" if one.get("last_turn_blocked") else "–"}
            for name, one in zip(names[:_SHOWN], found, strict=False)
        ]  # fmt: skip
        self._list_rows(rows, chosen)
        self._one.clear()
        with self._one:
            _analysed(chosen, self._analysis)

    def _csv(self) -> tuple[str, list[list[Any]]]:
        entries = [one for one in self._analysis.get("timeline", ()) if isinstance(one, Mapping)]
        names = ("time", "turn_number", "pipeline_type", "blocked", "stance")
        return "service", [list(names), *([entry.get(name) for name in names] for entry in entries)]


def _analysed(name: str, analysis: Mapping[str, Any]) -> None:
    try:
        told = in_words(analysis)
    except (KeyError, TypeError, ValueError, AttributeError):  # what another program answers may be anything
        told = ["The service's analysis can't be read: is it a turnwise service of this version?"]
    heading(name, 2)
    with ui.element("ul"):
        for line in told:
            said(line, "li")
    timeline(analysis, texts=True)
