"""A loader for files that are a list of records, each of them one conversation, as most files are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Required, TypedDict, Unpack

from turnwise.conversation import Conversation, Label, Sequence, from_messages
from turnwise.datasets.labels_and_roles import UNKNOWN_LABEL, UnknownLabelError, read_label
from turnwise.datasets.layout import FileHead, data_stem, read_head, read_records
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.records import ParsedRecord, kind
from turnwise.errors import ConversationError

_IDS = "conversation_id, conv_id, dialog_id, dialogue_id, chat_id, thread_id, session_id, sequence_id, id"

USUAL_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "messages": ("messages", "conversation", "conversations", "chat", "dialog", "dialogue"),
    "id": tuple(_IDS.split(", ")),
    "role": ("role", "speaker", "author", "sender", "from"),
    "text": ("text", "content", "message", "utterance", "prompt", "value"),
    "turn": ("turn", "turn_number", "turn_index", "message_index", "position"),
    "label": ("label", "is_attack", "is_malicious", "is_jailbreak", "is_harmful"),
}
"""Names of columns in formats that are anybody's, by what they hold; the first that is there counts."""

_METADATA = "metadata"


class SequenceFields(TypedDict, total=False):
    """What a record says beside its texts.

    ``default`` is the label where neither record nor user gives one, ``given`` what stands in the label field of
    the record, in its own words. ``key`` is the record's own id, text or number; the source's name goes before a
    mere number. ``name`` is an id that is kept exactly; without either, the record's number serves. ``metadata``
    is the rest; a ``goal`` in it is also the ``group``, for splits by goal.
    """

    default: Required[Label]
    given: object
    key: object
    name: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SequenceBuilder:
    """Makes the sequence of one record: knows where it stands, and what the user said about the file.

    Args:
        source: name of the data set.
        number: line or item, from 1.
        path: the file.
        options: what the user said.
    """

    source: str
    number: int
    path: str
    options: LoadOptions

    @property
    def stem(self) -> str:
        """Name of the file without its endings, in lower case."""
        return data_stem(self.path)

    def column(self, what: str) -> str:
        """Return the name of the column for something: the one that the user named, else the name itself."""
        return self.options.columns.get(what, what)

    def find_column(self, record: Mapping[str, Any], what: str) -> str | None:
        """Return the column for a key of `USUAL_COLUMNS`: the one that the user named, else a usual one.

        A RecordError tells that the one that the user named is missing.
        """
        named = self.options.columns.get(what)
        if named is None:
            return find_column(record, what)
        if named not in record:
            raise RecordError(f"column {named!r} is missing; the file has: {', '.join(record)}")
        return named

    def chat(self, messages: list[Any], **fields: Unpack[SequenceFields]) -> Sequence:
        """Return the sequence of a list of OpenAI messages.

        Raises:
            RecordError: an id that is neither text nor a number, or a text that is not valid Unicode.
            ConversationError: a message with an unknown role, or no turn among the messages.
        """
        name = self._name(fields)
        return self._sequence(name, from_messages(messages, conversation_id=name), fields)

    def turns(self, pairs: Iterable[tuple[str, str | None]], **fields: Unpack[SequenceFields]) -> Sequence:
        """Return the sequence of pairs of prompt and response; errors as for `chat`."""
        name = self._name(fields)
        return self._sequence(name, Conversation.from_turns(pairs, conversation_id=name), fields)

    def prompts(self, texts: Iterable[str], **fields: Unpack[SequenceFields]) -> Sequence:
        """Return the sequence of user texts to which the data set has no replies; errors as for `chat`.

        Its metadata say so: ``user_only``.
        """
        fields["metadata"] = {**fields.get("metadata", {}), "user_only": True}
        return self.turns(((text, None) for text in texts), **fields)

    def free_fields(self, record: Mapping[str, Any], *texts: str, id_column: str = "id") -> SequenceFields:
        """Return what a record of a generic format says beside its texts: id, label, and the rest.

        ``texts`` are the columns of the conversation, ``id_column`` that of the id where the user named none. A
        RecordError tells that a column that the user named is missing.
        """
        label = self.find_column(record, "label")
        key = (self.find_column(record, "id") if "id" in self.options.columns else None) or id_column
        taken = {*texts, key, label, _METADATA}
        metadata = {name: value for name, value in record.items() if name not in taken and value is not None}
        own = record.get(_METADATA)
        if isinstance(own, dict):
            metadata |= own
        elif own is not None:
            metadata[_METADATA] = own
        given = None if label is None else record[label]
        return {"default": Label.UNLABELLED, "given": given, "key": record.get(key), "metadata": metadata}

    def _sequence(self, name: str, conversation: Conversation, fields: SequenceFields) -> Sequence:
        _check_unicode(name, conversation)
        metadata = dict(fields.get("metadata", {}))
        if isinstance(metadata.get("goal"), str):
            metadata.setdefault("group", metadata["goal"])
        try:
            label = read_label(fields.get("given"), self.options.label_map)
            label = label or self.options.label or fields["default"]
        except UnknownLabelError:
            label = Label.UNLABELLED
            metadata[UNKNOWN_LABEL] = fields.get("given")
        return Sequence(name, label, self.source, conversation, metadata)

    def _name(self, fields: SequenceFields) -> str:
        name, key = fields.get("name"), fields.get("key")
        if name is not None:
            return name
        if key is None:
            return f"{self.source}-{self.number}"
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise RecordError(f"the id is {kind(key)}, not text or a number")
        # Numbers repeat from data set to data set; other ids are names of their own.
        return f"{self.source}-{key}" if isinstance(key, int) or key.isdigit() else key


