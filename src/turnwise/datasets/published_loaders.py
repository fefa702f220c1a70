"""Published data sets that need code: MuTual's dialogues of two people, OpenAssistant's trees of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.layout import FileHead
from turnwise.datasets.protocol import SEE_SOURCE, BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder, UniqueIds
from turnwise.datasets.records import ParsedRecord, as_object, field, optional_text, parse_json, pick
from turnwise.errors import DatasetError
from turnwise.linear_regex import SPACE, LinearRegex

_MAN_OR_WOMAN = LinearRegex(rf"(?:^|[{SPACE}])([mf]) :")

_Message = Mapping[str, Any]
_Branch = tuple[_Message, ...]

_ROLES = {"prompter": "user", "assistant": "assistant"}


class MuTual(RecordLoader):
    """Dialogues of a man and a woman, without the candidate replies; whoever speaks first prompts."""

    info = DatasetInfo(
        name="mutual",
        title="MuTual",
        source="Cui et al. 2020, MuTual: A Dataset for Multi-Turn Dialogue Reasoning, ACL 2020; English "
        "listening tests of Chinese high schools",
        url="https://github.com/Nealcly/MuTual",
        licence=SEE_SOURCE,
        label_meaning="benign: everyday dialogues between two people, none of them with a model",
        shape='a .txt file a dialogue, or a folder of them: {"article": "m : ... f : ...", "options", "answers", '
        '"id"}',
        directory=True,
    )

    def sniff(self, head: FileHead) -> bool:
        article = head.records[0]["article"] if {"article", "options", "answers"} <= head.fields else None
        return isinstance(article, str) and bool(_MAN_OR_WOMAN.match(article.lstrip()))

    def load(self, path: str, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
        if not Path(path).is_dir():
            return super().load(path, options)
        files = sorted((file for file in Path(path).iterdir() if file.suffix == ".txt"), key=_natural)
        if not files:
            raise DatasetError(f"{path} holds no .txt file: name the folder of dialogues, such as data/mutual/dev")
        return self.load_records(_of_files(files), path, options)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        item = as_object(record)
        name = item.get("id")
        return builder.chat(
            _speak(field(item, "article", str)),
            name=f"{builder.source}-{name}" if name else None,
            default=Label.BENIGN,
            metadata=pick(item, "answers"),
        )


def _of_files(files: list[Path]) -> Iterator[ParsedRecord | BadRecord]:
    for number, file in enumerate(files, start=1):
        try:
            yield ParsedRecord(number, parse_json(file.read_bytes()))
        except (RecordError, OSError) as error:
            yield BadRecord(number, f"{file.name}: {error}")


def _natural(file: Path) -> list[tuple[bool, int, str]]:
    """A sort key by which 9 comes before 10, and digits before everything else."""
    runs = [(number, "".join(run)) for number, run in groupby(file.name, str.isdecimal)]
    return [(False, int(run), "") if number else (True, 0, run) for number, run in runs]


def _speak(article: str) -> list[dict[str, Any]]:
    before, *parts = _MAN_OR_WOMAN.split(article.strip())
    if not parts or before.strip():
        raise RecordError("the article does not begin with 'm :' or 'f :'")
    first = parts[0]
    said = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": "user" if who == first else "assistant", "content": words.strip()} for who, words in said]


class OpenAssistant(RecordLoader):
    """Trees and threads, which are streamed, or single messages, which come in any order and so are all held."""

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

    def sniff(self, head: FileHead) -> bool:
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
        messages: _Branch = record
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
        self._children: dict[str | None, list[_Message]] = {}
        self._reached: set[str] = set()

    def add(self, line: int, message: _Message) -> None:
        name = field(message, "message_id", str)
        if name in self._lines:
            raise RecordError(f"the id {name!r} is already that of line {self._lines[name]}")
        parent = optional_text(message, "parent_id")
        slim = pick(message, "message_id", "role", "text", "lang")
        _chat_message(slim)
        self._lines[name] = line
        self._parents[name] = parent
        self._children.setdefault(parent, []).append(slim)

    def paths(self) -> Iterator[tuple[int, _Branch]]:
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


def _paths(item: _Message) -> list[_Branch]:
    if "thread" in item:
        messages = field(item, "thread", list)
        if not messages:
            raise RecordError("field 'thread' is empty: a conversation without turns")
        return [tuple(as_object(message) for message in messages)]
    return list(_walk(field(item, "prompt", dict), _replies))


def _replies(message: _Message) -> list[_Message]:
    replies = [] if message.get("replies") is None else field(message, "replies", list)
    return [as_object(reply) for reply in replies]


def _walk(root: _Message, below: Callable[[_Message], list[_Message]]) -> Iterator[_Branch]:
    # A stack of our own: a tree may be deeper than Python's.
    stack: list[_Branch] = [(root,)]
    while stack:
        path = stack.pop()
        replies = below(path[-1])
        if not replies:
            yield path
        stack.extend((*path, reply) for reply in reversed(replies))


def _chat_message(message: _Message) -> dict[str, str]:
    role = field(message, "role", str)
    if role not in _ROLES:
        raise RecordError(f"unknown role {role!r}; known: {', '.join(_ROLES)}")
    return {"role": _ROLES[role], "content": field(message, "text", str)}
