"""A recorded step of a conversation: what a model was sent and said, or what a tool did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from turnwise.datasets.protocol import RecordError
from turnwise.datasets.traces.messages import Message, call_of, result_of

CALL: Final = "call"
"""A call of a model: `input` is all that it was sent, `output` what it said."""
FRAME: Final = "frame"
"""An agent, chain or whole trace: what it was given and gave back counts where no call of a model was kept."""
TOOL: Final = "tool"
"""A tool that ran: `input` is its call, `output` its result."""
EVENT: Final = "event"
"""A part of a call that was recorded by itself; those with the same span are one call."""
SAID: Final = "said"
"""What a transcript adds: `input` alone, nothing is repeated."""
LINK: Final = "link"
"""Says only where a span hangs, or to which conversation a trace belongs."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 1 << 62
_UNITS: Final = ((10**17, 1), (10**14, 10**3), (10**11, 10**6))
"""From how much on a time that is a mere number is in nano-, micro- or milliseconds; below it is in seconds."""


@dataclass(slots=True)
class Step:
    """A step; texts that are not known are empty.

    `conversation` is the id that groups traces; `agent` the name of the agent where the step is one itself;
    `thread` the transcript of a sub-agent; `edited` says that history was replaced from here on.
    """

    kind: str
    trace: str
    span: str = ""
    parent: str = ""
    conversation: str = ""
    time: int | None = None
    end: int | None = None
    model: str = ""
    agent: str = ""
    thread: str = ""
    edited: bool = False
    input: list[Message] = field(default_factory=list)
    output: list[Message] = field(default_factory=list)


def tool_step(name: Any, arguments: Any, result: Any, identity: Any = None, **known: Any) -> Step:
    """The step of a tool that ran; its result may be missing."""
    call = {"role": "assistant", "content": None, "tool_calls": [call_of(name, arguments, identity)]}
    output = [] if result is None else [result_of(result, identity)]
    return Step(kind=TOOL, input=[call], output=output, **known)


def name_of(record: Mapping[str, Any], *fields: str, needed: bool = False) -> str:
    """The id in the first of some fields that has one, text or a whole number; RecordError where it is needed."""
    for name in fields:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    if needed:
        raise RecordError(f"{' or '.join(map(repr, fields))} is missing: an id is needed there")
    return ""


def time_of(value: Any) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 text, UTC where it has no zone, or of a number; None for others.

    >>> time_of("1970-01-01T00:00:01Z"), time_of(1_700_000_000_000), time_of("soon")
    (1000000000, 1700000000000000000, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) < 20 else None
    elif isinstance(value, str):
        try:
            stamp = datetime.fromisoformat(value)
            stamp = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp
            return max(0, (stamp - _EPOCH) // timedelta(microseconds=1) * 1000)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    unit = next((unit for least, unit in _UNITS if value >= least), 10**9)
    nanoseconds = int(value * unit)
    return nanoseconds if 0 < nanoseconds < _LATEST else None


def stamp_of(nanoseconds: int | None) -> datetime | None:
    """A time as turns have it."""
    return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)
