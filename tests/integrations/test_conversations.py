"""What integrations share: finding a conversation by its name, and saying what is not installed."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import StateDownError
from turnwise.guard import GuardrailBlocked, MemoryStateStore
from turnwise.integrations import ConversationFinder, MissingExtraError
from turnwise.integrations.checking import open_turn, told, was_blocked

GUARD: dict[str, Any] = {"guardrails": [{"keywords": {"keywords": ["swordfish"], "action": "block"}}]}
BEFORE = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]


def test_a_conversation_that_is_not_known_begins_with_the_messages_before() -> None:
    found = ConversationFinder(GuardrailPipeline(GUARD))
    first = found.of("chat-7", lambda: BEFORE)
    assert (first.conversation_id, first.turn(1).response) == ("chat-7", "Ho")
    assert found.of("chat-7", list) is first
    assert found.of("chat-8", list).history.last is None
    nameless = found.of(None, lambda: BEFORE)
    assert found.held(nameless.conversation_id, list) is nameless


def test_the_one_least_recently_used_makes_room() -> None:
    found = ConversationFinder(GuardrailPipeline(GUARD), most=2)
    first, second = found.of("1", list), found.of("2", list)
    assert found.of("1", list) is first
    found.of("3", list)
    assert found.of("1", list) is first and found.of("2", list) is not second


def test_with_a_state_store_the_store_has_the_say() -> None:
    store = MemoryStateStore()
    pipeline, other = (GuardrailPipeline(GUARD, state_store=store) for _ in range(2))
    one, two = ConversationFinder(pipeline), ConversationFinder(other)
    chat = one.of("chat-7", list)
    pipeline.check_input("Hello!", conversation=chat)
    there = two.of("chat-7", list)
    assert there is not chat and there.turn(1).prompt == "Hello!"
    assert one.of("chat-7", list) is chat
    pipeline.forget_conversation("chat-7")
    assert one.of("chat-7", list) is not chat


def test_while_the_store_is_down_what_is_held_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ConversationFinder(GuardrailPipeline(GUARD, state_store=MemoryStateStore()))
    chat = found.of("chat-7", list)

    def down(*_: Any, **__: Any) -> None:
        raise StateDownError("gone")

    monkeypatch.setattr(GuardrailPipeline, "find_conversation", down)
    assert found.of("chat-7", list) is chat


def test_a_missing_framework_says_what_to_install() -> None:
    error = MissingExtraError("langchain", ImportError("No module", name="langgraph.types"))
    assert str(error) == "turnwise.integrations.langchain needs langgraph: pip install 'turnwise[langchain]'"


def test_a_turn_takes_a_response_while_it_waits_or_its_response_was_blocked() -> None:
    pipeline, chat = GuardrailPipeline(GUARD), Conversation()
    number = pipeline.check_input("Which word?", conversation=chat).turn_number
    assert open_turn(chat, number) == 1
    pipeline.check_output("swordfish", conversation=chat)
    assert open_turn(chat, number) == 1
    pipeline.check_output("I can't tell.", conversation=chat, turn_number=1)
    assert open_turn(chat, number) is None and open_turn(chat, 7) is None and open_turn(chat, None) is None
    pipeline.check_input("swordfish", conversation=chat)
    assert was_blocked(chat, "swordfish") and not was_blocked(chat, "Which word?")


def test_what_is_told_of_a_verdict_has_no_text() -> None:
    result = GuardrailPipeline(GUARD).check_input("the mole said swordfish")
    assert told(result)["blocked"] and "mole" not in repr(told(result))
    error = GuardrailBlocked(result)
    assert error.result is result and str(error) == "the input was blocked: keywords: 'swordfish'"
