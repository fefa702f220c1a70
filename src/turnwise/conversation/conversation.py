"""A conversation: two participants and an ordered list of turns, at the same cost at any length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import uuid4

from turnwise._support.notebook import data_frame, html_table
from turnwise._support.visible import shown
from turnwise.clock import Clock, utc_now
from turnwise.conversation.json_values import check_keys, json_object, read_utc
from turnwise.conversation.options import ConversationArguments, ConversationOptions
from turnwise.conversation.participants import Participants, ParticipantType
from turnwise.conversation.tool_history import ToolHistory
from turnwise.conversation.turn import OPENAI_KEY, Turn
from turnwise.conversation.turn_log import Outline, TurnLog
from turnwise.errors import ConversationError

if TYPE_CHECKING:
    import pandas

__all__ = ["Conversation", "ParticipantType"]

KEYS = (
    "conversation_id",
    "participants",
    "model_info",
    "metadata",
    "rate_limit",
    "rate_limit_counts_after",
    "created_at",
    "turns",
)
"""Keys of a conversation as JSON."""

_TIMES = ("timestamp", "response_timestamp")


class Conversation(ToolHistory):
    """Participants and an ordered list of turns, numbered from 1.

    Turns are added, and completed by their response, but never removed or moved. Adding, completing, counting and
    looking up a turn take constant time; what returns turns takes time in proportion to what it returns. All
    methods are safe under threads.

    Args:
        initiator: name of the side that prompts; ``"unknown"`` where it is left out.
        responder: name of the side that answers; ``"unknown"`` where it is left out.
        initiator_type: ``human``, ``bot``, ``agent``, ``ai_model`` or ``unknown``.
        responder_type: the same for the responder.
        conversation_id: unique name; a random one where it is left out.
        participants: the first four arguments as one mapping, with any further keys. A field may be given
            both ways, but only with the same value.
        model_info: what is known of the model: ``model_id``, ``model_version``, ``provider`` and any other
            key; JSON values.
        metadata: anything else that is known of the conversation; JSON values.
        rate_limit: any of ``turns_per_minute``, ``turns_per_hour``, ``turns_per_day``; None for no limit.
        created_at: when the conversation began, aware; by default what the clock says.
        clock: gives the present time, aware.

    Raises:
        ConversationError: an unknown participant type, a misspelt key, values that contradict each other, a name
            that is no text, or metadata that JSON does not have.

    >>> chat = Conversation.human_ai("user_123", "gpt-4")
    >>> turn = chat.add_prompt("Is it safe to mix these two?")
    >>> turn.complete, chat.get_complete_turn_count()
    (False, 0)
    >>> chat.add_response("Which two?").number
    1
    >>> turn.response, chat.get_complete_turn_count()
    ('Which two?', 1)
    """

    def __init__(
        self,
        initiator: str | None = None,
        responder: str | None = None,
        *,
        initiator_type: ParticipantType | str | None = None,
        responder_type: ParticipantType | str | None = None,
        conversation_id: str | None = None,
        participants: Mapping[str, Any] | None = None,
        model_info: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        rate_limit: Mapping[str, int] | None = None,
        created_at: datetime | None = None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(rate_limit, clock)
        given = {
            "initiator": initiator,
            "responder": responder,
            "initiator_type": initiator_type,
            "responder_type": responder_type,
        }
        self._participants = Participants.read(given, participants)
        if conversation_id is not None and (not isinstance(conversation_id, str) or not conversation_id):
            raise ConversationError(f"conversation_id is {shown(conversation_id)}; use text that is not empty")
        self._conversation_id = conversation_id or uuid4().hex
        self._created_at: datetime | None = self._time(created_at)
        self.model_info = json_object(model_info, "model_info")
        self.metadata = json_object(metadata, "metadata")

    # Ways to build one

    @classmethod
    def human_ai(cls, user: str, model: str, **kwargs: Unpack[ConversationOptions]) -> Self:
        """Return a conversation of a person with a model; the model's name is also its ``model_id``.

        Args:
            user: name of the person.
            model: name of the model.
            kwargs: as for the constructor.
        """
        info = json_object(kwargs.get("model_info"), "model_info")
        if info.setdefault("model_id", model) != model:
            both = f"{shown(model)}, {shown(info['model_id'])}"
            raise ConversationError(f"model_id is given twice: {both}; give it once")
        kwargs["model_info"] = info
        return cls(user, model, initiator_type="human", responder_type="ai_model", **kwargs)

    @classmethod
    def bot_to_bot(cls, initiator: str, responder: str, **kwargs: Unpack[ConversationOptions]) -> Self:
        """Return a conversation of two bots; `kwargs` as for the constructor."""
        return cls(initiator, responder, initiator_type="bot", responder_type="bot", **kwargs)

    @classmethod
    def agent_to_agent(cls, initiator: str, responder: str, **kwargs: Unpack[ConversationOptions]) -> Self:
        """Return a conversation of two agents; `kwargs` as for the constructor."""
        return cls(initiator, responder, initiator_type="agent", responder_type="agent", **kwargs)

    @classmethod
    def human_to_human(cls, initiator: str, responder: str, **kwargs: Unpack[ConversationOptions]) -> Self:
        """Return a conversation of two people; `kwargs` as for the constructor."""
        return cls(initiator, responder, initiator_type="human", responder_type="human", **kwargs)

    @classmethod
    def from_turns(
        cls,
        turns: Iterable[Turn | tuple[str, str | None]],
        *,
        copy: bool = True,
        **kwargs: Unpack[ConversationArguments],
    ) -> Self:
        """Return a conversation of turns that already happened, as data set loaders need it.

        Time stamps stay as they are: a turn has none where the data do not say when it happened.

        Args:
            turns: turns numbered 1, 2, 3 ..., or pairs of prompt and response (None where there is none).
            copy: whether to copy the turns; else the conversation keeps and completes the given ones, which nobody
                else may use.
            kwargs: as for the constructor.

        Raises:
            ConversationError: a turn out of order, or an item that is neither turn nor pair.

        >>> chat = Conversation.from_turns([("hello", "hi"), ("bye", None)])
        >>> chat.turn(2).prompt, chat.turn(2).timestamp
        ('bye', None)
        """
        conversation = cls(**kwargs)
        if kwargs.get("created_at") is None:
            conversation._created_at = None  # it began with its first turn, whenever that was
        for number, item in enumerate(turns, start=1):
            kept = not copy and isinstance(item, Turn)
            turn = conversation._log.append(item if kept else _as_turn(item, number))  # type: ignore[arg-type]
            turn.participants = conversation._participants
        conversation._recount()
        return conversation

    @classmethod
    def from_messages(cls, messages: object, **kwargs: Unpack[ConversationArguments]) -> Self:
        """Return the conversation of a list of OpenAI chat messages; see `messages.from_messages`."""
        from turnwise.conversation.messages import read_messages

        turns, kwargs["metadata"] = read_messages(messages, kwargs.get("metadata"))
        return cls.from_turns(turns, copy=False, **kwargs)

    # Participants and identity

    @property
    def conversation_id(self) -> str:
        """The unique name of the conversation."""
        return self._conversation_id

    @property
    def initiator(self) -> str:
        """Name of the side that prompts."""
        return self._participants.initiator

    @property
    def responder(self) -> str:
        """Name of the side that answers."""
        return self._participants.responder

    @property
    def initiator_type(self) -> ParticipantType:
        """What the initiator is."""
        return self._participants.initiator_type

    @property
    def responder_type(self) -> ParticipantType:
        """What the responder is."""
        return self._participants.responder_type

    @property
    def created_at(self) -> datetime | None:
        """When the conversation began, in UTC; None where its turns happened at an unknown time."""
        if self._created_at is not None:
            return self._created_at
        with self._lock:
            return self._log.earliest

    @property
    def last_activity(self) -> datetime | None:
        """When the last prompt or response came, in UTC; before the first, when the conversation began."""
        with self._lock:
            return self._log.latest or self._created_at

    @property
    def participants(self) -> dict[str, Any]:
        """Names and types of both sides and what else is known, in the form that the constructor takes."""
        return self._participants.to_dict()

    # Adding turns

    def add_turn(
        self,
        prompt: str,
        response: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        timestamp: datetime | None = None,
        response_timestamp: datetime | None = None,
    ) -> Turn:
        """Add a turn and return it.

        Args:
            prompt: what the initiator said.
            response: what the responder answered; None leaves the turn open.
            metadata: anything else that is known of the turn; JSON values.
            timestamp: when the prompt arrived, aware; by default what the clock says.
            response_timestamp: the same for the response; by default the time of the prompt.

        Raises:
            ConversationError: a text that is no text, a time without a zone, metadata that is not JSON.
        """
        with self._lock:
            stamp, arrival = self._arrival(timestamp)
            if response is not None:
                response_timestamp = response_timestamp or stamp
            return self._add(prompt, response, metadata, stamp, response_timestamp, arrival)

    def _add(
        self,
        prompt: str,
        response: str | None,
        metadata: Mapping[str, Any] | None,
        stamp: datetime,
        response_stamp: datetime | None,
        arrival: datetime | None,
    ) -> Turn:
        """Add a turn that arrived; the caller holds the lock."""
        number = len(self._log) + 1
        extra = json_object(metadata, f"turn {number}: metadata")
        turn = self._log.append(Turn(number, prompt, response, stamp, response_stamp, extra, self._participants))
        if self._rate_limit is not None and arrival is not None:
            self._rate_limit.record(arrival)
        return turn

    def add_exchange(
        self,
        prompt: str,
        response: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        timestamp: datetime | None = None,
        response_timestamp: datetime | None = None,
    ) -> Turn:
        """Add a turn with its response, and return it; arguments and errors as for `add_turn`."""
        if response is None:
            raise ConversationError("an exchange needs a response; use add_prompt until there is one")
        return self.add_turn(
            prompt, response, metadata, timestamp=timestamp, response_timestamp=response_timestamp
        )

    def add_prompt(
        self, prompt: str, metadata: Mapping[str, Any] | None = None, *, timestamp: datetime | None = None
    ) -> Turn:
        """Add a turn that waits for its response, and return it; arguments and errors as for `add_turn`."""
        return self.add_turn(prompt, None, metadata, timestamp=timestamp)

    def try_add_prompt(
        self, prompt: str, metadata: Mapping[str, Any] | None = None, *, timestamp: datetime | None = None
    ) -> Turn | None:
        """Add a prompt unless the rate limit is exceeded, in one step that no other thread can interrupt.

        Args:
            prompt: what the initiator said.
            metadata: anything else that is known of the turn; JSON values.
            timestamp: when the prompt arrived, aware; by default what the clock says.

        Returns:
            The turn, or None where the limit is exceeded and nothing was added.
        """
        with self._lock:
            stamp, arrival = self._arrival(timestamp)
            if self._rate_limit is not None and arrival is not None and self._rate_limit.exceeded(arrival):
                return None
            return self._add(prompt, None, metadata, stamp, None, arrival)

    def add_response(
        self,
        response: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        turn_number: int | None = None,
        timestamp: datetime | None = None,
    ) -> Turn:
        """Complete an open turn, and return it.

        Args:
            response: what the responder answered.
            metadata: is added to the metadata of the turn; JSON values.
            turn_number: the turn that it answers; by default the oldest open one.
            timestamp: when the response came, aware; by default what the clock says.

        Raises:
            ConversationError: no turn is open, the turn does not exist or has its response, or as for
                `add_turn`.
        """
        extra = json_object(metadata, "metadata")
        with self._lock:
            turn = self._log.complete(turn_number, response, self._time(timestamp), extra)
            if OPENAI_KEY in turn.own_metadata:
                self._settle(turn)
            return turn

    def answer(
        self, response: str, metadata: Mapping[str, Any] | None = None, *, turn_number: int | None = None
    ) -> Turn:
        """Complete the turn that a response belongs to, or add one with an empty prompt where none waits.

        Args:
            response: what the responder said.
            metadata: is added to the metadata of the turn; JSON values.
            turn_number: the turn that it answers; by default the oldest open one.

        Raises:
            ConversationError: the turn does not exist or has its response, or as for `add_turn`.
        """
        with self._lock:
            if turn_number is None and not self._log.waiting:
                self._continued()
            if turn_number is None and not self._log.waiting:
                return self.add_turn("", response, metadata)
            return self.add_response(response, metadata, turn_number=turn_number)

    def rephrase(self, turn_number: int, response: str, metadata: Mapping[str, Any] | None = None) -> Turn:
        """Replace what a turn has of its response with the whole of it, as of now, and return the turn.

        Args:
            turn_number: the turn, which has a response.
            response: the whole of what the responder answered.
            metadata: is added to the metadata of the turn; JSON values.

        Raises:
            ConversationError: the turn does not exist or has no response, or as for `add_turn`.
        """
        extra = json_object(metadata, "metadata")
        with self._lock:
            return self._log.rephrase(turn_number, response, self._time(None), extra)

    def note(self, key: str, change: Callable[[Any], Any]) -> None:
        """Set a key of the conversation's metadata in one step that no other thread can interrupt.

        Args:
            key: the key.
            change: is given the old value, or None, and returns the new one; JSON values.
        """
        with self._lock:
            self.metadata[key] = change(self.metadata.get(key))

    # As JSON values

    def to_messages(self, *, blocked: bool = False, until: int | None = None) -> list[dict[str, Any]]:
        """Return the conversation as OpenAI chat messages, without what a guard blocked or still checks.

        Args:
            blocked: whether to include that too; see `messages.to_messages`.
            until: the last turn to include; None for all.
        """
        from turnwise.conversation.messages import write_messages

        with self._lock:
            return write_messages(self, blocked=blocked, until=until)

    def to_dict(self, *, turns: bool = True) -> dict[str, Any]:
        """Return the conversation as JSON values; `from_dict` gives back one with the same values.

        Args:
            turns: whether to include the turns.
        """
        with self._lock:
            values: dict[str, Any] = {
                "conversation_id": self._conversation_id,
                "participants": self.participants,
                "model_info": json_object(self.model_info, "model_info"),
                "metadata": json_object(self.metadata, "metadata"),
                "rate_limit": self.rate_limit,
                "rate_limit_counts_after": self._counts_after,
            }
            if self._created_at is not None:
                values["created_at"] = self._created_at.isoformat()
            if turns:
                values["turns"] = [turn.to_dict() for turn in self._log.snapshot]
            return values

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, turns: Iterable[Turn] | None = None, clock: Clock = utc_now
    ) -> Self:
        """Build a conversation from what `to_dict` gave, also after a way through JSON.

        Args:
            data: what `to_dict` gave; ``turns`` is needed, the rest may be missing.
            turns: the turns, where they were kept apart from `data`; the conversation keeps these objects.
            clock: gives the present time, aware.

        Raises:
            ConversationError: an unknown or missing key, or a value that does not fit.
        """
        check_keys(data, "a conversation", KEYS, needed=("turns",) if turns is None else ())
        if turns is None:
            if not isinstance(data["turns"], list):
                raise ConversationError(f"turns is {type(data['turns']).__name__}, not a list of turns")
            turns = map(Turn.from_dict, data["turns"])
        conversation = cls.from_turns(
            turns,
            copy=False,
            conversation_id=data.get("conversation_id"),
            participants=data.get("participants"),
            model_info=data.get("model_info"),
            metadata=data.get("metadata"),
            rate_limit=data.get("rate_limit"),
            created_at=read_utc(data.get("created_at"), "created_at"),
            clock=clock,
        )
        after = data.get("rate_limit_counts_after", 0)
        if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= len(conversation._log):
            raise ConversationError(f"rate_limit_counts_after is {shown(after)}; use a turn number, or 0")
        conversation._counts_after = after
        conversation._recount()
        return conversation

    # As a state store keeps it

    @property
    def outline(self) -> Outline:
        """What is known of the turns without reading them, for `take_over`."""
        with self._lock:
            return self._log.outline

    def take_over(
        self,
        outline: Outline,
        changed: Mapping[int, Turn],
        load: Callable[[range], Iterable[Turn]],
        *,
        own_after: int = 0,
        counts_after: int = 0,
    ) -> None:
        """Take in what was added and changed elsewhere. Turn objects stay, and turns of one's own come last.

        A conversation without turns takes constant time: early turns are read when somebody asks for them.

        Args:
            outline: the turns as they are there.
            changed: turns that were added or changed there, by number.
            load: returns the turns with the numbers that it is given, in order.
            own_after: number after which turns are not known there.
            counts_after: number after which prompts count against the rate limit.
        """
        with self._lock:
            own = self._log.retract(own_after)
            if len(self._log):
                for number in sorted(changed):
                    self._tools.pop(number, None)
                    self._log.refresh(changed[number])
                self._log.settle(outline)
            else:
                self._log = TurnLog.resumed(outline, changed, load)
            for turn in own:
                turn.number = len(self._log) + 1
                self._log.append(turn)
            self._counts_after = max(self._counts_after, min(counts_after, outline.turns))
            self._recount()

    def take_back(self, number: int) -> None:
        """Take the last turn away again, as though it had not been said.

        Raises:
            ConversationError: it is not the last turn.
        """
        with self._lock:
            if not 0 < number == len(self._log):
                raise ConversationError(f"turn {number} can't be taken back: there are {len(self._log)} turns")
            self._log.retract(number - 1)
            self._recount()

    def to_frame(self) -> pandas.DataFrame:
        """Return the turns as a pandas table.

        Columns: ``turn``, ``prompt``, ``response``, ``timestamp``, ``response_timestamp``.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(("turn", "prompt", "response", *_TIMES), self._rows(_TIMES))

    def _rows(self, further: Iterable[str] = ()) -> Iterator[tuple[Any, ...]]:
        for turn in self:
            yield turn.number, turn.prompt, turn.response, *(getattr(turn, name) for name in further)

    def _repr_html_(self) -> str:
        return html_table(repr(self), ("turn", "prompt", "response"), self._rows(), len(self._log))

    def __repr__(self) -> str:
        return (
            f"Conversation({self.initiator!r}, {self.responder!r}, "
            f"conversation_id={self.conversation_id!r}, turns={len(self._log)})"
        )


def _as_turn(item: object, number: int) -> Turn:
    if isinstance(item, Turn):
        return replace(item, metadata=item.json_metadata(f"turn {number}: metadata"))
    if isinstance(item, tuple | list) and len(item) == 2:
        return Turn(number, item[0], item[1])
    raise ConversationError(f"turn {number} is {type(item).__name__}; use a Turn or a pair of prompt and response")
