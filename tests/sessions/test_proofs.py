"""Properties of session memory and circuit breaker, proved for all real numbers by z3 on the code's own functions.

docs/explanation/proofs.md tells them in words. A test here fails with inputs of which the property does not hold.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import z3
from symbolic import Condition, Run, counterexample, term, ways

from turnwise.scoring import balance, trust_strength
from turnwise.sessions import BreakerState, Phase, next_breaker, preset
from turnwise.sessions.memory import decayed, falsity_ema, push_bit, trust_ema

pytestmark = pytest.mark.shows("LATER-2")

PHASES = list(Phase)
HISTORY = 10
PRESETS = ("default", "original")


def between(run: Run, low: float, value: Any, high: float) -> list[Any]:
    """Return the claims that a value lies in a range."""
    return [term(value) >= term(low), term(value) <= term(high)]


def any_score(run: Run) -> Any:
    """Return a score of which T, I and F are not known."""
    return SimpleNamespace(**{name: run.unknown(least=0, most=1) for name in "TIF"})


def any_breaker_settings(run: Run) -> Any:
    """Return settings of a breaker that are allowed, and not known."""
    cuts = {name: run.unknown(least=0, most=1) for name in ("first_cut", "next_cut")}
    return SimpleNamespace(
        attempts=run.unknown(least=1),
        alpha=run.unknown(above=0, most=1),
        target=run.unknown(least=0, most=1),
        tolerance=run.unknown(least=0, most=1),
        **cuts,
    )


def any_breaker(run: Run, phase: Phase) -> BreakerState:
    """Return a breaker in a phase; all else of it is not known."""
    trust: Any = run.unknown(least=0, most=1)
    return BreakerState(phase, run.unknown(least=0), trust, run.unknown(least=0))  # type: ignore[arg-type]


def a_turn(run: Run, phase: Phase) -> tuple[BreakerState, BreakerState, Condition, Any]:
    """Return a breaker before and after any turn, whether it was a violation, and the settings.

    With the settings go the strikes, and whether evidence holds the breaker open.
    """
    settings, before, violation = any_breaker_settings(run), any_breaker(run, phase), run.truth()
    settings.strikes, settings.held_open = run.unknown(least=0), run.truth()
    F: Any = run.unknown(least=0, most=1)
    more: Any = {"strikes": settings.strikes, "held_open": settings.held_open}
    after = next_breaker(before, F, violation=violation, settings=settings, **more)  # type: ignore[arg-type]
    return before, after, violation, settings


def test_balance_is_in_minus_one_to_one() -> None:
    assert counterexample(lambda run: between(run, -1, balance(any_score(run), run.unknown(least=0)), 1)) is None


def test_trust_strength_is_in_its_range() -> None:
    assert (
        counterexample(lambda run: between(run, 0.15, trust_strength(any_score(run), run.unknown(least=0)), 1))
        is None
    )


@pytest.mark.parametrize("average", [trust_ema, falsity_ema])
def test_averages_stay_in_zero_to_one(average: Any) -> None:
    def step(run: Run) -> Any:
        before, value = run.unknown(least=0, most=1), run.unknown(least=0, most=1)
        return between(run, 0, average(before, value, run.unknown(above=0, most=1)), 1)

    assert counterexample(step) is None


def test_a_pause_leaves_trust_between_where_it_was_and_where_sessions_start() -> None:
    def step(run: Run) -> Any:
        trust, initial = run.unknown(least=0, most=1), run.unknown(least=0, most=1)
        rested = term(decayed(trust, initial, run.unknown(least=0), run.unknown(above=0)))
        low, high = (
            z3.If(trust.of < initial.of, trust.of, initial.of),
            z3.If(trust.of < initial.of, initial.of, trust.of),
        )
        return [rested >= low, rested <= high]

    assert counterexample(step) is None


@pytest.mark.parametrize("phase", PHASES)
def test_the_breakers_trust_stays_in_zero_to_one_and_its_counts_never_fall_below_zero(phase: Phase) -> None:
    def step(run: Run) -> Any:
        before, after, *_ = a_turn(run, phase)
        return [
            *between(run, 0, after.trust, 1),
            term(after.attempts) >= 0,
            term(after.violations) >= term(before.violations),
        ]

    assert counterexample(step) is None


@pytest.mark.parametrize("phase", PHASES)
def test_a_single_violation_opens_the_breaker(phase: Phase) -> None:
    def step(run: Run) -> Any:
        _, after, violation, _ = a_turn(run, phase)
        return z3.Implies(violation.of, not after.processing)

    assert counterexample(step) is None


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase is not Phase.NORMAL])
def test_no_path_leads_from_open_to_closed_without_the_recovery(phase: Phase) -> None:
    def step(run: Run) -> Any:
        _, after, violation, settings = a_turn(run, phase)
        if not after.processing:
            return True
        recovered = after.trust >= settings.target - settings.tolerance
        free = z3.Not(settings.held_open.of)
        return [phase is not Phase.TERMINATED, z3.Not(violation.of), free, recovered.of, term(after.attempts) == 0]

    assert counterexample(step) is None


@pytest.mark.parametrize("phase", PHASES)
def test_a_breaker_is_terminated_only_by_a_violation_in_its_last_attempt_and_then_for_good(phase: Phase) -> None:
    def step(run: Run) -> Any:
        _, after, violation, settings = a_turn(run, phase)
        if phase is Phase.TERMINATED:
            return after.phase is Phase.TERMINATED
        if after.phase is not Phase.TERMINATED:
            return True
        used_up = settings.strikes.of if phase is Phase.NORMAL else term(after.attempts) + settings.strikes.of
        return [violation.of, used_up >= settings.attempts.of]

    assert counterexample(step) is None


@pytest.mark.parametrize("phase", [Phase.VIOLATED, Phase.RECOVERY])
@pytest.mark.parametrize("name", PRESETS)
def test_clean_turns_close_the_breaker_again_within_eight(name: str, phase: Phase) -> None:
    """No single bad turn fires for ever: from any trust, eight turns with F of at most 0.35 end it."""
    settings = preset(name).breaker

    def steps(run: Run) -> Any:
        state = any_breaker(run, phase)
        closed = False
        for _ in range(8):
            F: Any = run.unknown(least=0, most=0.35)
            state = next_breaker(state, F, violation=False, settings=settings)
            closed = closed or state.processing
            if closed:
                break
        return closed

    assert counterexample(steps) is None


def test_the_alarms_of_a_bad_turn_are_gone_after_ten_others() -> None:
    """What the session memory counts over its last turns is a row of bits: all states are tried."""
    for bits in range(2**HISTORY):
        after = bits
        for _ in range(HISTORY):
            after = push_bit(after, False)
        assert after == 0
        for broken in (False, True):
            assert push_bit(bits, broken).bit_count() <= HISTORY
            assert push_bit(bits, broken).bit_count() <= bits.bit_count() + broken


def test_a_wrong_claim_is_refuted() -> None:
    """The proofs can fail: two claims that do not hold have counterexamples."""
    assert "sat" in str(counterexample(lambda run: between(run, -0.5, balance(any_score(run), 10), 1)))

    def step(run: Run) -> Any:
        _, after, _, _ = a_turn(run, Phase.RECOVERY)
        return not after.processing

    assert counterexample(step) is not None


def test_all_phases_are_reached() -> None:
    """The runs above leave nothing out: every phase follows from some turn."""
    reached = {
        (phase, after.phase)
        for phase in PHASES
        for _, (_, after, _, _) in ways(lambda run, phase=phase: a_turn(run, phase))
    }
    V, R, N, X = Phase.VIOLATED, Phase.RECOVERY, Phase.NORMAL, Phase.TERMINATED
    assert reached == {(N, N), (N, V), (N, X), *product((V, R), PHASES), (X, X)}


def test_the_unknown_time_of_a_pause_stands_for_every_pause() -> None:
    """`decayed` is proved with a share in (0, 1] in the place of a power of one half; such it is."""
    for days in (0, 1, 7, 400):
        share = 0.5 ** (timedelta(days=days) / timedelta(days=7))
        assert 0 < share <= 1
