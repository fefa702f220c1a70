"""Failures, and what was not read, in one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from turnwise._support.visible import visible

_LONGEST = 240
"""Characters of an example at most."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """A reason for which scores failed.

    Args:
        reason: one word for the kind of failure, such as ``"server"`` or ``"malformed"``.
        count: how many scores failed for it.
        example: what happened to one of them, in a line of at most 240 visible characters; it may quote a server
            or a model.
    """

    reason: str
    count: int
    example: str


@dataclass(slots=True)
class FailureReasons:
    """Counts failures by reason, with the first message of each.

    >>> reasons = FailureReasons()
    >>> for reason in ("timeout", "server", "server"):
    ...     reasons.add(reason, f"the {reason} failed\\n\\x1b[2J")
    >>> reasons.commonest
    FailureReason(reason='server', count=2, example='the server failed \\\\x1b[2J')
    """

    _counts: Counter[str] = field(default_factory=Counter)
    _examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, message: str, count: int = 1) -> None:
        """Count failures of a reason, of which one has this message."""
        self._counts[reason] += count
        self._examples.setdefault(reason, message)

    @property
    def commonest(self) -> FailureReason | None:
        """The reason that was given most often, the first of equally common ones; None where nothing failed."""
        if not self._counts:
            return None
        ((reason, count),) = self._counts.most_common(1)
        return FailureReason(_line(reason), count, _line(self._examples[reason]))


_LANGUAGES = 8
"""Languages that are named at most."""


def unread_in_words(languages: Mapping[str, int]) -> str:
    """Say how many texts, or scores of them, were not read, with their languages, the commonest first.

    >>> unread_in_words({"ru": 2, "zh": 1_200})
    '1,202 not read (zh 1,200, ru 2)'
    """
    named = sorted(languages.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{_line(name)} {count:,}" for name, count in named[:_LANGUAGES]]
    if len(named) > _LANGUAGES:
        told.append("and others")
    return f"{sum(languages.values()):,} not read ({', '.join(told)})"


def _line(text: str) -> str:
    """A text of others as one visible line of bounded length."""
    line = visible(" ".join(text[: 4 * _LONGEST].split()))
    if len(line) <= _LONGEST:
        return line
    whole_words = line[: _LONGEST - 1].rpartition(" ")[0]
    return f"{whole_words or line[: _LONGEST - 1]}…"
