"""What the scores of one turn are and rest on: reasoning, raw reply, provenance, calls, and what failed."""

from __future__ import annotations

import json

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.explorer.data.sequence import Chat
from turnwise.explorer.parts import column, data_table, heading, said, text
from turnwise.scoring import Call, Evaluation, Failure

_SHOWN = 8_000
"""Characters of a reply that are shown."""


def detail(chat: Chat, turn: int, *, brief: bool = False) -> None:
    """Show all that is known of a turn of a conversation; `brief` leaves out what few read."""
    scored, failed = chat.at(turn)
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
    session = next((one for one in chat.session if one.turn == turn), None)
    if session is not None:
        said(f"Simulation with default settings: {session.rationale}", "p")
    for failure in failed:
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
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} … {len(words) - _SHOWN:,} more characters"


def _json(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} …"
