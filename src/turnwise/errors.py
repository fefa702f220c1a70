"""Every error that turnwise raises on purpose.

    TurnwiseError                 something a user can understand and mend
    ├── UsageError                the request itself was wrong (exit code 2)
    │   ├── UnknownNameError      no principle, detector, observer, run ... of that name
    │   ├── OtherLabelError       a sequence that the store holds with another label
    │   ├── NotScoredError        a question about scores that a run does not have
    │   ├── DetectorError         a detector that can't be built
    │   ├── GuardError            a guardrail or pipeline that can't be built, or is used wrongly
    │   └── PatternError          a pattern that can't be read, or does not fit together
    ├── ScoreError                T, I or F is not a finite number in [0, 1]
    ├── ConversationError         a conversation or turn that can't be
    │   └── ForgottenError        one that was forgotten, and that somebody still holds
    ├── LocationError             a folder, file or URL that can't be reached, read or written
    ├── DatasetError              a data set file that can't be read
    ├── ObserverError             an observer that can't be built or can't score
    │   └── BudgetError           the budget of an observer is used up
    ├── PrincipleError            a principle folder that can't be read
    ├── PluginError               an installed plug-in that can't be loaded
    ├── ChartError                a chart that can't be drawn
    ├── SessionError              settings, a state or records of session memory that can't be
    │   └── StateError            a state store that can't be used, or a state in it that can't be read
    │       └── StateDownError    a state store that can't be reached
    ├── FindingsError             findings of a scan that can't be read, or are not those of this scan
    └── StoreError                the record can't be opened, read or written
        ├── StoreLockedError      another process holds it
        ├── StoreUnreachableError the server that holds it does not answer
        ├── StoreCorruptError     it is damaged, or no store at all
        └── StoreVersionError     written by a later turnwise

A message says what was wrong, where (file, line, field), and what to do.
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable
from typing import Any

_SHOWN = 12
"""Names that a message lists at most."""

_ALL_SHOWN = 25
"""Names that a message lists at most where it was asked to show all."""

_LINE_SHOWN = 100
"""Characters of a line that an error shows at most; of a longer one it shows the part around the error."""

_BEFORE_CARET = 60
"""Characters of such a long line before the error."""


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the name that another was most likely meant for, or None where none is like it.

    Args:
        name: what was written.
        known: the names that there are.
        likeness: how alike the two have to be, in [0, 1], as the ratio of `difflib.SequenceMatcher`: twice the
            characters that they share in order, over the characters of both.

    >>> nearest("cusun", ["any_turn", "cusum"]), nearest("slope", ["any_turn", "cusum"])
    ('cusum', None)
    """
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=likeness)), None)


class TurnwiseError(Exception):
    """Base of all errors that turnwise raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A class need not take the arguments that Exception keeps.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class UsageError(TurnwiseError):
    """The request itself was wrong: an option, a name, a combination."""


class UnknownNameError(UsageError):
    """A name is not registered; the message lists the known ones and suggests the nearest.

    Args:
        kind: what was looked for, in the singular, such as ``"detector"``.
        name: the name that was given.
        known: the names that exist.
        all_shown: list all of them where there are at most 25, not the first 12 alone.
        hint: what else would do, as a further sentence.

    >>> str(UnknownNameError("detector", "cusun", ["any_turn", "cusum"]))
    "unknown detector 'cusun'; did you mean 'cusum'? known: any_turn, cusum"
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, all_shown: bool = False, hint: str = ""
    ) -> None:
        names = sorted(known)
        near = nearest(name, names)
        meant = ";" if near is None else f"; did you mean {near!r}?"
        most = len(names) if all_shown and len(names) <= _ALL_SHOWN else _SHOWN
        shown = ", ".join(names[:most]) or "none"
        more = f" and {len(names) - most} more" if len(names) > most else ""
        further = f". {hint}" if hint else ""
        super().__init__(f"unknown {kind} {name!r}{meant} known: {shown}{more}{further}")
        self.kind = kind
        self.name = name
        self.known = tuple(names)


