"""The log of blocks and failures: who, where and what was done, and nothing of any text."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from turnwise.guard.audit.record import pseudonym
from turnwise.guard.guardrail import TextKind
from turnwise.guard.records import Detail, Status

LOG: Final = logging.getLogger("turnwise.guard")
"""A block is told at the level INFO, a guardrail that failed at WARNING."""


def log_check(conversation_id: str, turn: int | None, kind: TextKind, said: Iterable[tuple[str, Detail]]) -> None:
    """Log a line for each guardrail that blocked a text or failed to check it.

    Args:
        conversation_id: the conversation, which is logged as a hash: what the audit writes for a private name.
        turn: its turn; None for a prompt that a rate limit refused.
        kind: which text of the turn.
        said: name and verdict of the guardrails.
    """
    for name, detail in said:
        failed = detail.status is Status.FAILED
        if failed or detail.blocked:
            LOG.log(
                logging.WARNING if failed else logging.INFO,
                "%s: conversation=%s turn=%s kind=%s guardrail=%s action=%s",
                "failed" if failed else "blocked",
                pseudonym(conversation_id),
                "none" if turn is None else turn,
                kind,
                name,
                "block" if detail.blocked else detail.action or "allow",
            )
