"""The conformance kit has to catch what it promises to catch: each detector here breaks one rule."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from dataclasses import dataclass, field, replace

import pytest

from turnwise.detectors import Detector, Signal, build_detector, check_detector
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True)
class Wrapped:
    """A sound detector to break in one place."""

    inner: Detector = build_detector("cusum")  # noqa: RUF009 - it is frozen

    name = "wrapped"

    @property
    def threshold(self):
        return self.inner.threshold

    def with_threshold(self, value):
        return replace(self, inner=self.inner.with_threshold(value))

    def start(self):
        return self.inner.start()

    def update(self, state, scores):
        return self.inner.update(state, scores)


def test_a_sound_detector_passes():
    check_detector(Wrapped)


@dataclass(frozen=True)
class RemembersEarlierConversations(Wrapped):
    """Keeps what it saw in a list of its own, and so judges a turn by turns that are not before it."""

    seen: list[float] = field(default_factory=list)

    def update(self, state, scores):
        self.seen.extend(score.F for score in scores.scores.values())
        signal = super().update(state, scores)
        return replace(signal, score=signal.score + len(self.seen))


@dataclass(frozen=True)
class LooksAtTheEndOfTheLastRun(Wrapped):
    """Peeks: knows the turns that follow from the time when it saw the same conversation to its end."""

    seen: dict[int, float] = field(default_factory=dict)

    def update(self, state, scores):
        peak = max([self.seen.get(scores.turn + 1, 0.0), *(score.F for score in scores.scores.values())])
        self.seen[scores.turn] = peak
        return replace(super().update(state, scores), score=peak)


@dataclass(frozen=True)
class KeepsOneStateForAll(Wrapped):
    shared: dict[str, object] = field(default_factory=build_detector("cusum").start)

    def start(self):
        return self.shared


class RemovesAPrinciple(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        scores.scores.pop("reciprocity", None)
        return signal


class AddsAPrinciple(Wrapped):
    def update(self, state, scores):
        scores.response_scores["added"] = Score(0, 0, 0)
        return super().update(state, scores)


class KeepsEveryTurn(Wrapped):
    def start(self):
        return {**super().start(), "turns": []}

    def update(self, state, scores):
        state["turns"].append(scores.turn)
        return super().update(state, scores)


class IsNotANumber(Wrapped):
    def update(self, state, scores):
        return replace(super().update(state, scores), score=math.nan)


class ContributesInfinity(Wrapped):
    def update(self, state, scores):
        return replace(super().update(state, scores), contributions={"reciprocity": math.inf})


class ForgetsThatItFired(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return replace(signal, fired=signal.active, turn=signal.turn if signal.active else None)


class FiresWithoutTurn(Wrapped):
    def update(self, state, scores):
        return replace(super().update(state, scores), turn=None)


class FiresOnNothing(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return Signal(signal.score, True, True, 1, "suspicious silence", signal.contributions)


class FiresWithoutEvidence(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return replace(signal, evidence=False, score=0.0, contributions={})


class ScoresWithoutEvidence(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return signal if signal.active else replace(signal, evidence=False)


class EvidenceOfNothing(Wrapped):
    def update(self, state, scores):
        return replace(super().update(state, scores), evidence=True)


class MeansSilenceByNoContributions(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return signal if signal.active else replace(signal, score=0.0, contributions={})


class GivesNothing(Wrapped):
    def update(self, state, scores):
        return None


class GivesNoReason(Wrapped):
    def update(self, state, scores):
        return replace(super().update(state, scores), reason="")


class KeepsASet(Wrapped):
    def start(self):
        return {**super().start(), "principles": set()}


class KeepsNumbersAsKeys(Wrapped):
    def start(self):
        return {**super().start(), "by_turn": {1: 0.0}}


class ReadsTheFirstPrincipleOnly(Wrapped):
    def update(self, state, scores):
        first = dict(list(scores.scores.items())[:1])
        return super().update(state, replace(scores, scores=first))


class TakesGapsForZero(Wrapped):
    def update(self, state, scores):
        filled = dict.fromkeys(("reciprocity", "context_integrity", "third_party_harm"), Score(0, 0, 0))
        filled = {**filled, **scores.scores} if scores.scores or state["memories"] else {}
        return super().update(state, replace(scores, scores=filled))


@dataclass(frozen=True)
class SharesItsStateWithTheSignal(Wrapped):
    inner: Detector = build_detector("trust_ema")  # noqa: RUF009 - it is frozen

    def update(self, state, scores):
        return replace(super().update(state, scores), contributions=state["trust"])


class IgnoresTheThreshold(Wrapped):
    def with_threshold(self, value):
        return self


class TakesAnotherThreshold(Wrapped):
    def with_threshold(self, value):
        return super().with_threshold(value / 2)


class ScoresByTheThreshold(Wrapped):
    def update(self, state, scores):
        signal = super().update(state, scores)
        return replace(signal, score=signal.score / (1 + min(self.threshold, 9)))


class FiresBelowTheThreshold(Wrapped):
    """Stores another threshold than the one that it fires at."""

    def update(self, state, scores):
        inner = self.inner.with_threshold(self.threshold / 2)
        return inner.update(state, scores)


class FiresAtInfinity(Wrapped):
    def update(self, state, scores):
        inner = self.inner.with_threshold(0.0) if math.isinf(self.threshold) else self.inner
        return inner.update(state, scores)


def differs_each_time():
    """Return a factory whose every detector has another drift."""
    drifts = itertools.count(0.1, 0.001)
    return lambda: Wrapped(build_detector(f"cusum:drift={next(drifts)}"))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (RemembersEarlierConversations, "turns alone give other signals"),
        (LooksAtTheEndOfTheLastRun, "turns alone give other signals"),
        (KeepsOneStateForAll, "turns alone give other signals|at turn|turn 1"),
        (RemovesAPrinciple, "the scores given at turn 1 were changed"),
        (AddsAPrinciple, "the scores given at turn 1 were changed"),
        (KeepsEveryTurn, "a conversation of 2,000 turns: the state grows"),
        (IsNotANumber, "not finite"),
        (ContributesInfinity, "not finite"),
        (ForgetsThatItFired, "fired is False, but must be kept once active"),
        (FiresWithoutTurn, "turn is None, the first active is 1"),
        (FiresOnNothing, "fired without any evaluation"),
        (FiresWithoutEvidence, "active without evidence"),
        (ScoresWithoutEvidence, "a score or contributions without evidence"),
        (EvidenceOfNothing, "evidence, though nothing was evaluated so far; return Signal.silent"),
        (MeansSilenceByNoContributions, "some signals with evidence have contributions and others none"),
        (GivesNothing, "turn 1: update gave None, which is no Signal"),
        (GivesNoReason, "gives no reason"),
        (KeepsASet, "the state is no JSON"),
        (KeepsNumbersAsKeys, "does not survive JSON"),
        (ReadsTheFirstPrincipleOnly, "another order of the principles"),
        (TakesGapsForZero, "not taken for zero"),
        (SharesItsStateWithTheSignal, "a signal changed after it was given"),
        (IgnoresTheThreshold, "fires with an infinite threshold"),
        (TakesAnotherThreshold, "has threshold"),
        (ScoresByTheThreshold, "scores change with the threshold"),
        (FiresBelowTheThreshold, "active is True at score"),
        (FiresAtInfinity, "fires with an infinite threshold"),
        (differs_each_time(), "a second detector gives other signals"),
    ],
)
def test_it_catches_a_detector_that_breaks_a_rule(factory, message):
    with pytest.raises(AssertionError, match=message):
        check_detector(factory)


def test_it_catches_conversations_that_touch_each_other():
    @dataclass(frozen=True)
    class KeepsTheLastPrinciples(Wrapped):
        """Sound as long as one conversation runs at a time."""

        current: dict[str, float] = field(default_factory=dict)

        def start(self):
            self.current.clear()
            return self.inner.start()

        def update(self, state, scores):
            if state["memories"] == {}:
                self.current.clear()
            signal = super().update(state, scores)
            self.current.update(signal.contributions)
            peak = max(self.current.values(), default=0.0)
            active = peak >= self.threshold
            fired = signal.fired or active
            return replace(signal, score=peak, contributions=dict(self.current), active=active, fired=fired)

    with pytest.raises(AssertionError, match="two conversations at once: each changes the signals of the other"):
        check_detector(KeepsTheLastPrinciples)


def test_a_window_is_bounded_state():
    check_detector(lambda: build_detector("slope:window=20"))


@dataclass(frozen=True)
class KeepsWhatItIsGiven(Wrapped):
    turns: list[TurnScores] = field(default_factory=list)

    def update(self, state, scores):
        self.turns.append(scores)
        return super().update(state, scores)


def test_the_conversations_are_the_same_each_time_and_cover_the_hard_shapes():
    first, second = KeepsWhatItIsGiven(), KeepsWhatItIsGiven()
    check_detector(first)
    check_detector(second)
    assert first.turns == second.turns
    turns = first.turns
    assert any(not scores.scores for scores in turns)
    assert any(0 < len(scores.scores) < 3 for scores in turns)
    assert any(scores.length > 5_000 for scores in turns)
    assert any(scores.response_scores for scores in turns)


@pytest.mark.parametrize(
    "detector", [build_detector("any_turn"), build_detector("cusum"), build_detector("slope")]
)
def test_detectors_are_values_that_can_t_be_changed(detector):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(detector, next(iter(dataclasses.fields(detector))).name, 0.75)
    assert detector == replace(detector)
    assert json.loads(json.dumps(detector.start())) == detector.start()
