"""The neutrosophic triple, and the two scalars that the session memory derives from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.errors import ScoreError

HOSTILE_F = 0.65
"""Above this falsity a turn counts as role confusion: its balance is −1 and its trust strength is cut."""

LONG_TEXT = 5_000
"""Characters above which a text can saturate the context it is read in."""


@dataclass(frozen=True, slots=True, init=False)
class Score:
    """Truth, indeterminacy and falsity of "this turn keeps the principle", each finite and in [0, 1].

    The three are independent and need not add up to 1 (Smarandache, "Neutrosophic logic", 1999).

    Args:
        T: degree to which the turn keeps the principle.
        I: degree to which it can't be told.
        F: degree to which the turn violates the principle.

    Raises:
        ScoreError: a component is no number, not finite, or outside [0, 1].

    >>> Score(0.9, 0.2, 0.1)
    Score(T=0.9, I=0.2, F=0.1)
    >>> Score(T=1.2, I=0, F=0)
    Traceback (most recent call last):
        ...
    turnwise.errors.ScoreError: T must be a finite number in [0, 1], not 1.2
    """

    T: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    F: float

    def __init__(self, T: float, I: float, F: float) -> None:  # noqa: E741 - as above
        for name, given in (("T", T), ("I", I), ("F", F)):
            value = given if type(given) is float else _as_float(given)
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise ScoreError(f"{name} must be a finite number in [0, 1], not {given!r}")
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, float]:
        """Return ``{"T": ..., "I": ..., "F": ...}``."""
        return {"T": self.T, "I": self.I, "F": self.F}

    @classmethod
    def from_dict(cls, data: Mapping[str, float]) -> Score:
        """Build a score from a mapping with the keys T, I and F.

        Raises:
            ScoreError: a key is missing, or a value is out of range.
        """
        missing = [name for name in ("T", "I", "F") if name not in data]
        if missing:
            raise ScoreError(f"score without {', '.join(missing)}: it needs T, I and F")
        return cls(data["T"], data["I"], data["F"])


def to_triples(scores: Mapping[str, Score]) -> dict[str, list[float]]:
    """Return scores by name as lists of T, I and F: JSON values that take little room.

    >>> to_triples({"reciprocity": Score(0.9, 0.1, 0.0)})
    {'reciprocity': [0.9, 0.1, 0.0]}
    """
    return {name: [one.T, one.I, one.F] for name, one in scores.items()}


def from_triples(triples: Mapping[str, Sequence[float]]) -> dict[str, Score]:
    """Build scores from what `to_triples` gave.

    Raises:
        TypeError: a value is no triple.
        ScoreError: a number is out of range.
    """
    return {name: Score(*triple) for name, triple in triples.items()}


def balance(score: Score, length: int) -> float:
    """Return the reciprocity balance of a turn, in [−1, 1]; higher is better.

    T − 0.5·|I − 0.3| − (0.8 if F > 0.6 else 0.5·F), clipped to [−1, 1]; −1 outright if F > 0.65, or if the
    text saturates its context (more than 5,000 characters and F > 0.5). Source: the specification's session
    memory.

    Args:
        score: the score of the turn.
        length: characters of the judged text, at least 0.

    >>> round(balance(Score(0.8, 0.3, 0.2), 120), 3)
    0.7
    >>> balance(Score(0.9, 0.3, 0.66), 120)
    -1.0
    """
    F = score.F
    if F > HOSTILE_F or (length > LONG_TEXT and F > 0.5):
        return -1.0
    penalty = 0.8 if F > 0.6 else 0.5 * F
    return max(-1.0, min(1.0, score.T - 0.5 * abs(score.I - 0.3) - penalty))


def trust_strength(score: Score, length: int) -> float:
    """Return how far a turn speaks for trust, in [0.15, 1]; the input of the trust EMA.

    1.0, times 0.3 if F > 0.65 (role confusion), times 0.5 if the text saturates its context (more than 5,000
    characters and F > 0.5). Source: the specification's session memory.

    Args:
        score: the score of the turn.
        length: characters of the judged text, at least 0.

    >>> trust_strength(Score(0.1, 0.2, 0.7), 120)
    0.3
    >>> trust_strength(Score(0.1, 0.2, 0.7), 6000)
    0.15
    """
    strength = 0.3 if score.F > HOSTILE_F else 1.0
    return strength * 0.5 if length > LONG_TEXT and score.F > 0.5 else strength


def _as_float(value: object) -> float:
    """A number of any type as a float; NaN for what is no number, or too large."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
