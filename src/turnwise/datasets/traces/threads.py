"""Threads: steps of one conversation in order of time, put together so that what calls repeat stands once.

Every call of a model repeats the history before it. A call continues the thread whose messages it repeats to the
end; what is new in it, and what the model said, is added. Other histories are threads of their own.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.datasets.traces.messages import Message
from turnwise.datasets.traces.steps import SAID, TOOL, TraceStep

_LATEST_THREADS: Final = 32
"""Threads that a call may continue: those that were added to last."""

_HELD: Final = 1 << 24
"""Characters of texts that are remembered, so that each need not be digested again."""

_EACH: Final = 256
"""Characters that a message counts for beside its text, as it takes memory too."""

_LEAD: Final = frozenset(("system", "developer"))


class MessageSource(NamedTuple):
    """Where a message comes from, with its time in nanoseconds."""

    time: int | None
    trace: str
    span: str
    model: str


@dataclass(eq=False, slots=True)
class Thread:
    """Messages as they were said, each with its source."""

    instructions: tuple[Any, ...] = ()  # what model and agent were told
    label: str = ""  # the transcript of a sub-agent
    agent: str = ""
    depth: int = 0
    keys: list[int] = field(default_factory=list)  # of the messages, equal where these say the same
    messages: list[Message] = field(default_factory=list)
    sources: list[MessageSource] = field(default_factory=list)
    history: Counter[str] = field(default_factory=Counter)  # calls by what was wrong with what they repeat

    def add(self, messages: list[Message], keys: list[int], source: MessageSource) -> None:
        self.messages += messages
        self.keys += keys
        self.sources += [source] * len(messages)

    def told(self, at: int, trace: str) -> bool:
        """Whether the message with a key comes from a trace."""
        return self.sources[len(self.sources) - len(self.keys) + at].trace == trace


class Threads:
    """Puts steps together that come in order of time; `threads` are what came of them, the main one first."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._plain: dict[tuple[str, str], int] = {}
        self._held = 0
        self._latest: deque[Thread] = deque(maxlen=_LATEST_THREADS)
        self._labelled: dict[str, Thread] = {}
        self._spans: set[str] = set()
        self._tools: list[TraceStep] = []
        self.threads: list[Thread] = []
        self.chars = 0

    def add(self, step: TraceStep, depth: int = 0) -> None:
        if step.kind == TOOL:
            self._tools.append(step)
            self.chars += _size(step.input) + _size(step.output)
        elif step.kind == SAID:
            self._said(step)
        elif step.input or step.output:
            self._call(step, depth)

    def finish(self) -> list[Thread]:
        """Put in what tools gave back and no later call repeats; return the threads, the main one first."""
        if self.threads:
            _ToolResults(self.threads).add(self._tools)
            main = min(range(len(self.threads)), key=lambda at: self.threads[at].depth)
            self.threads.insert(0, self.threads.pop(main))
        return self.threads

    def _said(self, step: TraceStep) -> None:
        if step.span and step.span in self._spans:
            return
        self._spans.add(step.span)
        thread = self._labelled.get(step.thread)
        if thread is None:
            thread = self._labelled[step.thread] = Thread(label=step.thread, depth=int(bool(step.thread)))
            self.threads.append(thread)
        if step.edited:
            thread.history["edited"] += 1
        self._take(
            thread, step.input, self._keys(step.input), MessageSource(step.time, step.trace, step.span, step.model)
        )

    def _call(self, step: TraceStep, depth: int) -> None:
        first = next((at for at, one in enumerate(step.input) if one["role"] not in _LEAD), len(step.input))
        lead, given = step.input[:first], step.input[first:]
        keys, said, output = self._keys(given), self._keys(step.output), step.output
        if keys and said[: len(keys)] == keys:  # what came back holds what was given
            said, output = said[len(keys) :], output[len(keys) :]
        instructions = (*self._keys(lead), step.agent)
        begun = MessageSource(step.time, step.trace, step.span, step.model)
        thread, start, flaw = self._place(instructions, given, keys, said, step.trace)
        if start is None:
            return
        if thread is None:
            thread = Thread(instructions, agent=step.agent, depth=depth)
            self.threads.append(thread)
            thread.add(lead, [], begun)
            self.chars += _size(lead)
        else:
            if thread in self._latest:
                self._latest.remove(thread)
            thread.history.update([flaw] if flaw else ())
        self._latest.append(thread)
        self._take(thread, given[start:], keys[start:], begun)
        self._take(thread, output, said, begun._replace(time=step.end))

    def _take(self, thread: Thread, messages: list[Message], keys: list[int], source: MessageSource) -> None:
        thread.add(messages, keys, source)
        self.chars += _size(messages)

    def _place(
        self, instructions: tuple[Any, ...], given: list[Message], keys: list[int], said: list[int], trace: str
    ) -> tuple[Thread | None, int | None, str]:
        """The thread that a call continues, where new messages begin (None: all are there), and what was wrong."""
        whole: tuple[int, Thread] | None = None
        cut: tuple[int, int, Thread] | None = None
        edited: tuple[int, Thread] | None = None
        there = set(keys)
        for thread in reversed(self._latest):
            had, alike = thread.keys, thread.instructions == instructions
            same = _common(had, keys)
            if same == len(keys) and said and had[same : same + len(said)] == said and thread.told(same, trace):
                return thread, None, ""  # a framework and the client below it both recorded the call
            if same == len(had):
                going_on = same < len(keys) or alike or thread.messages[-1]["role"] != "assistant"
                if going_on and (whole is None or same > whole[0]):
                    whole = same, thread
                continue
            if had[-1] in there:
                length, end = _overlap(had, keys)
                if (length > 1 or alike) and (cut is None or length > cut[0]):
                    cut = length, end, thread
            if alike and same and (edited is None or same > edited[0]):
                edited = same, thread
        if whole is not None:
            return whole[1], whole[0], ""
        if cut is not None:
            return cut[2], cut[1], "truncated"
        if edited is not None:
            return edited[1], _restart(edited[1], given, keys, edited[0]), "edited"
        for thread in reversed(self._latest):  # a history that is not sent again: others keep it
            goes_on = thread.instructions == instructions and thread.sources[-1].trace != trace
            if goes_on or _answers(given, thread):
                return thread, 0, "not repeated"
        return None, 0, ""

    def _keys(self, messages: list[Message]) -> list[int]:
        return [self._key(one) for one in messages]

    def _key(self, message: Message) -> int:
        content = message.get("content")
        plain = (message["role"], content) if isinstance(content, str) and "tool_calls" not in message else None
        key = None if plain is None else self._plain.get(plain)
        if key is None:
            key = self._numbers.setdefault(_digest(message), len(self._numbers))
            if plain is not None:
                self._held = (self._held + len(plain[1])) % _HELD
                if self._held < len(plain[1]):
                    self._plain.clear()
                self._plain[plain] = key
        return key


