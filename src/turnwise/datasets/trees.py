"""Trees of messages, as of OpenAssistant: every path from the root to a leaf is a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, optional_text, pick
from turnwise.datasets.layout import Head
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder, UniqueIds
from turnwise.datasets.records import ParsedRecord

Message = Mapping[str, Any]
Path = tuple[Message, ...]

_ROLES = {"prompter": "user", "assistant": "assistant"}


class OpenAssistant(RecordLoader):
    """Trees, threads or single messages, one in each line, as the project exports them.

    Trees and threads are streamed. Single messages can come in any order, so they are all held: 88,838 in the
    export that is ready for training.
    """

    info = DatasetInfo(
        name="openassistant",
        title="OpenAssistant Conversations (oasst1, oasst2)",
        source="Koepf et al. 2023, OpenAssistant Conversations, arXiv:2304.07327; volunteers",
        url="https://huggingface.co/datasets/OpenAssistant/oasst1",
        licence="Apache-2.0",
        label_meaning="unlabelled: volunteers, nearly all benign, a few testing limits. Paths of one tree share "
        "their first turns and are one group",
        shape='JSONL(.gz): a line a tree {"message_tree_id", "prompt": {"text", "role", "replies": [...]}}, or a '
        'line a message {"message_id", "parent_id", "role": "prompter" or "assistant", "text"}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether lines are trees, threads or messages of the export."""
        fields = head.fields
        return (
            {"message_tree_id", "prompt"} <= fields
            or {"thread_id", "thread"} <= fields
            or {"message_id", "role", "text"} <= fields
        )

    def load_records(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        """Yield the conversation of every path, those of single messages at the end."""
        ids = UniqueIds()
        forest = _Forest()
        source = self.source(path, options)
        for record in records:
            if isinstance(record, BadRecord):
                yield record
                continue
            try:
                item = as_object(record.value)
                if "message_id" in item:
                    forest.add(record.number, item)
                    continue
                paths = _paths(item)
            except RecordError as error:
                yield BadRecord(record.number, str(error))
                continue
            builder = SequenceBuilder(source, record.number, path, options)
            for messages in paths:
                yield ids.check(record.number, self.try_build(messages, builder))
        for number, messages in forest.paths():
            yield ids.check(number, self.try_build(messages, SequenceBuilder(source, number, path, options)))
        yield from forest.unreached()

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a path, named after its last message."""
        messages: Path = record
        return builder.chat(
            [_chat_message(message) for message in messages],
            name=field(messages[-1], "message_id", str),
            default=Label.UNLABELLED,
            metadata={"group": field(messages[0], "message_id", str), **pick(messages[0], "lang")},
        )


class _Forest:
    """Single messages, until all of them are there."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._parents: dict[str, str | None] = {}
        self._children: dict[str | None, list[Message]] = {}
        self._reached: set[str] = set()

    def add(self, line: int, message: Message) -> None:
        name = field(message, "message_id", str)
        if name in self._lines:
            raise RecordError(f"the id {name!r} is already that of line {self._lines[name]}")
        parent = optional_text(message, "parent_id")
        slim = pick(message, "message_id", "role", "text", "lang")
        _chat_message(slim)
        self._lines[name] = line
        self._parents[name] = parent
        self._children.setdefault(parent, []).append(slim)

    def paths(self) -> Iterator[tuple[int, Path]]:
        for root in self._children.get(None, []):
            for path in _walk(root, lambda message: self._children.get(message["message_id"], [])):
                self._reached.update(message["message_id"] for message in path)
                yield self._lines[path[-1]["message_id"]], path

    def unreached(self) -> Iterator[BadRecord]:
        for name, line in self._lines.items():
            if name not in self._reached:
                yield BadRecord(
                    line, f"no root leads to message {name!r}, whose parent is {self._parents[name]!r}"
                )


def _paths(item: Message) -> list[Path]:
    if "thread" in item:
        messages = field(item, "thread", list)
        if not messages:
            raise RecordError("field 'thread' is empty: a conversation without turns")
        return [tuple(as_object(message) for message in messages)]
    return list(_walk(field(item, "prompt", dict), _replies))


def _replies(message: Message) -> list[Message]:
    replies = [] if message.get("replies") is None else field(message, "replies", list)
    return [as_object(reply) for reply in replies]


def _walk(root: Message, below: Callable[[Message], list[Message]]) -> Iterator[Path]:
    # A stack of our own: a tree may be deeper than Python's.
    stack: list[Path] = [(root,)]
    while stack:
        path = stack.pop()
        replies = below(path[-1])
        if not replies:
            yield path
        stack.extend((*path, reply) for reply in reversed(replies))


def _chat_message(message: Message) -> dict[str, str]:
    role = field(message, "role", str)
    if role not in _ROLES:
        raise RecordError(f"unknown role {role!r}; known: {', '.join(_ROLES)}")
    return {"role": _ROLES[role], "content": field(message, "text", str)}
