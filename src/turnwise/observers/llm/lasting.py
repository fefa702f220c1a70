"""A language model as observer of live texts: where a run would end, a guard goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace

from turnwise.conversation import Turn
from turnwise.errors import BudgetError, ObserverError
from turnwise.observers import Context, Observation, ObservationFailure, ObserverInfo, Request
from turnwise.observers.llm.observer import LlmObserver, LlmState
from turnwise.observers.llm.settings import INLINE, LlmSettings


class LastingLlmObserver:
    """Asks a language model as `LlmObserver` does, and asks again after what would end a run.

    A run ends when the key is refused or nobody answers at the address, and then sends nothing any more. In a
    guard the check that met this fails, and the next one tries anew. Only a budget that is used up stays so. What
    is spent after such an end by requests that were under way is not counted.
    """

    def __init__(
        self,
        argument: str | None,
        settings: LlmSettings | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._argument = argument
        self._settings = settings or INLINE
        self._environ = environ
        self._spent = 0.0
        self._lock = threading.Lock()
        self._observer = LlmObserver(argument, self._settings, environ=environ)

    @property
    def info(self) -> ObserverInfo:
        """What is known of the observer, whatever the model."""
        return self._observer.info

    @property
    def parameters(self) -> Mapping[str, object]:
        """What a score may depend on beside principle and turns."""
        return self._observer.parameters

    @property
    def spent_usd(self) -> float:
        """US dollars spent since it was built."""
        with self._lock:
            return self._spent + self._observer.spent_usd

    def __repr__(self) -> str:
        return f"LastingLlmObserver({self._observer.spec!r})"

    def start(self, conversation_id: str, context: Context) -> LlmState:
        """Begin a conversation."""
        return self._observer.start(conversation_id, context)

    def observe(
        self, state: LlmState, turn: Turn, wanted: Collection[Request]
    ) -> list[Observation | ObservationFailure]:
        """Ask for the scores that are wanted; after an `ObserverError` the next call tries anew."""
        observer = self._observer
        try:
            return observer.observe(state, turn, wanted)
        except ObserverError as error:
            self._replace(observer, error)
            raise

    def _replace(self, ended: LlmObserver, error: ObserverError) -> None:
        if isinstance(error, BudgetError):
            return
        budget = self._settings.budget_usd
        with self._lock:
            if self._observer is not ended:  # another thread met the same
                return
            self._spent += ended.spent_usd
            left = None if budget is None else max(0.0, budget - self._spent)
            settings = replace(self._settings, budget_usd=left)
            self._observer = LlmObserver(self._argument, settings, environ=self._environ)