def _common(first: list[int], second: list[int]) -> int:
    if first == second[: len(first)]:
        return len(first)
    return next(at for at, one in enumerate(first) if at == len(second) or one != second[at])


def _overlap(had: list[int], keys: list[int]) -> tuple[int, int]:
    """How many messages at the end of a thread stand together in a history, and where they end there."""
    # Z-function over the reversed lists: linear, whatever repeats.
    line = [*reversed(had), -1, *reversed(keys)]
    lengths = [0] * len(line)
    left = right = 0
    best = (0, 0)
    for at in range(1, len(line)):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < len(line) and line[length] == line[at + length]:
            length += 1
        lengths[at] = length
        if at + length > right:
            left, right = at, at + length
        if at > len(had):
            best = max(best, (length, len(line) - at))
    return best


def _restart(thread: Thread, given: list[Message], keys: list[int], same: int) -> int:
    """Where in an edited history what is new begins."""
    offset = len(thread.messages) - len(thread.keys)
    had = [one["role"] for one in thread.messages[offset:]]
    if len(keys) > len(had) and had == [one["role"] for one in given[: len(had)]]:
        return len(had)
    users = (at for at in range(min(same, len(given) - 1), -1, -1) if given[at]["role"] == "user")
    return next(users, same)


def _answers(given: list[Message], thread: Thread) -> bool:
    """Whether an input begins with the results of what a thread's last message called."""
    asked: set[str] = set()
    for message in reversed(thread.messages):
        if "tool_calls" not in message:
            break
        asked |= {call["id"] for call in message["tool_calls"] if "id" in call}
    return bool(given and asked) and given[0].get("tool_call_id") in asked


