"""What a caller passes to a check: content, metadata, turn, session, names, arguments, or a list of messages."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, Role, Side, Turn, from_messages
from turnwise.conversation.json_values import json_object
from turnwise.conversation.message_entries import Entry, has_results, read_calls, read_results, unread
from turnwise.conversation.message_formats import OPENAI
from turnwise.conversation.turn import ATTEMPTS_KEY, CHECKING_KEYS, CHECKING_TOOLS, CONTEXT_KEY, GUARD_KEY
from turnwise.errors import GuardError
from turnwise.guard.finding import Redaction, TextKind
from turnwise.sessions.state import ID_BYTES

if TYPE_CHECKING:
    from turnwise.guard.results import Detail

RESERVED: Final = (GUARD_KEY, ATTEMPTS_KEY, CONTEXT_KEY, CHECKING_TOOLS, *CHECKING_KEYS.values())
"""Keys of a turn's metadata that belong to the guard."""

_KINDS = {Role.USER: TextKind.INPUT, Role.ASSISTANT: TextKind.OUTPUT}
"""As what the text of a message is checked, by its role."""

_ROLES = (*_KINDS, Role.TOOL, Role.FUNCTION)
"""Roles of messages that are checked."""

_NAMED = 5
"""Parts that are named at most where several could not be read."""


def encodable(text: str) -> str:
    """A text as it is; halves of surrogate pairs, which UTF-8 does not have, become U+FFFD.

    >>> encodable("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def short_id(text: str) -> str:
    """An id as it is, or its SHA-256 where it is longer than a session memory takes.

    >>> short_id("user-1"), len(short_id("x" * 100))
    ('user-1', 64)
    """
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= ID_BYTES else sha256(raw).hexdigest()


def digest_of(name: str) -> str:
    """What stands for a name in a state store, so that names are not in it: 32 digits of its SHA-256.

    >>> digest_of("ann")
    '49915e0d7d4b402e3017d010bc1c0e83'
    """
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class NoConversation(Enum):
    """The conversation of a text that belongs to none."""

    NO_CONVERSATION = "no conversation"


NO_CONVERSATION: Final = NoConversation.NO_CONVERSATION
"""What a check has for a conversation where none is passed."""


def usable(conversation: object) -> Conversation:
    """The conversation of a check; a new one for a text that stands by itself."""
    if conversation is NO_CONVERSATION:
        return Conversation()
    if not isinstance(conversation, Conversation):
        raise GuardError(
            f"conversation must be a Conversation, not {type(conversation).__name__}: keep the object from "
            "check to check, or pass Conversation(conversation_id=...); from a state store it is "
            "pipeline.load_conversation(conversation_id); leave it out for a text that stands by itself"
        )
    return conversation


def checkable(content: object) -> str:
    """Content as text that every guardrail can read; see `encodable`."""
    if content is None:
        raise GuardError("Content cannot be None")
    if not isinstance(content, str):
        raise GuardError(f"content is {type(content).__name__}, not text")
    return content if content.isascii() else encodable(content)


def turn_metadata(metadata: Mapping[str, Any] | None, side: Side) -> dict[str, Any]:
    """What joins the metadata of a turn: the caller's, and the mark that one side is being checked."""
    if metadata is None:
        return {CHECKING_KEYS[side]: True}
    extra = json_object(metadata, "metadata")
    for key in RESERVED:
        if key in extra:
            raise GuardError(f"metadata has the key {key!r}, which is the guard's own; rename yours")
    return {**extra, CHECKING_KEYS[side]: True}


def answered_turn(number: int | None, turn: Turn | None, conversation: Conversation) -> int | None:
    """Number of the turn that a response answers, given as a number, as a turn, or not at all."""
    if turn is None:
        return number
    if number is not None and number != turn.number:
        raise GuardError(f"turn_number is {number}, but turn is number {turn.number}; give one of them")
    if conversation.turn(turn.number) is not turn:
        raise GuardError(f"turn {turn.number} is of another conversation; give a turn of this one")
    return turn.number


class LastText(NamedTuple):
    """A text that came last in a list of messages; of a call its arguments.

    It is empty where nothing can be read. `unread` says what else the messages hold, and where. `names` are of
    those who speak in the messages, and of tools that they call.
    """

    kind: TextKind
    text: str
    unread: str = ""
    name: str = ""
    call_id: str | None = None
    names: tuple[str, ...] = ()


class LastTexts(NamedTuple):
    """What came last in a list: all messages, the index of the first that came last, the texts of these."""

    entries: list[Entry]
    first: int
    texts: list[LastText]


