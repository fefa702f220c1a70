"""An observer that follows a script: for tests, demonstrations and rehearsals of failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from turnwise.conversation import Turn
from turnwise.errors import ObserverError
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    Given,
    NotRead,
    Observation,
    ObservationFailure,
    ObserverInfo,
    Request,
)
from turnwise.scoring import Score

Script = Callable[[str, Turn, Request], Score | ObservationFailure | NotRead | None]
"""Gives a score, a failure, a `NotRead`, or None for a gap; what it raises, the observer raises."""


class ScriptedObserver:
    """Scores by a script instead of by reading: a function, or falsity turn by turn such as ``"0.1,0.4,0.9"``.

    With falsities every principle gets T = 1 − F, I = 0 and that F; turns past the end are gaps. `version` is what
    it reports, so that tests can change it.
    """

    def __init__(self, argument: str | Script | None = None, *, version: str = "1") -> None:
        if not argument:
            raise ObserverError("the scripted observer needs a script, such as scripted:0.1,0.4,0.9")
        self._script = _from_text(argument) if isinstance(argument, str) else argument
        self._version = version
        self.parameters: Mapping[str, object] = {
            "script": argument if isinstance(argument, str) else getattr(argument, "__name__", "function")
        }

    @classmethod
    def describe(cls) -> ObserverInfo:
        """What is known before a script is given."""
        return ObserverInfo(
            name="scripted",
            version="1",
            contexts=tuple(ContextMode),
            summary="scores by a script, for tests",
            needs="falsity turn by turn, such as scripted:0.1,0.4,0.9",
        )

    @property
    def info(self) -> ObserverInfo:
        """The description, with the version that was given."""
        return replace(self.describe(), version=self._version)

    def start(self, conversation_id: str, context: Context) -> str:
        """The state is the conversation_id: all that a script is told beside the turn."""
        return conversation_id

    def observe(self, state: str, turn: Turn, wanted: Collection[Request]) -> Sequence[Given]:
        """Give what the script says of this turn."""
        given: list[Given] = []
        for request in wanted:
            answer = self._script(state, turn, request)
            if isinstance(answer, Score):
                given.append(Observation(request.principle.name, request.side, answer))
            elif answer is not None:
                given.append(answer)
        return given


def _from_text(text: str) -> Script:
    try:
        scores = [Score(T=1.0 - value, I=0.0, F=value) for value in map(float, text.split(","))]
    except ValueError as error:
        raise ObserverError(
            f"scripted:{text}: falsities must be numbers in [0, 1], with commas between"
        ) from error

    def script(conversation_id: str, turn: Turn, request: Request) -> Score | None:
        return scores[turn.number - 1] if turn.number <= len(scores) else None

    return script
