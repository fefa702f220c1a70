"""Events as checks hand them over, and their records as they are written, without personal data."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Protocol, Self

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.participants import FIELDS
from turnwise.errors import GuardError, TurnwiseError
from turnwise.guard.guardrail import GUARDRAILS, Check, Guardrail
from turnwise.guard.names import canonical_name
from turnwise.guard.results import Correction, Detail, GuardrailStatus, Outcome, PipelineResult
from turnwise.guard.step import redacted

VERSION: Final = 1  # of what is written; a later one may have other keys

CHECK, GAP, CORRECTION = "check", "gap", "correction"
"""Kinds of events: one check, a number of missing events, and what a second look said of a check afterwards."""

_DEPTH = 12  # levels of nesting that are written; deeper values are left out


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One check, or correction of one, as it is handed to the audit. The key of a rate limit is no part of it.

    `details` is a copy, since the caller may change the result that was given out; `model` is ``model_id`` of
    the conversation; `timestamp` is when the check ended, aware; `tenant` is empty where the pipeline serves no
    tenant.
    """

    result: PipelineResult
    details: tuple[tuple[str, Detail], ...]
    pipeline: str
    session_id: str
    participants: dict[str, Any]
    model: str | None
    timestamp: datetime
    tenant: str = ""
    kind: str = CHECK

    @classmethod
    def of_correction(
        cls, correction: Correction, conversation: Conversation, pipeline: str, now: datetime, tenant: str = ""
    ) -> Self:
        """The event of a correction."""
        result = PipelineResult(
            blocked=False,
            warnings=[],
            reasons=[],
            details={correction.guardrail: correction.detail},
            pipeline_type=correction.pipeline_type,
            conversation_id=correction.conversation_id,
            turn_number=correction.turn_number,
            stance=correction.stance,
            text="",
            seconds=correction.seconds,
        )
        event = cls.of(result, correction.session_id, conversation, pipeline, now, tenant)
        return replace(event, kind=CORRECTION)

    @classmethod
    def of(
        cls,
        result: PipelineResult,
        session_id: str,
        conversation: Conversation,
        pipeline: str,
        now: datetime,
        tenant: str = "",
    ) -> Self:
        """The event of a check."""
        model = conversation.model_info.get("model_id")
        return cls(
            result=result,
            details=tuple(result.details.items()),
            pipeline=pipeline,
            session_id=session_id,
            participants=conversation.participants,
            model=model if isinstance(model, str) else None,
            timestamp=now,
            tenant=tenant,
        )


