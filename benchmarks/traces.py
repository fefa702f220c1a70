"""Seconds and memory that traces and transcripts take to read: ``python -m benchmarks.traces [conversations]``.

Makes a file for each format, conversations of four turns with a tool in every second one, the calls of all of them
in one shuffled file, and iterates it in a process of its own. Without a number, 10,000 conversations.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Message = dict[str, Any]
TURNS = 4
WORDS = ("tide", "moon", "harbour", "lamp", "rope", "ferry", "gull", "storm", "chart", "anchor", "crew", "deck")

READ = """
import resource, sys, time
from turnwise.datasets import BadRecord, open_dataset
begin, used = time.perf_counter(), time.process_time()
items = turns = bad = 0
for item in open_dataset(sys.argv[2], format=sys.argv[1]):
    if isinstance(item, BadRecord):
        bad += 1
    else:
        items += 1
        turns += item.conversation.get_turn_count()
seconds, cpu = time.perf_counter() - begin, time.process_time() - used
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(items, turns, bad, f"{seconds:.1f}", f"{cpu:.1f}", peak)
"""


def text(source: random.Random) -> str:
    """About 300 characters."""
    return " ".join(source.choices(WORDS, k=50))


def chat(number: int) -> list[Message]:
    """The messages of a conversation."""
    source = random.Random(number)
    made: list[Message] = [{"role": "system", "content": "You are a harbour master. " + text(source)}]
    for turn in range(TURNS):
        made.append({"role": "user", "content": text(source)})
        if turn % 2:
            told = {"name": "look_up", "arguments": json.dumps({"what": text(source)})}
            calls = [{"id": f"c{turn}", "type": "function", "function": told}]
            made.append({"role": "assistant", "content": None, "tool_calls": calls})
            made.append({"role": "tool", "content": text(source), "tool_call_id": f"c{turn}"})
        made.append({"role": "assistant", "content": text(source)})
    return made


def calls(number: int) -> Iterator[tuple[int, list[Message], Message]]:
    """Place, input and output of every call of the model."""
    said = chat(number)
    for at, message in enumerate(said):
        if message["role"] == "assistant":
            yield at, said[:at], message


def stamp(number: int, at: int) -> str:
    """A time of day."""
    return f"2026-01-{number % 28 + 1:02}T{number % 24:02}:00:{at:02}.000Z"


def parts(message: Message) -> Message:
    """A message by OpenTelemetry's conventions."""
    if message["role"] == "tool":
        told = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [told]}
    made = [{"type": "text", "content": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        made.append({"type": "tool_call", "id": call["id"], **call["function"]})
    return {"role": message["role"], "parts": made}


def span(number: int, at: int, attributes: Message) -> Message:
    """A span of OTLP as JSON."""
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    nano = 1_767_323_040_000_000_000 + number * 10**9 + at * 10**6
    ids = {"traceId": f"{number:032x}", "spanId": f"{at:016x}", "name": "chat"}
    return {**ids, "startTimeUnixNano": str(nano), "endTimeUnixNano": str(nano + 1000), "attributes": pairs}


def otel(number: int) -> Iterator[Message]:
    """A request for each call."""
    for at, given, said in calls(number):
        told = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": f"c{number}"}
        told["gen_ai.input.messages"] = json.dumps([parts(one) for one in given])
        told["gen_ai.output.messages"] = json.dumps([parts(said)])
        yield {"resourceSpans": [{"scopeSpans": [{"spans": [span(number, at, told)]}]}]}


def phoenix(number: int) -> Iterator[Message]:
    """A span for each call, attributes flat."""
    for at, given, said in calls(number):
        told: Message = {"session.id": f"c{number}"}
        for side, messages in (("input", given), ("output", [said])):
            for n, message in enumerate(messages):
                prefix = f"llm.{side}_messages.{n}.message."
                told |= {f"{prefix}{key}": value for key, value in message.items() if isinstance(value, str)}
                for call in message.get("tool_calls", ()):
                    told[f"{prefix}tool_calls.0.tool_call.id"] = call["id"]
                    for key, value in call["function"].items():
                        told[f"{prefix}tool_calls.0.tool_call.function.{key}"] = value
        context = {"trace_id": f"t{number}", "span_id": f"s{at}"}
        yield {"context": context, "span_kind": "LLM", "start_time": stamp(number, at), "attributes": told}


def langfuse(number: int) -> Iterator[Message]:
    """An observation for each call."""
    for at, given, said in calls(number):
        ids = {"id": f"o{number}-{at}", "traceId": f"t{number}", "parentObservationId": None, "type": "GENERATION"}
        yield {**ids, "sessionId": f"c{number}", "startTime": stamp(number, at), "input": given, "output": said}


def langsmith(number: int) -> Iterator[Message]:
    """A run for each call."""
    for at, given, said in calls(number):
        ids = {"id": f"r{number}-{at}", "trace_id": f"t{number}", "run_type": "llm"}
        extra = {"metadata": {"thread_id": f"c{number}"}}
        sides = {"inputs": {"messages": given}, "outputs": {"choices": [{"message": said}]}}
        yield {**ids, "start_time": stamp(number, at), "extra": extra, **sides}


def openai_agents(number: int) -> Iterator[Message]:
    """A generation span for each call."""
    for at, given, said in calls(number):
        ids = {"object": "trace.span", "id": f"s{number}-{at}", "trace_id": f"t{number}"}
        data = {"type": "generation", "input": given, "output": [said]}
        yield {**ids, "started_at": stamp(number, at), "span_data": data}


def claude_code(number: int) -> Iterator[Message]:
    """A line for each message."""
    for at, message in enumerate(chat(number)[1:]):
        content: Any = message["content"]
        if message["role"] == "tool":
            content = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
        elif "tool_calls" in message:
            content = [{"type": "tool_use", "id": message["tool_calls"][0]["id"], "name": "look_up", "input": {}}]
        role = "assistant" if message["role"] == "assistant" else "user"
        ids = {"uuid": f"u{number}-{at}", "parentUuid": None, "isSidechain": False, "sessionId": f"c{number}"}
        yield {**ids, "type": role, "message": {"role": role, "content": content}, "timestamp": stamp(number, at)}


def codex(number: int) -> Iterator[Message]:
    """A line for each item, in a file of its own."""
    yield {"timestamp": stamp(number, 0), "type": "session_meta", "payload": {"id": f"c{number}"}}
    for at, message in enumerate(chat(number)):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            payload = {"type": "function_call_output", "call_id": call_id, "output": message["content"]}
        elif "tool_calls" in message:
            call = message["tool_calls"][0]
            payload = {"type": "function_call", "call_id": call["id"], **call["function"]}
        else:
            content = [{"type": "input_text", "text": message["content"]}]
            payload = {"type": "message", "role": message["role"], "content": content}
        yield {"timestamp": stamp(number, at), "type": "response_item", "payload": payload}


FORMATS: dict[str, Callable[[int], Iterator[Message]]] = {
    "otel": otel,
    "phoenix": phoenix,
    "langfuse": langfuse,
    "langsmith": langsmith,
    "openai_agents": openai_agents,
    "claude_code": claude_code,
    "codex": codex,
}


def protobuf(source: Path, path: Path) -> bool:
    """Write OTLP in protobuf, each request behind its length; false where the package is not installed."""
    try:
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError:
        return False
    with source.open() as lines, path.open("wb") as out:
        for line in lines:
            data = TracesData()
            for one in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                made = (
                    data.resource_spans.add()
                    .scope_spans.add()
                    .spans.add(
                        trace_id=bytes.fromhex(one["traceId"]),
                        span_id=bytes.fromhex(one["spanId"]),
                        name=one["name"],
                        start_time_unix_nano=int(one["startTimeUnixNano"]),
                        end_time_unix_nano=int(one["endTimeUnixNano"]),
                    )
                )
                for pair in one["attributes"]:
                    made.attributes.add(key=pair["key"]).value.string_value = pair["value"]["stringValue"]
            frame = data.SerializeToString()
            out.write(len(frame).to_bytes(4, "big") + frame)
    return True


def write(name: str, folder: Path, conversations: int) -> Path:
    """Write the file or folder of a format."""
    if name == "codex":
        for number in range(conversations):
            place = folder / "sessions" / f"{number % 28:02}"
            place.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(one) for one in codex(number))
            (place / f"rollout-{number}.jsonl").write_text("\n".join(lines))
        return folder / "sessions"
    path = folder / f"{name}.jsonl"
    if name == "claude_code":
        order = [(number, 0) for number in range(conversations)]
    else:
        order = [(number, at) for number in range(conversations) for at in range(TURNS + TURNS // 2)]
        random.Random(0).shuffle(order)
    with path.open("w") as out:
        for number, at in order:
            lines = list(FORMATS[name](number))
            for line in lines if name == "claude_code" else lines[at : at + 1]:
                out.write(json.dumps(line) + "\n")
    return path


def main() -> None:
    """Measure every format."""
    conversations = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    heads = ("seconds", "CPU", "peak MB")
    print(
        f"{'format':<16}{'MB':>6}{'conversations':>15}{'turns':>8}{'bad':>5}"
        + "".join(f"{one:>9}" for one in heads)
    )
    with TemporaryDirectory() as base:
        for name in (*FORMATS, "otel, protobuf"):
            folder = Path(base, name)
            folder.mkdir()
            format = name.partition(",")[0]
            path = write(format, folder, conversations)
            if name != format:
                source, path = path, path.with_suffix(".pb")
                if not protobuf(source, path):
                    print(f"{name:<16} left out: pip install 'turnwise[otlp]'")
                    continue
            files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
            size = sum(one.stat().st_size for one in files) / 1e6
            run = [sys.executable, "-c", READ, format, str(path)]
            told = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
            print(f"{name:<16}{size:>6.0f}{told[0]:>15}{told[1]:>8}{told[2]:>5}", end="")
            print("".join(f"{one:>9}" for one in told[3:]), flush=True)
            for file in files:
                file.unlink()


if __name__ == "__main__":
    main()