class OtherLabelError(UsageError):
    """The store holds this sequence with the same turns and another label.

    Args:
        sequence_id: the sequence.
        stored: the label in the store.
        given: the label that it was given with.
    """

    def __init__(self, sequence_id: str, stored: str, given: str) -> None:
        super().__init__(
            f"duplicate id {sequence_id!r}: the store holds a sequence of that id with other content: its label "
            f"is {stored}, not {given}; relabel it (turnwise import --relabel), or use another store"
        )
        self.sequence_id = sequence_id
        self.stored = stored
        self.given = given


class NotScoredError(UsageError):
    """A question about scores that a run does not have."""


class ScoreError(TurnwiseError, ValueError):
    """T, I or F is not a finite number in [0, 1]."""


class ConversationError(TurnwiseError, ValueError):
    """A conversation or turn is not valid: an unknown role or type, or no text where text is needed."""


class ForgottenError(ConversationError):
    """The conversation was forgotten; going on with a copy of it would bring its texts back."""


class LocationError(TurnwiseError):
    """A folder, file or URL can't be reached, read or written; the message names it."""


class DatasetError(TurnwiseError):
    """A data set file can't be read."""


class ObserverError(TurnwiseError):
    """An observer can't be built, or can't score."""


class BudgetError(ObserverError):
    """The budget of an observer is used up: it asks nothing more until the budget is larger."""


class DetectorError(UsageError):
    """A detector can't be built from its settings."""


class GuardError(UsageError, ValueError):
    """A guardrail or pipeline can't be built from its settings, or can't check what it was given."""


class PatternError(UsageError):
    """A pattern can't be read, or its parts don't fit together.

    Args:
        reason: what is wrong and what to do, in a line.
        text: the expression, where the error was found in a text.
        offset: characters of the text before the place of the error.
        width: characters that the error is about.

    >>> print(PatternError("unknown function 'peek'", "peek(F) > 0.5", 0, 4))
    column 1: unknown function 'peek'
      peek(F) > 0.5
      ^^^^
    """

    def __init__(self, reason: str, text: str | None = None, offset: int = 0, width: int = 1) -> None:
        self.reason = reason
        self.text = text
        self.line: int | None = None
        self.column: int | None = None
        super().__init__(reason if text is None else self._placed(text, offset, width))

    def _placed(self, text: str, offset: int, width: int) -> str:
        lines = text[:offset].split("\n")
        self.line, self.column = len(lines), len(lines[-1]) + 1
        shown = text.split("\n")[self.line - 1]
        start = max(0, self.column - 1 - _BEFORE_CARET) if len(shown) > _LINE_SHOWN else 0
        end = start + _LINE_SHOWN
        line = "".join(character if character.isprintable() else " " for character in shown[start:end])
        lead, tail = "…" if start else "", "…" if end < len(shown) else ""
        at = self.column - 1 - start + len(lead)
        caret = "^" * max(1, min(width, len(lead) + len(line) - at))
        where = f"line {self.line}, column {self.column}" if "\n" in text else f"column {self.column}"
        return f"{where}: {self.reason}\n  {lead}{line}{tail}\n  {' ' * at}{caret}"


class PrincipleError(TurnwiseError):
    """A principle folder can't be read."""


class PluginError(TurnwiseError):
    """An installed plug-in can't be loaded."""


class ChartError(TurnwiseError):
    """A chart can't be drawn; its data is not affected."""


class SessionError(TurnwiseError, ValueError):
    """Settings, a state or records of session memory are not valid."""


class StateError(SessionError):
    """A state store can't be used, or a state in it can't be read; never taken for an empty state."""


class StateDownError(StateError):
    """A state store can't be reached, or fails itself: its fallback may be used meanwhile."""


class FindingsError(TurnwiseError):
    """Findings of a scan can't be read, or belong to another scan."""


class StoreError(TurnwiseError):
    """The record can't be opened, read or written."""


class StoreLockedError(StoreError):
    """Another process holds the store and did not let go in time."""


class StoreUnreachableError(StoreError):
    """The server that holds the store does not answer, or refuses the login.

    Args:
        message: what is wrong and what to do.
        soon: whether the server says that it will answer in a moment.
    """

    def __init__(self, message: str, *, soon: bool = False) -> None:
        super().__init__(message)
        self.soon = soon


class StoreCorruptError(StoreError):
    """The store is damaged, or the file is no store."""


class StoreVersionError(StoreError):
    """The store was written by a later version of turnwise."""
