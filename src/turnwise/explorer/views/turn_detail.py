"""What the scores of one turn are and rest on: reasoning, raw reply, provenance, calls, and what failed."""

from __future__ import annotations

import json

from markupsafe import Markup

from turnwise.explorer.data.sequence import Chat
from turnwise.explorer.markup import element, joined, text_lines
from turnwise.scoring import Call, Evaluation, Failure

_SHOWN = 8_000
"""Characters of a reply that are shown."""


def detail(chat: Chat, turn: int) -> Markup:
    """All that is known of a turn of a conversation."""
    scored, failed = chat.at(turn)
    head = [
        element("th", name, class_="number" if name in "TIF" else None) for name in ("principle", "side", *"TIF")
    ]
    rows = [
        element(
            "tr",
            element("td", one.key.principle),
            element("td", one.key.side),
            [element("td", f"{value:.3f}", class_="number") for value in (one.score.T, one.score.I, one.score.F)],
        )
        for one in scored
    ]
    table = element("table", element("thead", element("tr", head)), element("tbody", rows))
    session = next((one for one in chat.session if one.turn == turn), None)
    unread = chat.unread_at(turn)
    metadata = chat.turns[turn - 1].metadata if chat.turns else None
    return joined(
        element("h2", f"Turn {turn}"),
        table
        if rows or unread
        else element("p", "Not scored: this run has no evaluation of the turn.", class_="quiet"),
        element("p", f"{unread}: the observer does not read it, so there is no score.") if unread else None,
        [element("p", element("b", "Session: "), session.rationale)] if session else None,
        [_failure(one) for one in failed],
        [_evaluation(one) for one in scored],
        [element("h3", "Metadata of the turn"), element("pre", text_lines(_json(metadata)))] if metadata else None,
    )


def _evaluation(one: Evaluation) -> Markup:
    return element(
        "details",
        element("summary", f"{one.key.principle}, {one.key.side}: what it rests on"),
        [element("h3", "Reasoning"), element("blockquote", _cut(one.reasoning))] if one.reasoning else
        element("p", "This observer gives no reasons in words.", class_="quiet"),
        _rests_on(one),
        open=bool(one.reasoning),
    )  # fmt: skip


def _failure(one: Failure) -> Markup:
    return element(
        "div",
        element("p", element("b", f"Not scored: {one.key.principle}, {one.key.side}, {one.reason}")),
        element("p", _cut(one.message)),
        element("details", element("summary", "what was tried"), _rests_on(one)),
        class_="failure",
    )


def _rests_on(one: Evaluation | Failure) -> Markup:
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
    listed = element(
        "dl", [[element("dt", name), element("dd", value)] for name, value in facts.items() if value is not None]
    )
    reply = [element("h3", "Raw reply"), element("pre", _cut(one.raw_reply))] if one.raw_reply else None
    return joined(listed, reply, [_call(call) for call in one.calls])


def _call(call: Call) -> Markup:
    said = f"Call {call.repeat}: {call.attempts} requests" + (", from the journal" if call.cached else "")
    score = call.score
    told = f"T {score.T:.3f} I {score.I:.3f} F {score.F:.3f}" if score is not None else call.reason or "no score"
    reply = call.reply
    facts = None
    if reply is not None:
        facts = element(
            "p", f"{reply.model}, {reply.prompt_tokens} + {reply.completion_tokens} tokens", class_="quiet"
        )
    return joined(
        element("h3", said),
        element("p", told),
        facts,
        element("pre", _cut(reply.text)) if reply is not None else None,
        element("p", call.message) if call.message else None,
    )


def _cut(text: str) -> Markup:
    return text_lines(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … {len(text) - _SHOWN:,} more characters")


def _json(value: object) -> str:
    said = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]} …"
