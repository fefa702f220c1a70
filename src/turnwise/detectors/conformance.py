"""The conformance kit: checks what every detector has to keep, whoever wrote it."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from turnwise.detectors.protocol import Detector, Signal, run_detector
from turnwise.plugins import factory_of
from turnwise.scoring import Score, TurnScores

LONG = 2_000
"""Turns of the conversation over which the state must not grow."""

SLACK = 1.1
"""How much larger the state may be after `LONG` turns than halfway; numbers vary in digits."""

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")


def check_detector(detector: Detector | Callable[[], Detector]) -> None:
    """Check that a detector keeps the contract of `turnwise.detectors.Detector`.

    A package that brings a detector calls this in its tests. The kit feeds it many small conversations, the
    same ones each time: rising, falling, flat and irregular scores, gaps, long texts.

    Args:
        detector: the detector, or what makes one without arguments, such as its class.

    Raises:
        AssertionError: the detector breaks the contract; the message says how.

    >>> from turnwise.detectors import build_detector
    >>> check_detector(lambda: build_detector("cusum"))
    """
    factory = factory_of(detector, "update")
    made: Detector = factory()
    contributing: set[bool] = set()
    for label, turns in conversations():
        signals = _run(made, turns, label)
        _check_signals(signals, turns, label)
        contributing.update(bool(signal.contributions) for signal in signals if signal.evidence)
        mixed = "some signals with evidence have contributions and others none; without evidence: Signal.silent"
        _demand(len(contributing) < 2, label, mixed)
        _check_repeats(factory, made, turns, signals, label)
        _check_threshold(made, turns, signals, label)
    _check_separate(made)
    _check_bounded(made)


def conversations() -> Iterator[tuple[str, tuple[TurnScores, ...]]]:
    """The kit's conversations, each with a name for messages; always the same ones."""
    yield "no turns", ()
    yield "one turn without evaluations", (TurnScores(1, {}),)
    yield "one harmless turn", (_turn(1, 0.0),)
    yield "one bad turn", (_turn(1, 1.0),)
    shapes: dict[str, Callable[[int], float]] = {
        "rising": lambda turn: turn / 12,
        "falling": lambda turn: 1 - turn / 12,
        "harmless": lambda turn: 0.0,
        "bad": lambda turn: 1.0,
        "alternating": lambda turn: float(turn % 2),
        "one bad turn in the middle": lambda turn: float(turn == 6),
    }
    for label, shape in shapes.items():
        yield label, tuple(_turn(turn, shape(turn)) for turn in range(1, 13))
    for seed in range(12):
        yield f"irregular {seed}", tuple(_irregular(seed, 15, sparse=seed % 2 == 0))


def _turn(number: int, F: float) -> TurnScores:
    return TurnScores(number, {principle: Score(1 - F, 0.3, F) for principle in PRINCIPLES}, length=200)


def _irregular(seed: int, turns: int, *, sparse: bool) -> Iterator[TurnScores]:
    """Turns with scores that look random; sparse ones lack principles and whole turns."""
    values = _noise(seed)
    for number in range(1, turns + 1):
        scores, replies = {}, {}
        silent = sparse and next(values) < 0.2
        for principle in PRINCIPLES:
            score = Score(next(values), next(values), next(values))
            if not silent and not (sparse and next(values) < 0.4):
                scores[principle] = score
                replies[principle] = Score(score.F, score.T, score.I)
        length = 6_000 if next(values) < 0.2 else 300
        yield TurnScores(number, scores, length, replies, 400)


@functools.cache
def _long() -> tuple[TurnScores, ...]:
    """The turns of a long conversation; making them takes longer than most detectors need for them."""
    return tuple(_irregular(3, LONG, sparse=False))


def _noise(seed: int) -> Iterator[float]:
    """Numbers in [0, 1): the linear congruential generator of "Numerical Recipes"."""
    value = seed * 7_919 + 1
    while True:
        value = (1_664_525 * value + 1_013_904_223) % 2**32
        yield value / 2**32


def _run(detector: Detector, turns: Sequence[TurnScores], label: str) -> tuple[Signal, ...]:
    """The signals of a conversation, after checking that turns and signals stay as they were."""
    state = detector.start()
    signals: list[Signal] = []
    kept: list[Signal] = []
    for scores in turns:
        before = copy.deepcopy(scores)
        signal: object = detector.update(state, scores)
        if not isinstance(signal, Signal):
            raise AssertionError(f"{label}: turn {scores.turn}: update gave {signal!r}, which is no Signal")
        values = (signal.score, *signal.contributions.values())
        finite = all(math.isfinite(value) for value in values)
        _demand(finite, label, f"turn {scores.turn}: a score is not finite: {values}")
        signals.append(signal)
        kept.append(copy.deepcopy(signal))
        _demand(scores == before, label, f"the scores given at turn {scores.turn} were changed")
    _demand(_same(signals, kept), label, "a signal changed after it was given: it shares a part with the state")
    return tuple(signals)


