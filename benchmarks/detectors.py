"""What a detector costs a turn, early and late in a conversation: it must not depend on the length.

Run with ``python benchmarks/detectors.py``. Prints microseconds a turn for three principles, the best of
several repeats, at turn 10 and at turn 10,000.
"""

from __future__ import annotations

import copy
import json
import time

from turnwise.detectors import Detector, State, build_detector
from turnwise.scoring import Score, TurnScores

LIMITS_US = {
    **dict.fromkeys(
        (
            "never",
            "always",
            "first_turn",
            "last_turn",
            "any_turn",
            "count_flags",
            "length_only",
            "trust_ema",
            "f_ema",
            "slope",
            "cusum",
            "page_hinkley",
            "sprt",
            "shiryaev_roberts",
        ),
        5.0,
    ),
    **dict.fromkeys(
        (
            "slope:window=5",
            "hmm",
            "peak_accumulation",
            "boundary_testing",
            "learned:weights={peak:4;slope:5;streak:1;cusum:1;volatility:1;divergence:1}",
            "pattern:cusum(reciprocity.F, drift=0.05) > 0.2 or peak(third_party_harm.F) >= 0.7",
            "any_of:members=[cusum; trust_ema]",
            "all_of:members=[cusum; trust_ema]",
            "k_of:k=2,members=[cusum; trust_ema; any_turn]",
            "weighted:members=[cusum; trust_ema]",
        ),
        20.0,
    ),
}
"""Detectors, and the most that a turn may cost, in microseconds."""

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
BLOCK = 1_000
REPEATS = 20


def turn_scores(turn: int) -> TurnScores:
    """Return scores of three principles that vary from turn to turn."""
    scores = {name: Score(0.5, 0.2, (turn * (index + 3)) % 11 / 20) for index, name in enumerate(PRINCIPLES)}
    return TurnScores(turn, scores, length=300)


def state_before(detector: Detector, turn: int) -> State:
    """Return the state of a conversation before one of its turns."""
    state = detector.start()
    for earlier in range(1, turn):
        detector.update(state, turn_scores(earlier))
    return state


def microseconds_at(detector: Detector, turn: int) -> float:
    """Return the time of an update at a turn: the best of several repeats, each over many states of that turn."""
    before, scores = state_before(detector, turn), turn_scores(turn)
    best = float("inf")
    for _ in range(REPEATS):
        states = [copy.deepcopy(before) for _ in range(BLOCK)]
        began = time.perf_counter()
        for state in states:
            detector.update(state, scores)
        best = min(best, time.perf_counter() - began)
    return best / BLOCK * 1e6


def state_bytes(detector: Detector) -> int:
    """Return the size of the state after 100 turns, as compact JSON."""
    return len(json.dumps(state_before(detector, 101), separators=(",", ":")))


def main() -> None:
    """Print the table; exit with 1 where a detector costs more than it may."""
    print(f"{'detector':62} {'turn 10':>8} {'turn 10,000':>12} {'limit':>6} {'state':>7}")
    missed = 0
    for spec, limit in LIMITS_US.items():
        detector = build_detector(spec)
        early, late = microseconds_at(detector, 10), microseconds_at(detector, 10_000)
        kept = max(early, late) <= limit
        missed += not kept
        shown = spec if len(spec) <= 62 else spec[:61] + "…"
        mark = "" if kept else "  MISSED"
        print(f"{shown:62} {early:8.2f} {late:12.2f} {limit:6.0f} {state_bytes(detector):5} B{mark}")
    print(f"us a turn, {len(PRINCIPLES)} principles, best of {REPEATS}; {missed} of {len(LIMITS_US)} too slow")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
