"""What could name the attack of a pair without understanding it: lengths, marks and words of the two halves.

Each function compares the halves of one pair, on the user's texts after the part that they share. Limits and the
table are in check.py; the words of the difference are also a baseline beside every ranking of pairs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.stats import binom
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from turnwise.datasets import Pair, Twin

_FIRST_PERSON = re.compile(
    r"\b(i|i'm|i've|i'd|i'll|me|my|mine|myself|we|us|our|ours|we're|we've|we'd|we'll)\b", re.IGNORECASE
)
_POLITENESS = re.compile(
    r"\b(please|pls|plz|thanks|thank|thx|ty|sorry|kindly|appreciate|appreciated|grateful|cheers|apologies"
    r"|apologize|apologise)\b",
    re.IGNORECASE,
)


def user_texts(pair: Pair, half: Twin) -> list[str]:
    """Return what the user says after the shared part."""
    return [turn.prompt for turn in half.sequence.conversation][pair.shared :]


def _count(pattern: re.Pattern[str]) -> Callable[[Sequence[str]], int]:
    return lambda texts: sum(len(pattern.findall(text.replace("’", "'"))) for text in texts)


FEATURES: dict[str, Callable[[Sequence[str]], int]] = {
    "characters": lambda texts: sum(map(len, texts)),
    "turns": len,
    "question marks": lambda texts: sum(text.count("?") for text in texts),
    "first persons": _count(_FIRST_PERSON),
    "politeness words": _count(_POLITENESS),
}
"""What is counted in the user's texts."""


def fewer(pair: Pair, feature: Callable[[Sequence[str]], int]) -> float:
    """Return 1 where the attack half has fewer, 0 where the benign half has, one half where both have as many."""
    attack, benign = (feature(user_texts(pair, half)) for half in (pair.attack, pair.benign))
    return 0.5 * (1 + (attack < benign) - (attack > benign))


def shares_by_length(pairs: Sequence[Pair], leads: Sequence[float]) -> tuple[float, float]:
    """Return how often the attack leads where its half is the longer and the shorter one, ties half; NaN without.

    Args:
        pairs: the pairs.
        leads: by how much the attack half of each stands above its counterpart.
    """
    less = np.array([fewer(pair, FEATURES["characters"]) for pair in pairs])
    right = np.array([(lead > 0) + 0.5 * (lead == 0) for lead in leads])
    longer, shorter = (float(right[less == side].mean()) if (less == side).any() else math.nan for side in (0, 1))
    return longer, shorter


class Share(NamedTuple):
    """Share of pairs of a group whose attack half has fewer of something, and where chance would put it."""

    value: float
    pairs: int
    low: float
    high: float

    @property
    def by_chance(self) -> bool:
        """Whether the share lies within the 95 % interval of a half."""
        return self.low <= self.value <= self.high


def share_of_fewer(pairs: Sequence[Pair], feature: Callable[[Sequence[str]], int]) -> Share:
    """Return the share of pairs whose attack half has fewer, ties counting half."""
    low, high = binom.interval(0.95, len(pairs), 0.5)
    values = [fewer(pair, feature) for pair in pairs]
    return Share(float(np.mean(values)), len(pairs), float(low) / len(pairs), float(high) / len(pairs))


class WordsOfTheDifference:
    """A bag of 1-2-grams on the difference of the halves: which half is the attack, by words alone.

    Args:
        pairs: pairs to learn from.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._bag = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        self._bag.fit([self._text(pair, half) for pair in pairs for half in (pair.attack, pair.benign)])
        given = self._difference(pairs)
        self._model = LogisticRegression(C=4.0, fit_intercept=False, max_iter=2000)
        self._model.fit(vstack([given, -given]), [1] * len(pairs) + [0] * len(pairs))

    def margins(self, pairs: Sequence[Pair]) -> list[float]:
        """Return for each pair how much the words speak for the right half; below 0 for the wrong one."""
        return [float(margin) for margin in self._model.decision_function(self._difference(pairs))]

    def _difference(self, pairs: Sequence[Pair]) -> csr_matrix:
        attack, benign = (
            self._bag.transform([self._text(pair, getattr(pair, side)) for pair in pairs])
            for side in ("attack", "benign")
        )
        return attack - benign

    @staticmethod
    def _text(pair: Pair, half: Twin) -> str:
        return " ".join(user_texts(pair, half))