class AuditSink(Protocol):
    """Takes events. `write` must not wait for a disk or a network, and must raise nothing."""

    def write(self, event: AuditEvent) -> None:
        """Take an event."""

    def close(self) -> None:
        """Write what is still held, and close. Closing twice is harmless; events after that are left out."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Makes the record of an event; `text` is ``redacted``, ``hash`` or ``raw``."""

    text: str
    redact: Redact

    def __call__(self, event: AuditEvent) -> dict[str, Any]:
        """What is written of a check, as JSON values; docs/reference/audit-events.md names the keys."""
        result, details = event.result, event.details
        sides = event.participants
        if event.kind == CORRECTION:
            unanswered = any(detail.status is GuardrailStatus.FAILED for _, detail in details)
            outcome: dict[str, Any] = {
                "outcome": "unanswered" if unanswered else "corrected",
                "would_block": any(detail.blocked for _, detail in details),
            }
            text: dict[str, Any] = {}
        else:
            outcome = {
                "outcome": str(result.outcome),
                "blocked": result.outcome in (Outcome.BLOCKED, Outcome.LIMITED),
                "warned": any(detail.warned for _, detail in details),
                "rate_limited": result.rate_limited,
                "reasons": [self.redact(f"{name}: {detail.reason}") for name, detail in details if detail.blocked],
                "warnings": [self.redact(f"{name}: {detail.reason}") for name, detail in details if detail.warned],
            }
            text = self._text(result.text, rate_limited=result.rate_limited)
        return {
            "v": VERSION,
            "kind": event.kind,
            "time": time_text(event.timestamp),
            "pipeline": event.pipeline,
            **({"tenant": event.tenant} if event.tenant else {}),
            "conversation_id": self._name(result.conversation_id),
            "session_id": self._name(event.session_id),
            "participants": {
                key: self._person(sides[key]) if key in ("initiator", "responder") else sides[key]
                for key in FIELDS
            },
            "model": None if event.model is None else self._name(event.model),
            "turn": result.turn_number,
            "side": str(result.pipeline_type),
            **self._tool(result),
            **outcome,
            "guardrails": {name: self._detail(detail) for name, detail in details},
            "stance": None if result.stance is None else self._plain(result.stance.to_dict()),
            "seconds": round(result.seconds, 7),
            **text,
        }

    def _name(self, name: str) -> str:
        # As in texts: half a surrogate pair becomes its code point, since no database column takes it.
        return private_name(name.encode("utf-8", "backslashreplace").decode(), self.redact)

    def _person(self, name: str) -> str:
        # One that is hashed is found by any spelling.
        written = self._name(name)
        return written if written == name else self._name(canonical_name(name)) or written

    def _tool(self, result: PipelineResult) -> dict[str, str]:
        if result.call_id is None:
            return {}
        return {"tool": self.redact(result.tool or ""), "call_id": self._name(result.call_id)}

    def _text(self, text: str, *, rate_limited: bool) -> dict[str, Any]:
        written: dict[str, Any] = {"text": None, "text_sha256": None, "characters": len(text)}
        if self.text == "hash" or rate_limited:
            # The conversation has the same hash of a refused prompt, and nothing else of it.
            written["text_sha256"] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        elif self.text == "redacted":
            # No hash beside it: nine missing digits are found from a hash within the hour.
            written["text"] = self.redact(text)
        if self.text == "raw":
            written["text"] = text
        return written

    def _detail(self, detail: Detail) -> dict[str, Any]:
        shown: dict[str, Any] = {"status": str(detail.status), "seconds": round(detail.seconds, 7)}
        if detail.status is not GuardrailStatus.EVALUATED or detail.found:
            shown |= {"reason": self.redact(detail.reason), "blocked": detail.blocked, "found": detail.found}
            shown["action"] = None if detail.action is None else str(detail.action)
            shown["path"] = None if detail.path is None else str(detail.path)
        if detail.confidence:
            shown["confidence"] = self._plain(detail.confidence)
        if detail.redactions:
            shown["redacted"] = dict(Counter(redaction.kind for redaction in detail.redactions))
        if detail.data is not None:
            shown["data"] = self._plain(detail.data)
        return shown

    def _plain(self, value: object, depth: int = 0) -> Any:
        """A value as JSON values; what JSON lacks becomes null, or the name of its type."""
        if isinstance(value, str):
            return self.redact(str(value))
        if value is None or isinstance(value, int | float):
            return None if value is None or not math.isfinite(value) else value
        if depth >= _DEPTH:
            return None
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self._plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(item, depth + 1) for item in value]
        return type(value).__name__


def gap_record(now: datetime, *, dropped: int, policy: str, unwritten: int, error: str | None) -> dict[str, Any]:
    """The record of events that a full queue dropped under a policy, or an error kept from the file."""
    return {
        "v": VERSION,
        "kind": GAP,
        "time": time_text(now),
        "dropped": dropped,
        "policy": policy,
        "unwritten": unwritten,
        "error": error,
    }