def last_texts(messages: Sequence[Mapping[str, Any]]) -> LastTexts:
    """What came last in a list of messages; at least one text.

    >>> last = last_texts([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
    >>> last.first, last.texts[0].kind.value, last.texts[0].text
    (1, 'output', 'Ho')
    """
    entries = OPENAI.entries(messages)
    last = entries[-1]
    if last.role not in _ROLES:
        raise GuardError(f"the last message has role {last.role}; use one of {', '.join(_ROLES)}")
    first = len(entries) - 1
    while first and has_results(entries[first].raw) and _only_results(entries[first - 1]):
        first -= 1
    texts: list[LastText] = []
    for entry in entries[first:]:
        texts += [
            LastText(TextKind.TOOL_RESULT, encodable(one.text), name=one.name, call_id=one.call_id)
            for one in read_results(entry.raw)
        ]
    calls = [
        LastText(TextKind.TOOL_CALL, one.text, name=one.name, call_id=one.call_id) for one in read_calls(last.raw)
    ]
    told = _left_out(messages, first)
    if last.text is not None and last.role in _KINDS:
        texts.append(LastText(_KINDS[last.role], last.text))
    texts += calls
    if not texts and not told:
        raise GuardError(f"the last message, of role {last.role}, has no text to check")
    if not texts:
        texts.append(LastText(_KINDS.get(last.role, TextKind.INPUT), ""))
    texts[0] = texts[0]._replace(unread=told, names=tuple(_names_in(entries)))
    return LastTexts(entries, first, texts)


def before_last(messages: Sequence[Mapping[str, Any]], last: LastTexts) -> Conversation:
    """The conversation before what came last in a list of messages, as the list has it."""
    before = messages[: last.first]
    conversation = from_messages(before) if before else Conversation()
    if last.texts[0].kind is not TextKind.INPUT:
        # It belongs to the message right before it, or to nothing; never to an older one that was left unanswered.
        for turn in conversation.get_incomplete_turns():
            if turn is not conversation.history.last:
                conversation.history.withdraw(turn.number)
    return conversation


def _only_results(entry: Entry) -> bool:
    return has_results(entry.raw) and (entry.role is not Role.USER or entry.text is None)


def _names_in(entries: Sequence[Entry]) -> set[str]:
    """All names in a list of messages; those before the last ones may have been seen by no check."""
    plain = {"role", "content"}
    named = [
        entry.raw
        for entry in entries
        if not plain.issuperset(entry.raw) or isinstance(entry.raw.get("content"), list)
    ]
    names = {raw["name"] for raw in named if isinstance(raw.get("name"), str)}
    return names | {call.name for raw in named for call in read_calls(raw)}


def _left_out(messages: Sequence[Mapping[str, Any]], first: int) -> str:
    """What the last messages hold that nobody reads; empty where there is nothing."""
    told = []
    for place in range(first, len(messages)):
        parts = unread(messages[place])
        if parts:
            rest = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
            told.append(f"message {place + 1}: {', '.join(parts[:_NAMED])}{rest}")
    more = f"; and of {len(told) - _NAMED} more messages" if len(told) > _NAMED else ""
    return f"{'; '.join(told[:_NAMED])}{more} not read" if told else ""


# Names as texts: of tools, of fields, of who speaks. They have words, and are no sentences

_LONGEST: Final = 64
"""Characters of a name that providers take."""

_PLAIN_WORDS, _LONGEST_WORD, _LONGEST_ID = 2, 13, 32
"""Short words that say no order yet; characters of one; hexadecimal digits that are an id and no secret."""

_LATIN: Final = "\u024f"
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_SIGNS: Final = str.maketrans(dict.fromkeys("_.,:;/\\-+|~#=@'()", " "))


def is_ordinary(name: str) -> bool:
    """Whether a name is so short and plain that it can say no order and hold no secret.

    >>> [is_ordinary(name) for name in ("get_weather", "Anna Müller", "user_123", "gpt-4.1")]
    [True, True, True, True]
    >>> [is_ordinary(name) for name in ("ignore_all_rules", "ignorePreviousOrders", "1gn0re all rul3s", "王小明")]
    [False, False, False, False]
    """
    if len(name) > _LONGEST or max(name, default="") > _LATIN:
        return False
    words = [
        word for word in name.translate(_SIGNS).split() if len(word) > _LONGEST_ID or not _HEX.issuperset(word)
    ]
    return len(words) <= _PLAIN_WORDS and all(len(word) <= _LONGEST_WORD for word in words)


def as_text(name: str) -> str:
    """A name as a text, with its words apart below it where they are not.

    >>> as_text("printSystem_prompt").split("\\n")
    ['printSystem_prompt', 'print System prompt']
    """
    pairs = pairwise(f" {name}")
    apart = "".join(f" {now}" if before.islower() and now.isupper() else now for before, now in pairs)
    words = " ".join(apart.translate(_SIGNS).split())
    return name if words == name else f"{name}\n{words}"