def find_column(record: Mapping[str, Any], what: str) -> str | None:
    """Return the column of a record under one of its usual names, whatever its case; None where there is none.

    >>> find_column({"Label": 1, "Text": "Hi"}, "label"), find_column({"Text": "Hi"}, "label")
    ('Label', None)
    """
    usual = USUAL_COLUMNS[what]
    there = next((name for name in usual if name in record), None)
    if there is None:
        plain = {name.strip().lower().replace(" ", "_"): name for name in reversed(list(record))}
        there = next((plain[name] for name in usual if name in plain), None)
    return there


class UniqueIds:
    """Lets each sequence id pass once. Remembers every id with the number of its record, about 200 bytes each."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def check(self, number: int, item: Sequence | BadRecord) -> Sequence | BadRecord:
        """Return a sequence with its line, or a `BadRecord` where its id was there before; a bad one as it is."""
        if isinstance(item, BadRecord):
            return item
        first = self._numbers.setdefault(item.sequence_id, number)
        if first != number:
            return BadRecord(number, f"the id {item.sequence_id!r} is already that of record {first}")
        return replace(item, line=number)


class RecordLoader(ABC):
    """A loader that only has to say how to tell its format, and what one record means."""

    info: DatasetInfo

    @abstractmethod
    def sniff(self, head: FileHead) -> bool:
        """Return whether the file is certainly of this format; see `Loader.sniff`."""

    @abstractmethod
    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a record: a parsed JSON value, or the row of a table by column.

        Raises:
            RecordError: the record is not of this format.
            ConversationError: no conversation can be built of it.
        """

    def load(self, path: str, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
        """Yield every sequence of a file in order; see `Loader.load`."""
        return self.load_records(read_records(read_head(path, options.encoding)), path, options)

    def load_records(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        """Yield the sequence of every record of a file, and a `BadRecord` for what is none."""
        ids = UniqueIds()
        for number, item in self.numbered(records, path, options):
            yield ids.check(number, item)

    def numbered(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[tuple[int, Sequence | BadRecord]]:
        """Yield number and sequence of every record, also where ids repeat; nothing is remembered of them.

        Only where one record is one conversation: a loader that works otherwise has its own `load_records`, and no
        use for this.
        """
        source = self.source(path, options)
        for record in records:
            if isinstance(record, BadRecord):
                yield record.line, record
                continue
            builder = SequenceBuilder(source, record.number, path, options)
            yield record.number, self.try_build(record.value, builder)

    def try_build(self, record: Any, builder: SequenceBuilder) -> Sequence | BadRecord:
        """Return the sequence of a record, or what is wrong with it; see `build`."""
        try:
            return self.build(record, builder)
        except (RecordError, ConversationError) as error:
            return BadRecord(builder.number, str(error))

    def source(self, path: str, options: LoadOptions) -> str:
        """Return the name of the data set that the sequences of a file belong to."""
        return options.source or (data_stem(path) if self.info.generic else self.info.name)


def _check_unicode(name: str, conversation: Conversation) -> None:
    texts = [name]
    for turn in conversation:
        texts += [turn.prompt, turn.response or ""]
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise RecordError("a text contains an unpaired surrogate, which is not valid Unicode") from None
