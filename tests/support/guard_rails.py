"""Guardrails for tests: real ones, small and with a known answer."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from turnwise.guard import Action, Check, Cost, Finding, Guardrail, Redaction


@dataclass(frozen=True)
class Contains(Guardrail):
    """Finds a word, and can redact it."""

    default_timeout: ClassVar[float | None] = None
    redacts: ClassVar[bool] = True
    cost: ClassVar[Cost] = Cost.TEXT

    word: str = "bad"
    warn_only: bool = False

    def check(self, check: Check) -> Finding:
        """Look for the word."""
        at = check.text.find(self.word)
        if at < 0:
            return Finding(found=False)
        return Finding(
            found=True,
            reason=f"has {self.word}",
            confidence=0.75,
            redactions=(Redaction(at, at + len(self.word), "word"),),
            action=Action.WARN if self.warn_only else None,
        )


@dataclass(frozen=True)
class Told(Guardrail):
    """Keeps the texts that it was given, and finds nothing."""

    default_timeout: ClassVar[float | None] = None
    cost: ClassVar[Cost] = Cost.MODEL

    texts: list[str] = field(default_factory=list)

    def check(self, check: Check) -> Finding:
        """Keep the text."""
        self.texts.append(check.text)
        return Finding(found=False)


class Asks(Guardrail):
    """Waits without a time limit of its own, and keeps the thread that it waited in."""

    default_timeout: ClassVar[float | None] = None
    cost: ClassVar[Cost] = Cost.MODEL

    def __init__(self) -> None:
        self.threads: list[int] = []

    @property
    def waits(self) -> bool:
        """It does."""
        return True

    def check(self, check: Check) -> Finding:
        """Keep the thread."""
        self.threads.append(threading.get_ident())
        return Finding(found=False)


class Raises(Guardrail):
    """Always fails."""

    default_timeout: ClassVar[float | None] = None

    def check(self, check: Check) -> Finding:
        """Fail."""
        raise RuntimeError("out\nof order")


@dataclass(frozen=True)
class Hangs(Guardrail):
    """Does not end before it is let go."""

    default_timeout: ClassVar[float | None] = 0.05

    release: Any = field(default_factory=threading.Event)

    def check(self, check: Check) -> Finding:
        """Wait."""
        self.release.wait(30)
        return Finding(found=False)


@dataclass(frozen=True)
class Nonsense(Guardrail):
    """Returns what no guardrail may."""

    default_timeout: ClassVar[float | None] = None
    redacts: ClassVar[bool] = True

    value: Any = None

    def check(self, check: Check) -> Finding:
        """Return it."""
        return self.value


@dataclass(frozen=True)
class Waits(Guardrail):
    """Awaits in async pipelines, and says the same in sync ones."""

    word: str = "bad"

    def check(self, check: Check) -> Finding:
        """Look for the word."""
        return Finding(self.word in check.text, f"has {self.word}", 0.5)

    async def acheck(self, check: Check) -> Finding:
        """Look for the word after a turn of the event loop."""
        await asyncio.sleep(0)
        return self.check(check)