def time_text(time: datetime) -> str:
    """A time as it is written: in UTC, so that texts sort as times do."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


WITHHELD = "[WITHHELD]"
"""Stands for a text that could not be searched: what is not known to be harmless is not written."""

_PLAIN = frozenset(string.ascii_lowercase + "_")
_PLAIN_LONGEST = 24
"""Short words of small letters alone: names of principles, modes and the like, in which nothing can be found."""

_HEX = frozenset(string.digits + "abcdef")
_HEX_LENGTHS = (32, 64)
_UUID_LENGTHS = [8, 4, 4, 4, 12]

_SHORT = 64  # characters of a text that is remembered with what came of it
_REMEMBERED = 1024  # texts that are remembered at most

_HASH = "sha256:"
_HASH_DIGITS = 32


Redact = Callable[[str], str]
"""Returns a text without what must not be written."""


def unchanged(text: str) -> str:
    """A text as it is."""
    return text


class Redactor:
    """Replaces what guardrails find; each sees what those before it left.

    >>> from turnwise.guard.finding import CLEAN, Finding, Redaction
    >>> class Names(Guardrail):
    ...     redacts = True
    ...     def check(self, check):
    ...         at = check.text.find("Ann")
    ...         return CLEAN if at < 0 else Finding(True, "a name", redactions=(Redaction(at, at + 3, "name"),))
    >>> Redactor([Names()])("I am Ann.")
    'I am [NAME].'
    """

    def __init__(self, rails: Sequence[Guardrail]) -> None:
        self._rails = tuple(rails)
        self._turn, self._conversation = Turn(1, ""), Conversation(conversation_id="audit")
        # Names and reasons come again and again; texts of conversations, which are longer, do not.
        self._known = lru_cache(maxsize=_REMEMBERED)(self._search)

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """The redactor of the guardrails that are registered under these names."""
        rails = []
        for name in names:
            factory = GUARDRAILS.get(name)
            if getattr(factory, "redacts", True) is False:
                raise GuardError(
                    f"redact: {name} does not redact; use pii, secrets or another guardrail that does"
                )
            try:
                rails.append(factory())
            except TurnwiseError as error:
                raise GuardError(f"redact: {name} can't be built ({error}): mend it, or name another") from error
            except Exception as error:
                raise GuardError(
                    f"redact: mend {name}, which can't be built: {type(error).__name__}: {error}"
                ) from error
        return cls(rails)

    def __call__(self, text: str) -> str:
        """A text with what is found in it replaced; `WITHHELD` where it can't be searched."""
        if len(text) <= _PLAIN_LONGEST and _PLAIN.issuperset(text):
            return text
        return self._known(text) if len(text) <= _SHORT else self._search(text)

    def _search(self, text: str) -> str:
        # Half a surrogate pair is no Unicode text, which regular expressions and databases refuse.
        text = text.encode("utf-8", "backslashreplace").decode()
        for rail in self._rails:
            try:
                found = rail.check(Check(text, Side.PROMPT, self._turn, self._conversation, "audit"))
                text = redacted(text, Detail(GuardrailStatus.EVALUATED, redactions=found.redactions))
            except Exception:  # noqa: BLE001 - a guardrail may be foreign code, and must not let a text through
                return WITHHELD
        return text


def pseudonym(name: str) -> str:
    """What stands for a name that must not be written; the same name always gives the same.

    Somebody who can guess the name can check the guess.

    >>> pseudonym("ann@example.com")
    'sha256:71d4f55f72fa128dfb468a1a3901507c'
    """
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return _HASH + digest[:_HASH_DIGITS]


def private_name(name: str, redact: Redact) -> str:
    """The name of a person, session or conversation as it may be written: itself, or its pseudonym."""
    if _is_made_up(name) or redact(name) == name:
        return name
    return pseudonym(name)


def _is_made_up(name: str) -> bool:
    """Whether a name is an id that a program made, whose digits mean nothing: a UUID, or 32 or 64 hex digits."""
    parts = name.split("-")
    if len(parts) == 1:
        return len(name) in _HEX_LENGTHS and _HEX.issuperset(name)
    return [*map(len, parts)] == _UUID_LENGTHS and all(map(_HEX.issuperset, parts))
