"""Discovery: patterns that nobody wrote down, found on one half of the data and tested on the other.

docs/discover.md says how, and what it can't show.
"""

from turnwise.study.discovery.method import (
    Baseline,
    Discovery,
    Half,
    describe,
    discover,
    halves_of,
    names_of,
    to_yaml,
)
from turnwise.study.discovery.verify import Counts, Tested

__all__ = [
    "Baseline",
    "Counts",
    "Discovery",
    "Half",
    "Tested",
    "describe",
    "discover",
    "halves_of",
    "names_of",
    "to_yaml",
]
