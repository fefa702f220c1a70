"""Calls that repeat their history: any split of a chat into calls, in any order of lines, gives back the chat."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.datasets import BadRecord, open_dataset

TEXTS = st.sampled_from(["hi", "ok", "no", "yes please", "why?", "hi  there", "日本", "a" * 40])


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def called(identity, text=None):
    call = {"id": identity, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


@st.composite
def chats(draw):
    chat = [{"role": "system", "content": "Be brief."}] if draw(st.booleans()) else []
    calls = 0
    for _ in range(draw(st.integers(1, 6))):
        chat.append(user(draw(TEXTS)))
        for _ in range(draw(st.integers(0, 2))):
            calls += 1
            chat.append(called(f"c{calls}", draw(st.sampled_from([None, "Let me look."]))))
            chat.append({"role": "tool", "content": draw(TEXTS), "tool_call_id": f"c{calls}"})
        chat.append(said(draw(TEXTS)))
    return chat


def call(at, given, output, trace="t", **more):
    data = {"type": "generation", "input": given, "output": output, "model": "m"}
    known = {"object": "trace.span", "id": f"s{at}", "trace_id": trace, "parent_id": None}
    return {**known, "started_at": f"2026-01-01T00:00:{at:02}Z", "span_data": data, **more}


def read(spans):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spans.jsonl")
        path.write_text("".join(f"{json.dumps(one)}\n" for one in spans))
        return list(open_dataset(path, format="openai_agents"))


def messages(sequence):
    return sequence.conversation.to_messages()


def answers(chat):
    return [at for at, one in enumerate(chat) if one["role"] == "assistant"]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(chats(), st.randoms(use_true_random=False))
def test_a_chat_is_the_same_from_its_calls_in_any_order(chat, random):
    spans = [call(at, chat[:at], [chat[at]]) for at in answers(chat)]
    random.shuffle(spans)
    (sequence,) = read(spans)
    assert messages(sequence) == chat
    assert sequence.metadata == {}


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(chats(), st.data(), st.randoms(use_true_random=False))
def test_calls_that_are_missing_or_kept_twice_change_nothing(chat, data, random):
    places = answers(chat)
    kept = data.draw(st.sets(st.sampled_from(places))) | {places[-1]}
    spans = [call(at, chat[:at], [chat[at]]) for at in kept]
    spans += data.draw(st.lists(st.sampled_from(spans), max_size=3))
    random.shuffle(spans)
    (sequence,) = read(spans)
    assert messages(sequence) == chat


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 9), st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_window_over_the_history_is_told_and_loses_nothing(turns, window, random):
    chat = [one for n in range(turns) for one in (user(f"question {n}"), said(f"answer {n}"))]
    spans = [call(at, chat[max(0, at - 2 * window) : at], [chat[at]]) for at in answers(chat)]
    random.shuffle(spans)
    (sequence,) = read(spans)
    assert messages(sequence) == chat
    assert sequence.metadata.get("history", {}).get("truncated", 0) == max(0, turns - window)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5, unique_by=lambda pair: pair[0]))
def test_traces_of_a_session_that_repeat_nothing_follow_each_other(pairs):
    spans = [call(at, [user(asked)], [said(told)], trace=f"t{at}") for at, (asked, told) in enumerate(pairs)]
    heads = [{"object": "trace", "id": f"t{at}", "group_id": "g"} for at in range(len(pairs))]
    (sequence,) = read([*spans, *heads])
    assert [(turn.prompt, turn.response) for turn in sequence.conversation] == pairs
    missing = {"history": {"not repeated": len(pairs) - 1}} if len(pairs) > 1 else {}
    assert sequence.metadata == missing


def test_a_history_that_was_edited_is_told_and_what_was_said_stays():
    first = call(1, [user("Hi")], [said("Go away.")])
    redacted = call(2, [user("Hi"), said("[removed]"), user("Again?")], [said("Hello.")])
    (sequence,) = read([first, redacted])
    assert messages(sequence) == [user("Hi"), said("Go away."), user("Again?"), said("Hello.")]
    assert sequence.metadata == {"history": {"edited": 1}}


def test_an_answer_that_was_asked_for_again_is_a_turn_of_its_own():
    again = [call(1, [user("Hi")], [said("No.")]), call(2, [user("Hi")], [said("Yes.")])]
    (sequence,) = read(again)
    assert [(turn.prompt, turn.response) for turn in sequence.conversation] == [("Hi", "No."), ("Hi", "Yes.")]
    assert sequence.metadata == {"history": {"edited": 1}}


def test_a_framework_and_the_client_below_it_that_both_record_a_call_count_once():
    spans = [call(1, [user("Hi")], [said("Hello")]), call(1, [user("Hi")], [said("Hello")], id="inner")]
    (sequence,) = read(spans)
    assert messages(sequence) == [user("Hi"), said("Hello")]


def test_a_judge_that_reads_the_chat_does_not_speak_in_it():
    judge = {"role": "system", "content": "Is this fine?"}
    spans = [
        call(1, [user("Hi")], [said("Hello")]),
        call(2, [judge, user("Hi"), said("Hello")], [said("yes")]),
        call(3, [user("Hi"), said("Hello"), user("Bye")], [said("Bye.")]),
    ]
    chat, verdict = read(spans)
    assert messages(chat) == [user("Hi"), said("Hello"), user("Bye"), said("Bye.")]
    assert (verdict.sequence_id, verdict.metadata["parent"]) == ("t/2", "t")
    assert messages(verdict)[-1] == said("yes")


def test_a_handoff_to_an_agent_with_other_instructions_goes_on_in_the_conversation():
    one, two = ({"role": "system", "content": text} for text in ("Triage.", "Refunds."))
    asked = [user("Money back!"), called("c1"), {"role": "tool", "content": "{}", "tool_call_id": "c1"}]
    (sequence,) = read([call(1, [one, asked[0]], [asked[1]]), call(2, [two, *asked], [said("Done.")])])
    assert messages(sequence) == [one, *asked, said("Done.")]


def test_calls_of_one_trace_with_other_histories_are_other_conversations():
    spans = [call(n, [user(f"Summarise document {n}.")], [said(f"Document {n}.")]) for n in (1, 2, 3)]
    sequences = read(spans)
    assert [one.sequence_id for one in sequences] == ["t", "t/2", "t/3"]
    assert [one.metadata.get("parent") for one in sequences] == [None, "t", "t"]
    assert {one.metadata["group"] for one in sequences} == {"t"}


def test_a_provider_that_keeps_the_history_is_sent_results_alone():
    result = {"role": "tool", "content": "noon", "tool_call_id": "c1"}
    spans = [call(1, [user("Time?")], [called("c1")]), call(2, [result], [said("Noon.")])]
    (sequence,) = read(spans)
    assert messages(sequence) == [user("Time?"), called("c1"), result, said("Noon.")]


def test_two_conversations_of_one_name_are_refused():
    heads = [{"object": "trace", "id": "a", "group_id": "x/2"}, {"object": "trace", "id": "b", "group_id": "x"}]
    spans = [call(1, [user("1")], [said("1")], trace="a")]
    spans += [call(n, [user(f"{n}")], [said("x")], trace="b") for n in (2, 3)]
    items = read([*heads, *spans])
    bad = [one.reason for one in items if isinstance(one, BadRecord)]
    assert len(items) == 3
    assert bad == ["the id 'x/2' is already that of another conversation"]


@pytest.mark.parametrize("spelling", ["Hello ", "\nHello", [{"type": "text", "text": "Hello"}]])
def test_spellings_of_the_same_are_no_edit(spelling):
    spans = [
        call(1, [user("Hi")], [said("Hello")]),
        call(2, [user("Hi"), said(spelling), user("Bye")], [said("Bye")]),
    ]
    (sequence,) = read(spans)
    assert messages(sequence) == [user("Hi"), said("Hello"), user("Bye"), said("Bye")]
    assert sequence.metadata == {}
