"""The parts of Guard that watch: the audit of a guard as it grows, and the conversations of a running service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from turnwise.errors import TurnwiseError
from turnwise.explorer.controls import choice, field, tag
from turnwise.explorer.data.named_sources import SERVICE_KEY
from turnwise.explorer.data.watch import AuditWatch, ServiceWatch, Watched
from turnwise.explorer.frame import failure, offer_exports
from turnwise.explorer.markup import element, text_lines
from turnwise.explorer.pages import Page, Region
from turnwise.explorer.views.guard_parts import gauge, timeline
from turnwise.guard.forensics import in_words

_LOOK_SECONDS = 1.0
_ASK_SECONDS = 2.0

_SHOWN = 100
"""Conversations, and checks of one, that are shown at most."""


_HOW = """audit: {sink: store, path: work.db}      # in the guard's YAML file
turnwise explore --audit audit.jsonl     # a file, named at the start"""


class AuditView:
    """An audit that is watched."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def build(self) -> None:
        """Show the conversations of an audit, and the checks of one, as they come."""
        from nicegui import ui

        page = self._page
        places = page.record.named.audits()
        if not places:
            ui.label(
                "Findings of a scan have no audit. Name the audit file of a guard with --audit to watch it here."
            )
            return
        name = page.get("audit") if page.get("audit") in places else next(iter(places))
        audit = await page.ask(page.record.named.audit, name)
        self._watch = AuditWatch(audit)
        Region(
            element("div", choice("Audit", "audit", places, name), class_="form"),
            self._heard,
            label="Audit",
        )
        self._told = Region(label="How it goes", live=True)
        with ui.element("div").classes("two"):
            self._list = Region(on=self._heard, label="Conversations")
            self._one = Region(label="Checks of the conversation")
        page.csv = self._csv
        await self._look(first=True)
        ui.timer(_LOOK_SECONDS, self._look)

    async def _heard(self, name: str, value: str) -> None:
        from nicegui import ui

        page = self._page
        if name == "audit":
            ui.navigate.to(page.link(audit=value, conversation=None))
        elif name == "conversation":
            page.remember(conversation=value)
            self._show()

    async def _look(self, *, first: bool = False) -> None:
        try:
            came = await self._page.ask(self._watch.look)
        except TurnwiseError as error:
            self._told.show(failure(str(error)))
            return
        if came or first:
            self._show()

    def _show(self) -> None:
        watch, page = self._watch, self._page
        found = watch.conversations()
        missing = f" {watch.missing} events are missing, the audit says." if watch.missing else ""
        count = f"{len(watch.events)} checks of {len(found)} conversations"
        self._told.show(element("p", count, "; new ones appear by themselves.", missing, class_="quiet"))
        if not found:
            self._list.show(_empty())
            self._one.show(Markup())
            return
        chosen = page.get("conversation") or found[0].conversation_id
        self._list.show(_conversations(found[:_SHOWN], chosen))
        self._one.show(_checks(chosen, watch.checks(chosen)[-_SHOWN:]))
        offer_exports(page)

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


def _empty() -> Markup:
    return element(
        "div",
        element("p", "No check yet. A guard writes its audit into this store, or into a file, like so:"),
        element("pre", text_lines(_HOW)),
        class_="empty",
    )  # fmt: skip


def _conversations(found: list[Watched], chosen: str) -> Markup:
    rows = [
        element(
            "tr",
            element("td", element("button", one.conversation_id, type="button", data_do="conversation",
                                  data_value=one.conversation_id, data_item="follow",
                                  aria_pressed="true" if one.conversation_id == chosen else "false"),
                    element("div", one.who, class_="quiet small"), class_="name"),
            element("td", one.turns, class_="number"),
            element("td", f"■ {one.blocked}" if one.blocked else "–", class_="number"),
            element("td", tag(one.stance) if one.stance else "–"),
        )
        for one in found
    ]  # fmt: skip
    heads = {"conversation": None, "turns": "number", "blocked": "number", "stance": None}
    return element(
        "table",
        element(
            "thead", element("tr", [element("th", head, scope="col", class_=kind) for head, kind in heads.items()])
        ),
        element("tbody", rows),
        class_="wide",
    )


def _checks(name: str, events: list[dict[str, Any]]) -> Markup:
    return element(
        "section", element("h2", name), element("ol", [_check(event) for event in events], class_="turns")
    )


def _check(event: Mapping[str, Any]) -> Markup:
    verdict = "blocked" if event.get("blocked") else "warned" if event.get("warned") else "passed"
    stance = event.get("stance") or {}
    mode, trust, text = stance.get("mode"), stance.get("trust"), event.get("text")
    said = [*(event.get("reasons") or ()), *(event.get("warnings") or ())]
    return element(
        "li",
        element(
            "div",
            element("strong", f"Turn {event.get('turn') or '–'}"),
            element("span", str(event.get("side", "")).replace("_", " "), class_="quiet"),
            tag(verdict),
            element("span", "stance ", tag(str(mode)), " trust ", gauge(trust, "trust"), f" {trust:.2f}")
            if mode and isinstance(trust, float)
            else None,
            element("span", str(event.get("time", ""))[:19].replace("T", " "), class_="quiet small"),
            class_="meta",
        ),
        element("div", text_lines(text), class_="said")
        if isinstance(text, str)
        else element("p", "The audit keeps no text.", class_="quiet small"),
        [element("div", str(one), class_="why") for one in said],
        element("p", str(stance.get("rationale")), class_="quiet small") if stance.get("rationale") else None,
        class_=verdict,
        data_item="row",
        tabindex=-1,
    )


class ServiceView:
    """A service that is watched."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._watch: ServiceWatch | None = None
        self._analysis: dict[str, Any] = {}

    async def build(self) -> None:
        """Show the conversations of a service, and the analysis of one, brought up to date every two seconds."""
        from nicegui import ui

        named = self._page.record.named.service
        if named is None:
            Region(
                element(
                    "div",
                    element(
                        "p", "No service is watched. Name one at the start, with its API key in the environment:"
                    ),
                    element("pre", f"{SERVICE_KEY}=... turnwise explore --service http://127.0.0.1:8080"),
                    class_="empty",
                )
            )
            return
        self._watch = ServiceWatch(named.url, named.key)  # a key that is typed stays with this page
        self._key = Region(on=self._heard, label="Service")
        self._ask_key(named.key == "")
        self._told = Region(label="How it goes", live=True)
        with ui.element("div").classes("two"):
            self._list = Region(on=self._heard, label="Conversations")
            self._one = Region(label="Analysis of the conversation")
        self._page.csv = self._csv
        await self._look()
        ui.timer(_ASK_SECONDS, self._look)

    def _ask_key(self, wanted: bool) -> None:
        assert self._watch is not None
        typed = field("API key of the service, where it asks for one", "key", "", kind="password", size=30)
        self._key.show(
            element(
                "div",
                element("p", "Service ", element("code", self._watch.url)),
                typed if wanted else None,
                class_="form",
            )
        )

    async def _heard(self, name: str, value: str) -> None:
        assert self._watch is not None
        if name == "key":
            self._watch.key = value.strip()
        elif name == "conversation":
            self._page.remember(conversation=value)
        await self._look()

    async def _look(self) -> None:
        page, watch = self._page, self._watch
        assert watch is not None
        try:
            found = await page.ask(watch.conversations)
            names = [str(one.get("conversation_id")) for one in found]
            chosen = page.get("conversation") or (names[0] if names else "")
            self._analysis = await page.ask(watch.forensics, chosen) if chosen else {}
        except TurnwiseError as error:
            self._told.show(failure(str(error)))
            return
        self._told.show(element("p", f"{len(found)} conversations, the one used last first.", class_="quiet"))
        self._list.show(_served(found[:_SHOWN], chosen))
        self._one.show(_analysed(chosen, self._analysis) if chosen else Markup())

    def _csv(self) -> tuple[str, list[list[Any]]]:
        entries = [one for one in self._analysis.get("timeline", ()) if isinstance(one, Mapping)]
        names = ("time", "turn_number", "pipeline_type", "blocked", "stance")
        return "service", [list(names), *([entry.get(name) for name in names] for entry in entries)]


