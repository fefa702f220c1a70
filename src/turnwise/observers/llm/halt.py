"""The end of a run from inside: when it makes no sense to send another request."""

from __future__ import annotations

import threading

from turnwise.errors import ObserverError


class Halt:
    """Shared by all threads that send requests: once set, none sends another, and whoever waits wakes up.

    >>> halt = Halt()
    >>> halt.now("the key is wrong")
    >>> halt.check()
    Traceback (most recent call last):
        ...
    turnwise.errors.ObserverError: the key is wrong
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._message = ""
        self.changed = threading.Condition()
        """Notified when somebody who waits for a place or for money may go on, or has to stop."""

    def now(self, message: str) -> None:
        """Stop; the first message is the one that is told."""
        with self.changed:
            self._message = self._message or message
            self._event.set()
            self.changed.notify_all()

    def check(self) -> None:
        """Return if the run goes on.

        Raises:
            ObserverError: it does not.
        """
        if self._event.is_set():
            raise ObserverError(self._message)

    def wait(self, seconds: float) -> None:
        """Wait, or less long if the run stops meanwhile.

        Raises:
            ObserverError: the run stopped.
        """
        self._event.wait(seconds)
        self.check()
