"""Traces that somebody made up: each is read or named, and none takes long, much memory, or the process down."""

import json
import random
import sys
import tracemalloc

import pytest
from growth import takes_ten_times
from tests.datasets.trace_samples import CALLS, CHAT, SAMPLES, otel, request, span

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, open_dataset
from turnwise.errors import DatasetError

ODD = [
    None,
    True,
    -1,
    0.5,
    10**60,
    "",
    "\ud800",
    "x" * 2000,
    [],
    {},
    [[]],
    [None],
    {"role": 7},
    [{"role": "ghost"}],
]
DEEP = json.loads("[" * 150 + "]" * 150)


def within(value, path=()):
    """Every place in a value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from within(inner, (*path, key))


def changed(value, path, to):
    if not path:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], to)
    return copy


def readable(items):
    """Each is a sequence that JSON holds, or says what is wrong."""
    for item in items:
        assert isinstance(item, Sequence | BadRecord)
        if isinstance(item, Sequence):
            json.dumps(item.to_dict(), allow_nan=False)
            assert item.sequence_id
        else:
            assert item.reason
    return items


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "sample"),
    [pytest.param(name, one, id=f"{name}-{one.__name__}") for name, many in SAMPLES.items() for one in many],
)
def test_any_value_may_stand_anywhere(jsonl, name, sample):
    lines = sample()
    source = random.Random(7)
    for at, line in enumerate(lines):
        for path in within(line):
            for to in source.sample(ODD, 3) + ([DEEP] if source.random() < 0.1 else []):
                others = [*lines[:at], changed(line, path, to), *lines[at + 1 :]]
                readable(list(open_dataset(jsonl(*map(json.dumps, others)), format=name)))


def test_spans_that_are_each_other_s_parents_end(jsonl, read):
    circle = {"openinference.span.kind": "AGENT", "input.value": "Hi", "output.value": "Hello"}
    ids = [f"{at:016x}" for at in range(4)]
    spans = [span(at, circle, parent=ids[(at + 1) % 3]) for at in range(3)]
    spans.append(span(3, {"gen_ai.input.messages": json.dumps([CHAT[1]])}, parent=ids[3]))
    good, bad = read(jsonl(request(*spans)))
    assert (len(good), bad) == (1, [])
    good, bad = read(jsonl(request(*spans[:3])))
    assert len(good) + len(bad) == 1


def test_a_chain_of_parents_without_end_takes_linear_time(jsonl, read):
    def chain(length):
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
        spans = [span(at, agent, parent=f"{at + 1:016x}") | {"traceId": "c"} for at in range(length)]
        call = {"gen_ai.input.messages": json.dumps([CHAT[1]]), "gen_ai.completion": "Hello"}
        calls = [span(length + 9 + at, call, parent=f"{at:016x}") | {"traceId": "c"} for at in range(length // 10)]
        return jsonl(*(request(one) for one in spans + calls), name=f"{length}.jsonl")

    assert takes_ten_times(read, chain(500), chain(5_000))
    good, bad = read(chain(500))
    assert (len(good), bad) == (1, [])


@pytest.mark.parametrize("unlike", [False, True])
def test_histories_that_repeat_one_message_without_end_take_linear_time(jsonl, read, unlike):
    def histories(length):
        spans = []
        for at in range(20):
            given = [{"role": "user", "content": "a"}] * length
            given += [{"role": "user", "content": f"{at}"}] if unlike else []
            told = {"gen_ai.input.messages": json.dumps(given), "gen_ai.completion": f"b{at}"}
            spans.append(request(span(at, told) | {"traceId": "c"}))
        return jsonl(*spans, name=f"{length}.jsonl")

    assert takes_ten_times(read, histories(200), histories(2_000))
    assert read(histories(200))[0]


def test_thousands_of_tools_and_agents_in_one_trace_take_linear_time(jsonl, read):
    def trace(agents):
        tool = {"openinference.span.kind": "TOOL", "tool.name": "t", "output.value": "x"}
        asked = [{"role": "user", "content": "go"}]
        spans = [span(at, {**tool, "tool.name": f"t{at % 7}"}) for at in range(5 * agents)]
        for at in range(agents):
            told = {"gen_ai.input.messages": json.dumps([*asked, {"role": "user", "content": f"{at}"}])}
            spans.append(span(at, {**told, "gen_ai.completion": "ok", "gen_ai.agent.name": f"a{at}"}))
        lines = [request(one | {"traceId": "c", "spanId": f"{at:016x}"}) for at, one in enumerate(spans)]
        return jsonl(*lines, name=f"{agents}.jsonl")

    assert takes_ten_times(read, trace(80), trace(800))
    good, bad = read(trace(80))
    assert (len(good), bad) == (80, [])


def test_memory_hangs_on_the_longest_conversation_alone(tmp_path):
    path = tmp_path / "spans.jsonl"
    told = {"gen_ai.completion": "Hello " * 200}
    with path.open("w") as file:
        for at in range(1500):
            messages = json.dumps([{"role": "user", "content": f"{at} " + "word " * 1000}])
            one = span(1, {**told, "gen_ai.input.messages": messages})
            file.write(json.dumps(request(one | {"traceId": f"{at:032x}"})) + "\n")
    tracemalloc.start()
    count = sum(1 for _ in open_dataset(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1500
    assert peak < path.stat().st_size / 3  # SQLite's own pages, which are not traced, have a bound


def test_a_conversation_beyond_the_bound_is_named(tmp_path, monkeypatch, read, jsonl):
    monkeypatch.setattr("turnwise.datasets.traces.loader.MAX_LINE", 1 << 20)
    lines = [request(span(at, {"gen_ai.prompt": "x" * 400_000, "gen_ai.completion": f"{at}"})) for at in CALLS]
    good, bad = read(
        jsonl(
            *(one | {} for one in lines),
            request(span(9, {"gen_ai.prompt": "Hi", "session.id": "s"}) | {"traceId": "c"}),
        )
    )
    assert [one.sequence_id for one in good][-1:] == ["s"]
    lines = [
        json.loads(json.dumps(one).replace("b" * 32, "a" * 32).replace("x" * 400_000, str(at) * 400_000))
        for at, one in enumerate(lines)
    ]
    _, bad = read(jsonl(*lines))
    assert [record.reason for record in bad] == [
        f"conversation {'a' * 32!r} has more than 1 MiB, which is the most"
    ]


def test_messages_without_number_are_too_much_even_where_they_are_short(jsonl, read, monkeypatch):
    monkeypatch.setattr("turnwise.datasets.traces.loader.MAX_LINE", 1 << 20)
    told = [{"gen_ai.prompt": f"{at}", "gen_ai.completion": "."} for at in range(3000)]
    good, bad = read(jsonl(*(request(span(at, one) | {"traceId": "c"}) for at, one in enumerate(told))))
    assert good == []
    assert [record.reason for record in bad] == ["conversation 'c' has more than 1 MiB, which is the most"]


def test_a_span_id_that_several_spans_have_is_read(jsonl, read):
    lines = [json.loads(json.dumps(line).replace(f"{4:016x}", f"{2:016x}")) for line in otel()]
    (sequence,), bad = read(jsonl(*lines), format="otel")
    assert bad == []
    assert sequence.conversation.get_turn_count() == 2


def test_lists_that_are_flattened_with_huge_indexes_are_bounded(jsonl, read):
    told = {"llm.input_messages.99999999999999999999.message.role": "user", "gen_ai.prompt": "Hi"}
    told |= {"llm.input_messages.7.message.content": "Hi", "llm.input_messages.7.message.role": "user"}
    told["llm.input_messages.7.message.contents.x.message_content.0.0.0.0"] = "odd"
    good, bad = read(jsonl(request(span(1, told))))
    assert len(good) + len(bad) == 1


def test_values_of_tables_in_python_s_notation_are_no_code(tmp_path, read):
    path = tmp_path / "spans.csv"
    cells = ["[__import__('os').abort()]", "[" * 3000, "[" * 150 + "]" * 150, "{'a': 1", "[-" * 100]
    rows = "".join(f's{at},t{at},"{cell}"\n' for at, cell in enumerate(cells))
    path.write_text(f"context.span_id,context.trace_id,attributes.llm.input_messages\n{rows}")
    readable(list(open_dataset(path, format="phoenix")))


def test_protobuf_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1.trace_pb2", None)
    path = tmp_path / "spans"
    path.write_bytes(b"\x00\x00\x00\x04\n\x02\x12\x00")
    with pytest.raises(DatasetError, match=r"pip install 'turnwise\[otlp\]'"):
        list(open_dataset(path))
