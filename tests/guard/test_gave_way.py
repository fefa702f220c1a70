"""The model has given way: ignored, warned of, or the conversation is held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import TurnwiseError


def guarded(gave_way: str, *falsities: float, state: Path | None = None, **settings: object) -> GuardrailPipeline:
    """A pipeline whose replies have these F, and whose detector blocks from 0.9 on."""
    drift = {
        "observer": f"scripted:{','.join(map(str, falsities))}",
        "judge": "replies",
        "gave_way": gave_way,
        "block_at": 0.9,
        "session": None,
        **settings,
    }
    config: dict[str, object] = {"guardrails": [{"drift": drift}]}
    return GuardrailPipeline(config if state is None else {**config, "state": {"sqlite": str(state)}})


def exchange(guard: GuardrailPipeline, chat: Conversation) -> tuple[bool, bool | None]:
    """Say a prompt and, unless it is blocked, a reply; return what was blocked."""
    said = guard.check_input("go on", conversation=chat)
    return said.blocked, None if said.blocked else guard.check_output("well", conversation=chat).blocked


def chat() -> Conversation:
    return Conversation.human_ai("ann", "m", conversation_id="c1")


def test_by_default_nothing_comes_of_it():
    talk, guard = chat(), guarded("ignore", 0.1, 0.6, 0.1)
    assert [exchange(guard, talk) for _ in range(3)] == [(False, False)] * 3


def test_a_warning_names_it_and_what_follows_goes_on():
    talk, guard = chat(), guarded("warn", 0.1, 0.6, 0.1)
    results = [
        (guard.check_input("go on", conversation=talk), guard.check_output("well", conversation=talk))
        for _ in range(3)
    ]
    assert not any(one.blocked for pair in results for one in pair)
    assert [len(reply.warnings) for _, reply in results] == [0, 1, 0]
    (warning,) = results[1][1].warnings
    assert warning.startswith("drift: the model gave way at turn 2: ")
    assert warning.endswith(" F 0.600 of its reply")


def test_a_conversation_is_held_from_the_reply_on():
    talk, guard = chat(), guarded("block", 0.1, 0.6, 0.1, 0.1)
    said = [exchange(guard, talk) for _ in range(4)]
    assert said == [(False, False), (False, True), (True, None), (True, None)]
    held = guard.check_input("hello?", conversation=talk)
    assert held.reasons == ["drift: the conversation is held: the model gave way at turn 2"]
    assert exchange(guard, Conversation.human_ai("ann", "m", conversation_id="c2")) == (False, False)


def test_a_reply_to_a_held_conversation_is_blocked_too():
    talk, guard = chat(), guarded("block", 0.6, 0.1, on="output")
    assert [exchange(guard, talk) for _ in range(2)] == [(False, True), (False, True)]
    assert talk.turn(2).metadata["guardrail_results"]["output"]["details"]["drift"]["data"]["gave_way"] == 1


def test_what_the_detector_blocks_keeps_its_reason_beside():
    talk, guard = chat(), guarded("warn", 0.95)
    guard.check_input("go on", conversation=talk)
    reply = guard.check_output("well", conversation=talk)
    assert reply.blocked
    assert "the model gave way at turn 1" in reply.reasons[0] and "≥ 0.900" in reply.reasons[0]


def test_it_stays_held_after_a_way_through_json():
    talk, guard = chat(), guarded("block", 0.6, 0.1)
    exchange(guard, talk)
    exchange(guard, talk)
    back = Conversation.from_dict(json.loads(json.dumps(talk.to_dict())))
    assert exchange(guarded("block", 0.1, 0.1), back) == (True, None)


def test_it_stays_held_in_another_worker(tmp_path):
    talk, state = chat(), tmp_path / "state.db"
    with guarded("block", 0.6, 0.1, state=state) as guard:
        exchange(guard, talk)
        exchange(guard, talk)
    with guarded("block", 0.1, 0.1, state=state) as other:
        assert exchange(other, chat()) == (True, None)


def test_without_scored_replies_it_is_refused():
    with pytest.raises(TurnwiseError, match="gave_way is block, and judge auto: it needs judge: replies"):
        guarded("block", 0.1, judge="auto")
    with pytest.raises(TurnwiseError, match="gave_way"):
        guarded("explode", 0.1)
