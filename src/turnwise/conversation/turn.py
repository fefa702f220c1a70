"""A turn: one exchange of a conversation, the side of it that a score is about, and digests of what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from turnwise._support.visible import shown
from turnwise.conversation.json_values import as_utc, check_keys, json_object, read_utc
from turnwise.conversation.participants import UNKNOWN_NAME, Participants, ParticipantType
from turnwise.conversation.tool_log import CALLS, RESULTS, TEXTS, Step, ToolCall, ToolLog, ToolResult
from turnwise.errors import ConversationError

KEYS = ("turn", "prompt", "response", "timestamp", "response_timestamp", "metadata")

OPENAI_KEY: Final = "messages"  # key of metadata under which messages in OpenAI's shape are kept
SHAREGPT_KEY: Final = "sharegpt"  # the same for entries of ShareGPT items

MESSAGE_KEYS = (OPENAI_KEY, SHAREGPT_KEY)
"""Keys of metadata under which message formats keep what a turn can't say."""

GUARD_KEY = "guardrail_results"  # key of a turn's metadata under which a guard keeps its checks

ATTEMPTS_KEY = "guardrail_attempts"
"""Key of a turn's metadata under which a guard keeps responses that were blocked and replaced, oldest first."""

_HEX_DIGITS = 16  # digits of a digest that are kept


class Side(StrEnum):
    """The half of a turn that is judged."""

    PROMPT = "prompt"
    RESPONSE = "response"


PARTICIPANT_KEY: Final = "participant"
"""Key of a turn's metadata with the name of who prompts, where several do in a conversation."""

CHECKING_KEYS: Final = {side: f"guardrail_checking_{side}" for side in Side}
"""Key of a turn's metadata that is true while a guard checks that side; `History.annotate` takes it away."""

CONTEXT_KEY: Final = "guardrail_context"
"""Key of a turn's metadata with the tool descriptions, documents and memory that a guard checked, by id."""

CHECKING_TOOLS: Final = "guardrail_checking_tools"
"""Key of a turn's metadata with the tool calls and results under check: pairs of what they are and an id."""


class _Metadata:
    """A turn's metadata; what a guard said is kept apart, since it takes much more memory as JSON values."""

    __slots__ = ("_record", "_shown", "own_metadata")

    own_metadata: dict[str, Any]
    """The metadata without what `checks` has."""
    _record: Any
    _shown: Any

    @property
    def checks(self) -> Any:
        """What a guard said of the turn: an object with methods `get` and `to_dict`, or JSON; None for nothing."""
        return self.own_metadata.get(GUARD_KEY) if self._record is None else self._record

    @checks.setter
    def checks(self, checks: Any) -> None:
        self._record = checks

    def json_metadata(self, where: str = "metadata") -> dict[str, Any]:
        """Return a copy of the metadata as JSON values.

        Raises:
            ConversationError: a value that JSON does not have.
        """
        copied = json_object(self.own_metadata, where)
        return copied if self._record is None else {**copied, GUARD_KEY: _plain(self._record)}

    def _get(self) -> dict[str, Any]:
        """The metadata; a guard's details become JSON values when they are first read."""
        record = self._record
        if record is not self._shown:
            self.own_metadata[GUARD_KEY] = _plain(record)
            self._shown = record
        return self.own_metadata

    def _set(self, metadata: dict[str, Any]) -> None:
        self.own_metadata = metadata
        self._record = self._shown = None


def _plain(record: Any) -> Any:
    return record.to_dict() if hasattr(record, "to_dict") else record