def _check_signals(signals: Sequence[Signal], turns: Sequence[TurnScores], label: str) -> None:
    fired_at: int | None = None
    evaluated = False
    for scores, signal in zip(turns, signals, strict=True):
        at = f"turn {scores.turn}"
        evaluated = evaluated or _evaluated(scores)
        _demand(bool(signal.reason), label, f"{at}: the signal gives no reason")
        if signal.active and fired_at is None:
            _demand(_evaluated(scores), label, f"{at} fired without any evaluation")
            fired_at = scores.turn
        fired = fired_at is not None
        _demand(signal.fired == fired, label, f"{at}: fired is {signal.fired}, but must be kept once active")
        _demand(signal.turn == fired_at, label, f"{at}: turn is {signal.turn}, the first active is {fired_at}")
        if signal.evidence:
            _demand(evaluated, label, f"{at}: evidence, though nothing was evaluated so far; return Signal.silent")
        else:
            _demand(not signal.active, label, f"{at}: active without evidence; one of the two is wrong")
            empty = signal.score == 0 and not signal.contributions
            _demand(empty, label, f"{at}: a score or contributions without evidence; one of the two is wrong")


def _check_repeats(
    factory: Callable[[], Detector],
    detector: Detector,
    turns: Sequence[TurnScores],
    signals: Sequence[Signal],
    label: str,
) -> None:
    """Ways of running the same conversation that must not make a difference."""
    for cut in range(len(turns) + 1):
        prefix = run_detector(detector, turns[:cut]).signals
        _demand(_same(prefix, signals[:cut]), label, f"the first {cut} turns alone give other signals")
    again = run_detector(factory(), turns).signals
    _demand(_same(again, signals), label, "a second detector gives other signals for the same turns")

    state, resumed = detector.start(), []
    for scores in turns:
        state = _through_json(state, label)
        resumed.append(detector.update(state, scores))
    _demand(_same(resumed, signals), label, "a state that was stored as JSON and read back gives other signals")

    turned = [
        TurnScores(s.turn, _reverse(s.scores), s.length, _reverse(s.response_scores), s.response_length)
        for s in turns
    ]
    other = run_detector(detector, turned).signals
    _demand(_same(other, signals), label, "another order of the principles gives other signals")

    held = [(scores, signal) for scores, signal in zip(turns, signals, strict=True) if _evaluated(scores)]
    skipped = run_detector(detector, [scores for scores, _ in held]).signals
    _demand(
        _same(skipped, [signal for _, signal in held]),
        label,
        "a turn without evaluations changes later signals: it has to be skipped, not taken for zero",
    )


def _check_threshold(
    detector: Detector, turns: Sequence[TurnScores], signals: Sequence[Signal], label: str
) -> None:
    """A threshold decides what fires and nothing else."""
    levels = sorted({round(signal.score, 9) for signal in signals if signal.score > 0})
    for low, high in itertools.pairwise(levels):
        between = (low + high) / 2
        other = detector.with_threshold(between)
        _demand(
            math.isclose(other.threshold, between, abs_tol=1e-9),
            label,
            f"with_threshold({between}) has threshold {other.threshold}",
        )
        for old, signal in zip(signals, run_detector(other, turns).signals, strict=True):
            _demand(old.score == signal.score, label, "scores change with the threshold")
            if abs(signal.score - between) > 1e-9:
                beyond = signal.score > between and signal.evidence
                _demand(
                    signal.active == beyond,
                    label,
                    f"active is {signal.active} at score {signal.score} and threshold {between}",
                )
    never = run_detector(detector.with_threshold(math.inf), turns)
    _demand(not never.fired, label, "it fires with an infinite threshold")


def _check_separate(detector: Detector) -> None:
    """Two conversations at once don't touch each other."""
    first, second = tuple(_irregular(1, 15, sparse=False)), tuple(_irregular(2, 15, sparse=True))
    alone = run_detector(detector, first).signals, run_detector(detector, second).signals
    states = detector.start(), detector.start()
    mixed: tuple[list[Signal], list[Signal]] = ([], [])
    for pair in zip(first, second, strict=True):
        for signals, state, scores in zip(mixed, states, pair, strict=True):
            signals.append(detector.update(state, scores))
    for together, apart in zip(mixed, alone, strict=True):
        _demand(_same(together, apart), "two conversations at once", "each changes the signals of the other")


def _check_bounded(detector: Detector) -> None:
    state = detector.start()
    half = 0
    for scores in _long():
        detector.update(state, scores)
        if scores.turn == LONG // 2:
            half = len(json.dumps(state))
    size = len(json.dumps(state))
    _demand(
        size <= half * SLACK + 100,
        f"a conversation of {LONG:,} turns",
        f"the state grows: {half:,} characters of JSON halfway, {size:,} at the end",
    )


def _through_json(state: dict[str, object], label: str) -> dict[str, object]:
    try:
        text = json.dumps(state, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{label}: the state is no JSON: {error}") from error
    back: dict[str, object] = json.loads(text)
    _demand(back == state, label, f"the state does not survive JSON: {state!r} became {back!r}")
    return back


def _reverse(scores: Mapping[str, Score]) -> dict[str, Score]:
    return dict(reversed(list(scores.items())))


def _evaluated(scores: TurnScores) -> bool:
    return bool(scores.scores or scores.response_scores)


def _same(signals: Sequence[Signal], others: Sequence[Signal]) -> bool:
    return list(signals) == list(others)


def _demand(kept: bool, label: str, message: str) -> None:
    """Raise unless a demand is kept; an ``assert`` would vanish under ``python -O``."""
    if not kept:
        raise AssertionError(f"{label}: {message}")
