"""The state of a session as JSON: small, complete, and refused where it can't be."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from turnwise.errors import SessionError
from turnwise.sessions import SessionMemory, SessionState


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
