"""One chat as each recorder of traces keeps it: a question, a tool that runs, an answer, thanks."""

from __future__ import annotations

import json
from typing import Any

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Paris?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "rain, 14 C", "tool_call_id": "call_1"},
    {"role": "assistant", "content": "Rainy."},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "You are welcome."},
]
CALLS = (2, 4, 6)
"""Where in the chat a call of the model answered."""

TRACES = {2: "a" * 32, 4: "a" * 32, 6: "b" * 32}


def start(at: int) -> str:
    return f"2026-01-02T03:04:{at:02}.000Z"


def nano(at: int) -> int:
    return 1_767_323_040_000_000_000 + at * 10**9


def parts(message: dict[str, Any]) -> dict[str, Any]:
    """A message as OpenTelemetry's conventions have it."""
    if message["role"] == "tool":
        made = [{"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}]
    else:
        made = [{"type": "text", "content": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls", ()):
            told = call["function"]
            arguments = json.loads(told["arguments"])
            made.append({"type": "tool_call", "id": call["id"], "name": told["name"], "arguments": arguments})
    return {"role": message["role"], "parts": made}


def wrapped(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrapped(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": wrapped(value)} for key, value in attributes.items()]


def span(at: int, attributes: dict[str, Any], parent: str = "", **more: Any) -> dict[str, Any]:
    made = {
        "traceId": TRACES.get(at, "a" * 32),
        "spanId": f"{at:016x}",
        "parentSpanId": parent,
        "name": f"span {at}",
    }
    times = {"startTimeUnixNano": str(nano(at)), "endTimeUnixNano": str(nano(at) + 5 * 10**8)}
    return {**made, **times, "attributes": pairs(attributes), **more}


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "s"}, "spans": [*spans]}]}]}


KNOWN = {"gen_ai.conversation.id": "chat-7", "gen_ai.request.model": "m1"}


def otel() -> list[dict[str, Any]]:
    """Messages as JSON in attributes, system instructions apart, and the tool's own span."""
    made = []
    for at in CALLS:
        given, said = [parts(one) for one in CHAT[1:at]], [parts(CHAT[at])]
        system = [{"type": "text", "content": "Be brief."}]
        told = {"gen_ai.operation.name": "chat", **KNOWN, "gen_ai.system_instructions": json.dumps(system)}
        told |= {"gen_ai.input.messages": json.dumps(given), "gen_ai.output.messages": json.dumps(said)}
        made.append(request(span(at, told, parent="f" * 16)))
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "call_1",
    }
    tool |= {"gen_ai.tool.call.arguments": '{"city": "Paris"}', "gen_ai.tool.call.result": "rain, 14 C"}
    return [*made, request(span(3, tool)), request(span(1, {"http.method": "POST"}))]


def otel_structured() -> list[dict[str, Any]]:
    """Messages as nested values, as events have them."""
    made = []
    for at in CALLS:
        told = {**KNOWN, "gen_ai.input.messages": [parts(one) for one in CHAT[:at]]}
        event = {"name": "gen_ai.client.inference.operation.details", "attributes": pairs(told)}
        event["attributes"] += pairs({"gen_ai.output.messages": [parts(CHAT[at])]})
        made.append(request(span(at, {"gen_ai.operation.name": "chat", **KNOWN}, events=[event])))
    return made