def _digest(message: Message) -> bytes:
    """What a message says: alike for spellings of the same, such as other blanks or arguments in another order."""
    content = message.get("content")
    texts = content if isinstance(content, list) else [{"text": content or ""}]
    said = [" ".join(part["text"].split()) if "text" in part else part["type"] for part in texts]
    calls = [
        (one["function"]["name"], _sorted(one["function"]["arguments"])) for one in message.get("tool_calls", ())
    ]
    line = json.dumps([message["role"], [text for text in said if text], calls])
    return blake2b(line.encode(), digest_size=16).digest()


def _sorted(arguments: str) -> str:
    try:
        return json.dumps(read_json(arguments), sort_keys=True)
    except ValueError:
        return arguments


def _size(messages: list[Message]) -> int:
    return sum(
        _EACH + len(str(one.get("content") or "")) + len(str(one.get("tool_calls") or "")) for one in messages
    )


class _ToolResults:
    """Puts what tools gave back behind their calls, where no later call of a model told it."""

    def __init__(self, threads: list[Thread]) -> None:
        self._threads = threads
        self._of_trace = {one.sources[-1].trace: one for one in reversed(threads)}
        self._open: dict[str, tuple[Thread, int, str]] = {}
        self._named: dict[str, deque[tuple[Thread, int, str]]] = {}
        self._told: set[str] = set()
        self._put: dict[Thread, dict[int, list[tuple[Message, MessageSource]]]] = {}
        self._times: dict[Thread, list[int]] = {}
        for thread in threads:
            self._look(thread)

    def add(self, steps: list[TraceStep]) -> None:
        for step in steps:
            self._add(step)
        for thread, puts in self._put.items():
            told = list(zip(thread.messages, thread.sources, strict=True))
            pairs = [pair for at in range(len(told) + 1) for pair in (*puts.get(at, ()), *told[at : at + 1])]
            thread.messages, thread.sources = [one for one, _ in pairs], [source for _, source in pairs]

    def _look(self, thread: Thread) -> None:
        waiting: dict[str, tuple[str, int]] = {}
        nameless: deque[tuple[str, int]] = deque()
        for at, message in enumerate(thread.messages):
            for call in message.get("tool_calls", ()):
                self._told.add(call["function"]["name"])
                if "id" in call:
                    waiting[call["id"]] = call["function"]["name"], at
                else:
                    nameless.append((call["function"]["name"], at))
            if message["role"] == "tool":
                identity = message.get("tool_call_id", "")
                self._told.add(identity)
                if waiting.pop(identity, None) is None and nameless:
                    nameless.popleft()
        self._open |= {one: (thread, at, one) for one, (_, at) in waiting.items()}
        asked = [(name, at, one) for one, (name, at) in waiting.items()]
        for name, at, identity in asked + [(name, at, "") for name, at in nameless]:
            self._named.setdefault(name, deque()).append((thread, at, identity))

    def _add(self, step: TraceStep) -> None:
        call = step.input[0]["tool_calls"][0]
        identity, name = call.get("id", ""), call["function"]["name"]
        source = MessageSource(step.end, step.trace, step.span, step.model)
        if identity and identity in self._told:
            return
        place, named = self._open.pop(identity, None), self._named.get(name)
        while place is None and named:
            place = named.popleft()
            if place[2] in self._told:
                place = None
        if place is not None:
            thread, at, known = place
            self._told.add(known or identity)
            told = [{**one, "tool_call_id": known} if known else one for one in step.output]
            self._put.setdefault(thread, {}).setdefault(at + 1, []).extend((one, source) for one in told)
        elif name not in self._told:
            self._beside(step, source)

    def _beside(self, step: TraceStep, source: MessageSource) -> None:
        """Put in a call that no message of a model told, where it was made."""
        thread = self._of_trace.get(step.trace, self._threads[0])
        if thread not in self._times:
            self._times[thread] = list(accumulate((one.time or 0 for one in thread.sources), max))
        times = self._times[thread]
        at = len(times) if step.time is None else bisect_right(times, step.time)
        told = [(one, source) for one in (*step.input, *step.output)]
        self._put.setdefault(thread, {}).setdefault(at, []).extend(told)


def turns_of(thread: Thread) -> Iterator[list[MessageSource]]:
    """The sources of a thread's messages, turn by turn, as `from_messages` forms turns."""
    turn: list[MessageSource] = []
    for message, source in zip(thread.messages, thread.sources, strict=True):
        role = message["role"]
        if role == "user" or (role == "assistant" and not turn):
            if turn:
                yield turn
            turn = []
        elif not turn:
            continue
        turn.append(source)
    if turn:
        yield turn
