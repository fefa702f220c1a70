"""A pipeline: what comes back, and what is kept with the turns."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from guard_rails import Asks, Contains, Raises, Told

from turnwise import Conversation, GuardrailPipeline
from turnwise.conversation import from_messages
from turnwise.errors import ConversationError, GuardError
from turnwise.guard import NO_CONVERSATION, Cost


def pipeline(*rails, **config):
    return GuardrailPipeline({"guardrails": list(rails), **config})


@pytest.fixture
def chat():
    return Conversation.human_ai("user_123", "gpt-4")


@pytest.mark.shows("PLAN-4")
def test_the_five_lines_of_the_plan(chat):
    guard = pipeline({"use": Contains("123-45-6789"), "action": "redact", "name": "pii"})
    result = guard.check_input("My SSN is 123-45-6789", conversation=chat)
    assert not result.blocked
    assert chat.to_messages() == [{"role": "user", "content": "My SSN is [WORD]"}]
    result = guard.check_output("Thanks, noted.", conversation=chat)
    assert (result.blocked, result.turn_number, result.pipeline_type) == (False, 1, "output")
    assert chat.turn(1).response == "Thanks, noted."


@pytest.mark.parametrize(
    "talk",
    [
        Conversation.human_ai("user_123", "gpt-4"),
        Conversation.bot_to_bot("support_bot", "billing_bot"),
        Conversation.human_to_human("ann", "ben"),
        Conversation.agent_to_agent("planner", "worker"),
    ],
)
def test_every_kind_of_conversation_is_checked_alike(talk):
    guard = pipeline(Contains())
    assert not guard.check_input("hello", conversation=talk).blocked
    assert guard.check_output("a bad answer", conversation=talk).blocked
    assert talk.turn(1).metadata["guardrail_results"]["output"]["blocked"] is True


def test_a_result_reads_as_attributes_and_as_a_mapping(chat):
    result = pipeline(Contains()).check_input("so bad", conversation=chat)
    assert result["blocked"] is result.blocked is True
    assert result["reasons"] == result.reasons == ["contains: has bad"]
    assert result["details"]["contains"]["confidence"] == 0.75
    assert result.details["contains"].status == "evaluated"
    assert (result.conversation_id, result.turn_number) == (chat.conversation_id, 1)
    assert dict(result) == result.to_dict() == json.loads(json.dumps(result.to_dict()))
    with pytest.raises(KeyError):
        result["verdicts"]


@pytest.mark.parametrize(
    ("settings", "blocked", "warnings", "text"),
    [
        ({"action": "block"}, True, [], "so bad"),
        ({"action": "warn"}, False, ["contains: has bad"], "so bad"),
        ({"action": "redact"}, False, ["contains: has bad"], "so [WORD]"),
        ({"action": "log"}, False, [], "so bad"),
        ({"enabled": False}, False, [], "so bad"),
        ({"on": "output"}, False, [], "so bad"),
    ],
)
def test_actions(chat, settings, blocked, warnings, text):
    result = pipeline({"use": Contains(), **settings}).check_input("so bad", conversation=chat)
    assert (result.blocked, result.warnings, result.text) == (blocked, warnings, text)
    assert chat.turn(1).prompt == text


def test_a_finding_may_be_milder_than_configured_but_not_stricter(chat):
    mild = pipeline({"use": Contains(warn_only=True), "action": "block"}).check_input("bad", conversation=chat)
    assert (mild.blocked, mild.warnings) == (False, ["contains: has bad"])
    logged = pipeline({"use": Contains(warn_only=True), "action": "log"}).check_input("bad", conversation=chat)
    assert logged.warnings == []
    assert logged.details["contains"].found


def test_skipped_is_told_and_not_clean(chat):
    guard = pipeline(Contains(), {"use": Told(), "enabled": False}, short_circuit=True)
    detail = guard.check_input("hello", conversation=chat).details["told"]
    assert (detail.status, detail.reason) == ("skipped", "not enabled")


def test_what_costs_more_is_spared_a_text_that_a_cheaper_guardrail_blocked(chat):
    told, asks = Told(), Asks()
    guard = pipeline(
        asks, told, {"use": Contains("worse"), "name": "second"}, {"use": Contains(), "name": "first"}
    )
    result = guard.check_input("bad and worse", conversation=chat)
    assert result.reasons == ["second: has worse", "first: has bad"]
    assert (told.texts, asks.threads) == ([], [])
    for name in ("told", "asks"):
        detail = result.details[name]
        assert (detail.status, detail.reason) == ("skipped", "second blocked already")
        assert dict(chat.turn(1).metadata["guardrail_results"]["details"])[name]["status"] == "skipped"


def test_what_costs_as_much_is_not_spared(chat):
    told = Told()
    result = pipeline({"use": Raises(), "name": "raises"}, told).check_input("hello", conversation=chat)
    assert result.blocked
    assert told.texts == ["hello"]
    costly = type("CostlyContains", (Contains,), {"cost": Cost.MODEL})()
    pipeline(costly, told).check_input("bad", conversation=chat)
    assert told.texts == ["hello", "bad"]


def test_a_cheaper_guardrail_that_failed_closed_spares_the_others_too(chat):
    class Fails(Contains):
        def check(self, check):
            raise ValueError("no")

    told = Told()
    result = pipeline({"use": Fails(), "name": "fails"}, told).check_input("hello", conversation=chat)
    assert (result.blocked, told.texts, result.details["told"].reason) == (True, [], "fails blocked already")


def test_a_warning_spares_nobody(chat):
    told = Told()
    pipeline({"use": Contains(), "action": "warn"}, told).check_input("bad", conversation=chat)
    assert told.texts == ["bad"]


def test_sync_and_async_spare_the_same():
    def said(check):
        result = check("bad")
        result = asyncio.run(result) if asyncio.iscoroutine(result) else result
        return [(name, detail.status, detail.reason) for name, detail in result.details.items()]

    for settings in ({}, {"max_characters": 2}):
        guard = pipeline(Told(), Contains(), **settings)
        assert said(guard.check_input) == said(guard.acheck_input)
        assert said(guard.check_output) == said(guard.acheck_output)


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_text_that_is_too_long_is_blocked_unread(chat, side):
    told = Told()
    guard = pipeline(Contains(), told, {"use": Told(), "name": "off", "enabled": False}, max_characters=10)
    check = getattr(guard, f"check_{side}")
    assert not check("0123456789", conversation=chat).blocked
    result = check("0123456789 bad", conversation=chat)
    assert result.blocked
    assert result.reasons == ["too_long: 14 characters, at most 10 are checked; what is beyond is not kept"]
    assert told.texts == ["0123456789"]
    details = {name: (detail.status, detail.reason) for name, detail in result.details.items()}
    assert details["contains"] == details["told"] == ("skipped", "the text is too long")
    assert details["off"] == ("skipped", "not enabled")
    last = chat.turn(result.turn_number)
    assert (last.prompt if side == "input" else last.response) == result.text == "0123456789"
    assert last.metadata["guardrail_results"]["blocked"] is True
    assert all("bad" not in message["content"] for message in chat.to_messages(blocked=True))


def test_a_million_characters_are_the_most_unless_said_otherwise(chat):
    guard = pipeline(Contains())
    assert not guard.check_input("x" * 1_000_000, conversation=chat).blocked
    assert guard.check_input("x" * 1_000_001, conversation=chat).reasons[0].startswith("too_long: 1,000,001 char")


@pytest.mark.parametrize("short", [True, False])
def test_short_circuit_is_a_setting(chat, short):
    told = Told()
    result = pipeline(told, Contains(), short_circuit=short).check_input("bad", conversation=chat)
    assert told.texts == ([] if short else ["bad"])
    assert list(result.details) == ["contains", "told"]
    assert result.details["told"].status == ("skipped" if short else "evaluated")


def test_cheap_guardrails_run_first_and_later_ones_see_what_was_redacted(chat):
    told = Told()
    pipeline(told, {"use": Contains(), "action": "redact"}).check_input("a bad day", conversation=chat)
    assert told.texts == ["a [WORD] day"]


@pytest.mark.shows("PLAN-4")
def test_none_is_no_content(chat):
    guard = pipeline(Contains())
    for check in (guard.check_input, guard.check_output):
        with pytest.raises(ValueError, match="Content cannot be None"):
            check(None, conversation=chat)
        with pytest.raises(GuardError, match="content is int, not text"):
            check(3, conversation=chat)
    assert len(chat.turns) == 0


def test_half_a_surrogate_pair_is_no_way_past_a_guardrail(chat):
    guard = pipeline("pii", "secrets", Contains(), "prompt_injection", "drift", "toxicity")
    result = guard.check_input("a bad \ud800 word", conversation=chat)
    assert (result.reasons, result.failures) == (["contains: has bad"], [])
    assert chat.turn(1).prompt == "a bad \ufffd word"


def test_without_a_conversation_a_text_stands_by_itself():
    guard = pipeline(Contains())
    first, second = guard.check_input("bad"), guard.check_output("fine")
    assert (first.blocked, first.turn_number, second.blocked, second.turn_number) == (True, 1, False, 1)
    assert first.conversation_id != second.conversation_id


# Which turn a text belongs to


def test_a_blocked_prompt_is_a_turn_that_waits_for_no_response(chat):
    guard = pipeline(Contains())
    assert guard.check_input("bad", conversation=chat).turn_number == 1
    assert chat.get_incomplete_turns() == []
    assert guard.check_input("good", conversation=chat).turn_number == 2
    assert guard.check_output("answer", conversation=chat).turn_number == 2
    assert [turn.response for turn in chat] == [None, "answer"]


def test_a_response_answers_the_oldest_turn_that_waits(chat):
    guard = pipeline(Contains())
    for text in ("one", "two", "three"):
        guard.check_input(text, conversation=chat)
    assert guard.check_output("to two", conversation=chat, turn_number=2).turn_number == 2
    assert guard.check_output("to one", conversation=chat).turn_number == 1
    assert guard.check_output("to three", conversation=chat, turn=chat.turn(3)).turn_number == 3
    assert [turn.response for turn in chat] == ["to one", "to two", "to three"]


@pytest.mark.shows("PLAN-9")
def test_a_verdict_goes_to_the_turn_that_was_checked(chat):
    guard = pipeline(Contains())
    guard.check_input("one", conversation=chat)
    guard.check_input("two", conversation=chat)
    guard.check_output("a bad answer", conversation=chat)
    assert chat.turn(1).metadata["guardrail_results"]["blocked"] is True
    assert chat.turn(2).metadata["guardrail_results"]["blocked"] is False


def test_a_response_without_a_prompt_makes_a_turn(chat):
    result = pipeline(Contains()).check_output("Welcome!", conversation=chat)
    assert result.turn_number == 1
    assert (chat.turn(1).prompt, chat.turn(1).response) == ("", "Welcome!")
    assert chat.to_messages() == [{"role": "assistant", "content": "Welcome!"}]


def test_a_turn_that_can_not_be_answered_is_an_error(chat):
    guard = pipeline(Contains())
    guard.check_input("one", conversation=chat)
    with pytest.raises(ConversationError, match="there is no turn 7"):
        guard.check_output("x", conversation=chat, turn_number=7)
    with pytest.raises(GuardError, match="give one of them"):
        guard.check_output("x", conversation=chat, turn_number=2, turn=chat.turn(1))
    other = Conversation.from_turns([("a", None)])
    with pytest.raises(GuardError, match="of another conversation"):
        guard.check_output("x", conversation=chat, turn=other.turn(1))
    guard.check_output("x", conversation=chat)
    with pytest.raises(ConversationError, match="already has a response"):
        guard.check_output("y", conversation=chat, turn_number=1)


def test_a_refusal_may_be_kept_with_the_blocked_turn(chat):
    guard = pipeline(Contains())
    guard.check_input("bad", conversation=chat)
    assert guard.check_output("I can't help with that.", conversation=chat, turn_number=1).turn_number == 1


# What is kept


@pytest.mark.shows("PLAN-4", "PLAN-7")
def test_results_of_a_turn_have_the_keys_of_the_plan_and_both_sides_apart(chat):
    guard = pipeline(Contains(), {"use": Contains("odd"), "name": "odd", "action": "warn"})
    guard.check_input("odd but fine", conversation=chat)
    guard.check_output("a bad answer", conversation=chat)
    kept = chat.turn(1).metadata["guardrail_results"]
    assert kept["blocked"] is True
    assert kept["warnings"] == ["odd: has odd"]
    assert kept["reasons"] == ["contains: has bad"]
    assert kept["pipeline_type"] == "output"
    assert set(kept["details"]) == {"contains", "odd"}
    assert kept["timestamp"] == kept["output"]["timestamp"]
    assert (kept["input"]["blocked"], kept["output"]["blocked"]) == (False, True)
    assert kept["input"]["warnings"] == ["odd: has odd"]


def test_results_survive_json_and_a_later_check_joins_them(chat):
    guard = pipeline(Contains())
    guard.check_input("fine", conversation=chat)
    data = json.loads(json.dumps(chat.to_dict()))
    back = Conversation.from_dict(data)
    assert back.to_dict() == chat.to_dict()
    guard.check_output("a bad answer", conversation=back)
    kept = back.turn(1).metadata["guardrail_results"]
    assert (kept["input"]["blocked"], kept["output"]["blocked"], kept["blocked"]) == (False, True, True)


def test_a_turn_blocked_before_a_way_through_json_still_waits_for_nothing(chat):
    guard = pipeline(Contains())
    guard.check_input("bad", conversation=chat)
    back = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    assert back.get_incomplete_turns() == []
    assert back.to_messages() == []


def test_a_model_is_never_sent_what_was_blocked(chat):
    guard = pipeline(Contains())
    guard.check_input("bad", conversation=chat)
    guard.check_input("good", conversation=chat)
    guard.check_output("a bad answer", conversation=chat)
    assert chat.to_messages() == [{"role": "user", "content": "good"}]
    assert [message["content"] for message in chat.to_messages(blocked=True)] == ["bad", "good", "a bad answer"]


def test_redaction_leaves_no_copy_of_the_text():
    guard = pipeline({"use": Contains("4111"), "action": "redact"})
    talk = from_messages([{"role": "user", "content": "my card 4111", "name": "ann"}])
    guard.check_output("your card 4111", conversation=talk)
    turn = talk.turn(1)
    assert (turn.response, "messages" in turn.metadata) == ("your card [WORD]", False)


# Lists of messages


def test_the_last_message_is_checked_with_those_before_it():
    guard = pipeline(Contains())
    system = {"role": "system", "content": "bad words are fine here"}
    user = {"role": "user", "content": "hello"}
    assert not guard.check_messages([system, user]).blocked
    said = guard.check_messages([system, user, {"role": "assistant", "content": "bad"}])
    assert (said.blocked, said.pipeline_type, said.turn_number) == (True, "output", 1)
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "tool_call_id": "1", "content": "bad page"}
    gave = guard.check_messages([user, call, tool])
    assert (gave.blocked, gave.pipeline_type, gave.turn_number) == (True, "tool_result", 1)


def test_a_response_in_a_list_answers_the_message_right_before_it():
    guard = pipeline(Contains())
    asked = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    assert guard.check_messages([*asked, {"role": "assistant", "content": "x"}]).turn_number == 2


TEXT = {"type": "text", "text": "hello"}
CALL = {"id": "1", "type": "function", "function": {"name": "mail", "arguments": "bad"}}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        *(
            ({"role": "user", "content": [TEXT, {"type": kind, kind: "bad"}]}, f"content part 2 ({kind})")
            for kind in ("tool_result", "document", "file", "image", "input_audio", "reasoning", "image_url")
        ),
        ({"role": "assistant", "content": "hello", "tool_calls": [{"id": "1"}]}, "tool_calls"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"),
        ({"role": "user", "content": "hello", "tool_calls": [CALL]}, "tool_calls"),
        ({"role": "user", "content": [{"type": "image"}]}, "content part 1 (image)"),
        ({"role": "assistant", "content": "hello", "function_call": {"name": "f"}}, "function_call"),
        ({"role": "assistant", "content": "hello", "refusal": "bad"}, "refusal"),
        ({"role": "assistant", "content": "hello", "reasoning_content": "bad"}, "reasoning_content"),
        ({"role": "tool", "content": [{"type": "Ann's 555-0199"}, TEXT]}, "content part 1 (of an unknown type)"),
        (
            {"role": "user", "content": [*[{"type": "file"}] * 7, TEXT], "audio": {"id": "a"}},
            ", ".join(f"content part {n} (file)" for n in range(1, 6)) + " and 3 more",
        ),
    ],
)
def test_content_that_nobody_reads_is_a_failure_that_says_what_and_where(message, told):
    messages = [{"role": "user", "content": "first"}, message]
    failure = f"unread: failed: message 2: {told} not read"
    result = pipeline(Contains()).check_messages(messages)
    assert (result.blocked, result.failures, result.warnings) == (False, [failure], [failure])
    assert result.details["contains"].status == "evaluated"
    assert asyncio.run(pipeline(Contains()).acheck_messages(messages)).failures == [failure]
    strict = pipeline(Contains(), on_unread="block").check_messages(messages)
    assert (strict.blocked, strict.reasons, strict.details["unread"].path) == (True, [failure], "closed")
    lenient = pipeline(Contains(), on_unread="allow").check_messages(messages)
    assert (lenient.blocked, lenient.warnings, lenient.failures) == (False, [], [failure])


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [TEXT, {"type": "input_text", "text": "again"}], "name": "ann"},
        {"role": "assistant", "content": None, "refusal": "No.", "tool_calls": [], "audio": None},
        {"role": "tool", "content": "hello", "tool_call_id": "1"},
    ],
)
def test_a_message_that_is_read_whole_has_no_failure(message):
    result = pipeline(Contains()).check_messages([{"role": "user", "content": "first"}, message])
    assert (result.failures, list(result.details)) == ([], ["contains"])


def test_no_guardrail_can_be_called_like_what_nobody_read():
    with pytest.raises(GuardError, match="no guardrail can be called 'unread'"):
        pipeline({"use": Contains(), "name": "unread"})


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([{"role": "system", "content": "x"}], "role system"),
        ([{"role": "user", "content": None}], "has no text"),
        ([], "empty"),
        ([{"role": "human", "content": "x"}], "unknown role"),
    ],
)
def test_a_list_that_can_not_be_checked_is_an_error(messages, told):
    with pytest.raises((GuardError, ConversationError), match=told):
        pipeline(Contains()).check_messages(messages)


class Looks(Told):
    """Keeps what another thread sees of the conversation meanwhile."""

    def check(self, check):
        """Look."""
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(check.conversation.to_messages).result()
        self.texts.append([message["content"] for message in told])
        return super().check(check)


def test_a_text_under_check_is_not_there_for_others(chat):
    looks, redacts = Looks(), {"use": Contains(), "action": "redact", "on": "output"}
    guard = pipeline(redacts, looks)
    chat.add_exchange("nobody", "looked at this")
    guard.check_input("one", conversation=chat)
    guard.check_output("a bad answer", conversation=chat)
    guard.check_input("two", conversation=chat)
    before = ["nobody", "looked at this"]
    seen = [said for said in looks.texts if isinstance(said, list)]
    assert seen == [before, [*before, "one"], [*before, "one", "a [WORD] answer"]]
    assert [message["content"] for message in chat.to_messages()][4:] == ["two"]
    assert not any(key.startswith("guardrail_checking") for turn in chat for key in turn.metadata)


def test_a_text_stored_while_it_was_checked_stays_out(chat):
    stored = []

    class Stores(Told):
        def check(self, check):
            stored.append(json.dumps(check.conversation.to_dict()))
            return super().check(check)

    pipeline(Stores()).check_input("one", conversation=chat)
    back = Conversation.from_dict(json.loads(stored[0]))
    assert (back.to_messages(), len(back.to_messages(blocked=True))) == ([], 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"session_id": ""},
        {"session_id": 5},
        {"metadata": {"x": {1}}},
        {"metadata": {"guardrail_results": "mine"}},
        {"metadata": {"guardrail_checking_prompt": False}},
    ],
)
def test_a_check_that_raises_leaves_nothing_behind(chat, arguments):
    guard = pipeline(Contains(), rate_limits={"per_key": {"day": 1}})
    with pytest.raises((GuardError, ConversationError)):
        guard.check_output("unseen", conversation=chat, **arguments)
    with pytest.raises((GuardError, ConversationError)):
        guard.check_input("unseen", conversation=chat, key="ann", **arguments)
    assert (len(chat.turns), chat.to_messages(blocked=True)) == (0, [])
    assert not guard.check_input("hello", conversation=chat, key="ann").blocked
    with pytest.raises((GuardError, ConversationError)):
        guard.check_output("unseen", conversation=chat, **arguments)
    assert chat.turn(1).response is None


def test_metadata_joins_the_turn(chat):
    guard = pipeline(Contains())
    guard.check_input("hi", conversation=chat, metadata={"channel": "web"})
    guard.check_output("ho", conversation=chat, metadata={"tokens": 3})
    kept = chat.turn(1).metadata
    assert (kept["channel"], kept["tokens"], kept["guardrail_results"]["blocked"]) == ("web", 3, False)


@pytest.mark.parametrize(
    "check",
    [
        lambda guard, chat: guard.check_input("hi", conversation=chat),
        lambda guard, chat: guard.check_input("hi", conversation=chat, session_id="ann"),
        lambda guard, chat: guard.check_output("hi", conversation=chat),
        lambda guard, chat: guard.check_tool_call("find", "{}", conversation=chat),
        lambda guard, chat: guard.check_tool_result("hi", conversation=chat),
        lambda guard, chat: guard.stream_output(chat),
        lambda guard, chat: guard.check_messages([{"role": "user", "content": "hi"}], conversation=chat),
        lambda guard, chat: guard.stream_messages([{"role": "user", "content": "hi"}], conversation=chat),
        lambda guard, chat: asyncio.run(guard.acheck_input("hi", conversation=chat)),
    ],
)
@pytest.mark.parametrize("wrong", ["chat-1", {"id": "chat-1"}])
def test_a_name_in_place_of_a_conversation_says_what_to_pass(check, wrong):
    wanted = (
        rf"must be a Conversation, not {type(wrong).__name__}: .*Conversation\(conversation_id=.*load_conversation"
    )
    with pytest.raises(GuardError, match=wanted):
        check(pipeline("secrets"), wrong)


@pytest.mark.parametrize(
    "check",
    [
        lambda guard, **given: guard.check_input("hi", **given),
        lambda guard, **given: guard.check_output("hi", **given),
        lambda guard, **given: guard.check_tool_call("find", "{}", **given),
        lambda guard, **given: guard.check_tool_result("found", **given),
        lambda guard, **given: guard.stream_output(**given).end(),
        lambda guard, **given: asyncio.run(guard.acheck_input("hi", **given)),
        lambda guard, **given: asyncio.run(guard.acheck_output("hi", **given)),
        lambda guard, **given: asyncio.run(guard.acheck_tool_call("find", "{}", **given)),
        lambda guard, **given: asyncio.run(guard.acheck_tool_result("found", **given)),
        lambda guard, **given: asyncio.run(guard.astream_output(**given).end()),
    ],
)
def test_a_text_stands_by_itself_where_no_conversation_is_passed_and_none_is_no_conversation(check):
    guard = pipeline("secrets")
    alone = [check(guard), check(guard, conversation=NO_CONVERSATION)]
    assert [result.turn_number for result in alone] == [1, 1]
    assert alone[0].conversation_id != alone[1].conversation_id
    with pytest.raises(GuardError, match=r"not NoneType: .*leave it out for a text that stands by itself"):
        check(guard, conversation=None)
