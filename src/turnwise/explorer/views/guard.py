"""The guard at work: a conversation tried, an audit as it grows and what it comes to, a running service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.record import SERVICE_KEY
from turnwise.explorer.data.watch import ServiceWatch
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import (
    card,
    choice,
    column,
    data_table,
    emptied,
    failed,
    finite,
    heading,
    refill,
    said,
    section,
    tabs,
    text,
    text_field,
)
from turnwise.explorer.views.guard_checks import TryView, check_row, checks_table, timeline
from turnwise.forensics import in_words
from turnwise.operations import AuditReport, report_audit
from turnwise.operations.audit_report import KINDS
from turnwise.rates import Rate

TABS = {"try": "Try", "audit": "Audit", "report": "Report", "service": "Service"}


async def build(page: Page) -> None:
    """Show the guard at work."""

    def turned(name: str) -> None:
        kept = {key: None for key in page.state if key not in ("run", "preset")}
        ui.navigate.to(page.link(**{**kept, "tab": name}))

    tab = page.get("tab", "try")
    heading("Guard", 1)
    tabs(TABS, tab, turned)
    views: dict[str, Callable[[Page], Any]] = {"audit": AuditView, "report": ReportView, "service": ServiceView}
    await views.get(tab, TryView)(page).build()


_LOOK_SECONDS = 1.0
_ASK_SECONDS = 2.0

_SHOWN = 100
"""Conversations that are shown at most."""


_HOW = """audit: {sink: store, path: work.db}      # in the guard's YAML file
turnwise explore --audit audit.jsonl     # a file, named at the start"""


def _audit_choice(page: Page) -> str | None:
    """Show a field to choose one of the audits, and return which is chosen; None where there is none."""
    places = page.record.named.audits()
    if not places:
        text("p", "Findings of a scan have no audit. Name the audit file of a guard with --audit.")
        return None
    name = page.get("audit") if page.get("audit") in places else next(iter(places))
    choice("Audit", places, name, partial(_reopen, page, "audit")).classes("grow")
    return name


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
        with emptied(self._told):
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
        name = _audit_choice(page)
        if name is None:
            return
        self._watch = await page.ask(page.record.named.audit, name)
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
        with emptied(self._one):
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


_DAYS = 31


class ReportView:
    """What `turnwise.operations.report_audit` says of an audit."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def build(self) -> None:
        """Show the report."""
        page = self._page
        name = _audit_choice(page)
        if name is None:
            return
        with ui.element("div").classes("form"):
            text_field(
                "If the threshold were", page.get("threshold"), partial(_reopen, page, "threshold"), kind="number"
            )
            text_field("At most this share", page.get("alarms"), partial(_reopen, page, "alarms"), kind="number")
        threshold, alarms = finite(page.get("threshold")), finite(page.get("alarms"))
        try:
            found = await page.ask(
                report_audit, page.record.named.audits()[name], threshold=threshold, alarms=alarms
            )
        except TurnwiseError as error:
            failed(str(error))
            return
        if not found.checks:
            text("p", "The audit holds no check yet.").classes("empty")
            return
        self._totals(found)
        self._counts(found)
        self._to_read(found)
        page.csv = partial(_file, found)

    def _totals(self, found: AuditReport) -> None:
        text("p", f"{found.begin[:16]} to {found.end[:16]} (UTC): {found.checks:,} texts checked").classes("quiet")
        with ui.element("div").classes("cards"):
            _card("conversations blocked", found.blocked)
            _card("would have been (mode log)", found.would_block)
            _card("only warned of", found.warned)
        told = {
            "lost before they were written": found.missing,
            "no event of an audit": found.unreadable,
            "erased": found.erased,
            "refused by a rate limit": found.limited,
        }
        if any(told.values()):
            text("p", "; ".join(f"{count:,} {what}" for what, count in told.items() if count)).classes("quiet")
        for one, words in ((found.what_if, "as asked"), (found.alarms, "for this share of alarms")):
            if one is not None:
                flags = f"{found.guardrail} at {one.threshold:.3f}, {words}: flags {one.flagged} conversations"
                spares = f"of {one.now} that it blocked or would have, {one.spared} no longer"
                text("p", f"{flags}; {one.added} that it let pass; {spares}.")

    def _counts(self, found: AuditReport) -> None:
        columns = [column("texts", right=True), column("conversations")]
        for kind, title in KINDS.items():
            some = found.counts[kind]
            rows = [
                {kind: one.name, "texts": f"{one.texts:,}", "conversations": str(one.conversations)}
                for one in (some[-_DAYS:] if kind == "day" else some)
            ]
            if rows:
                heading(title, 2)
                data_table([column(kind), *columns], rows, f"Blocked, or would have been, {title.lower()}")

    def _to_read(self, found: AuditReport) -> None:
        rows = []
        for one in found.to_read:
            where = self._page.link(tab="audit", conversation=one.conversation_id)
            cells = {"conversation": one.conversation_id, "turn": str(one.turn or "–"), "href": where}
            rows.append({**cells, "why": f"{one.guardrail}: {one.reason}", "text": (one.text or "")[:300]})
        if rows:
            heading("To read first", 2)
            columns = [
                column("conversation", kind="link"),
                column("turn", right=True),
                column("why"),
                column("text"),
            ]
            data_table(columns, rows, "Conversations to read first")


def _card(what: str, rate: Rate) -> None:
    low, high = rate.interval
    share = 100 * rate.count / max(rate.of, 1)
    card(f"{share:.1f} %", what, f"{rate.count:,} of {rate.of:,} [{100 * low:.1f}, {100 * high:.1f}]")


def _reopen(page: Page, key: str, value: str) -> None:
    ui.navigate.to(page.link(None, **{key: value, "conversation": None}))


def _file(found: AuditReport) -> tuple[str, list[list[object]]]:
    rows: list[list[object]] = [["by", "name", "texts", "conversations", "of"]]
    for kind, some in found.counts.items():
        rows += [[kind, one.name, one.texts, one.conversations.count, one.conversations.of] for one in some]
    return "blocks", rows
