"""Names that come with a text: of a tool, of who speaks. Orders in them count as those in the text do."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Final

from turnwise.conversation import Side
from turnwise.guard.guardrail import Action, Check, TextKind
from turnwise.guard.recognisers.spoken_names import as_text, is_ordinary
from turnwise.guard.results import Detail, Status
from turnwise.guard.setup import Setup
from turnwise.guard.step import NAMES, Step

_LONGEST: Final = 1_000
"""Characters of a name at most; providers take 64."""

_HELD: Final = 10_000
"""Names that are known to be clean, at most."""


def check_names(
    setup: Setup, check: Check, names: Iterable[str], *, here: bool
) -> Generator[tuple[Step, Check], Detail, dict[str, Detail]]:
    """What guardrails with `Guardrail.reads_names` say of the names of a text; nothing of clean ones.

    A name can't be replaced without losing what it refers to: what would be redacted in one is blocked. Names of
    the two sides are sent to no model, so nothing has to be redacted there.
    """
    sides = (check.conversation.initiator, check.conversation.responder)
    others = names if check.tool is None else (check.tool.name, *names)
    found: list[Detail | None] = []
    for some, of_side in ((sides, True), (others, False)):
        for name in some:
            if name not in setup.clean_names:
                found.append((yield from _found(setup, check, name, of_side=of_side, here=here)))
    told = sorted(filter(None, found), key=lambda one: (one.blocked, one.warned, one.confidence))
    return {NAMES: told[-1]} if told else {}


def _found(
    setup: Setup, check: Check, name: str, *, of_side: bool, here: bool
) -> Generator[tuple[Step, Check], Detail, Detail | None]:
    """The gravest thing that guardrails say of a name; a clean name is remembered while they stay the same."""
    if len(name) > _LONGEST:
        reason = f"a name of {len(name):,} characters; at most {_LONGEST:,} are read"
        return Detail(Status.EVALUATED, True, True, Action.BLOCK, 1.0, reason)
    gravest = None
    read = Check(as_text(name), Side.PROMPT, check.turn, check.conversation, check.session_id)
    for step in () if is_ordinary(name) else setup.steps:
        looks = step.looks_at(TextKind.INPUT) or step.looks_at(TextKind.TOOL_RESULT)
        if not (step.enabled and looks and step.guardrail.reads_names) or (of_side and step.guardrail.redacts):
            continue
        detail = step.run(read) if here else (yield step, read)
        if detail.action is None and detail.path is None:
            continue
        blocked = detail.blocked or detail.action is Action.REDACT
        action, reason = Action.BLOCK if blocked else detail.action, f"in a name: {step.name}: {detail.reason}"
        if gravest is None or blocked:
            gravest = replace(detail, blocked=blocked, action=action, reason=reason, redactions=(), data=None)
    if gravest is None:
        if len(setup.clean_names) >= _HELD:
            setup.clean_names.clear()
        setup.clean_names.add(name)
    return gravest
