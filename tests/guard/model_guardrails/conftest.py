"""A text under check, for guardrails that stand alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from turnwise.conversation import Conversation, Side
from turnwise.guard import Action, Check, Finding, Guardrail
from turnwise.observers import Observer, build_observer


def check_of(text: str, side: Side = Side.PROMPT, conversation: Conversation | None = None) -> Check:
    """Return a text under check; as a response it answers the prompt "Go on."."""
    talk = conversation or Conversation.human_ai("u", "m")
    turn = talk.add_prompt(text if side is Side.PROMPT else "Go on.")
    return Check(text, side, turn, talk, "s")


@pytest.fixture
def check() -> Callable[..., Check]:
    """Return `check_of`."""
    return check_of


@pytest.fixture(scope="session")
def local() -> Observer:
    """Return the embedded observer, apart from the one that guardrails share."""
    return build_observer("local")


@pytest.fixture
def verdict() -> Callable[[Guardrail, str], str]:
    """Return a function that says ``clean``, ``warn`` or ``block`` of a text."""

    def say(guardrail: Guardrail, text: str, side: Side = Side.PROMPT) -> str:
        finding: Finding = guardrail.check(check_of(text, side))
        if not finding.found:
            return "clean"
        return "warn" if finding.action is Action.WARN else "block"

    return say
