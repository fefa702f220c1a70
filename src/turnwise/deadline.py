"""How long a piece of work may take, which whoever computes asks between two steps."""

from __future__ import annotations

from contextvars import ContextVar, Token
from math import inf
from time import monotonic


class WorkStopped(BaseException):
    """Work that was cancelled or whose time is up; no `Exception`, so that no handler takes it for a fault."""

    def __init__(self, reason: str, *, cancelled: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cancelled = cancelled


class Deadline:
    """When work has to end: after `seconds`, with `outer`, or once any thread cancels it.

    >>> deadline = Deadline()
    >>> deadline.check()
    >>> deadline.cancel("the client went away")
    >>> deadline.check()
    Traceback (most recent call last):
        ...
    turnwise.deadline.WorkStopped: the client went away
    """

    __slots__ = ("_cancelled", "_outer", "_seconds", "_until")

    def __init__(self, seconds: float | None = None, outer: Deadline | None = None) -> None:
        self._seconds = seconds
        self._until = None if seconds is None else monotonic() + seconds
        self._outer = outer
        self._cancelled: str | None = None

    def cancel(self, reason: str) -> None:
        """Let the work end at its next step, since nobody waits for it."""
        self._cancelled = reason

    @property
    def left(self) -> float:
        """Seconds that the work may still take, at least 0; infinite without a limit."""
        left = inf if self._until is None else max(0.0, self._until - monotonic())
        return left if self._outer is None else min(left, self._outer.left)

    def check(self) -> None:
        """Raise `WorkStopped` once the work was cancelled or its time is up."""
        if self._outer is not None:
            self._outer.check()
        if self._cancelled is not None:
            raise WorkStopped(self._cancelled, cancelled=True)
        if self._until is not None and monotonic() >= self._until:
            raise WorkStopped(f"not done within {self._seconds:g} s", cancelled=False)


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> Deadline | None:
    """The deadline of the work that runs here; None for none."""
    return _CURRENT.get()


class within:  # noqa: N801 - read as `contextlib.suppress` is, and twice as fast as a generator
    """Let what runs inside end by a deadline, for which it asks `check_deadline`; None changes nothing."""

    __slots__ = ("_deadline", "_token")

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._token: Token[Deadline | None] | None = None

    def __enter__(self) -> Deadline | None:
        if self._deadline is not None:
            self._token = _CURRENT.set(self._deadline)
        return self._deadline

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)


def check_deadline() -> None:
    """Raise `WorkStopped` once the work here must end; called between steps that take more than a millisecond."""
    deadline = _CURRENT.get()
    if deadline is not None:
        deadline.check()
