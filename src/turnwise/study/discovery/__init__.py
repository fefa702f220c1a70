"""Discovery: patterns that nobody wrote down, found on one half of the data and tested on the other.

docs/discover.md says how, and what it can't show.
"""

from turnwise.study.discovery.method import (
    SINGLE_TURN,
    Baseline,
    Discovery,
    HalfSize,
    describe,
    discover,
    gain_words,
    halves_of,
    names_of,
    to_yaml,
)
from turnwise.study.discovery.verify import MatchCounts, PatternGain, SingleTurnRule, Tested

__all__ = [
    "SINGLE_TURN",
    "Baseline",
    "Discovery",
    "HalfSize",
    "MatchCounts",
    "PatternGain",
    "SingleTurnRule",
    "Tested",
    "describe",
    "discover",
    "gain_words",
    "halves_of",
    "names_of",
    "to_yaml",
]
