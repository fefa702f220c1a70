"""Traces and transcripts: the same chat, as each recorder keeps it, is read as the same conversation."""

import csv
import json
import random

import duckdb
import pytest
from tests.datasets.trace_samples import (
    CALLS,
    CHAT,
    SAMPLES,
    TRACES,
    langfuse,
    otel,
    pairs,
    phoenix_rows,
    request,
    span,
)

from turnwise.conversation import Label
from turnwise.datasets import DATASETS, check_loader

EVERY = [
    pytest.param(name, sample, id=f"{name}-{sample.__name__}")
    for name, samples in SAMPLES.items()
    for sample in samples
]


def chat(sequence):
    """Messages without what formats keep or leave out: names of results."""
    messages = sequence.conversation.to_messages()
    return [{key: value for key, value in message.items() if key != "name"} for message in messages]


def turns(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def tools(turn):
    results = {result.call_id: result.content for result in turn.tool_results}
    return [(call.name, results.get(call.call_id)) for call in turn.tool_calls]


def plain(message):
    return {**message, "content": message["content"] or None}


def expected(name):
    system = [] if name == "claude_code" else CHAT[:1]  # its system prompt is not kept
    return [*system, *CHAT[1:]]


@pytest.mark.parametrize(("name", "sample"), EVERY)
def test_the_chat_is_read_with_its_tools_and_where_it_comes_from(jsonl, read, name, sample):
    good, bad = read(jsonl(*sample()))
    assert bad == []
    (sequence,) = good
    assert [plain(message) for message in chat(sequence)] == expected(name)
    assert (sequence.sequence_id, sequence.source, sequence.label) == ("chat-7", name, Label.UNLABELLED)
    assert "history" not in sequence.metadata
    first, second = sequence.conversation
    assert tools(first) == [("weather", "rain, 14 C")]
    assert (second.prompt, second.response) == ("Thanks!", "You are welcome.")
    told = second.metadata["provenance"]
    if name not in ("claude_code", "codex"):
        assert told["traces"] == [TRACES[6]]
        assert len(told["spans"]) == 1
    if sample.__name__ != "otel_logs":
        assert told["models"] == ["m1"]
    assert first.timestamp.isoformat().startswith("2026-01-02T03:04:0")
    assert first.timestamp < second.timestamp


@pytest.mark.parametrize(("name", "sample"), EVERY[:-2])  # transcripts are written in order
def test_the_order_of_lines_says_nothing_of_a_trace(jsonl, read, name, sample):
    lines = sample()
    before = chat(read(jsonl(*lines))[0][0])
    random.Random(4).shuffle(lines)
    assert chat(read(jsonl(*lines), format=name)[0][0]) == before


@pytest.mark.parametrize(("name", "sample"), EVERY)
def test_the_contract_of_loaders_is_kept(jsonl, name, sample):
    check_loader(DATASETS.get(name), jsonl(*sample()))


@pytest.mark.parametrize(("name", "sample"), EVERY)
def test_a_bad_line_is_named_and_the_others_are_kept(jsonl, read, name, sample):
    good, bad = read(jsonl(*sample(), "{oops", "[" * 500, 7), format=name)
    assert len(good) == 1
    count = len(sample())
    assert [record.line for record in bad] == [count + 1, count + 2, count + 3]


def test_one_document_and_a_folder_of_files_are_read_too(tmp_path, read, jsonl):
    whole = tmp_path / "trace.json"
    spans = [one for line in otel() for one in line["resourceSpans"]]
    whole.write_text(json.dumps({"resourceSpans": spans}, indent=2))
    assert len(turns(read(whole)[0][0])) == 2
    for at, line in enumerate(otel()):
        jsonl(line, name=f"rotated/traces-{at}.jsonl")
    good, bad = read(tmp_path / "rotated")
    assert bad == []
    assert [(one.sequence_id, len(turns(one)), one.line) for one in good] == [("chat-7", 2, 1)]


def test_pages_downloads_and_tables_of_langfuse(tmp_path, read, jsonl):
    page = tmp_path / "page.json"
    kept = [one for trace in langfuse() for one in trace["observations"]]
    page.write_text(json.dumps({"data": kept, "meta": {"page": 1}}))
    assert [one.sequence_id for one in read(page)[0]] == [
        "a" * 32,
        "b" * 32,
    ]  # observations don't name the session
    whole, *_ = langfuse()
    head = {key: value for key, value in whole.items() if key != "observations"}
    (downloaded,), _ = read(jsonl({"trace": head, "observations": whole["observations"], "scores": []}))
    (session,), _ = read(jsonl({"id": "chat-8", "traces": [whole | {"sessionId": None}]}), format="langfuse")
    assert (downloaded.sequence_id, session.sequence_id) == ("chat-7", "chat-8")
    assert len(turns(downloaded)) == len(turns(session)) == 1
    alone = {"id": "t", "timestamp": "2026-01-01T00:00:00Z", "sessionId": "s", "input": "Hi", "output": "Hello"}
    (frame,), _ = read(jsonl(alone))  # a trace without observations
    assert [(turn.prompt, turn.response) for turn in frame.conversation] == [("Hi", "Hello")]


def test_tables_of_phoenix(tmp_path, read, jsonl):
    parquet, table = tmp_path / "spans.parquet", tmp_path / "spans.csv"
    with duckdb.connect() as connection:
        query = f"COPY (SELECT * FROM read_json('{jsonl(*phoenix_rows())}')) TO '{parquet}' (FORMAT parquet)"
        connection.execute(query)
    (sequence,), bad = read(parquet)
    assert bad == []
    assert [plain(message) for message in chat(sequence)] == CHAT
    with table.open("w", newline="") as file:  # pandas writes lists in Python's notation
        rows = csv.DictWriter(file, phoenix_rows()[0])
        rows.writeheader()
        rows.writerows(
            {key: str(value) if value is not None else "" for key, value in row.items()} for row in phoenix_rows()
        )
    (sequence,), bad = read(table)
    assert bad == []
    assert [plain(message) for message in chat(sequence)] == CHAT


def test_a_chain_counts_where_no_call_of_a_model_was_kept(jsonl, read):
    outer = {"openinference.span.kind": "CHAIN", "input.value": "Hi", "output.value": "Hello"}
    inner = {**outer, "input.value": "Hi, in other words"}
    lines = request(span(1, outer), span(2, inner, parent=f"{1:016x}"))
    (sequence,), bad = read(jsonl(lines))
    assert bad == []
    assert [(turn.prompt, turn.response) for turn in sequence.conversation] == [("Hi", "Hello")]


def test_calls_without_messages_are_told(jsonl, read):
    good, bad = read(jsonl(request(span(2, {"gen_ai.operation.name": "chat"}))))
    assert good == []
    assert [record.reason for record in bad] == [
        f"conversation {'a' * 32!r} has no messages of a model: the recorder must be told to keep content"
    ]


def test_what_a_tool_gave_back_last_stands_in_no_call_of_a_model(jsonl, read):
    lines = [
        line for line in otel() if line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] != f"{4:016x}"
    ]
    (sequence,), _ = read(jsonl(*lines[:1], *lines[2:]), format="otel")
    assert tools(sequence.conversation.turn(1)) == [("weather", "rain, 14 C")]


