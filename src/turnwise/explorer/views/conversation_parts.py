"""What views show of one conversation: a turn, what its scores rest on, why it is flagged, and its erasure."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Side, Turn
from turnwise.errors import TurnwiseError
from turnwise.explorer.data.conversations import Chat
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import column, data_table, emptied, failed, heading, kept_name, notify, said, text
from turnwise.runs.why import explain_flag
from turnwise.scoring import Call, Evaluation, Failure

SHOWN = 20_000
"""Characters of a text that are shown."""

_REPLY_SHOWN = 8_000
"""Characters of a reply that are shown."""


def detail(chat: Chat, turn: int, *, brief: bool = False) -> None:
    """Show all that is known of a turn of a conversation; `brief` leaves out what few read."""
    scored, lost = chat.at(turn)
    if not brief:
        heading(f"Turn {turn}", 2)
    if unread := chat.unread_at(turn):
        said(f"{unread}: the observer does not read it, so there is no score.", "p")
    elif not scored:
        text("p", "Not scored: this run has no evaluation of the turn.").classes("quiet")
    if scored:
        columns = [column("principle"), column("side"), *(column(name, right=True) for name in "TIF")]
        rows = [
            {"principle": one.key.principle, "side": str(one.key.side)}
            | {name: f"{getattr(one.score, name):.3f}" for name in "TIF"}
            for one in scored
        ]
        data_table(columns, rows, f"Scores of turn {turn}")
    if chat.session:
        said(f"Simulation with default settings: {chat.session[turn - 1].rationale}", "p")
    for failure in lost:
        _failure(failure)
    for evaluation in scored:
        if not brief:
            _evaluation(evaluation)
        elif evaluation.reasoning:
            said(f"{evaluation.key.principle}, {evaluation.key.side}: {_cut(evaluation.reasoning)}", "blockquote")
    if brief:
        return
    if metadata := chat.turns[turn - 1].metadata if chat.turns else None:
        heading("Metadata of the turn", 3)
        said(_json(metadata), "pre")


def _evaluation(one: Evaluation) -> None:
    shown = ui.expansion(value=bool(one.reasoning)).props("dense dense-toggle")
    shown.props["label"] = visible(f"{one.key.principle}, {one.key.side}: what it rests on")
    with shown:
        if one.reasoning:
            heading("Reasoning", 3)
            said(_cut(one.reasoning), "blockquote")
        else:
            text("p", "This observer gives no reasons in words.").classes("quiet")
        _rests_on(one)


def _failure(one: Failure) -> None:
    with ui.element("div").classes("failure"):
        said(f"Not scored: {one.key.principle}, {one.key.side}, {one.reason}", "b")
        said(_cut(one.message), "p")
        with ui.expansion("what was tried").props("dense dense-toggle"):
            _rests_on(one)


def _rests_on(one: Evaluation | Failure) -> None:
    origin = one.provenance
    facts = {
        "observer": f"{origin.observer} {origin.observer_version}",
        "context": origin.context,
        "principle": f"version {origin.principle_version}",
        "parameters": _json(dict(origin.parameters)) if origin.parameters else None,
        "code": origin.code_version,
        "made": f"{one.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "latency": None if one.latency_s is None else f"{one.latency_s:.2f} s",
        "cost": None if one.cost_usd is None else f"${one.cost_usd:.5f}",
    }
    with ui.element("dl"):
        for name, value in facts.items():
            if value is not None:
                text("dt", name)
                said(value, "dd")
    if one.raw_reply:
        heading("Raw reply", 3)
        said(_cut(one.raw_reply), "pre")
    for call in one.calls:
        _call(call)


def _call(call: Call) -> None:
    heading(f"Call {call.repeat}: {call.attempts} requests" + (", from the journal" if call.cached else ""), 3)
    score, reply = call.score, call.reply
    told = f"T {score.T:.3f} I {score.I:.3f} F {score.F:.3f}" if score is not None else call.reason or "no score"
    said(str(told), "p")
    if reply is not None:
        said(f"{reply.model}, {reply.prompt_tokens} + {reply.completion_tokens} tokens", "p").classes("quiet")
        said(_cut(reply.text), "pre")
    if call.message:
        said(call.message, "p")


def _cut(words: str) -> str:
    more = len(words) - _REPLY_SHOWN
    return words if more <= 0 else f"{words[:_REPLY_SHOWN]} … {more:,} more characters"


def _json(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return shown if len(shown) <= _REPLY_SHOWN else f"{shown[:_REPLY_SHOWN]} …"


def why_button(page: Page, run: str, sequence_id: str, turn: int) -> None:
    """Show a button that says why a turn has its score; the observer reads it again, which takes some seconds."""
    place = ui.element("div").props("aria-live=polite").classes("why")

    async def ask() -> None:
        with emptied(place):
            text("p", "Reading it again with one thing left out at a time …").classes("quiet")
        try:
            found = await page.ask(partial(explain_flag, page.record.store, sequence_id, run, turn=turn))
        except TurnwiseError as error:
            with emptied(place):
                failed(str(error))
            return
        with emptied(place):
            heading("Why", 3)
            with ui.element("ul"):
                for sentence in found.sentences():
                    said(sentence, "li")
            words = found.why.words if found.why is not None else None
            if words is not None:
                with ui.element("div").classes("said").props("dir=auto"):
                    said(found.text[: words.start])
                    said(found.text[words.start : words.end], "mark")
                    said(found.text[words.end :])
            text("p", "This is what the score rests on, not what a person would name.").classes("quiet small")

    with place:
        ui.button("Why?", icon="help_outline", on_click=ask).props("no-caps dense outline")


def erase_button(page: Page, sequence_id: str) -> None:
    """Show a button that erases a conversation, once its id is typed again."""
    ui.button("Erase ...", icon="delete_forever", on_click=partial(_ask_to_erase, page, sequence_id)).props(
        "no-caps dense flat"
    )


def _ask_to_erase(page: Page, sequence_id: str) -> None:
    with ui.dialog() as dialog, ui.card() as card:
        dialog.props('aria-label="Erase a conversation"')
        heading("Erase this conversation", 2)
        text(
            "p",
            "Its texts, scores, notes, cached replies and judgements are erased from every file of the store; "
            "a receipt is kept. Backups and exports made before are out of reach.",
        )
        said(f"Type its id to continue: {sequence_id}", "p")
        typed = ui.input("Id of the conversation").props("outlined dense autofocus")
        reason = ui.input("Why, for the receipt").props("outlined dense maxlength=200")

        async def go_on() -> None:
            from turnwise.guard.forgetting import erase

            if (typed.value or "").strip() != sequence_id:
                notify("This is not its id; nothing was erased.", "warning", "bottom")
                return
            store, author = page.record.store, await kept_name()
            job = partial(erase, store, [sequence_id], author=author, reason=reason.value or "")
            try:
                receipt = await page.ask(job)
            except TurnwiseError as error:
                notify(error, position="bottom")
                return
            with emptied(card):
                _show_receipt(receipt, dialog, page)

        with ui.row():
            ui.button("Erase", on_click=go_on).props("no-caps outline color=negative")
            ui.button("Cancel", on_click=dialog.close).props("no-caps flat")
    dialog.open()


def _show_receipt(receipt: Any, dialog: Any, page: Page) -> None:
    heading("Erased", 2)
    counts = receipt.store.counts if receipt.store is not None else {}
    text("p", ", ".join(f"{count:,} {visible(table)}" for table, count in counts.items()))
    text("p", "Not reached:")
    with ui.element("ul"):
        for place in receipt.unreached:
            said(place, "li")
    told = json.dumps(receipt.to_dict(), ensure_ascii=False, indent=1)
    with ui.row():
        save = partial(ui.download.content, told, "receipt.json")
        ui.button("Save the receipt", on_click=save).props("no-caps outline")
        ui.button("To the inbox", on_click=lambda: ui.navigate.to(page.link("/"))).props("no-caps flat")
    dialog.on("hide", lambda: ui.navigate.to(page.link("/")))


def show_turn(turn: Turn, *, now: bool = False, beside: Callable[[], Any] | None = None) -> None:
    """A turn as it was said; `beside` shows what stands in its head."""
    with ui.element("li").classes("turn is-current" if now else "turn") as item:
        item.props["data-turn"] = str(turn.number)
        with ui.element("div").classes("turn-head"):
            heading(f"Turn {turn.number}", 3)
            if beside is not None:
                beside()
        for side in Side:
            words = turn.text(side)
            if words is not None:
                text("div", str(side).capitalize()).classes("who")
                look = "said response" if side is Side.RESPONSE else "said"
                said(words[:SHOWN], "div").classes(look).props("dir=auto")
                if len(words) > SHOWN:
                    text("p", f"… {len(words) - SHOWN:,} more characters").classes("quiet")
