"""What a guardrail says of a text: findings with their redactions; kinds of text, actions, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Literal

from turnwise.errors import GuardError
from turnwise.sessions import Stance


class Action(StrEnum):
    """What happens to a text in which a guardrail finds something, from mild to strict."""

    LOG = "log"
    WARN = "warn"
    REDACT = "redact"
    BLOCK = "block"


class TextKind(StrEnum):
    """The kinds of text that a guard checks, by where they come from.

    Prompts are the user's, responses and calls of tools the model's; what tools give back, what is said of tools,
    retrieved documents and memory are untrusted: anybody may have written them.
    """

    INPUT = "input"
    OUTPUT = "output"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TOOL_DESCRIPTION = "tool_description"
    DOCUMENT = "document"
    MEMORY = "memory"


class On(StrEnum):
    """Which texts a guardrail looks at.

    ``both`` is prompts and responses, ``tools`` calls and results of tools, ``untrusted`` results and descriptions
    of tools, documents and memory.
    """

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TOOL_DESCRIPTION = "tool_description"
    DOCUMENT = "document"
    MEMORY = "memory"
    TOOLS = "tools"
    UNTRUSTED = "untrusted"
    ALL = "all"


CONTEXT = (TextKind.TOOL_DESCRIPTION, TextKind.DOCUMENT, TextKind.MEMORY)
"""Kinds that stand before a model beside the messages of a conversation."""

_KINDS = {
    On.BOTH: (TextKind.INPUT, TextKind.OUTPUT),
    On.TOOLS: (TextKind.TOOL_CALL, TextKind.TOOL_RESULT),
    On.UNTRUSTED: (TextKind.TOOL_RESULT, *CONTEXT),
    On.ALL: tuple(TextKind),
}


def kinds_on(on: On | Iterable[On]) -> frozenset[TextKind]:
    """The kinds of text that one name, or several, stand for.

    >>> sorted(kinds_on([On.INPUT, On.TOOL_CALL]))
    [<TextKind.INPUT: 'input'>, <TextKind.TOOL_CALL: 'tool_call'>]
    """
    names = (on,) if isinstance(on, On) else on
    return frozenset(kind for name in names for kind in _KINDS.get(name) or (TextKind(name),))


class OnError(StrEnum):
    """What happens to a text that a guardrail failed to check."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"


class Cost(IntEnum):
    """How costly a guardrail is; the cheaper ones run first. One of cost ``SIZE`` does not read the text."""

    SIZE = 0
    TEXT = 1
    MODEL = 2
    REMOTE = 3


_STRICTNESS = {action: rank for rank, action in enumerate(Action)}


def milder(first: Action, second: Action) -> Action:
    """The milder of two actions.

    >>> milder(Action.BLOCK, Action.WARN).value
    'warn'
    """
    return min(first, second, key=_STRICTNESS.__getitem__)


@dataclass(frozen=True, slots=True)
class Redaction:
    """A stretch of the text that should be replaced.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        kind: what it is, such as ``email``.
        placeholder: what stands in its place.

    >>> Redaction(0, 3, "ssn").placeholder
    '[SSN]'
    """

    start: int
    end: int
    kind: str
    placeholder: str = ""

    def __post_init__(self) -> None:
        if not self.placeholder:
            object.__setattr__(self, "placeholder", f"[{self.kind.upper()}]")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"start": self.start, "end": self.end, "kind": self.kind, "placeholder": self.placeholder}


@dataclass(frozen=True, slots=True)
class EarlierPart:
    """A stretch of an earlier text of the conversation that should be replaced.

    Args:
        turn: number of its turn.
        text_kind: which text of the turn.
        call_id: of a tool call or result its id.
        text: that text as it was read; one that has changed since is left alone.
        redaction: the stretch.
    """

    turn: int
    text_kind: TextKind
    call_id: str | None
    text: str
    redaction: Redaction


@dataclass(frozen=True, slots=True)
class Finding:
    """What a guardrail found in a text.

    Args:
        found: whether it found something.
        reason: what, in words; needed where something was found. It may be stored and shown, so it never holds
            what should be kept secret.
        confidence: how sure it is that something is there, in [0, 1].
        redactions: stretches to replace, apart from each other, by offsets in the text that was checked.
        action: the strictest action that this finding deserves; None for what is configured.
        data: what else is to be kept with the turn; JSON values.
        stance: the stance towards the session, where the guardrail knows it.
        unread: language of a text that the guardrail's observer does not read, a code of BCP 47; see `not_read`.
        earlier: stretches of earlier texts to replace, where the action is ``redact``.

    Raises:
        GuardError: something was found without a reason, or a confidence out of [0, 1].
    """

    found: bool
    reason: str = ""
    confidence: float = 0.0
    redactions: tuple[Redaction, ...] = ()
    action: Action | None = None
    data: Mapping[str, Any] | None = None
    stance: Stance | None = None
    unread: str | None = None
    earlier: tuple[EarlierPart, ...] = ()

    def __post_init__(self) -> None:
        if self.found and not self.reason:
            raise GuardError("a Finding with found=True needs a reason")
        if not (math.isfinite(self.confidence) and 0.0 <= self.confidence <= 1.0):
            raise GuardError(f"the confidence of a Finding is {self.confidence!r}; use a number in [0, 1]")

    @property
    def in_full(self) -> bool:
        """Whether something was found that deserves the strictest action that is configured."""
        return self.found and self.action is None


CLEAN = Finding(found=False)
"""Nothing was found."""

IfUnread = Literal["allow", "block", "warn"]
"""What becomes of a text in a language that the observer does not read."""


def not_read(language: str, then: IfUnread, finding: Finding = CLEAN) -> Finding:
    """The finding for a text that the observer does not read, on top of what else the guardrail found.

    >>> not_read("zh", "allow").found, not_read("zh", "warn").reason
    (False, 'not read: zh')
    """
    reason = "; ".join(filter(None, (finding.reason, f"not read: {language}")))
    if then == "block":
        return replace(finding, found=True, reason=reason, action=None, unread=language)
    action = Action.WARN if then == "warn" and not finding.found else finding.action
    return replace(finding, found=finding.found or then == "warn", reason=reason, action=action, unread=language)
