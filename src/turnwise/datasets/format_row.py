"""A format as a row: what it is, how it is recognised, and where in a record its conversation stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from turnwise._support.bounded import YamlError, read_yaml
from turnwise._support.locations import to_path
from turnwise.conversation import Label, Sequence, sharegpt_messages
from turnwise.conversation.message_entries import SPEAKERS
from turnwise.datasets.labels_and_roles import parse_label, parse_label_map, parse_role_map, with_roles
from turnwise.datasets.layout import FileHead, data_stem
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import (
    USUAL_COLUMNS,
    RecordLoader,
    SequenceBuilder,
    SequenceFields,
    find_column,
)
from turnwise.datasets.records import (
    ParsedRecord,
    as_object,
    checked_messages,
    field,
    filled_list,
    kind,
    message_list,
    optional_text,
    pick,
    text_list,
)
from turnwise.errors import ConversationError, UnknownNameError, UsageError

_CHATS: Final = ("messages", "sharegpt")
SHAPES: Final = (*_CHATS, "prompts", "exchanges")
"""How a conversation may stand in a record; see `Format`."""

ENDINGS: Final = (".yaml", ".yml", ".json")
"""Endings of the file with a format of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format whose records are each one conversation, as a row of a table.

    Args:
        info: what a person should know of it.
        fields: fields that a record of it has, by which it is recognised.
        without: fields that it does not have.
        told_by: what else must hold of a file.
        shape: how the conversation stands in a record: ``messages`` are a list of ``{"role", "content"}``,
            ``sharegpt`` of ``{"from", "value"}`` or of texts that alternate, ``prompts`` of texts by the user,
            ``exchanges`` of objects with a prompt and a response.
        texts: field with that list. Exchanges without one: the record itself is the only one.
        prompt: field of the prompt in an exchange.
        response: field of the response in an exchange; it may be missing.
        only_texts: whether nothing counts of messages but role and content.
        id: field of the record's id.
        label: label of conversations that bring none.
        label_field: field of the label. None for one of the usual names in a generic format, for none in others.
        label_map: what labels mean; see `LoadOptions`.
        role_map: what roles mean, likewise.
        metadata: what else is kept: field of the record by its name here. None for all of a generic format, for
            nothing in others.
        more: what else a record says, by code: `SequenceBuilder.turns` has the names. Metadata add to the others.
        build: makes the sequence of a record in place of all from `shape` on; see `RecordLoader.build`.

    Raises:
        UsageError: neither `fields` nor `told_by`.
    """

    info: DatasetInfo
    fields: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    told_by: Callable[[FileHead], bool] | None = None
    shape: str = "messages"
    texts: str = ""
    prompt: str = "prompt"
    response: str = "response"
    only_texts: bool = False
    id: str = "id"
    label: Label = Label.UNLABELLED
    label_field: str | None = None
    label_map: Mapping[str, Label] = dataclasses.field(default_factory=dict)
    role_map: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] | None = None
    more: Callable[[Mapping[str, Any], SequenceBuilder], Mapping[str, Any]] | None = None
    build: Callable[[Any, SequenceBuilder], Sequence] | None = None

    def __post_init__(self) -> None:
        if not self.fields and self.told_by is None:
            raise UsageError(f"format {self.info.name}: name the fields by which it is recognised")

    def __call__(self) -> FormatLoader:
        """Return a loader of the format, as a loader class does."""
        return FormatLoader(self)


class FormatLoader(RecordLoader):
    """Reads files of the format of a row."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self.info = format.info

    def sniff(self, head: FileHead) -> bool:
        row = self.format
        if not head.fields.issuperset(row.fields) or not head.fields.isdisjoint(row.without):
            return False
        return row.told_by is None or row.told_by(head)

    def numbered(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[tuple[int, Sequence | BadRecord]]:
        """Yield number and sequence of every record; what the user says goes before the row."""
        row = self.format
        if row.label_field or row.label_map or row.role_map:
            options = replace(
                options,
                columns={**({"label": row.label_field} if row.label_field else {}), **options.columns},
                label_map={**row.label_map, **options.label_map},
                role_map={**row.role_map, **options.role_map},
            )
        return super().numbered(records, path, options)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        row = self.format
        if row.build is not None:
            return row.build(record, builder)
        if row.shape in _CHATS:
            return self._chat(record, builder)
        item = as_object(record)
        if row.shape == "prompts":
            return builder.prompts(text_list(item, row.texts), **self._beside(item, builder, row.texts))
        if row.texts:
            return builder.turns(self._exchanges(item), **self._beside(item, builder, row.texts))
        prompt, response = builder.column(row.prompt), builder.column(row.response)
        return builder.turns([_exchange(item, prompt, response)], **self._beside(item, builder, prompt, response))

    def _chat(self, record: Any, builder: SequenceBuilder) -> Sequence:
        row = self.format
        if isinstance(record, list) and row.info.generic:
            return builder.chat(self._messages(record, builder), **builder.free_fields({}))
        item = as_object(record)
        column = builder.column(row.texts)
        if column not in item and column in USUAL_COLUMNS:
            column = find_column(item, column) or column
        # Rows of a table name their columns as they like; objects with a list have fixed names.
        is_cell = isinstance(item.get(column), str)
        fields = self._beside(item, builder, column, id=(is_cell and find_column(item, "id")) or row.id)
        messages = message_list(item, column)
        try:
            return builder.chat(self._messages(messages, builder), **fields)
        except (RecordError, ConversationError) as error:
            raise RecordError(f"column {column!r}: {error}" if is_cell else str(error)) from None

    def _messages(self, messages: list[Any], builder: SequenceBuilder) -> list[Any]:
        row = self.format
        is_sharegpt = row.shape == "sharegpt"
        if row.info.roles:
            messages = with_roles(messages, builder.options.role_map, SPEAKERS if is_sharegpt else ())
        if is_sharegpt:
            return sharegpt_messages(messages)
        messages = checked_messages(messages)
        if row.only_texts:
            return [{key: message.get(key) for key in ("role", "content")} for message in messages]
        return messages

    def _exchanges(self, item: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
        row = self.format
        for number, exchange in enumerate(filled_list(item, row.texts), start=1):
            try:
                yield _exchange(as_object(exchange), row.prompt, row.response)
            except RecordError as error:
                raise RecordError(f"turn {number}: {error}") from None

    def _beside(
        self, item: Mapping[str, Any], builder: SequenceBuilder, *texts: str, id: str | None = None
    ) -> SequenceFields:
        """What a record says beside its texts, which stand in the columns `texts`."""
        row = self.format
        if row.info.generic:
            found = builder.free_fields(item, *texts, id_column=id or row.id)
            found["default"] = row.label
        else:
            found = {"default": row.label, "key": item.get(row.id), "metadata": {}}
        if row.metadata is not None:
            found["metadata"] = pick(item, **row.metadata)
        if row.more is None:
            return found
        more = row.more(item, builder)
        metadata = {**found["metadata"], **more.get("metadata", {})}
        return cast(SequenceFields, {**found, **more, "metadata": metadata})


def _exchange(item: Mapping[str, Any], prompt: str, response: str) -> tuple[str, str | None]:
    return field(item, prompt, str), optional_text(item, response)


def read_format(path: str) -> Format:
    """Read a format of one's own, named by its path: a file of entries as in `Format` and in `DatasetInfo`."""
    try:
        given = read_yaml(to_path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"format {path!r} can't be read: {error.strerror}") from error
    except (YamlError, UnicodeDecodeError) as error:
        raise UsageError(f"format {path}: {error}") from error
    if not isinstance(given, dict):
        raise UsageError(f"format {path} must hold entries such as texts: dialog")
    entries: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _ENTRIES:
            raise UnknownNameError(f"entry of the format {path}", str(name), _ENTRIES, all_shown=True)
        try:
            entries[name] = _ENTRIES[name](value)
        except UsageError as error:
            raise UsageError(f"format {path}, {name}: {error}") from None
    shape, texts = entries.setdefault("shape", "messages"), entries.get("texts", "")
    if not texts and shape != "exchanges":
        raise UsageError(f"format {path}: name the field of its {shape}, such as texts: dialog")
    entries.setdefault("fields", (texts or entries.get("prompt", "prompt"),))
    info = {**_OWN, "title": data_stem(path), **{name: entries.pop(name) for name in _OWN if name in entries}}
    where = f"{shape} in {texts}" if texts else "an exchange in each record"
    return Format(info=DatasetInfo(name=path, shape=where, generic=True, roles=shape in _CHATS, **info), **entries)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"it is {kind(value)}, not text" if value != "" else "it is empty; give text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError(f"it is {kind(value)}, not a list of fields")
    return tuple(map(_text, value))


def _pairs(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise UsageError(f"it is {kind(value)}, not pairs such as agent: assistant")
    return {str(name): _text(one) for name, one in value.items()}


def _kept(value: object) -> dict[str, str]:
    return dict(zip(names := _texts(value), names, strict=True)) if isinstance(value, list) else _pairs(value)


def _shape(value: object) -> str:
    if value not in SHAPES:
        raise UnknownNameError("shape", _text(value), SHAPES)
    return _text(value)


def _yes_or_no(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"it is {kind(value)}, not true or false")
    return value


_OWN: Final = {
    "title": "",
    "source": "your own",
    "url": "",
    "licence": "that of the conversations in it",
    "label_meaning": "as the file says, else as the format does",
}
"""What is known of a format of one's own where it does not say."""

_ENTRIES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "shape": _shape,
    "texts": _text,
    "prompt": _text,
    "response": _text,
    "only_texts": _yes_or_no,
    "id": _text,
    "label": lambda value: parse_label(_text(value)),
    "label_field": _text,
    "label_map": lambda value: parse_label_map(_pairs(value)),
    "role_map": lambda value: parse_role_map(_pairs(value)),
    "metadata": _kept,
    "fields": _texts,
    "without": _texts,
    **dict.fromkeys(_OWN, _text),
}
"""What a file may say of a format, and what checks it."""
