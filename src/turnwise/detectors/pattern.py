"""``pattern``: an expression of the pattern language as a live rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from turnwise.detectors.base import FIRED_AT, Limited, check_number, latch, silence
from turnwise.detectors.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.patterns import Evaluator, ValueKind, parse_expression
from turnwise.patterns.series import Series
from turnwise.scoring import TurnScores

_PATTERN = "pattern"

CERTAIN = 1e9
"""Score where a condition holds though no numbers were compared, such as ``not (at(F, 9) > 0.5)`` at turn 1."""


@dataclass(frozen=True, slots=True)
class Pattern(Limited):
    """Fires where a pattern holds: the line that found something in stored data, live.

    Of a condition, score = its margin, by how much it holds (see `turnwise.patterns.PatternValue`), and at a limit
    of 0 it fires where the condition holds. Of a number, such as ``slope(reciprocity.F)``, score = its value, and
    it fires from the limit. Source: docs/patterns.md.

    Args:
        expression: the pattern as text.
        limit: margin or value from which it fires; infinity never fires.

    Raises:
        PatternError: the expression can't be read; the message shows the column.
        DetectorError: the limit is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = Pattern("delta(reciprocity.F) > 0.25")
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.25, 0.75), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.fired, signal.score
    (True, 0.25)
    >>> signal.reason
    'delta(reciprocity.F) > 0.25 holds by 0.250 at turn 2'
    """

    name = "pattern"
    whole_argument: ClassVar[str] = "expression"

    expression: str
    limit: float = 0.0
    _evaluator: Evaluator = field(init=False, repr=False, compare=False)
    _principles: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise DetectorError(f"{self.name}: expression must be the text of a pattern, not {self.expression!r}")
        tree = parse_expression(self.expression)
        series = [node for node in tree.walk() if isinstance(node, Series)]
        named = {node.principle for node in series if node.principle is not None}
        everywhere = not named or any(node.principle is None for node in series)
        check_number(self, "limit", never=True)
        evaluator = Evaluator(tree)
        if evaluator.other_runs:
            raise DetectorError(
                f"{self.name}: {self.expression} compares runs, and a detector reads one: "
                "ask it with turnwise query"
            )
        object.__setattr__(self, "_evaluator", evaluator)
        object.__setattr__(self, "_principles", () if everywhere else tuple(sorted(named)))

    def start(self) -> State:
        return {FIRED_AT: None, _PATTERN: self._evaluator.start()}

    def update(self, state: State, scores: TurnScores) -> Signal:
        holds, margin, value = self._evaluator.update(state[_PATTERN], scores)
        is_number = self._evaluator.expression.kind is ValueKind.NUMBER
        known = value if is_number else CERTAIN if holds and margin is None else margin
        if known is None:
            return silence(state, scores.turn, f"{self.expression} can't be told")
        active = known >= self.limit if is_number or self.limit else holds
        return latch(
            state,
            scores.turn,
            known,
            active=active,
            contributions=dict.fromkeys(self._principles or (scores.scores or scores.response_scores), known),
            reason=f"{self.expression} {self._told(holds, known, is_number, active)} at turn {scores.turn}",
        )

    def _told(self, holds: bool, known: Any, is_number: bool, active: bool) -> str:
        if is_number:
            return f"is {known:.3f} {'≥' if active else '<'} {self.limit:.3f}"
        if known == CERTAIN:
            return "holds"
        limit = f", which is {'≥' if active else '<'} {self.limit:.3f}" if self.limit else ""
        return f"{'holds' if holds else 'fails'} by {abs(known):.3f}{limit}"