def is_name(text: str) -> bool:
    """Whether a text is but a name, as it stands or as `as_text` gives it.

    >>> [is_name(text) for text in ("reset_user_password", as_text("resetUserPassword"), "Reset my password")]
    [True, True, False]
    """
    name = text.partition("\n")[0]
    return len(name.split()) == 1 and len(name) <= _LONGEST and text in (name, as_text(name))


# The arguments of a tool call: read as a text that guardrails can check, and written back with redactions

_NO_JSON: Final = object()
_CONSTANTS: Final = {True: "true", False: "false", None: "null"}


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key that comes twice is kept twice."""


class Arguments:
    """The arguments of a tool call, as the model gave them (`raw`) and as a text to check.

    The text of JSON has each key and value decoded: a value of one word behind its key, others on lines of their
    own. What is not JSON is its own text.

    >>> arguments = Arguments('{"to": "ann@example.com", "text": "See you \\\\u0061t 9"}')
    >>> print(arguments.text)
    to: ann@example.com
    text:
    See you at 9
    >>> arguments.redacted([(Redaction(4, 19, "email"),)])
    '{"to": "[EMAIL]", "text": "See you at 9"}'
    """

    __slots__ = ("_leaves", "_value", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._leaves: list[tuple[int, int]] = []
        try:
            self._value = read_json(raw, pairs=_Object)
        except ValueError:
            self._value = _NO_JSON
            self.text = encodable(raw)
            return
        parts: list[str] = []
        at = 0
        for text, is_leaf in _told(self._value):
            if is_leaf:
                self._leaves.append((at, at + len(text)))
            parts.append(text)
            at += len(text)
        self.text = "".join(parts)

    def redacted(self, redactions: Iterable[Sequence[Redaction]]) -> str:
        """The arguments with redactions; each guardrail's offsets count in what the one before left of it."""
        text, leaves = self.text, self._leaves
        for some in redactions:
            text, leaves = _replaced(text, leaves, some)
        if text == self.text:
            return self.raw
        if self._value is _NO_JSON:
            return text
        before = (self.text[start:end] for start, end in self._leaves)
        after = (text[start:end] for start, end in leaves)
        return _written(self._value, zip(before, after, strict=True))


def redacted_parts(parts: Sequence[str], details: Iterable[Detail]) -> list[str]:
    """Parts of a text, joined by line breaks when it was checked, with what guardrails replaced in each.

    >>> from turnwise.guard.results import Detail, Status
    >>> redacted_parts(["to ann", "bob"], [Detail(Status.EVALUATED, redactions=(Redaction(3, 6, "name"),))])
    ['to [NAME]', 'bob']
    """
    text = "\n".join(parts)
    ends = list(accumulate((len(part) + 1 for part in parts), initial=0))
    leaves = [(start, end - 1) for start, end in pairwise(ends)]
    for detail in details:
        if detail.redactions:
            text, leaves = _replaced(text, leaves, detail.redactions)
    return [text[start:end] for start, end in leaves]


def _told(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield a value as text in pieces, each with whether it is a key or value."""
    if isinstance(value, _Object):
        for place, (key, item) in enumerate(value):
            yield ("\n" if place else ""), False
            yield encodable(key), True
            inner = isinstance(item, list) or _text(item).split() != [_text(item)]
            yield (":\n" if inner else ": "), False
            yield from _told(item)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ("\n" if place else ""), False
            yield from _told(item)
    else:
        yield _text(value), True


def _text(value: Any) -> str:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool) or value is None:
        return _CONSTANTS[value]
    return "" if isinstance(value, list) else str(value)


def _replaced(
    text: str, leaves: Sequence[tuple[int, int]], redactions: Sequence[Redaction]
) -> tuple[str, list[tuple[int, int]]]:
    """A text with stretches replaced, and where its keys and values then stand."""
    parts, end = [], 0
    for redaction in redactions:
        parts += [text[end : redaction.start], redaction.placeholder]
        end = redaction.end
    starts, ends = [one.start for one in redactions], [one.end for one in redactions]
    grown = [len(one.placeholder) - (one.end - one.start) for one in redactions]
    shifts = list(accumulate(grown, initial=0))

    def moved(at: int) -> int:
        """Where an offset moves to; one within a replaced stretch goes behind its placeholder."""
        whole = bisect_right(ends, at)
        within = bisect_left(starts, at)
        return (ends[whole] + shifts[whole + 1]) if within > whole else at + shifts[whole]

    return "".join([*parts, text[end:]]), [(moved(start), moved(end)) for start, end in leaves]


def _written(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    """A value as JSON, with each key and value as it is now; one that changed is written as a string."""
    if isinstance(value, _Object):
        pairs = [(_leaf(key, leaves), _written(item, leaves)) for key, item in value]
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(item, leaves) for item in value) + "]"
    return _leaf(value, leaves)


def _leaf(value: Any, leaves: Iterator[tuple[str, str]]) -> str:
    before, after = next(leaves)
    return json.dumps(value if after == before else after, ensure_ascii=False)
