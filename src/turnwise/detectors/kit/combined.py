"""What combinations of detectors share: members run side by side, each measured against its own threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.detectors.kit.base import FIRED_AT, Limited, latch, number
from turnwise.detectors.kit.protocol import Detector, Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores

MEMBERS = "members"
"""Key of the state under which the members' states are kept."""


class Margins(NamedTuple):
    """How far members are beyond their thresholds after a turn: those that have a value, in their order.

    `contributions` has by principle the greatest margin that any of them gives it.
    """

    values: list[float]
    signals: list[Signal]
    contributions: dict[str, float]


class Combination(Limited):
    """A detector of detectors. A subclass is a frozen dataclass with the fields ``members`` and ``limit``.

    Another limit leaves the members theirs.
    """

    __slots__ = ()

    name: str

    if TYPE_CHECKING:
        members: tuple[Detector, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", checked_members(self.name, self.members))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, MEMBERS: [member.start() for member in self.members]}

    def decide(
        self, state: State, turn: int, score: float, contributions: Mapping[str, float], reason: str
    ) -> Signal:
        """The signal of a turn: it fires from the limit."""
        active = score >= self.limit
        return latch(state, turn, score, active=active, contributions=contributions, reason=reason)


def checked_members(name: str, members: Any) -> tuple[Detector, ...]:
    """The members of a combination, checked; `name` is the combination's, for the message."""
    if isinstance(members, str) or not isinstance(members, Sequence):
        raise DetectorError(
            f"{name}: members must be detectors, such as members=[cusum; trust_ema], not {members!r}"
        )
    for member in members:
        if not all(hasattr(member, part) for part in ("start", "update", "threshold")):
            raise DetectorError(f"{name}: members must be detectors, not {member!r}")
    if not members:
        raise DetectorError(f"{name}: 0 members are too few: at least 1 is needed")
    return tuple(members)


def update_members(members: Sequence[Detector], state: State, scores: TurnScores) -> Margins:
    """Take the next turn into every member, changing `state`; a member that never fires has no margin."""
    values: list[float] = []
    signals: list[Signal] = []
    by_principle: dict[str, float] = {}
    for member, own in zip(members, state[MEMBERS], strict=True):
        signal = member.update(own, scores)
        threshold = member.threshold
        if not signal.evidence or threshold == float("inf"):
            continue
        values.append(signal.score - threshold)
        signals.append(signal)
        for principle, value in signal.contributions.items():
            margin = value - threshold
            if margin > by_principle.get(principle, float("-inf")):
                by_principle[principle] = margin
    return Margins(values, signals, by_principle)


def reason_of(signals: Mapping[int, Signal] | Sequence[Signal], joint: str) -> str:
    """The reasons of some members, at least one, as one text."""
    chosen = signals.values() if isinstance(signals, Mapping) else signals
    return f" {joint} ".join(signal.reason.partition("; fired at")[0] for signal in chosen)
