"""Tools in a conversation: calls and results are parts of a turn, in OpenAI's shape both ways."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import (
    WITHHELD_RESULT,
    Conversation,
    Label,
    Sequence,
    Side,
    from_messages,
    from_sharegpt,
)
from turnwise.errors import ConversationError
from turnwise.store import Store

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def call(identity: str, name: str = "weather", arguments: str = "{}") -> Message:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*some: Message, text: str | None = None) -> Message:
    return {"role": "assistant", "content": text, "tool_calls": list(some)}


def result(identity: str, text: str = "3 degrees") -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def blocked(*ids: str) -> dict[str, Any]:
    return {identity: {"blocked": True} for identity in ids}


LOOP = [
    user("Is it colder in Oslo or in Rome?"),
    calls(call("c1", arguments='{"city": "Oslo"}'), call("c2", arguments='{"city": "Rome"}'), text="I'll look."),
    result("c1", "3 degrees"),
    result("c2", "15 degrees"),
    calls(call("c3", name="unit")),
    result("c3", "Celsius"),
    assistant("In Oslo."),
]


# What a turn holds


def test_calls_and_results_are_parts_of_their_turn() -> None:
    turn = from_messages(LOOP).turn(1)
    assert [(one.call_id, one.name, one.arguments) for one in turn.tool_calls] == [
        ("c1", "weather", '{"city": "Oslo"}'),
        ("c2", "weather", '{"city": "Rome"}'),
        ("c3", "unit", "{}"),
    ]
    assert [(one.call_id, one.name, one.content) for one in turn.tool_results] == [
        ("c1", "weather", "3 degrees"),
        ("c2", "weather", "15 degrees"),
        ("c3", "unit", "Celsius"),
    ]
    assert (turn.prompt, turn.response) == ("Is it colder in Oslo or in Rome?", "I'll look.\nIn Oslo.")


def test_a_turn_without_tools_has_none() -> None:
    turn = Conversation.from_turns([("Hello", "Hi")]).turn(1)
    assert (turn.tool_calls, turn.tool_results, turn.metadata) == ((), (), {})


def test_the_older_function_call_is_a_call() -> None:
    chat = from_messages(
        [
            user("a"),
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            assistant("b"),
        ]
    )
    turn = chat.turn(1)
    assert [(one.call_id, one.name) for one in turn.tool_calls] == [("call_1", "f")]
    assert [(one.call_id, one.content) for one in turn.tool_results] == [("call_1", "1")]


def test_parts_of_anthropic_are_calls_and_results_and_open_no_turn() -> None:
    messages = [
        user("Is it cold?"),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I'll look."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3 degrees"}]},
        assistant("Yes."),
    ]
    chat = from_messages(messages)
    assert [(turn.prompt, turn.response) for turn in chat] == [("Is it cold?", "I'll look.\nYes.")]
    assert chat.turn(1).tool_calls[0].arguments == '{"city": "Oslo"}'
    assert chat.turn(1).tool_results[0].content == "3 degrees"
    assert chat.to_messages() == messages


def test_calls_of_sharegpt_are_read_and_sent_in_the_shape_of_openai() -> None:
    told = {"name": "weather", "arguments": {"city": "Oslo"}}
    item = {
        "conversations": [
            {"from": "human", "value": "Is it cold?"},
            {"from": "function_call", "value": json.dumps(told)},
            {"from": "observation", "value": "3 degrees"},
            {"from": "gpt", "value": "Yes."},
        ]
    }
    chat = from_sharegpt(item)
    assert chat.turn(1).tool_calls[0].name == "weather"
    sent = calls(call("call_1", arguments='{"city": "Oslo"}'))
    assert chat.to_messages() == [user("Is it cold?"), sent, result("call_1"), assistant("Yes.")]


# Added while the conversation goes on


def live(messages: list[Message]) -> Conversation:
    """Return the conversation that a loop of a client makes of messages, one after the other."""
    chat = Conversation()
    for message in messages:
        if message["role"] == "user":
            chat.add_prompt(message["content"])
        elif message["role"] == "tool":
            chat.tools.add_result(message["content"], call_id=message["tool_call_id"])
        else:
            if message["content"] is not None:
                chat.answer(message["content"])
            for one in message.get("tool_calls", ()):
                told = one["function"]
                chat.tools.add_call(told["name"], told["arguments"], call_id=one["id"])
    return chat


def test_a_loop_with_tools_makes_the_messages_that_it_was_made_of() -> None:
    chat = live([*LOOP, user("Thanks!"), assistant("Welcome.")])
    assert chat.to_messages() == [*LOOP, user("Thanks!"), assistant("Welcome.")]
    assert [(turn.prompt[:5], turn.response) for turn in chat] == [("Is it", "In Oslo."), ("Thank", "Welcome.")]


def test_a_result_does_not_shift_later_answers() -> None:
    chat = Conversation.from_turns([("Is it cold?", None), ("And in Rome?", None)])
    chat.tools.add_call("weather", "{}", call_id="c1")
    chat.tools.add_result("3 degrees", call_id="c1")
    assert (chat.add_response("Yes.").number, chat.add_response("No.").number) == (1, 2)


def test_a_result_without_a_call_gets_one_that_stands_in() -> None:
    chat = Conversation.from_turns([("Is it cold?", None)])
    chat.tools.add_result("3 degrees", call_id="c9", name="weather")
    assert chat.to_messages() == [user("Is it cold?"), calls(call("c9")), result("c9")]


def test_ids_are_made_up_where_there_are_none_and_told_apart() -> None:
    chat = Conversation.from_turns([("a", None)])
    made = [chat.tools.add_call("f").call_id, chat.tools.add_call("f", call_id="x").call_id]
    assert [*made, chat.tools.add_call("g", call_id="x").call_id] == ["call_1", "x", "x#2"]
    assert [chat.tools.add_result("1").call_id, chat.tools.add_result("2", name="g").call_id] == ["call_1", "x#2"]


def test_a_call_after_a_blocked_prompt_or_without_any_has_a_turn_of_its_own() -> None:
    chat = Conversation()
    chat.tools.add_call("clock", "{}")
    assert (chat.get_turn_count(), chat.turn(1).prompt) == (1, "")
    assert [message["role"] for message in chat.to_messages()] == ["assistant"]
    chat.add_response("It is noon.")
    assert [message["role"] for message in chat.to_messages()] == ["assistant", "assistant"]
    refused = Conversation.from_turns([("bad", None)])
    refused.history.annotate(1, "guardrail_results", lambda _: {"input": {"blocked": True}})
    refused.history.withdraw(1)
    refused.tools.add_call("clock", "{}")
    assert [turn.prompt for turn in refused] == ["bad", ""]


def test_an_imported_list_that_ends_with_tools_goes_on() -> None:
    chat = from_messages(LOOP[:-1])
    assert chat.turn(1).response == "I'll look."
    chat.answer("In Oslo.")
    assert chat.get_turn_count() == 1
    assert chat.to_messages() == LOOP


def test_a_response_may_say_what_was_said_beside_a_call() -> None:
    chat = live([user("a"), calls(call("c1"), text="One moment."), result("c1"), assistant("One moment.")])
    assert [message["content"] for message in chat.to_messages()] == [
        "a",
        "One moment.",
        "3 degrees",
        "One moment.",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "", "arguments": "{}"}, "name of a tool must be text that is not empty"),
        ({"name": "f", "arguments": 5}, "arguments is int; use JSON text, or a mapping"),
        ({"name": "f", "arguments": {"at": object()}}, "arguments can't be written as JSON"),
        ({"name": "f", "turn_number": 7}, "there is no turn 7"),
    ],
)
def test_a_call_that_can_not_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConversationError, match=told):
        Conversation().tools.add_call(**given)


def test_what_a_tool_gave_back_is_text() -> None:
    with pytest.raises(ConversationError, match="the content of a tool's result is dict, not text"):
        Conversation().tools.add_result({"a": 1})  # type: ignore[arg-type]


# What a model is sent


def guarded(messages: list[Message], **checks: Any) -> Conversation:
    chat = from_messages(messages)
    chat.history.annotate(1, "guardrail_results", lambda _: {"input": None, "output": None, **checks})
    return chat


def test_a_blocked_call_is_left_out_with_its_result() -> None:
    chat = guarded(LOOP, tool_calls=blocked("c1", "c3"))
    rest = calls(call("c2", arguments='{"city": "Rome"}'), text="I'll look.")
    assert chat.to_messages() == [LOOP[0], rest, LOOP[3], LOOP[6]]
    assert chat.to_messages(blocked=True) == LOOP


def test_in_place_of_a_blocked_result_a_placeholder_is_sent() -> None:
    chat = guarded(LOOP, tool_results=blocked("c2"))
    assert chat.to_messages() == [*LOOP[:3], result("c2", WITHHELD_RESULT), *LOOP[4:]]
    assert WITHHELD_RESULT == "[tool result withheld]"


def test_what_is_under_check_is_not_sent() -> None:
    chat = from_messages(LOOP[:-1])
    chat.turn(1).metadata["guardrail_checking_tools"] = [["tool_calls", "c3"], ["tool_results", "c1"]]
    assert chat.to_messages() == [*LOOP[:2], result("c1", WITHHELD_RESULT), LOOP[3]]
    chat.history.annotate(1, "note", lambda _: None, release=("tool_calls", "c3"))
    chat.history.annotate(1, "note", lambda _: None, release=("tool_results", "c1"))
    assert chat.to_messages() == LOOP[:-1]


def test_a_blocked_response_leaves_the_rounds_before_it() -> None:
    chat = live(LOOP)
    chat.history.annotate(1, "guardrail_results", lambda _: {"output": {"blocked": True}})
    assert chat.to_messages() == LOOP[:-1]
    imported = guarded(LOOP, output={"blocked": True})  # its response has the text beside the calls as well
    assert imported.to_messages() == [LOOP[0], {**LOOP[1], "content": None}, *LOOP[2:-1]]


def test_a_blocked_text_beside_calls_is_left_out() -> None:
    chat = guarded(LOOP, texts=blocked("c1"))
    assert chat.to_messages()[1] == {**LOOP[1], "content": None}
    assert len(chat.to_messages()) == len(LOOP)


def test_blocked_parts_of_anthropic_are_left_out_alike() -> None:
    use = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in ("t1", "t2")]
    gave = [{"type": "tool_result", "tool_use_id": name, "content": "secret"} for name in ("t1", "t2")]
    messages = [
        user("a"),
        {"role": "assistant", "content": use},
        {"role": "user", "content": gave},
        assistant("b"),
    ]
    chat = guarded(messages, tool_calls=blocked("t1"), tool_results=blocked("t2"))
    withheld = {**gave[1], "content": WITHHELD_RESULT}
    assert chat.to_messages()[1:3] == [
        {"role": "assistant", "content": [use[1]]},
        {"role": "user", "content": [withheld]},
    ]


def test_a_redacted_text_leaves_the_tools_and_no_copy() -> None:
    chat = from_messages([user("my card 4111"), *LOOP[1:]])
    chat.history.replace_text(1, Side.PROMPT, "my card [CARD]")
    chat.tools.replace_text(1, "tool_calls", "c1", '{"city": "[PLACE]"}')
    chat.tools.replace_text(1, "tool_results", "c2", "[NUMBER] degrees")
    assert "4111" not in json.dumps(chat.to_dict())
    sent = chat.to_messages()
    assert sent[0] == user("my card [CARD]")
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == '{"city": "[PLACE]"}'
    assert sent[3] == result("c2", "[NUMBER] degrees")
    assert sent[4:] == LOOP[4:]


# Stored and read again


def test_tools_survive_json_pickle_and_the_store(tmp_path: Any) -> None:
    chat = live(LOOP)
    again = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    assert again.to_messages() == pickle.loads(pickle.dumps(chat)).to_messages() == LOOP
    with Store(tmp_path / "work.db", create=True) as store:
        store.add_sequences([Sequence("s1", Label.BENIGN, "test", chat)])
        kept = next(iter(store.sequences())).conversation
    assert kept.to_messages() == LOOP
    assert [one.name for one in kept.turn(1).tool_calls] == ["weather", "weather", "unit"]
    kept.tools.add_call("unit", call_id="c4")
    assert kept.to_messages()[:-1] == LOOP[:-1]


# Whatever comes

texts = st.text(max_size=4)
rounds = st.tuples(st.none() | texts, st.integers(1, 3), st.integers(0, 3))


@st.composite
def chats(draw: st.DrawFn) -> list[Message]:
    """Draw a list as a provider takes it: prompts, rounds of calls and results, and perhaps a reply."""
    messages, number = [], 0
    for prompt in draw(st.lists(texts.filter(bool), min_size=1, max_size=3)):
        messages.append(user(prompt))
        for said, count, _ in draw(st.lists(rounds, max_size=3)):
            ids = [f"c{number + place}" for place in range(count)]
            number += count
            messages.append(
                calls(*(call(one, draw(st.sampled_from("fg")), draw(texts)) for one in ids), text=said)
            )
            messages += [result(one, draw(texts)) for one in draw(st.permutations(ids))]
        messages.append(assistant(draw(texts)))
    return messages


@settings(deadline=None, max_examples=60)
@given(chats())
def test_no_list_loses_anything_read_or_made_live(messages: list[Message]) -> None:
    read = from_messages(messages)
    assert read.to_messages(blocked=True) == read.to_messages() == messages
    assert live(messages).to_messages() == messages
    assert Conversation.from_dict(json.loads(json.dumps(live(messages).to_dict()))).to_messages() == messages
    found = [one.call_id for turn in read for one in turn.tool_calls]
    assert found == [one["id"] for message in messages for one in message.get("tool_calls", ())]


@settings(deadline=None, max_examples=60)
@given(chats(), st.data())
def test_whatever_is_blocked_a_provider_takes_what_is_left(messages: list[Message], data: st.DataObject) -> None:
    chat = data.draw(st.sampled_from([from_messages, live]))(messages)
    withheld: set[str] = set()
    for turn in chat:
        checks: dict[str, Any] = {"input": {"blocked": data.draw(st.booleans())}}
        checks["output"] = {"blocked": data.draw(st.booleans())}
        for section in ("tool_calls", "tool_results"):
            chosen = [one.call_id for one in turn.tool_calls if data.draw(st.booleans())]
            checks[section] = blocked(*chosen)
            withheld |= set(chosen)
        chat.history.annotate(turn.number, "guardrail_results", lambda _, checks=checks: checks)
    waiting: set[str] = set()
    for message in chat.to_messages():
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            if message["tool_call_id"] in withheld:
                assert message["content"] == WITHHELD_RESULT
            continue
        assert not waiting
        waiting = {one["id"] for one in message.get("tool_calls", ())}
        assert message["role"] != "assistant" or message["content"] is not None or waiting
    assert not waiting


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.integers() | texts | st.just({"id": "c1"}) | st.just(call("c1")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["function", "name", "arguments", "id", "type", "input"]), inner)
        ),
        max_leaves=8,
    )
)
def test_calls_that_are_none_break_nothing(raw: Any) -> None:
    messages = [user("a"), {"role": "assistant", "content": None, "tool_calls": raw}, result("c1")]
    chat = from_messages(messages)
    assert chat.to_messages() == messages
    assert len(chat.turn(1).tool_results) == 1