def test_a_tool_that_no_message_tells_of_stands_where_it_ran(jsonl, read):
    texts = {2: ([CHAT[1]], "Rainy."), 6: ([CHAT[1], {"role": "assistant", "content": "Rainy."}, CHAT[5]], "Bye.")}
    calls = [
        span(at, {"gen_ai.input.messages": json.dumps(given), "gen_ai.completion": said, "session.id": "s"})
        for at, (given, said) in texts.items()
    ]
    tool = {"openinference.span.kind": "TOOL", "tool.name": "clock", "input.value": "{}", "output.value": "noon"}
    (sequence,), bad = read(jsonl(request(*calls, span(3, tool))))
    assert bad == []
    first, second = sequence.conversation
    assert tools(first) == [("clock", "noon")]
    assert not second.tool_calls
    assert first.response == "Rainy."


def test_sub_agents_have_conversations_of_their_own(jsonl, read):
    def call(at, agent, given, said):
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": agent,
            "gen_ai.input.messages": json.dumps(given),
        }
        return span(at, {**told, "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": said}])})

    def user(text):
        return {"role": "user", "content": text}

    def agent(at, name, parent=""):
        return span(at, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}, parent)

    root, below = f"{11:016x}", f"{12:016x}"
    spans = [
        agent(11, "planner"),
        agent(12, "searcher", root),
        # The sub-agent is called before the planner itself says a word.
        call(1, "searcher", [user("Find trains.")], "Two trains.") | {"parentSpanId": below},
        call(2, "planner", [user("Plan a trip.")], "By train.") | {"parentSpanId": root},
        call(3, "searcher", [user("Find hotels.")], "One hotel.") | {"parentSpanId": below},
    ]
    good, bad = read(jsonl(request(*spans)))
    assert bad == []
    name = "a" * 32
    assert {one.sequence_id: one.conversation.turn(1).prompt for one in good} == {
        name: "Plan a trip.",
        f"{name}/2": "Find trains.",
        f"{name}/3": "Find hotels.",
    }
    assert [one.metadata.get("parent") for one in good] == [None, name, name]
    assert [one.metadata["agent"] for one in good] == ["planner", "searcher", "searcher"]


