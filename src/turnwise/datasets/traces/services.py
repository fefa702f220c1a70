"""Exports of Langfuse, LangSmith and Phoenix, and traces of OpenAI's Agents SDK."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from turnwise._support.bounded import is_too_deep
from turnwise.datasets.layout import FileHead
from turnwise.datasets.protocol import RecordError
from turnwise.datasets.records import ParsedRecord, as_object
from turnwise.datasets.traces.loader import TraceFormat, first_object
from turnwise.datasets.traces.messages import first_of, messages_of, objects, parsed_text
from turnwise.datasets.traces.otel import attributes_of
from turnwise.datasets.traces.steps import CALL, FRAME, LINK, TraceStep, name_of, span_step, time_of, tool_step

_DEEPEST: Final = 100
"""Levels that records may be nested in each other."""

_LONGEST: Final = 1 << 22
"""Characters of a list in Python's notation, as pandas writes it into CSV, that are read."""


def _paged(record: ParsedRecord) -> Iterator[ParsedRecord]:
    value = record.value
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        yield from (ParsedRecord(record.number, item) for item in value["data"])
    else:
        yield record


def _page(head: FileHead) -> Mapping[str, Any]:
    """The first record of a file, or the first of its first page."""
    first = first_object(head)
    data = first.get("data")
    return data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else first


def _is_langfuse(head: FileHead) -> bool:
    fields = _page(head).keys()
    observation = {"id", "type"} <= fields and bool(fields & {"traceId", "trace_id"})
    observation = observation and bool(fields & {"parentObservationId", "parent_observation_id"})
    within = "observations" in fields and ("trace" in fields or {"id", "timestamp"} <= fields)
    return observation or within or {"id", "timestamp", "sessionId", "input"} <= fields


def _read_langfuse(value: Any, session: str = "", depth: int = 0) -> Iterator[TraceStep]:
    record = as_object(value)
    inner = [one for key in ("traces", "observations") for one in objects(record.get(key))]
    whole = record.get("trace")
    if isinstance(whole, dict):
        session = name_of(whole, "sessionId", "session_id") or session
        inner.insert(0, whole)
    elif "traces" not in record:
        step = _langfuse_step(record, session)
        session = step.conversation or session
        yield step
    else:
        session = name_of(record, "id") or session
    if inner and depth > 3:
        raise RecordError("traces and observations are nested in each other")
    for one in inner:
        yield from _read_langfuse(one, session, depth + 1)


def _langfuse_step(record: Mapping[str, Any], session: str) -> TraceStep:
    trace = name_of(record, "traceId", "trace_id")
    known: dict[str, Any] = {
        "trace": trace or name_of(record, "id", needed=True),
        "span": name_of(record, "id"),
        "parent": name_of(record, "parentObservationId", "parent_observation_id") or trace,
        "conversation": name_of(record, "sessionId", "session_id") or session,
        "time": time_of(first_of(record, "startTime", "start_time", "timestamp")),
        "end": time_of(first_of(record, "endTime", "end_time")),
        "model": name_of(record, "model", "providedModelName", "provided_model_name"),
    }
    kind = str(record.get("type") or "TRACE").upper()
    if not trace and "type" not in record and not {"timestamp", "sessionId", "input", "observations"} & {*record}:
        raise RecordError("neither a trace nor an observation: traceId, type and timestamp are missing")
    given, said = record.get("input"), record.get("output")
    name = name_of(record, "name")
    if kind == "TOOL":
        return tool_step(name or "unknown", given, said, **known)
    if kind == "GENERATION":
        return TraceStep(kind=CALL, input=messages_of(given), output=messages_of(said, "assistant"), **known)
    if kind not in ("TRACE", "AGENT", "CHAIN", "SPAN"):
        return TraceStep(kind=LINK, **known)
    agent = (name or "agent") if kind == "AGENT" else ""
    said = messages_of(said, "assistant")
    return TraceStep(kind=FRAME, agent=agent, input=messages_of(given), output=said, **known)


