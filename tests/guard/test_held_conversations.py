"""Conversations that a process holds while others share the state store: begun, held and forgotten."""

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import ConversationError
from turnwise.guard import MemoryStateStore

CONFIG = {"guardrails": [{"drift": {"observer": "scripted:0.1,0.1,0.1"}}]}


@pytest.fixture
def workers():
    store = MemoryStateStore()
    return [GuardrailPipeline(CONFIG, state_store=store) for _ in range(2)]


def test_a_conversation_is_found_by_other_workers_before_its_first_check(workers):
    one, other = workers
    one.keep_conversation(Conversation.human_ai("ann", "gpt-4", conversation_id="chat"))
    found = other.load_conversation("chat")
    assert found.initiator == "ann" and found.get_turn_count() == 0
    assert other.check_input("Hello", found).turn_number == 1
    with pytest.raises(ConversationError, match="load it"):
        one.keep_conversation(Conversation(conversation_id="chat"))


def test_a_conversation_that_is_held_goes_on_until_another_worker_forgets_it(workers):
    one, other = workers
    held = Conversation(conversation_id="chat")
    assert one.find_conversation("chat", held=held) is held  # nobody else knows it yet
    one.check_input("Hello", held)
    other.check_input("Hello again", other.load_conversation("chat"))
    assert one.find_conversation("chat", held=held) is held
    assert one.check_input("And again", held).turn_number == 3
    assert other.forget_conversation("chat") and not other.forget_conversation("chat")
    assert one.find_conversation("chat", held=held) is None
    assert one.session("chat").stance is None


def test_what_stood_in_while_the_store_was_away_yields_to_what_the_store_has(workers):
    one, other = workers
    other.check_input("Hello", Conversation(conversation_id="chat"))
    stand_in = Conversation(conversation_id="chat")
    stand_in.add_prompt("said meanwhile")
    found = one.find_conversation("chat", held=stand_in)
    assert found is not stand_in and found.turn(1).prompt == "Hello"


def test_without_a_state_store_there_is_nothing_to_keep_and_sessions_are_forgotten_all_the_same():
    pipeline = GuardrailPipeline(CONFIG)
    chat = Conversation(conversation_id="chat")
    pipeline.keep_conversation(chat)
    pipeline.check_input("Hello", chat)
    assert pipeline.forget_conversation("chat") and pipeline.session("chat").stance is None
