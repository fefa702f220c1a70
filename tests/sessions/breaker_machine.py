"""The circuit breaker and the whole session memory as state machines, and what holds in each of their states."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from turnwise.scoring import Score, TurnScores
from turnwise.sessions import (
    BreakerSettings,
    BreakerState,
    EngagementMode,
    Phase,
    SessionMemory,
    SessionSettings,
    SessionState,
    next_breaker,
    presets,
)

UNIT = st.floats(0.0, 1.0)
SETTINGS = st.builds(
    BreakerSettings,
    attempts=st.integers(1, 4),
    alpha=st.floats(0.05, 1.0),
    initial=UNIT,
    target=UNIT,
    first_cut=st.floats(0.0, 0.99),
    next_cut=st.floats(0.0, 0.99),
)


def check_step(before: BreakerState, after: BreakerState, settings: BreakerSettings, *, violation: bool) -> None:
    """Assert what holds of every step of a circuit breaker."""
    assert isinstance(after.phase, Phase)
    assert 0.0 <= after.trust <= 1.0
    assert 0 <= after.attempts <= settings.attempts
    assert after.processing == (after.phase is Phase.NORMAL)
    assert after.violations >= before.violations
    if before.phase is Phase.TERMINATED:
        assert after == before
        return
    assert after.violations == before.violations + violation
    allowed = {
        Phase.NORMAL: {Phase.VIOLATED} if violation else {Phase.NORMAL},
        Phase.VIOLATED: {Phase.VIOLATED, Phase.TERMINATED} if violation else {Phase.RECOVERY, Phase.NORMAL},
        Phase.RECOVERY: {Phase.VIOLATED, Phase.TERMINATED} if violation else {Phase.RECOVERY, Phase.NORMAL},
    }
    assert after.phase in allowed[before.phase]
    if violation:
        assert after.trust <= before.trust
    if after.phase is Phase.TERMINATED:
        assert after.attempts == settings.attempts
    if after.phase is Phase.NORMAL and before.phase is not Phase.NORMAL:
        assert after.attempts == 0
        assert after.trust >= settings.target - settings.tolerance
    if after.phase is Phase.RECOVERY:
        assert after.trust < settings.target - settings.tolerance


class BreakerMachine(RuleBasedStateMachine):
    """Any turns, with any settings."""

    @initialize(settings=SETTINGS)
    def begin(self, settings: BreakerSettings) -> None:
        self.settings = settings
        self.state = BreakerState(trust=settings.initial)

    @rule(F=UNIT, violation=st.booleans())
    def take(self, F: float, violation: bool) -> None:
        before = self.state
        self.state = next_breaker(before, F, violation=violation, settings=self.settings)
        check_step(before, self.state, self.settings, violation=violation)

    @rule(F=UNIT, turns=st.integers(1, 6))
    def calm(self, F: float, turns: int) -> None:
        for _ in range(turns):
            self.take(F, False)

    @invariant()
    def violated_can_always_recover(self) -> None:
        if hasattr(self, "state") and self.state.phase is Phase.VIOLATED:
            assert self.state.attempts < self.settings.attempts


class MemoryMachine(RuleBasedStateMachine):
    """Any scores, pauses, responses and interruptions, with any preset."""

    @initialize(settings=st.sampled_from([info.settings for info in presets()]))
    def begin(self, settings: SessionSettings) -> None:
        self.memory = SessionMemory(settings)
        self.now = datetime(2025, 1, 1, tzinfo=UTC)
        self.state: SessionState = self.memory.start("user-1", self.now)

    @rule(
        scores=st.dictionaries(
            st.sampled_from(["reciprocity", "context_integrity"]), st.builds(Score, UNIT, UNIT, UNIT)
        ),
        length=st.sampled_from([10, 6_000]),
        response=st.sampled_from([None, "Here it is.", "I can't help with that."]),
        minutes=st.sampled_from([-5, 0, 1, 60, 60 * 24 * 8, 60 * 24 * 40]),
        conversation=st.sampled_from([None, "a", "b", "c", "d"]),
    )
    def take(
        self, scores: dict[str, Score], length: int, response: str | None, minutes: int, conversation: str | None
    ) -> None:
        self.now += timedelta(minutes=minutes)
        before, kept = self.state, self.state.to_dict()
        after, stance = self.memory.update(
            before,
            TurnScores(1, scores, length=length),
            self.now,
            response=response,
            conversation_id=conversation,
        )
        assert before.to_dict() == kept
        self.state = after
        assert stance.processing == (after.breaker.phase is Phase.NORMAL)
        assert (stance.mode is EngagementMode.TERMINATED) >= after.terminated
        if before.terminated:
            assert after.breaker == before.breaker
        if not stance.restarted:
            assert after.interactions == before.interactions + 1
            worst = max((score.F for score in scores.values()), default=0.0)
            violation = worst > 0.65 or (length > 5_000 and worst > 0.5)
            if scores:
                start = BreakerState(
                    before.breaker.phase, before.breaker.attempts, before.breaker.trust, before.breaker.violations
                )
                if before.breaker.phase is not Phase.NORMAL or minutes <= 1:
                    check_step(start, after.breaker, self.memory.settings.breaker, violation=violation)
            else:
                assert after.breaker.phase is before.breaker.phase

    @rule()
    def store_and_resume(self) -> None:
        self.state = SessionState.from_dict(json.loads(json.dumps(self.state.to_dict())))

    @invariant()
    def types_and_bounds(self) -> None:
        if not hasattr(self, "state"):
            return
        state = self.state
        assert SessionState.from_dict(state.to_dict()) == state
        assert len(state.F_history) <= 5
        assert len(state.balances) <= 11
        assert len(state.conversation_ids) <= 2
        assert len(json.dumps(state.to_dict(), separators=(",", ":")).encode()) <= 700
