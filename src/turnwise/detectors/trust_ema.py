"""``trust_ema``: trust that is earned and lost turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from turnwise.detectors.kit.base import FIRED_AT, latch, number, silence, strongest
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.scoring import TurnScores, trust_strength

_TRUST = "trust"


@dataclass(frozen=True, slots=True)
class TrustEma:
    """Fires when trust, an exponential moving average, falls below a limit.

    trust_k = alpha · strength_k + (1 - alpha) · trust_{k-1} with trust_0 = initial, for each principle on its
    own over its evaluated turns; strength is `turnwise.scoring.trust_strength`; score = 1 - min over
    principles of trust. `initial` alone never fires: trust is judged once a turn was evaluated. Source: the
    specification's session memory; the average is that of S. W. Roberts, "Control chart tests based on
    geometric moving averages", Technometrics 1 (1959).

    Args:
        alpha: weight of the present turn, in (0, 1].
        initial: trust before the first turn, in [0, 1].
        limit: trust below which it fires, in [0, 1]; at 0 it never fires.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = TrustEma()
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.9, 0.9), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    ...     print(signal.reason)
    reciprocity trust 0.650 ≥ 0.600 at turn 1
    reciprocity trust 0.545 < 0.600 at turn 2
    reciprocity trust 0.471 < 0.600 at turn 3
    """

    name = "trust_ema"

    alpha: float = 0.3
    initial: float = 0.5
    limit: float = 0.60

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", number(self.name, "alpha", self.alpha, 0.0, 1.0, above=True))
        object.__setattr__(self, "initial", number(self.name, "initial", self.initial, 0.0, 1.0))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, 0.0, 1.0))

    @property
    def threshold(self) -> float:
        """Score above which it fires: 1 - limit."""
        return 1.0 - self.limit

    def with_threshold(self, value: float) -> Self:
        """Return the same detector that fires above another score: its limit is 1 - value, at least 0."""
        return replace(self, limit=1.0 - min(number(self.name, "threshold", value, 0.0, never=True), 1.0))

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, _TRUST: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        trusts: dict[str, float] = state[_TRUST]
        for principle, score in scores.scores.items():
            strength = trust_strength(score, scores.length)
            trusts[principle] = self.alpha * strength + (1.0 - self.alpha) * trusts.get(principle, self.initial)
        if not trusts:
            return silence(state, scores.turn)
        distrusts = {principle: 1.0 - trust for principle, trust in trusts.items()}
        principle, distrust = strongest(distrusts)
        trust = trusts[principle]
        # Trust itself is compared: 1 - trust and 1 - limit are rounded, and may disagree at the limit.
        active = min(trusts.values()) < self.limit
        sign = "<" if active else "≥"
        reason = f"{principle} trust {trust:.3f} {sign} {self.limit:.3f} at turn {scores.turn}"
        return latch(state, scores.turn, distrust, active=active, contributions=distrusts, reason=reason)