@dataclass(slots=True)
class Turn(_Metadata):
    """One exchange: a prompt and, once there is one, its response.

    A turn that belongs to a `Conversation` is completed by `Conversation.add_response`; the object that
    `add_prompt` returned then shows the response.

    Args:
        number: position in the conversation, from 1.
        prompt: what the initiator said; empty where the responder spoke first.
        response: what the responder answered, or None while there is no answer.
        timestamp: when the prompt arrived, aware, kept in UTC; None where a data set does not say.
        response_timestamp: the same for the response.
        metadata: anything else that is known of the turn; JSON values only. What a guard said of it is there too,
            under ``guardrail_results``, as it was when `metadata` was last asked for.
        participants: who takes part in its conversation; None for a turn by itself.

    Raises:
        ConversationError: a text that is no text, a number below 1, a time without a zone, or a time of a
            response that is not there.
    """

    number: int
    prompt: str
    response: str | None = None
    timestamp: datetime | None = None
    response_timestamp: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    participants: Participants | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.number, bool) or not isinstance(self.number, int) or self.number < 1:
            raise ConversationError(f"turns are numbered from 1, not {shown(self.number)}")
        if not isinstance(self.prompt, str):
            raise ConversationError(f"turn {self.number}: prompt is {type(self.prompt).__name__}, not text")
        if self.timestamp is not None and getattr(self.timestamp, "tzinfo", None) is not UTC:
            self.timestamp = as_utc(self.timestamp, f"turn {self.number}: timestamp")
        if self.response is not None:
            self.complete_with(self.response, self.response_timestamp)
        elif self.response_timestamp is not None:
            raise ConversationError(f"turn {self.number} has a response_timestamp but no response")

    @property
    def complete(self) -> bool:
        """Whether the turn has its response."""
        return self.response is not None

    @property
    def silent(self) -> bool:
        """Whether nobody speaks in it: it holds only what a guard checked beside the messages."""
        own = self.own_metadata
        spoken = self.prompt or self.response is not None or any(key in own for key in MESSAGE_KEYS)
        return CONTEXT_KEY in own and not spoken

    @property
    def speaker(self) -> str:
        """Name of who prompts; ``"unknown"`` where that is not known."""
        named = self.own_metadata.get(PARTICIPANT_KEY)
        if isinstance(named, str):
            return named
        return UNKNOWN_NAME if self.participants is None else self.participants.initiator

    @property
    def listener(self) -> str:
        """Name of the side that answers; ``"unknown"`` where that is not known."""
        return UNKNOWN_NAME if self.participants is None else self.participants.responder

    @property
    def speaker_type(self) -> ParticipantType:
        """What the side that prompts is."""
        return ParticipantType.UNKNOWN if self.participants is None else self.participants.initiator_type

    @property
    def listener_type(self) -> ParticipantType:
        """What the side that answers is."""
        return ParticipantType.UNKNOWN if self.participants is None else self.participants.responder_type

    def text(self, side: Side) -> str | None:
        """Return the text of one side, or None where that side has not spoken."""
        return self.prompt if side is Side.PROMPT else self.response

    def blocked(self, side: Side) -> bool:
        """Return whether the last check of a guard blocked one side; False where no guard looked at it.

        >>> checks = {"input": {"blocked": True}, "output": None}
        >>> Turn(1, "hello", metadata={GUARD_KEY: checks}).blocked(Side.PROMPT)
        True
        """
        # Mappings are told by their `get`: this is asked at every check, and the abstract class is slow to answer.
        checks = self.checks
        check: Any = checks.get("input" if side is Side.PROMPT else "output") if hasattr(checks, "get") else None
        return hasattr(check, "get") and check.get("blocked") is True

    def withheld(self, side: Side) -> bool:
        """Return whether one side must not go on: a guard blocked it, or has not ended its check.

        >>> Turn(1, "hello", metadata={CHECKING_KEYS[Side.PROMPT]: True}).withheld(Side.PROMPT)
        True
        """
        return self.blocked(side) or self.own_metadata.get(CHECKING_KEYS[side]) is True

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools in this turn that can be read, in order.

        >>> call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        >>> kept = [{"role": "user", "content": "Cold?"}, {"role": "assistant", "tool_calls": [call]}]
        >>> Turn(1, "Cold?", metadata={"messages": kept}).tool_calls[0].name
        'weather'
        """
        return tuple(step for step in self.tool_steps if isinstance(step, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """What tools gave back in this turn, in order."""
        return tuple(step for step in self.tool_steps if isinstance(step, ToolResult))

    @property
    def tool_steps(self) -> list[Step]:
        """The calls and results of this turn, in order."""
        for key in MESSAGE_KEYS:
            kept = self.own_metadata.get(key)
            if isinstance(kept, list):
                return ToolLog(kept).steps
        return []

    def withheld_tools(self) -> set[tuple[str, str]]:
        """Return the calls, results and texts beside calls that must not go on, as pairs of section and id."""
        checking = self.own_metadata.get(CHECKING_TOOLS)
        found = {(str(one[0]), str(one[1])) for one in checking} if isinstance(checking, list) else set()
        checks = self.checks
        for section in (CALLS, RESULTS, TEXTS) if hasattr(checks, "get") else ():
            records = checks.get(section)
            for identity, record in records.items() if hasattr(records, "items") else ():
                if hasattr(record, "get") and record.get("blocked") is True:
                    found.add((section, identity))
        return found

    def complete_with(self, response: str, timestamp: datetime | None) -> None:
        """Set the response and its time. A turn of a conversation is completed by `add_response` instead.

        Args:
            response: what the responder answered.
            timestamp: when, aware; None where it is not known.

        Raises:
            ConversationError: a response that is no text, or a time without a zone.
        """
        if not isinstance(response, str):
            raise ConversationError(f"turn {self.number}: response is {type(response).__name__}, not text")
        if timestamp is not None:
            timestamp = as_utc(timestamp, f"turn {self.number}: response_timestamp")
        # The response comes last: a reader in another thread never sees it without its time.
        self.response_timestamp = timestamp
        self.response = response

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as JSON values; `from_dict` gives back an equal turn.

        Raises:
            ConversationError: metadata that JSON does not have.
        """
        return {
            "turn": self.number,
            "prompt": self.prompt,
            "response": self.response,
            "timestamp": self.timestamp.isoformat() if self.timestamp else None,
            "response_timestamp": self.response_timestamp.isoformat() if self.response_timestamp else None,
            "metadata": self.json_metadata(f"turn {self.number}: metadata"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """Build a turn from what `to_dict` gave.

        Args:
            data: ``turn`` and ``prompt`` are needed, the other keys may be missing.

        Raises:
            ConversationError: a missing or unknown key, or a value that does not fit.
        """
        check_keys(data, "a turn", KEYS, needed=("turn", "prompt"))
        where = f"turn {data['turn']}"
        return cls(
            number=data["turn"],
            prompt=data["prompt"],
            response=data.get("response"),
            timestamp=read_utc(data.get("timestamp"), f"{where}: timestamp"),
            response_timestamp=read_utc(data.get("response_timestamp"), f"{where}: response_timestamp"),
            metadata=json_object(data.get("metadata"), f"{where}: metadata"),
        )

    def __reduce__(self) -> tuple[type[Turn], tuple[Any, ...]]:
        times = self.timestamp, self.response_timestamp
        return Turn, (self.number, self.prompt, self.response, *times, self.json_metadata(), self.participants)


# A field of a dataclass can't be declared as a property.
Turn.metadata = property(Turn._get, Turn._set)  # type: ignore[assignment, misc]


class Seen(StrEnum):
    """What a reader saw when they scored a turn."""

    PROMPT = "prompt"
    """This turn's prompt alone."""

    PROMPTS = "prompts"
    """The prompts of this and all earlier turns."""

    BOTH = "both"
    """Prompts and responses of this and all earlier turns."""


@dataclass(frozen=True, slots=True)
class SeenDigest:
    """Digests of a conversation up to a turn, one for each way of reading it, as text that can be stored.

    Each is 16 hexadecimal digits of a SHA-256 over the digest of the turn before and the message in UTF-8.

    >>> digest = SeenDigest().after(Turn(number=1, prompt="Hello"))
    >>> digest.of(Seen.PROMPT) == digest.of(Seen.PROMPTS)
    True
    """

    prompt: str = ""
    prompts: str = ""
    both: str = ""

    def after(self, turn: Turn) -> SeenDigest:
        """Return the digests after the next turn."""
        so_far = _digest(self.both, turn.prompt)
        return SeenDigest(
            prompt=_digest("", turn.prompt),
            prompts=_digest(self.prompts, turn.prompt),
            both=_digest(so_far, turn.response or ""),
        )

    def of(self, seen: Seen) -> str:
        """Return the digest of what a reader of the last turn has seen."""
        return {Seen.PROMPT: self.prompt, Seen.PROMPTS: self.prompts, Seen.BOTH: self.both}[seen]


def _digest(before: str, text: str) -> str:
    content = f"{before}\n{text}".encode("utf-8", errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_HEX_DIGITS]
