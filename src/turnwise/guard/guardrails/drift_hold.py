"""The model has given way: what drift makes of a reply that breaks a principle, and of the texts after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from turnwise.guard.finding import Action, Finding
from turnwise.guard.guardrail import Check
from turnwise.guard.turn_checks import DriftData, readable_checks
from turnwise.sessions.reply_outcome import GAVE_WAY_FROM

GaveWay = Literal["ignore", "warn", "block"]
"""What becomes of a conversation in which the model gave way: nothing, a warning, or that it is held."""

_KEY = "gave_way"
"""In the data of a check: the turn at which the model gave way, from there on."""


def held_since(check: Check, name: str) -> int | None:
    """The turn at which the model gave way before the turn under check; None where it did not.

    Every check after it repeats the turn, so only the latest that has one, or that scored a reply, is read.

    Args:
        check: a text of a later turn, or the reply of this one.
        name: of the guardrail.
    """
    for number in range(check.turn.number - 1, 0, -1):
        checks = readable_checks(check.conversation.turn(number).checks, number)
        for text in () if checks is None else (checks.output, checks.input):
            detail = None if text is None else text.details.get(name)
            data = None if detail is None else detail.data
            if data is not None:
                known = data.get(_KEY)
                return known if isinstance(known, int) else None
    return None


def held(since: int) -> Finding:
    """What is found of a prompt to a model that gave way at an earlier turn."""
    return Finding(True, _held_words(since), 1.0, data={_KEY: since})


def of_reply(finding: Finding, since: int | None, what: GaveWay) -> Finding:
    """What is found of a reply: that the model gives way in it, or that it did before.

    Args:
        finding: what drift says of the reply, with its scores.
        since: the turn at which it gave way before; None where it did not.
        what: what is to become of it; not ``ignore``.
    """
    data = finding.data
    if since is not None:
        told = replace(data, gave_way=since) if isinstance(data, DriftData) else {_KEY: since}
        return replace(finding, found=True, reason=_held_words(since), action=None, data=told)
    if not isinstance(data, DriftData):
        return finding
    name, worst = max(
        ((name, one["F"]) for name, one in data.scores.items()), key=lambda one: one[1], default=("", 0.0)
    )
    if worst < GAVE_WAY_FROM:
        return finding
    reason = f"the model gave way at turn {data.turn}: {name} F {worst:.3f} of its reply"
    blocked = what == "block" or finding.in_full
    return replace(
        finding,
        found=True,
        reason=f"{reason}; {finding.reason}" if finding.found else reason,
        action=None if blocked else finding.action or Action.WARN,
        data=replace(data, gave_way=data.turn) if what == "block" else data,
    )


def _held_words(since: int) -> str:
    return f"the conversation is held: the model gave way at turn {since}"
