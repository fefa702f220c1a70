"""A conversation: two participants and an ordered list of turns, with the limits and the tools of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import uuid4

from turnwise._support.notebook import data_frame, html_table
from turnwise._support.visible import shown
from turnwise.clock import Clock, utc_now
from turnwise.conversation.history import History
from turnwise.conversation.json_values import check_keys, json_object, read_utc
from turnwise.conversation.message_formats import OPENAI
from turnwise.conversation.participants import (
    ConversationArguments,
    ConversationOptions,
    Participants,
    ParticipantType,
)
from turnwise.conversation.rate_limit import Limits
from turnwise.conversation.tools import Tools
from turnwise.conversation.turn import OPENAI_KEY, Turn
from turnwise.conversation.turn_lists import Turns
from turnwise.errors import ConversationError

if TYPE_CHECKING:
    import pandas

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


class Conversation:
    """Participants and an ordered list of turns, numbered from 1.

    Turns are added, and completed by their response, but never removed or moved. Adding, completing, counting and
    looking up a turn take constant time; what returns turns takes time in proportion to what it returns. All
    methods are safe under threads.

    Its parts: `history` has the turns and what a guard or a state store does to them, `limits` the rate limit, and
    `tools` adds calls and results of tools.

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
        given = {
            "initiator": initiator,
            "responder": responder,
            "initiator_type": initiator_type,
            "responder_type": responder_type,
        }
        sides = Participants.read(given, participants)
        if conversation_id is not None and (not isinstance(conversation_id, str) or not conversation_id):
            raise ConversationError(f"conversation_id is {shown(conversation_id)}; use text that is not empty")
        self._conversation_id = conversation_id or uuid4().hex
        self.history = History(sides, clock)
        self.limits = Limits(self.history, rate_limit)
        self.tools = Tools(self.history)
        self._created_at: datetime | None = self.history.now(created_at)
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
            conversation.history.append(item if kept else _as_turn(item, number))  # type: ignore[arg-type]
        conversation.limits.recount()
        return conversation

    # Participants and identity

    @property
    def conversation_id(self) -> str:
        """The unique name of the conversation."""
        return self._conversation_id

    @property
    def initiator(self) -> str:
        """Name of the side that prompts."""
        return self.history.participants.initiator

    @property
    def responder(self) -> str:
        """Name of the side that answers."""
        return self.history.participants.responder

    @property
    def initiator_type(self) -> ParticipantType:
        """What the initiator is."""
        return self.history.participants.initiator_type

    @property
    def responder_type(self) -> ParticipantType:
        """What the responder is."""
        return self.history.participants.responder_type

    @property
    def created_at(self) -> datetime | None:
        """When the conversation began, in UTC; None where its turns happened at an unknown time."""
        return self._created_at or self.history.earliest

    @property
    def last_activity(self) -> datetime | None:
        """When the last prompt or response came, in UTC; before the first, when the conversation began."""
        return self.history.latest or self._created_at

    @property
    def participants(self) -> dict[str, Any]:
        """Names and types of both sides and what else is known, in the form that the constructor takes."""
        return self.history.participants.to_dict()

    # Turns

    @property
    def turns(self) -> Turns:
        """All turns at this moment: read-only, without a copy, with `len`, indices, slices and iteration."""
        return self.history.turns

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.history.turns)

    def turn(self, number: int) -> Turn:
        """Return the turn with a number.

        Raises:
            ConversationError: no turn has that number.
        """
        return self.history.turn(number)

    def get_history(self, limit: int | None = None) -> list[Turn]:
        """Return the last turns, in order; this takes time in proportion to `limit`, not to the conversation.

        Args:
            limit: how many, at least 0; None for all of them.

        Raises:
            ConversationError: a negative limit.
        """
        turns = self.turns
        if limit is None:
            return list(turns)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ConversationError(f"limit is {shown(limit)}; use a whole number from 0, or None for all turns")
        return list(turns[max(0, len(turns) - limit) :])

    def get_complete_turns(self) -> list[Turn]:
        """Return the turns that have their response, in order."""
        return [turn for turn in self.turns if turn.complete]

    def get_incomplete_turns(self) -> list[Turn]:
        """Return the turns that wait for their response, in order, without looking at the others."""
        return self.history.open_turns

    def get_turn_count(self) -> int:
        """Return the number of turns."""
        return len(self.history)

    def get_complete_turn_count(self) -> int:
        """Return the number of turns that have their response."""
        return self.history.complete_count

    def get_duration(self) -> float:
        """Return the seconds from the earliest time stamp to the latest; 0.0 for fewer than two.

        The stamps of prompts and of responses count.
        """
        with self.history.lock:
            first, last = self.history.earliest, self.history.latest
        return 0.0 if first is None or last is None else (last - first).total_seconds()

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
        history, limits = self.history, self.limits
        with history.lock:
            stamp, arrival = limits.arrive(timestamp)
            if response is not None:
                response_timestamp = response_timestamp or stamp
            turn = history.add(prompt, response, metadata, stamp, response_timestamp)
            limits.record(arrival)
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
        with self.history.lock:
            turn = self.history.complete(turn_number, response, metadata, timestamp)
            if OPENAI_KEY in turn.own_metadata:
                self.tools.settle(turn)
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
        with self.history.lock:
            if turn_number is None and self.history.first_open is None:
                self.tools.reopen_last()
                if self.history.first_open is None:
                    return self.add_turn("", response, metadata)
            return self.add_response(response, metadata, turn_number=turn_number)

    # As JSON values

    def to_messages(self, *, blocked: bool = False, until: int | None = None) -> list[dict[str, Any]]:
        """Return the conversation as OpenAI chat messages, as a model may be sent them; see `from_messages`.

        A response that was added later follows its turn. Of a conversation that came from ShareGPT, texts, calls
        and what tools gave back are kept.

        Args:
            blocked: whether to include what a guard blocked or still checks, which a model should not see. Without
                it such a call is left out with its result, and such a result alone becomes ``[tool result
                withheld]``, since providers refuse a call without a result as they do a result without its call.
            until: the last turn to include; None for all.

        >>> chat = Conversation.from_turns([("Hi", "Hello"), ("Bye", None)])
        >>> [message["role"] for message in chat.to_messages()]
        ['user', 'assistant', 'user']
        """
        with self.history.lock:
            return OPENAI.messages(self.metadata, self.turns[:until], blocked=blocked)

    def to_dict(self, *, turns: bool = True) -> dict[str, Any]:
        """Return the conversation as JSON values; `from_dict` gives back one with the same values.

        Args:
            turns: whether to include the turns.
        """
        with self.history.lock:
            values: dict[str, Any] = {
                "conversation_id": self._conversation_id,
                "participants": self.participants,
                "model_info": json_object(self.model_info, "model_info"),
                "metadata": json_object(self.metadata, "metadata"),
                "rate_limit": self.limits.to_dict(),
                "rate_limit_counts_after": self.limits.counts_after,
            }
            if self._created_at is not None:
                values["created_at"] = self._created_at.isoformat()
            if turns:
                values["turns"] = [turn.to_dict() for turn in self.turns]
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
        if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= len(conversation.history):
            raise ConversationError(f"rate_limit_counts_after is {shown(after)}; use a turn number, or 0")
        conversation.limits.recount(after)
        return conversation

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
        return html_table(repr(self), ("turn", "prompt", "response"), self._rows(), len(self.history))

    def __repr__(self) -> str:
        return (
            f"Conversation({self.initiator!r}, {self.responder!r}, "
            f"conversation_id={self.conversation_id!r}, turns={len(self.history)})"
        )


def _as_turn(item: object, number: int) -> Turn:
    if isinstance(item, Turn):
        return replace(item, metadata=item.json_metadata(f"turn {number}: metadata"))
    if isinstance(item, tuple | list) and len(item) == 2:
        return Turn(number, item[0], item[1])
    raise ConversationError(f"turn {number} is {type(item).__name__}; use a Turn or a pair of prompt and response")
