"""A session after turns: what each changes; and its state as JSON, refused where it can't be."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta, timezone

import pytest

from turnwise.errors import ConversationError, SessionError
from turnwise.scoring import Score, TurnScores
from turnwise.sessions import EngagementMode, SessionMemory, SessionState, assess, preset


def test_a_session_begins_with_what_the_settings_say(now):
    state = SessionMemory().start("user-1", now)
    assert state == SessionState("user-1", now, now)
    assert state.trust == 0.5
    assert SessionMemory().assess(state).mode == "cautious"


def test_a_turn_gives_a_new_state_and_leaves_the_old_one(now, turn):
    memory = SessionMemory()
    before = memory.start("user-1", now)
    state, stance = memory.update(before, turn(0.1), now + timedelta(seconds=5), conversation_id="chat-1")
    assert before == memory.start("user-1", now)
    assert state.interactions == stance.interactions == 1
    assert state.trust == stance.trust == pytest.approx(0.65)
    assert state.last_at == now + timedelta(seconds=5)
    assert state.started_at == now
    assert state.F_history == (0.1,)
    assert state.balances == (0.75,)
    assert state.balance == 0.75
    assert state.conversation_ids == ("chat-1",)
    with pytest.raises(FrozenInstanceError):
        state.trust = 1.0


def test_the_worst_principle_counts(now):
    memory = SessionMemory()
    scores = {"reciprocity": Score(0.9, 0.3, 0.1), "third_party_harm": Score(0.1, 0.3, 0.9)}
    state, _ = memory.update(memory.start("user-1", now), TurnScores(1, scores), now)
    assert state.F_history == (0.9,)
    assert state.balances == (-1.0,)
    assert state.breakers.role_confusion == 1
    mirrored = TurnScores(1, dict(reversed(scores.items())))
    assert memory.update(memory.start("user-1", now), mirrored, now)[0] == state


def test_a_turn_without_a_score_is_skipped_not_taken_for_clean(after):
    memory = SessionMemory()
    before, _ = after(memory, [0.1, 0.9])
    state, stance = after(memory, [TurnScores(3, {})], before, response="I can't help with that.")
    assert state.interactions == 3
    assert state.refusals == 1
    for name in ("trust", "F_history", "balances", "breaker", "breakers", "exchanges", "F_fast", "F_slow"):
        assert getattr(state, name) == getattr(before, name), name
    assert stance.phase == "violated"


def test_histories_stay_bounded(after):
    memory = SessionMemory()
    state, _ = after(memory, [(number % 7) / 10 for number in range(200)])
    assert state.interactions == 200
    assert len(state.F_history) == 5
    assert len(state.balances) == 11
    assert sum(state.exchanges) == 200


def test_turns_are_counted_by_what_was_exchanged(after, turn):
    memory = SessionMemory()
    state, _ = after(memory, [turn(0.9), turn(0.3, T=0.8), turn(0.4, T=0.25), turn(0.5, T=0.6)])
    assert state.exchanges._asdict() == {"extractive": 1, "neutral": 1, "reciprocal": 1, "generative": 1}


def test_the_latest_conversations_are_kept(after):
    memory, state = SessionMemory(), None
    for name in ("a", "b", "a", "c", "d", "d"):
        state, _ = after(memory, [0.1], state, conversation_id=name)
    assert state.conversation_ids == ("c", "d")


def test_a_stance_can_be_told_from_the_state_alone(after):
    memory = SessionMemory()
    state, stance = after(memory, [0.1, 0.3, 0.9, 0.2])
    assert assess(state, memory.settings) == memory.assess(state) == stance


def test_a_session_resumes_from_json_as_if_nothing_had_been(after):
    memory = SessionMemory()
    turns = [0.1, 0.7, 0.2, 0.3, 0.9, 0.1, 0.0, 0.5]
    whole, whole_stance = after(memory, turns)
    state, _ = after(memory, turns[:4])
    state, stance = after(memory, turns[4:], SessionState.from_dict(json.loads(json.dumps(state.to_dict()))))
    assert (state, stance) == (whole, whole_stance)


def test_a_blocked_turn_does_not_block_all_later_ones(after):
    memory = SessionMemory()
    state, stance = after(memory, [0.1, 0.1, 0.1, 0.9])
    assert not stance.processing
    assert stance.mode == "guarded"
    for _ in range(4):
        state, stance = after(memory, [0.1], state)
    assert stance.processing
    assert stance.mode == "normal"


def test_terminated_is_final_however_long_and_well_it_goes_on(after, now):
    memory = SessionMemory()
    state, stance = after(memory, [0.9] * 4)
    assert stance.mode == "terminated"
    state, stance = after(memory, [0.0] * 100, state)
    assert stance.mode == "terminated"
    assert stance.trust_level == "zero"
    assert not stance.processing
    state, stance = memory.update(state, TurnScores(1, {}), now + timedelta(days=3_650))
    assert stance.mode == "terminated"
    assert not stance.restarted
    assert state.interactions == 105


@pytest.mark.parametrize(("F", "nearer"), [(0.1, 0.825), (0.9, 0.4)])
def test_trust_moves_back_to_the_start_with_its_half_life(after, turn, now, F, nearer):
    memory = SessionMemory()
    state, _ = after(memory, [F] * 2)
    trust = state.trust
    later, _ = memory.update(state, turn(0.1), state.last_at + timedelta(days=7))
    expected = 0.3 + 0.7 * (0.5 + (trust - 0.5) / 2)
    assert later.trust == pytest.approx(expected, abs=1e-9)


def test_a_short_pause_changes_nothing(after, turn):
    memory, original = SessionMemory(), SessionMemory(preset("original"))
    for pause in (timedelta(0), timedelta(minutes=9)):
        state, _ = after(memory, [0.1, 0.2])
        twin, _ = after(original, [0.1, 0.2])
        later, _ = memory.update(state, turn(0.1), state.last_at + pause)
        same, _ = original.update(twin, turn(0.1), twin.last_at + pause)
        assert later.trust == same.trust


def test_waiting_is_no_recovery(after, turn):
    memory = SessionMemory()
    state, _ = after(memory, [0.9])
    later, _ = memory.update(state, TurnScores(2, {}), state.last_at + timedelta(days=29))
    assert later.breaker == state.breaker
    assert later.trust > state.trust


def test_a_clock_that_went_back_counts_as_no_time(after, turn):
    memory = SessionMemory()
    state, _ = after(memory, [0.1, 0.1])
    later, _ = memory.update(state, turn(0.1), state.last_at - timedelta(days=100))
    assert later.last_at == state.last_at
    assert later.trust == pytest.approx(0.3 + 0.7 * state.trust)


def test_an_expired_session_begins_anew_and_says_so(after, turn):
    memory = SessionMemory()
    state, _ = after(memory, [0.1, 0.9, 0.1], conversation_id="old")
    late = state.last_at + timedelta(days=31)
    assert memory.expired(state, late)
    fresh, stance = memory.update(state, turn(0.1), late)
    assert stance.restarted
    assert "began anew" in stance.rationale
    assert fresh.interactions == 1
    assert fresh.started_at == late
    assert fresh.session_id == "user-1"
    assert fresh.conversation_ids == ()
    assert not memory.expired(state, state.last_at + timedelta(days=30))
    assert not SessionMemory(preset("original")).expired(state, late)


def test_times_are_kept_in_utc(turn, now):
    memory = SessionMemory()
    zone = timezone(timedelta(hours=2))
    state, _ = memory.update(memory.start("user-1", now), turn(0.1), (now + timedelta(hours=1)).astimezone(zone))
    assert state.last_at == now + timedelta(hours=1)
    assert state.last_at.utcoffset() == timedelta(0)


def test_a_time_without_a_zone_is_refused(turn, now):
    memory = SessionMemory()
    with pytest.raises(ConversationError, match="no time zone"):
        memory.update(memory.start("user-1", now), turn(0.1), datetime(2025, 3, 1))  # noqa: DTZ001


@pytest.mark.parametrize("name", ["", "x" * 65, "ä" * 33, None, 7])
def test_ids_that_cannot_be_are_refused(turn, now, name):
    memory = SessionMemory()
    with pytest.raises(SessionError, match="session_id"):
        memory.start(name, now)
    if name is not None:
        with pytest.raises(SessionError, match="conversation_id"):
            memory.update(memory.start("user-1", now), turn(0.1), now, conversation_id=name)


def test_a_refusal_is_counted_from_the_response(after):
    memory = SessionMemory()
    state, _ = after(memory, [0.1], response="I’m sorry, but I can’t help with that.")
    assert (state.refusals, state.refusal_bits) == (1, 1)
    state, _ = after(memory, [0.1], state, response="Here it is.")
    assert (state.refusals, state.refusal_bits) == (1, 2)


def test_a_response_may_come_after_its_turn(after):
    memory = SessionMemory()
    at_once, _ = after(memory, [0.1, 0.2], response="I can't help with that.")
    later, _ = after(memory, [0.1])
    later = memory.answered(later, "I can't help with that.")
    later, _ = after(memory, [0.2], later)
    before = later
    later = memory.answered(later, "I can't help with that.")
    assert (before.refusals, later.refusals) == (1, 2)
    assert later == at_once
    assert memory.answered(later, "I won't do that.") == later, "a turn is refused once"
    assert memory.answered(before, "Here it is.") == before


def test_a_response_before_any_turn_counts_for_nothing(now):
    memory = SessionMemory()
    state = memory.start("user-1", now)
    assert memory.answered(state, "I can't help with that.") == state


def test_the_rationale_can_be_checked_against_the_state(after):
    memory = SessionMemory()
    _, stance = after(memory, [0.1, 0.9, 0.9, 0.9])
    assert stance.rationale == (
        "trust 0.420 after 4 turns, hostile; escalated: F 0.90 for 3 turns; 1 incident in 1 day; "
        "boundary testing by breakers, bad_turns; friction stays; "
        "circuit breaker violated"
    )
    assert stance.to_dict()["rationale"] == stance.rationale
    assert json.loads(json.dumps(stance.to_dict()))["mode"] == EngagementMode.GUARDED
    _, stance = after(memory, [0.1, 0.9, 0.3])
    assert stance.rationale.endswith("circuit breaker in recovery, attempt 1")


@pytest.fixture
def state(after, now):
    found, _ = after(SessionMemory(), [1 / 3, 0.9, 0.1] * 5, conversation_id="chat-1")
    return found


def test_json_gives_the_same_state(state):
    assert SessionState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_full_state_stays_small(now):
    from turnwise.scoring import Score, TurnScores

    memory = SessionMemory()
    state = memory.start("s" * 64, now)
    for number in range(1, 2_001):
        scores = TurnScores(
            number, {"reciprocity": Score(0.1234567, 0.7654321, (number * 0.618033988) % 0.66)}, 9_000
        )
        name = f"{number % 4}" + "c" * 63
        state, _ = memory.update(state, scores, now + timedelta(microseconds=number), conversation_id=name)
    assert len(json.dumps(state.to_dict(), separators=(",", ":")).encode()) <= 700


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("id", "", "id must be a text"),
        ("id", "x" * 65, "id has 65 bytes, at most 64"),
        ("at", [0], "at must be a list of 2 values"),
        ("at", [0, "now"], "at must be a whole number"),
        ("at", [0, 10**30], "at must be microseconds since 1970"),
        ("turns", -1, "turns must be a whole number of at least 0"),
        ("trust", 1.5, r"trust must be a number in \[0, 1\]"),
        ("trust", None, "trust must be a number"),
        ("trust", 10**400, r"trust must be a number in \[0, 1\], not a whole number of more than 40 digits$"),
        ("trust", float("nan"), "trust must be a number"),
        ("F", [10**5_000, None, None], "F must be a number in .* not a whole number of more than 40 digits$"),
        ("F", [10**5_000], "F must be a list of 3 values, not .a whole number of more than 40 digits.$"),
        ("at", [0, 10**5_000], "at must be microseconds since 1970, not a whole number of more than 40 digits$"),
        ("id", ["x"] * 1_000, r"id must be a text that is not empty, not \['x'.{1,40}$"),
        ("F", ["low", None, None], "F must be a number"),
        ("F", None, "F must be a list of 3 values"),
        ("F_history", [0.1] * 6, "F_history must be a list of at most 5 values"),
        ("F_history", [2], "F_history must be a number"),
        ("balances", [-2], r"balances must be a number in \[-1, 1\]"),
        ("balances", [0.0] * 12, "balances must be a list of at most 11 values"),
        ("breakers", [1, 2], "breakers must be a list of 3 values"),
        ("breakers", [1, -2, 0], "breakers must be a whole number"),
        ("breakers", [1, 0, 1_024], "last of breakers must be a whole number from 0 to 1023"),
        ("refusals", [1.5, 0], "refusals must be a whole number"),
        ("exchanges", "none", "exchanges must be a list of 4 values"),
        ("conversations", ["a", "b", "c"], "conversations must be a list of at most 2 values"),
        ("conversations", ["x" * 65], "conversations has 65 bytes, at most 64"),
        ("breaker", ["odd", 0, 0.5, 0], "breaker must be .phase, attempts"),
        ("breaker", ["normal", 0], "breaker must be a list of 4 values"),
        ("breaker", ["normal", 0, 7, 0], "breaker trust must be"),
        ("breaker", ["normal", -1, 0.5, 0], "breaker attempts must be"),
        ("breaker", ["normal", 0, 0.5, None], "breaker violations must be"),
        ("breaker", [["normal"], 0, 0.5, 0], "breaker must be .phase, attempts"),
    ],
)
def test_a_value_that_cannot_be_is_refused(state, key, value, message):
    with pytest.raises(SessionError, match=f"^{message}"):
        SessionState.from_dict(state.to_dict() | {key: value})


def test_missing_and_unknown_keys_are_named(state):
    data = state.to_dict()
    del data["trust"]
    with pytest.raises(SessionError, match="without 'trust', with the unknown key 'truth'"):
        SessionState.from_dict(data | {"truth": 1})
    with pytest.raises(SessionError, match="object with keys, not list"):
        SessionState.from_dict([])
