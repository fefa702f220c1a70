"""The part of Guard that reports: what an audit says was blocked or would have been, and other thresholds."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from turnwise.errors import TurnwiseError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import card, choice, column, data_table, failed, finite, heading, text, text_field
from turnwise.operations import KINDS, AuditReport, report_audit
from turnwise.rates import Rate

_DAYS = 31


class ReportView:
    """What `turnwise.operations.report_audit` says of an audit."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def build(self) -> None:
        """Show the report."""
        page = self._page
        places = page.record.named.audits()
        if not places:
            text("p", "Findings of a scan have no audit. Name the audit file of a guard with --audit.")
            return
        name = page.get("audit") if page.get("audit") in places else next(iter(places))
        with ui.element("div").classes("form"):
            choice("Audit", places, name, partial(_ask, page, "audit"))
            text_field(
                "If the threshold were", page.get("threshold"), partial(_ask, page, "threshold"), kind="number"
            )
            text_field("At most this share", page.get("alarms"), partial(_ask, page, "alarms"), kind="number")
        threshold, alarms = finite(page.get("threshold")), finite(page.get("alarms"))
        try:
            found = await page.ask(report_audit, places[name], threshold=threshold, alarms=alarms)
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


def _ask(page: Page, key: str, value: str) -> None:
    ui.navigate.to(page.link(None, **{key: value}))


def _file(found: AuditReport) -> tuple[str, list[list[object]]]:
    rows: list[list[object]] = [["by", "name", "texts", "conversations", "of"]]
    for kind, some in found.counts.items():
        rows += [[kind, one.name, one.texts, one.conversations.count, one.conversations.of] for one in some]
    return "blocks", rows