LANGFUSE: Final = TraceFormat(
    name="langfuse",
    title="traces and observations of Langfuse",
    source="an application that is traced with Langfuse",
    url="https://langfuse.com/docs/api-and-data-platform/overview",
    shape="JSON, JSONL, CSV or Parquet as exported, pages of the API, a downloaded trace or session; a folder",
    told_by=_is_langfuse,
    items=_paged,
    reader=lambda path: _read_langfuse,
)
"""Reads traces and observations, by themselves or in each other, in the API's names or those of exports."""


def _is_langsmith(head: FileHead) -> bool:
    return {"id", "run_type", "inputs"} <= _page(head).keys()


def _read_langsmith(record: Any) -> Iterator[TraceStep]:
    waiting = [(as_object(record), "")]
    while waiting:
        run, parent = waiting.pop()
        step = _langsmith_step(run, parent)
        yield step
        waiting += [(child, step.span) for child in objects(_parsed(run.get("child_runs")))]


def _langsmith_step(run: Mapping[str, Any], parent: str) -> TraceStep:
    extra = _object(run.get("extra"))
    metadata = _object(extra.get("metadata")) or _object(run.get("metadata"))
    settings = _object(extra.get("invocation_params"))
    span = name_of(run, "id", needed=True)
    known: dict[str, Any] = {
        "trace": name_of(run, "trace_id") or span,
        "span": span,
        "parent": name_of(run, "parent_run_id") or parent,
        # session_id beside it is the project.
        "conversation": name_of(metadata, "session_id", "thread_id", "conversation_id")
        or name_of(run, "thread_id"),
        "time": time_of(run.get("start_time")),
        "end": time_of(run.get("end_time")),
        "model": name_of(metadata, "ls_model_name") or name_of(settings, "model", "model_name"),
    }
    kind = run.get("run_type")
    given, said = _parsed(run.get("inputs")), _parsed(run.get("outputs"))
    name = name_of(run, "name")
    if kind == "tool":
        known["identity"] = name_of(extra, "tool_call_id") or _call_id(said)
        asked = _object(given).get("input", given)
        return tool_step(name or "unknown", asked, _result(said), **known)
    if kind not in ("llm", "chain", "chat_model", "prompt", "parser", "retriever", "embedding"):
        raise RecordError("no run of LangSmith: run_type is missing or not known")
    if kind in ("llm", "chat_model"):
        return TraceStep(kind=CALL, input=messages_of(given), output=messages_of(said, "assistant"), **known)
    if kind != "chain":
        return TraceStep(kind=LINK, **known)
    return TraceStep(kind=FRAME, input=messages_of(given), output=messages_of(said, "assistant"), **known)


LANGSMITH: Final = TraceFormat(
    name="langsmith",
    title="runs of LangSmith",
    source="an application that is traced with LangSmith",
    url="https://docs.langchain.com/langsmith/run-data-format",
    shape="JSON, JSONL or Parquet, a run in each record; or a folder of such files",
    told_by=_is_langsmith,
    items=_paged,
    reader=lambda path: _read_langsmith,
)
"""Reads runs, with or without the runs that they called in them."""


def _is_phoenix(head: FileHead) -> bool:
    first = _page(head)
    columns = any(isinstance(key, str) and key.startswith("attributes.") for key in first)
    told = "context.trace_id" in first or isinstance(first.get("context"), dict)
    return told and (columns or "attributes" in first)


def _read_phoenix(record: Any) -> Iterator[TraceStep]:
    row = as_object(record)
    context = _object(row.get("context"))
    attributes: dict[str, Any] = {}
    _flatten(attributes_of(_parsed(row.get("attributes"))), "", attributes, 0)
    for key, value in row.items():
        if key.startswith("attributes.") and value not in (None, ""):
            _flatten({key.removeprefix("attributes."): _parsed(value)}, "", attributes, 0)
    kind = name_of(row, "span_kind")
    if kind and kind.isupper():
        attributes.setdefault("openinference.span.kind", kind)
    trace = name_of(context, "trace_id", "traceId") or name_of(row, "context.trace_id", "trace_id", needed=True)
    yield span_step(
        attributes,
        name_of(row, "name"),
        [(name_of(one, "name"), _object(one.get("attributes"))) for one in objects(_parsed(row.get("events")))],
        trace=trace,
        span=name_of(context, "span_id", "spanId") or name_of(row, "context.span_id", "span_id"),
        parent=name_of(row, "parent_id", "parentId"),
        time=time_of(row.get("start_time")),
        end=time_of(row.get("end_time")),
    )


