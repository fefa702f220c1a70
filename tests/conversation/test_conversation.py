from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from turnwise.conversation import Conversation, ParticipantType, Turn
from turnwise.errors import ConversationError, TurnwiseError

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


class Clock:
    """Stands still until it is told to move on."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **delta: float) -> None:
        self.now += timedelta(**delta)


# Construction


@pytest.mark.shows("PLAN-2")
def test_a_name_alone_leaves_the_rest_unknown() -> None:
    chat = Conversation("user_123")
    assert chat.participants == {
        "initiator": "user_123",
        "responder": "unknown",
        "initiator_type": "unknown",
        "responder_type": "unknown",
    }
    assert chat.initiator_type is ParticipantType.UNKNOWN
    assert (chat.model_info, chat.metadata, chat.limits.to_dict()) == ({}, {}, None)


@pytest.mark.shows("PLAN-2")
def test_the_keyword_form() -> None:
    participants = {
        "initiator": "alice",
        "responder": "helper",
        "initiator_type": "human",
        "responder_type": "ai_model",
    }
    model_info = {"model_id": "m-1", "model_version": "2025-01", "provider": "someone", "temperature": 0.2}
    chat = Conversation(participants=participants, model_info=model_info)
    assert chat.participants == participants
    assert (chat.initiator, chat.responder) == ("alice", "helper")
    assert (chat.initiator_type, chat.responder_type) == ("human", "ai_model")
    assert chat.model_info == model_info


def test_fields_may_come_from_both_forms_at_once() -> None:
    chat = Conversation("alice", responder_type="bot", participants={"initiator": "alice", "responder": "b"})
    assert Conversation(participants={"initiator": None, "responder": "b"}).initiator == "unknown"
    assert (chat.initiator, chat.responder, chat.responder_type) == ("alice", "b", ParticipantType.BOT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initiator_type": "robot"}, "initiator_type 'robot' .* known: human, bot, agent, ai_model, unknown"),
        ({"responder_type": ["human"]}, "responder_type .* known: human"),
        ({"participants": {"initiator_type": ""}}, "initiator_type '' is not a participant type"),
        ({"initiator": "a", "participants": {"initiator": "b"}}, "initiator is given twice: 'a', and 'b'"),
        (
            {"responder_type": "bot", "participants": {"responder_type": "agent"}},
            "responder_type is given twice: 'bot', and 'agent'",
        ),
        ({"participants": {"initator": "a"}}, "participants has the key 'initator'; did you mean 'initiator'?"),
        ({"participants": ["a", "b"]}, "participants is list"),
        ({"initiator": 7}, "initiator is int, not text"),
        ({"responder": ""}, "responder is empty"),
        ({"conversation_id": ""}, "conversation_id is ''"),
        ({"conversation_id": 5}, "conversation_id is 5"),
        ({"model_info": "gpt"}, "model_info is str"),
        ({"metadata": {1: "a"}}, "metadata has the key 1"),
        ({"metadata": {"when": NOON}}, "metadata holds a datetime"),
    ],
)
def test_what_cannot_be_built(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConversationError, match=message) as caught:
        Conversation(**arguments)  # type: ignore[arg-type]
    assert isinstance(caught.value, TurnwiseError)
    assert isinstance(caught.value, ValueError)


def test_ids_are_random_unless_given() -> None:
    assert Conversation(conversation_id="c-1").conversation_id == "c-1"
    first, second = Conversation().conversation_id, Conversation().conversation_id
    assert first != second
    assert len(first) == 32


def test_metadata_is_taken_as_a_copy() -> None:
    given = {"tags": ["a"]}
    chat = Conversation(metadata=given)
    given["tags"].append("b")
    assert chat.metadata == {"tags": ["a"]}


# Factories


@pytest.mark.shows("PLAN-2")
def test_factories() -> None:
    def types(chat: Conversation) -> tuple[str, str]:
        return chat.initiator_type.value, chat.responder_type.value

    chat = Conversation.human_ai("user_123", "gpt-4", conversation_id="c")
    assert (chat.initiator, chat.responder, chat.conversation_id) == ("user_123", "gpt-4", "c")
    assert types(chat) == ("human", "ai_model")
    assert chat.model_info == {"model_id": "gpt-4"}
    assert types(Conversation.bot_to_bot("a", "b")) == ("bot", "bot")
    assert types(Conversation.agent_to_agent("a", "b")) == ("agent", "agent")
    two = Conversation.human_to_human("ann", "bob", metadata={"room": 4})
    assert (types(two), two.responder, two.metadata) == (("human", "human"), "bob", {"room": 4})


def test_human_ai_completes_model_info_and_refuses_another_model() -> None:
    chat = Conversation.human_ai("u", "m", model_info={"provider": "p"})
    assert chat.model_info == {"provider": "p", "model_id": "m"}
    with pytest.raises(ConversationError, match="model_id is given twice: 'm', 'other'"):
        Conversation.human_ai("u", "m", model_info={"model_id": "other"})


# Turns


def test_turns_are_numbered_from_one_and_returned() -> None:
    clock = Clock()
    chat = Conversation("u", clock=clock)
    first = chat.add_turn("a", "b", {"k": 1})
    assert first == Turn(1, "a", "b", NOON, NOON, {"k": 1})
    clock.pass_by(seconds=2)
    assert chat.add_exchange("c", "d", {"k": 2}) == Turn(2, "c", "d", clock.now, clock.now, {"k": 2})
    assert chat.add_turn("e") == Turn(3, "e", None, clock.now)
    assert chat.add_prompt("f", {"k": 4}).metadata == {"k": 4}
    assert [turn.number for turn in chat] == [1, 2, 3, 4]
    assert chat.get_turn_count() == 4
    assert chat.get_complete_turn_count() == 2


@pytest.mark.shows("PLAN-9")
def test_a_response_completes_the_oldest_open_turn() -> None:
    clock = Clock()
    chat = Conversation("u", clock=clock)
    first, second = chat.add_prompt("a", {"k": 1}), chat.add_prompt("b")
    clock.pass_by(seconds=5)
    assert chat.add_response("x", {"cost": 3}) is first
    assert (first.response, first.response_timestamp) == ("x", NOON + timedelta(seconds=5))
    assert first.metadata == {"k": 1, "cost": 3}
    assert not second.complete
    assert chat.add_response("y") is second
    assert chat.get_incomplete_turns() == []


def test_a_response_to_a_named_turn() -> None:
    chat = Conversation("u")
    for text in "abc":
        chat.add_prompt(text)
    assert chat.add_response("y", turn_number=2).prompt == "b"
    assert [turn.number for turn in chat.get_incomplete_turns()] == [1, 3]
    assert chat.add_response("x").number == 1
    assert chat.add_response("z").number == 3
    assert [turn.response for turn in chat] == ["x", "y", "z"]


@pytest.mark.shows("PLAN-3")
def test_no_open_turn_to_respond_to() -> None:
    chat = Conversation("u")
    with pytest.raises(ValueError, match=r"^No prompt-only turn exists to add response to$"):
        chat.add_response("x")
    chat.add_exchange("a", "b")
    with pytest.raises(ConversationError, match=r"^No prompt-only turn exists to add response to$"):
        chat.add_response("x")


def test_responses_that_are_refused_change_nothing() -> None:
    chat = Conversation("u", clock=Clock())
    chat.add_exchange("a", "b")
    chat.add_prompt("c")
    before = chat.to_dict()
    for arguments, message in [
        ({"response": "x", "turn_number": 1}, "turn 1 already has a response"),
        ({"response": "x", "turn_number": 3}, "there is no turn 3: number must be 1 to 2"),
        ({"response": "x", "turn_number": 0}, "there is no turn 0"),
        ({"response": None}, "response is NoneType, not text"),
        ({"response": "x", "metadata": {"f": float("nan")}}, "nan: JSON has finite numbers only"),
        ({"response": "x", "timestamp": datetime(2025, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    ]:
        with pytest.raises(ConversationError, match=message):
            chat.add_response(**arguments)  # type: ignore[arg-type]
        assert chat.to_dict() == before


def test_prompts_that_are_refused_add_nothing() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 9})
    for arguments, message in [
        ({"prompt": None}, "turn 1: prompt is NoneType, not text"),
        ({"prompt": "a", "response": b"b"}, "turn 1: response is bytes, not text"),
        ({"prompt": "a", "metadata": {"s": {1}}}, "turn 1: metadata holds a set"),
        ({"prompt": "a", "timestamp": datetime(2025, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"prompt": "a", "response_timestamp": NOON}, "turn 1 has a response_timestamp but no response"),
    ]:
        with pytest.raises(ConversationError, match=message):
            chat.add_turn(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ConversationError, match="an exchange needs a response; use add_prompt"):
        chat.add_exchange("a", None)  # type: ignore[arg-type]
    assert chat.get_turn_count() == 0


def test_given_time_stamps_are_kept_in_utc() -> None:
    chat = Conversation("u", clock=Clock())
    east = timezone(timedelta(hours=2))
    turn = chat.add_turn("a", "b", timestamp=datetime(2025, 1, 1, 2, tzinfo=east))
    assert turn.timestamp == datetime(2025, 1, 1, tzinfo=UTC)
    assert turn.timestamp.tzinfo is UTC
    assert turn.response_timestamp == turn.timestamp
    later = chat.add_turn("c", "d", timestamp=NOON, response_timestamp=NOON + timedelta(seconds=3))
    assert later.response_timestamp == NOON + timedelta(seconds=3)
    open_turn = chat.add_prompt("e", timestamp=NOON)
    chat.add_response("f", timestamp=NOON + timedelta(seconds=9))
    assert open_turn.response_timestamp == NOON + timedelta(seconds=9)


# Turns that already happened


def test_from_turns_takes_pairs_and_turns_without_time_stamps() -> None:
    given = [Turn(1, "a", "b", metadata={"k": [1]}), ("c", None), ["d", "e"]]
    chat = Conversation.from_turns(given, conversation_id="c", initiator_type="human")
    assert [(turn.prompt, turn.response, turn.timestamp, turn.response_timestamp) for turn in chat] == [
        ("a", "b", None, None),
        ("c", None, None, None),
        ("d", "e", None, None),
    ]
    assert (chat.conversation_id, chat.initiator_type.value) == ("c", "human")
    assert chat.get_complete_turn_count() == 2
    assert chat.get_duration() == 0.0
    assert chat.add_response("x").number == 2


def test_from_turns_copies_the_turns() -> None:
    given = Turn(1, "a", metadata={"k": [1]})
    chat = Conversation.from_turns([given])
    chat.add_response("b")
    chat.turn(1).metadata["k"].append(2)
    assert given == Turn(1, "a", metadata={"k": [1]})


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([Turn(2, "a")], "expected turn 1, not turn 2"),
        ([("a", "b"), Turn(1, "c")], "expected turn 2, not turn 1"),
        (["ab"], "turn 1 is str; use a Turn or a pair"),
        ([("a", "b", "c")], "turn 1 is tuple; use a Turn or a pair"),
        ([("a", None), (None, "b")], "turn 2: prompt is NoneType"),
    ],
)
def test_from_turns_refuses(turns: list[object], message: str) -> None:
    with pytest.raises(ConversationError, match=message):
        Conversation.from_turns(turns)  # type: ignore[arg-type]


def test_a_subclass_builds_itself() -> None:
    class Mine(Conversation):
        pass

    assert type(Mine.from_turns([("a", "b")])) is Mine
    assert type(Mine.human_ai("u", "m")) is Mine
    assert type(Mine.from_dict(Mine("u").to_dict())) is Mine


# Python's own protocols


@pytest.mark.parametrize("again", [copy.deepcopy, lambda chat: pickle.loads(pickle.dumps(chat))])
def test_a_copy_is_equal_and_lives_its_own_life(again) -> None:  # type: ignore[no-untyped-def]
    chat = Conversation.human_ai("u", "m", rate_limit={"turns_per_hour": 2}, clock=Clock())
    chat.add_exchange("a", "b")
    chat.add_prompt("c")
    twin = again(chat)
    assert twin.to_dict() == chat.to_dict()
    assert twin.limits.exceeded()
    assert twin.get_duration() == chat.get_duration()
    twin.add_response("d")
    twin.add_prompt("e")
    assert (chat.get_turn_count(), chat.get_complete_turn_count()) == (2, 1)
    assert (twin.get_turn_count(), twin.get_complete_turn_count()) == (3, 2)


def test_repr_tells_who_and_how_long_but_not_the_texts() -> None:
    chat = Conversation("u", "m", conversation_id="c")
    chat.add_prompt("a private word")
    assert repr(chat) == "Conversation('u', 'm', conversation_id='c', turns=1)"


def test_turns_that_were_given_out_stay_whole_when_the_last_one_is_taken_back() -> None:
    chat = Conversation.from_turns([("one", "1"), ("two", None)])
    before = chat.turns
    chat.history.take_back(2)
    assert [turn.prompt for turn in before] == ["one", "two"]
    assert (len(before), before[-1].prompt) == (2, "two")
    assert (len(chat.turns), chat.turns[-1].prompt) == (1, "one")
    assert chat.add_prompt("three").number == 2
    assert [turn.prompt for turn in before] == ["one", "two"]


def test_only_the_last_turn_is_taken_back() -> None:
    chat = Conversation.from_turns([("one", "1"), ("two", None)])
    for number in (1, 3):
        with pytest.raises(ConversationError, match=f"turn {number} can't be taken back: there are 2 turns"):
            chat.history.take_back(number)
    with pytest.raises(ConversationError, match="turn 0 can't be taken back"):
        Conversation().history.take_back(0)


def test_the_time_of_a_turn_that_is_taken_back_does_not_count() -> None:
    chat = Conversation(clock=lambda: NOON)
    chat.add_exchange("one", "1", response_timestamp=NOON + timedelta(seconds=5))
    for apart in (-60, 60):
        chat.history.take_back(chat.add_prompt("two", timestamp=NOON + timedelta(seconds=apart)).number)
        assert (chat.get_duration(), chat.last_activity) == (5.0, NOON + timedelta(seconds=5))


def test_turns_that_were_not_read_stay_unread_when_the_last_one_is_taken_back() -> None:
    read: list[int] = []

    def load(numbers: range) -> list[Turn]:
        read.extend(numbers)
        return [Turn(number, str(number), "", NOON) for number in numbers]

    chat = Conversation("ann")
    nothing = Conversation().history.outline
    stored = nothing._replace(turns=200, complete=200, earliest=NOON, latest=NOON + timedelta(hours=1))
    chat.history.take_over(stored, {200: Turn(200, "200", "", NOON)}, load)
    chat.history.take_back(chat.add_prompt("201", timestamp=NOON + timedelta(days=1)).number)
    assert (chat.get_turn_count(), chat.get_duration(), read) == (200, 3600.0, [])
    chat.add_prompt("201", timestamp=NOON + timedelta(hours=2))
    chat.history.take_over(stored._replace(turns=201), {201: Turn(201, "new")}, load, own_after=200)
    assert (chat.turns[-1].prompt, chat.turns[-1].number, read) == ("201", 202, [])
    assert [turn.prompt for turn in chat] == [*map(str, range(1, 201)), "new", "201"]
    assert {turn.speaker for turn in chat} == {"ann"}