def test_the_transcript_of_a_sub_agent_stands_in_a_file_of_its_own(tmp_path, jsonl, read):
    lines = SAMPLES["claude_code"][0]()
    side = {"parentUuid": None, "isSidechain": True, "agentId": "x1", "type": "user", "uuid": "z1"}
    side["message"] = {"role": "user", "content": "Look it up."}
    jsonl(*lines, name="projects/-w/chat-7.jsonl")
    jsonl(side, name="projects/-w/chat-7/subagents/agent-x1.jsonl")
    good, bad = read(tmp_path / "projects")
    assert bad == []
    assert [(one.sequence_id, len(turns(one))) for one in good] == [("chat-7", 2), ("chat-7/x1", 1)]
    assert good[1].metadata["parent"] == "chat-7"


def test_what_no_user_typed_is_no_turn_of_a_transcript(jsonl, read):
    lines = SAMPLES["claude_code"][0]()
    meta = {**lines[1], "uuid": "m", "isMeta": True, "message": {"role": "user", "content": "Caveat: ..."}}
    stopped = {**lines[1], "uuid": "k", "timestamp": "2026-01-02T03:30:00Z"}
    stopped["message"] = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
    summary = {
        **lines[-1],
        "uuid": "n",
        "type": "user",
        "isCompactSummary": True,
        "timestamp": "2026-01-02T04:00:00Z",
    }
    summary["message"] = {"role": "user", "content": "So far: the weather."}
    (sequence,), _ = read(jsonl(lines[0], meta, *lines[1:], stopped, summary))
    assert [turn.prompt for turn in sequence.conversation] == ["Weather in Paris?", "Thanks!"]
    assert sequence.metadata["history"] == {"edited": 1}
    rollout = SAMPLES["codex"][0]()
    context = {"type": "message", "role": "user"}
    context["content"] = [{"type": "input_text", "text": "<environment_context>cwd</environment_context>"}]
    extra = {"timestamp": "2026-01-02T03:04:00Z", "type": "response_item", "payload": context}
    snapshot = {**extra, "payload": {"type": "ghost_snapshot", "ghost_commit": {"id": "f00"}}}
    (sequence,), _ = read(jsonl(rollout[0], extra, *rollout[1:], snapshot))
    assert turns(sequence) == [("Weather in Paris?", "Rainy."), ("Thanks!", "You are welcome.")]


def test_rollouts_before_they_had_envelopes(jsonl, read):
    items = [line["payload"] for line in SAMPLES["codex"][0]() if line["type"] == "response_item"]
    head = {"id": "old-1", "timestamp": "2025-05-05T00:00:00.000Z", "instructions": None}
    (sequence,), bad = read(jsonl(head, *items, {"record_type": "state"}), format="codex")
    assert bad == []
    assert sequence.sequence_id == "old-1"
    assert [turn.prompt for turn in sequence.conversation] == ["Weather in Paris?", "Thanks!"]


def test_attributes_of_openllmetry_and_of_arrays(jsonl, read):
    told = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi", "gen_ai.request.model": "m1"}
    told |= {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Hello"}
    (sequence,), _ = read(jsonl(request(span(2, told))))
    assert [(turn.prompt, turn.response) for turn in sequence.conversation] == [("Hi", "Hello")]
    data = [{"trace_id": "t", "span_id": "s", "start_time_unix_nano": 1, "attributes": pairs(told)}]
    (sequence,), _ = read(jsonl({"data": data}), format="otel")  # a page of Phoenix
    assert sequence.conversation.turn(1).response == "Hello"


def test_a_tool_that_the_provider_ran_and_items_of_no_conversation(jsonl, read):
    search = {
        "type": "web_search_call",
        "id": "w",
        "status": "completed",
        "action": {"type": "search", "query": "tide"},
    }
    listed = {"type": "mcp_list_tools", "id": "l", "tools": []}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "High."}]}
    data = {"type": "response", "input": "How is the tide?", "response": {"output": [listed, search, answer]}}
    (sequence,), bad = read(jsonl({"object": "trace.span", "id": "s", "trace_id": "t", "span_data": data}))
    assert bad == []
    assert turns(sequence) == [("How is the tide?", "High.")]
    assert [call.name for call in sequence.conversation.turn(1).tool_calls] == ["web_search"]


def test_a_search_without_a_model_is_no_conversation(jsonl, read):
    told = {"openinference.span.kind": "RETRIEVER", "input.value": "tide", "output.value": "documents"}
    assert read(jsonl(request(span(1, told)))) == ([], [])


def test_labels_are_said_by_the_user(jsonl, read):
    (sequence,), _ = read(jsonl(*otel()), label="attack", source="shop")
    assert (sequence.label, sequence.source) == (Label.ATTACK, "shop")


def test_each_sample_answers_where_it_says():
    assert [CHAT[at]["role"] for at in CALLS] == ["assistant"] * 3