def event(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and fields of the older event of an input message."""
    told = {
        key: value for key, value in message.items() if value is not None and key not in ("role", "tool_call_id")
    }
    if "tool_call_id" in message:
        told["id"] = message["tool_call_id"]
    return f"gen_ai.{message['role']}.message", told


def choice(message: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "stop", "message": {k: v for k, v in message.items() if v is not None}}


def otel_events() -> list[dict[str, Any]]:
    """The older events in spans, whose values are texts."""
    made = []
    for at in CALLS:
        events = []
        for name, told in map(event, CHAT[:at]):
            texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
            events.append({"name": name, "attributes": pairs(texts)})
        said = {key: json.dumps(value) for key, value in choice(CHAT[at]).items()}
        events.append({"name": "gen_ai.choice", "attributes": pairs(said)})
        made.append(request(span(at, {"gen_ai.operation.name": "chat", **KNOWN}, events=events)))
    return made


def otel_logs() -> list[dict[str, Any]]:
    """The older events as log records."""
    made = []
    for at in CALLS:
        events = [*map(event, CHAT[:at]), ("gen_ai.choice", choice(CHAT[at]))]
        where = {"traceId": TRACES[at], "spanId": f"{at:016x}"}
        records = [
            {**where, "timeUnixNano": str(nano(at) + n), "eventName": name, "body": wrapped(told)}
            | {"attributes": pairs({"gen_ai.conversation.id": "chat-7"})}
            for n, (name, told) in enumerate(events)
        ]
        made.append({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    return made


def openinference(at: int) -> dict[str, Any]:
    """Flat attributes of a call."""
    told: dict[str, Any] = {"openinference.span.kind": "LLM", "session.id": "chat-7", "llm.model_name": "m1"}
    for side, messages in (("input", CHAT[:at]), ("output", [CHAT[at]])):
        for n, message in enumerate(messages):
            prefix = f"llm.{side}_messages.{n}.message."
            told[f"{prefix}role"] = message["role"]
            if message["content"]:
                told[f"{prefix}content"] = message["content"]
            if "tool_call_id" in message:
                told[f"{prefix}tool_call_id"] = message["tool_call_id"]
            for call in message.get("tool_calls", ()):
                told[f"{prefix}tool_calls.0.tool_call.id"] = call["id"]
                for key, value in call["function"].items():
                    told[f"{prefix}tool_calls.0.tool_call.function.{key}"] = value
    return told


def otel_openinference() -> list[dict[str, Any]]:
    return [request(span(at, openinference(at))) for at in CALLS]


def phoenix() -> list[dict[str, Any]]:
    """Spans as the REST interface has them."""
    return [
        {
            "name": "llm",
            "context": {"trace_id": TRACES[at], "span_id": f"{at:016x}"},
            "span_kind": "LLM",
            "parent_id": None,
            "start_time": start(at),
            "end_time": start(at),
            "attributes": openinference(at),
            "events": [],
        }
        for at in CALLS
    ]


def phoenix_rows() -> list[dict[str, Any]]:
    """Rows of a data frame: messages are lists of objects with dotted names."""
    made = []
    for at in CALLS:
        rows: dict[str, Any] = {"name": "llm", "span_kind": "LLM", "parent_id": None, "start_time": start(at)}
        rows |= {
            "context.span_id": f"{at:016x}",
            "context.trace_id": TRACES[at],
            "attributes.session.id": "chat-7",
        }
        for side, messages in (("input", CHAT[:at]), ("output", [CHAT[at]])):
            rows[f"attributes.llm.{side}_messages"] = [
                {
                    "message.role": one["role"],
                    "message.content": one["content"],
                    "message.tool_call_id": one.get("tool_call_id"),
                    "message.tool_calls": [
                        {
                            "tool_call.id": call["id"],
                            "tool_call.function.name": call["function"]["name"],
                            "tool_call.function.arguments": call["function"]["arguments"],
                        }
                        for call in one.get("tool_calls", ())
                    ],
                }
                for one in messages
            ]
        made.append({**rows, "attributes.llm.model_name": "m1"})
    return made


def langfuse() -> list[dict[str, Any]]:
    """A trace for each request with its observations, as the API has them."""
    made = []
    for trace, within in (("a" * 32, (2, 4)), ("b" * 32, (6,))):
        kept = [
            {
                "id": f"o{at}",
                "traceId": trace,
                "type": "GENERATION",
                "startTime": start(at),
                "endTime": start(at),
                "model": "m1",
                "parentObservationId": None,
                "input": CHAT[:at],
                "output": CHAT[at],
            }
            for at in within
        ]
        tool = {"id": "o3", "traceId": trace, "type": "TOOL", "name": "weather", "startTime": start(3)}
        kept += [{**tool, "input": {"city": "Paris"}, "output": "rain, 14 C"}] if 2 in within else []
        head = {"id": trace, "timestamp": start(within[0]), "sessionId": "chat-7", "input": "x", "output": "y"}
        made.append({**head, "observations": kept})
    return made


def langfuse_rows() -> list[dict[str, Any]]:
    """Enriched observations as exported: other names, values as texts."""
    return [
        {
            "id": one["id"],
            "trace_id": one["traceId"],
            "type": one["type"],
            "name": one.get("name", ""),
            "parent_observation_id": "",
            "start_time": one["startTime"].replace("T", " ").removesuffix("Z"),
            "session_id": "chat-7",
            "provided_model_name": one.get("model", ""),
            "input": json.dumps(one["input"]),
            "output": json.dumps(one["output"]),
        }
        for trace in langfuse()
        for one in trace["observations"]
    ]


def langchain(message: dict[str, Any], *, serialised: bool) -> dict[str, Any]:
    kind = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}[message["role"]]
    fields: dict[str, Any] = {"content": message["content"] or "", "type": kind}
    if "tool_call_id" in message:
        fields["tool_call_id"] = message["tool_call_id"]
    fields["tool_calls"] = [
        {"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"]), "id": call["id"]}
        for call in message.get("tool_calls", ())
    ]
    if not serialised:
        return fields
    name = {"system": "System", "human": "Human", "ai": "AI", "tool": "Tool"}[kind]
    path = ["langchain", "schema", "messages", f"{name}Message"]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}


def langsmith() -> list[dict[str, Any]]:
    made = []
    for at in CALLS:
        metadata = {"thread_id": "chat-7", "ls_model_name": "m1"}
        generation = {"text": "", "message": langchain(CHAT[at], serialised=True), "type": "ChatGeneration"}
        made.append(
            {
                "id": f"r{at}",
                "trace_id": TRACES[at],
                "run_type": "llm",
                "session_id": "the project",
                "parent_run_id": f"root{TRACES[at][0]}",
                "start_time": start(at)[:-1],
                "end_time": start(at)[:-1],
                "extra": {"metadata": metadata},
                "inputs": {"messages": [[langchain(one, serialised=True) for one in CHAT[:at]]]},
                "outputs": {"generations": [[generation]]},
            }
        )
    flat = [langchain(one, serialised=False) for one in CHAT[1:5]]
    chain = {"id": "roota", "trace_id": "a" * 32, "run_type": "chain", "start_time": start(1)[:-1]}
    return [{**chain, "inputs": {"messages": flat[:1]}, "outputs": {"messages": flat}}, *made]


def agents() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"object": "trace", "id": trace, "workflow_name": "w", "group_id": "chat-7"}
        for trace in dict.fromkeys(TRACES.values())
    ]
    for at in CALLS:
        data = {"type": "generation", "input": CHAT[:at], "output": [CHAT[at]], "model": "m1"}
        times = {"started_at": start(at), "ended_at": start(at)}
        made.append({"object": "trace.span", "id": f"s{at}", "trace_id": TRACES[at], **times, "span_data": data})
    tool = {"type": "function", "name": "weather", "input": '{"city": "Paris"}', "output": "rain, 14 C"}
    made.append(
        {"object": "trace.span", "id": "s3", "trace_id": "a" * 32, "started_at": start(3), "span_data": tool}
    )
    return made


def agents_responses() -> list[dict[str, Any]]:
    """Response spans with what a processor added to them."""
    items: list[dict[str, Any]] = []
    for message in CHAT[1:]:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": "call_1", "output": message["content"]})
        elif message["content"] is None:
            items.append({"type": "function_call", "call_id": "call_1", **message["tool_calls"][0]["function"]})
        else:
            items.append(
                {"role": message["role"], "content": [{"type": "input_text", "text": message["content"]}]}
            )
    made = []
    for at in CALLS:
        answer = {"instructions": "Be brief.", "model": "m1", "output": [items[at - 1]]}
        data = {"type": "response", "response_id": f"resp{at}", "input": items[: at - 1], "response": answer}
        one = {"object": "trace.span", "id": f"s{at}", "trace_id": TRACES[at], "started_at": start(at)}
        made.append({**one, "span_data": data})
    return [*agents()[:2], *made]


def claude_code() -> list[dict[str, Any]]:
    made = []
    parent = None
    for at, message in enumerate(CHAT[1:], start=1):
        content: Any = [{"type": "text", "text": message["content"]}]
        if message["role"] == "tool":
            content = [{"type": "tool_result", "tool_use_id": "call_1", "content": message["content"]}]
        elif message["content"] is None:
            use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
            content = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, use]
        role = "assistant" if message["role"] == "assistant" else "user"
        said = {"role": role, "content": content, **({"model": "m1"} if role == "assistant" else {})}
        line = {"parentUuid": parent, "isSidechain": False, "userType": "external", "sessionId": "chat-7"}
        parent = f"u{at}"
        made.append({**line, "type": role, "message": said, "uuid": parent, "timestamp": start(at)})
    return [{"type": "summary", "summary": "Weather", "leafUuid": "u6"}, *made]


def codex() -> list[dict[str, Any]]:
    def line(kind: str, at: int, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": start(at), "type": kind, "payload": payload}

    made = [
        line("session_meta", 0, {"id": "chat-7", "cwd": "/w", "originator": "codex_cli", "cli_version": "1.0.0"}),
        line("turn_context", 0, {"model": "m1", "cwd": "/w"}),
    ]
    for at, message in enumerate(CHAT):
        if message["role"] == "tool":
            payload = {"type": "function_call_output", "call_id": "call_1", "output": message["content"]}
        elif message["content"] is None:
            payload = {"type": "function_call", "call_id": "call_1", **message["tool_calls"][0]["function"]}
        else:
            kind = "output_text" if message["role"] == "assistant" else "input_text"
            payload = {"type": "message", "role": message["role"]}
            payload["content"] = [{"type": kind, "text": message["content"]}]
        made.append(line("response_item", at, payload))
        if message["role"] == "user":
            made.append(line("event_msg", at, {"type": "user_message", "message": message["content"]}))
    return made


SAMPLES = {
    "otel": (otel, otel_structured, otel_events, otel_logs, otel_openinference),
    "phoenix": (phoenix, phoenix_rows),
    "langfuse": (langfuse, langfuse_rows),
    "langsmith": (langsmith,),
    "openai_agents": (agents, agents_responses),
    "claude_code": (claude_code,),
    "codex": (codex,),
}
