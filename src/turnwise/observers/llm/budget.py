"""What may be spent: a hard stop, counted while requests are under way."""

from __future__ import annotations

from turnwise.observers.llm.halt import Halt


class Budget:
    """Counts what is spent, and stops the run before the limit is passed.

    Before a request an estimate of the most that it can cost is set aside; afterwards its real cost takes the
    estimate's place. A request waits while others hold what it would need. So the limit is passed only by as much
    as requests cost more than their estimates.

    Args:
        limit: most US dollars that may be spent, at least 0; None for no limit.
        halt: is set when the limit is reached.
    """

    def __init__(self, limit: float | None, halt: Halt) -> None:
        self._limit = limit
        self._halt = halt
        self._changed = halt.changed
        self._spent = 0.0
        self._held = 0.0
        self._holders = 0

    @property
    def spent(self) -> float:
        """US dollars that were spent, including those that replies lost on the way may have cost."""
        return self._spent

    def hold(self, amount: float) -> None:
        """Set an estimate aside; wait while others hold what is missing.

        Args:
            amount: US dollars.

        Raises:
            ObserverError: the budget does not suffice, or the run stopped.
        """
        if self._limit is None:
            return
        with self._changed:
            while self._spent + self._held + amount > self._limit:
                if not self._holders:
                    self._halt.now(
                        f"the budget of ${self._limit:.2f} is used up: ${self._spent:.4f} are spent and the next "
                        f"request may cost ${amount:.4f}; the same command with a larger --budget continues"
                    )
                self._halt.check()
                self._changed.wait()
                self._halt.check()
            self._held += amount
            self._holders += 1

    def settle(self, held: float, spent: float) -> None:
        """Put the real cost in the place of an estimate.

        Args:
            held: what `hold` was given.
            spent: US dollars that it really cost.
        """
        with self._changed:
            self._spent += spent
            if self._limit is not None:
                self._holders -= 1
                self._held = self._held - held if self._holders else 0.0
                self._changed.notify_all()