def _served(found: list[dict[str, Any]], chosen: str) -> Markup:
    rows = []
    for one in found:
        name = str(one.get("conversation_id"))
        pressed = "true" if name == chosen else "false"
        pick = element("button", name, type="button", data_do="conversation", data_value=name, data_item="follow",
                       aria_pressed=pressed)  # fmt: skip
        rows.append(
            element(
                "tr",
                element(
                    "td", pick, element("div", str(one.get("initiator", "")), class_="quiet small"), class_="name"
                ),
                element("td", str(one.get("turns", "–")), class_="number"),
                element("td", tag("blocked") if one.get("last_turn_blocked") else "–"),
            )
        )
    heads = {"conversation": None, "turns": "number", "last turn": None}
    return element(
        "table",
        element(
            "thead", element("tr", [element("th", head, scope="col", class_=kind) for head, kind in heads.items()])
        ),
        element("tbody", rows),
        class_="wide",
    )


def _analysed(name: str, analysis: Mapping[str, Any]) -> Markup:
    try:
        told = in_words(analysis)
    except (KeyError, TypeError, ValueError, AttributeError):  # what another program answers may be anything
        told = ["The service's analysis can't be read: is it a turnwise service of this version?"]
    return element(
        "section",
        element("h2", name),
        element("ul", [element("li", line) for line in told]),
        timeline(analysis, texts=True),
    )