PHOENIX: Final = TraceFormat(
    name="phoenix",
    title="spans of Arize Phoenix",
    source="an application that is traced with OpenInference",
    url="https://arize.com/docs/phoenix/tracing/how-to-tracing/importing-and-exporting-traces",
    shape="Parquet, JSON, JSONL or CSV, a span in each record; or a folder of such files",
    told_by=_is_phoenix,
    items=_paged,
    reader=lambda path: _read_phoenix,
)
"""Reads spans in the columns of Phoenix's data frames, or as its client and REST interface give them."""


def _is_openai_agents(head: FileHead) -> bool:
    return _page(head).get("object") in ("trace", "trace.span")


def _read_openai_agents(record: Any) -> Iterator[TraceStep]:
    item = as_object(record)
    if item.get("object") == "trace":
        trace = name_of(item, "id", needed=True)
        metadata = _object(item.get("metadata"))
        group = name_of(item, "group_id") or name_of(metadata, "conversation_id", "session_id", "thread_id")
        yield TraceStep(kind=LINK, trace=trace, span=trace, conversation=group)
        return
    if item.get("object") != "trace.span":
        raise RecordError("no trace or span of the Agents SDK: object is missing, or another")
    data = _object(item.get("span_data"))
    trace = name_of(item, "trace_id", needed=True)
    known: dict[str, Any] = {
        "trace": trace,
        "span": name_of(item, "id"),
        "parent": name_of(item, "parent_id") or trace,
        "time": time_of(item.get("started_at")),
        "end": time_of(item.get("ended_at")),
    }
    kind, answer = data.get("type"), _object(data.get("response"))
    if kind == "function":
        yield tool_step(name_of(data, "name") or "unknown", data.get("input"), data.get("output"), **known)
    elif kind == "agent":
        yield TraceStep(kind=FRAME, agent=name_of(data, "name") or "agent", **known)
    elif kind in ("generation", "response"):
        lead = messages_of(answer.get("instructions") or data.get("instructions"), "system")
        said = messages_of(data.get("output") or answer.get("output"), "assistant")
        known["model"] = name_of(data, "model") or name_of(answer, "model")
        yield TraceStep(kind=CALL, input=lead + messages_of(data.get("input")), output=said, **known)
    else:
        yield TraceStep(kind=LINK, **known)


OPENAI_AGENTS: Final = TraceFormat(
    name="openai_agents",
    title="traces of the OpenAI Agents SDK",
    source="an application built with the Agents SDK, through a processor or exporter of traces",
    url="https://openai.github.io/openai-agents-python/tracing/",
    shape='JSONL or JSON: what export() of traces and spans gave, or {"data": [...]}; a folder',
    told_by=_is_openai_agents,
    items=_paged,
    reader=lambda path: _read_openai_agents,
)
"""Reads what processors of the Agents SDK export: traces and spans in any order, or batches of them."""


def _object(value: Any) -> Mapping[str, Any]:
    value = _parsed(value)
    return value if isinstance(value, dict) else {}


def _parsed(value: Any) -> Any:
    """A cell of a table that holds JSON, or a list in Python's notation, as what it holds."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    found = parsed_text(value)
    if found is not None or len(value) > _LONGEST or is_too_deep(value.encode("utf-8", "replace")):
        return value if found is None else found
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def _flatten(value: Any, prefix: str, found: dict[str, Any], depth: int) -> None:
    """Attributes in each other as one level with dots; lists stay."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, dict) and depth < _DEEPEST:
            _flatten(inner, f"{name}.", found, depth + 1)
        else:
            found[name] = inner


def _call_id(said: Any) -> str:
    """The id of the call in a tool's message, as LangChain keeps a tool's output."""
    message = _object(_object(said).get("output"))
    return name_of(_object(message.get("kwargs")) or message, "tool_call_id")


def _result(said: Any) -> Any:
    given = _object(said).get("output", said)
    message = _object(given)
    return (_object(message.get("kwargs")) or message).get("content", given)
