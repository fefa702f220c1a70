"""Recognises conversations by lists of messages: what of a list is known, what has to be checked, and where."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from turnwise.conversation import Conversation, Role, Side
from turnwise.conversation.message_entries import MessageEntry, read_calls
from turnwise.conversation.message_formats import OPENAI, messages_of_turn
from turnwise.errors import StateError
from turnwise.guard.messages.chain import LINK, ChainedMessage, ChainLink, MessageCheck, chain_of, root_of
from turnwise.guard.messages.linked_turns import absorb, check_of, fork, is_latest, recorded
from turnwise.guard.results import PipelineResult
from turnwise.guard.state.stores import StateTransaction
from turnwise.sessions.state_store import StateStore

if TYPE_CHECKING:
    from turnwise.guard.messages.checking import LastText

_LOOKED_BACK: Final = 128  # messages from the end of a list among which the latest known one is looked for

_HELD: Final = 10_000
"""Conversations that stay in memory; where a store has them as well, so that their observer's cache does."""

_SHOWN: Final = 5  # messages that were never seen as output of which the places are told


class ListedTexts(NamedTuple):
    """A list of messages, ready to be looked up, without those of who runs the model."""

    said: Sequence[ChainedMessage]
    entries: Sequence[MessageEntry]
    first: int  # so many come before those to check
    texts: Sequence[LastText]  # to be checked, in order

    @classmethod
    def of(cls, entries: Sequence[MessageEntry], first: int, texts: Sequence[LastText]) -> ListedTexts:
        """The same from all messages of a list; `first` is the index of the first one to check."""
        said = chain_of(entries)
        return cls(said, [entries[one.place] for one in said], sum(one.place < first for one in said), texts)


class ListPosition(NamedTuple):
    """Where a list stands: for a retry what the record says, else the place of what is to be checked."""

    chat: Conversation
    retry: PipelineResult | None
    place: ListPlace | None
    texts: Sequence[LastText]


class MessageLists:
    """Finds the conversation that a list of messages continues, in a state store.

    `load` makes a held conversation current, or None for one not known. What `before` holds is shared.
    """

    def __init__(
        self,
        store: StateStore,
        load: Callable[[str, Conversation | None], Conversation | None] = lambda _, held: held,
        before: MessageLists | None = None,
    ) -> None:
        self._store = store
        self._load = load
        self._held: OrderedDict[str, Conversation] = OrderedDict() if before is None else before._held
        self._locks: WeakKeyDictionary[Conversation, threading.Lock] = WeakKeyDictionary()
        self._lock: threading.Lock = threading.Lock() if before is None else before._lock

    def find(
        self,
        listed: ListedTexts,
        conversation_id: str | None = None,
        scope: Sequence[str | None] = (),
        after: str | None = None,
    ) -> ListPosition:
        """Find where a list stands; a MovedError where another check went on with the conversation meanwhile."""
        root = self._root(conversation_id, scope, after)
        digests = [root.place]
        for said in listed.said:
            digests.append(said.after(digests[-1]))
        whole, missing = len(listed.said), []
        for known in range(whole, max(0, whole - _LOOKED_BACK) - 1, -1):
            link = root if not known else self._store.get(LINK, digests[known])
            chat = None if link is None or not link.conversation_id else self._chat(link.conversation_id)
            if link is None:
                missing.append(digests[known])
            if link is None or (known and (chat is None or link.turn > chat.get_turn_count())):
                continue
            if known == whole and chat is not None and listed.first < whole:
                retry = recorded(chat, link)
                if retry is not None:
                    return ListPosition(chat, retry, None, ())
                continue
            at = known
            if not known and conversation_id is not None and chat is not None:
                at, link = self._told_before(chat, root, digests[: listed.first + 1])
            if chat is not None and not is_latest(chat, link):
                late: list[ChainLink | None] = [self._store.get(LINK, digest) for digest in missing]
                if any(late):
                    raise MovedError
            return self._placed(listed, at, link, chat, conversation_id, root.depth)
        return self._placed(listed, 0, root, None, conversation_id, root.depth)

    def is_clean(self, place: str) -> bool:
        """Whether all messages up to a place went on as they were sent."""
        link = self._store.get(LINK, place)
        return link is not None and link.clean

    def note(self, key: str, link: ChainLink) -> None:
        """Write a place, where no check writes it with its turn."""
        self._store.change(LINK, key, lambda _: (link, None))

    def lock(self, chat: Conversation) -> threading.Lock:
        """The lock to hold while a text is checked, for a conversation that no store keeps."""
        with self._lock:
            return self._locks.setdefault(chat, threading.Lock())

    def held(self, conversation_id: str) -> Conversation | None:
        """A conversation as it is held in memory; None for one that is not."""
        with self._lock:
            return self._held.get(conversation_id)

    def forget(self, conversation_id: str) -> bool:
        """Let go of a conversation; returns whether it was held."""
        with self._lock:
            return self._held.pop(conversation_id, None) is not None

    def hold(self, chat: Conversation) -> None:
        """Keep a conversation in memory, the least recently used giving way."""
        with self._lock:
            self._held[chat.conversation_id] = chat
            self._held.move_to_end(chat.conversation_id)
            while len(self._held) > _HELD:
                self._held.popitem(last=False)

    def _root(self, conversation_id: str | None, scope: Sequence[str | None], after: str | None) -> ChainLink:
        if after is not None:
            link = self._store.get(LINK, after)
            if link is not None:
                return link
        if conversation_id is not None:
            return ChainLink.root(root_of("id", conversation_id), conversation_id)
        return ChainLink.root(root_of("scope", *(name or "" for name in scope)))

    def _chat(self, conversation_id: str) -> Conversation | None:
        with self._lock:
            held = self._held.get(conversation_id)
        chat = self._load(conversation_id, held)
        if chat is None:
            with self._lock:
                if self._held.get(conversation_id) is held:
                    self._held.pop(conversation_id, None)
            return None
        self.hold(chat)
        return chat

    def _placed(
        self,
        listed: ListedTexts,
        known: int,
        link: ChainLink,
        chat: Conversation | None,
        name: str | None,
        depth: int,
    ) -> ListPosition:
        """The place after the known messages: in the same conversation, or in a fork of it."""
        first = max(known, listed.first)
        unseen, entries = listed.said[known:first], listed.entries[known:first]
        texts = listed.texts[sum(len(said.texts) for said in listed.said[listed.first : first]) :]
        goes_on = chat is not None and is_latest(chat, link)
        fresh = not goes_on or any(said.opens for said in unseen) or bool(unseen and not link.turn)
        if chat is None or (fresh and chat.get_turn_count()):
            root = link.before or link.conversation_id or name or ""
            chat = fork(chat, link, entries, root)
            self.hold(chat)
        elif fresh:
            absorb(chat, entries, link, fresh=True)
        link = replace(link, before=link.before or name or chat.conversation_id)
        # One that is named and begins here may begin elsewhere at the same moment.
        place = ListPlace(chat, link, unseen, entries, listed.said[first:], bool(fresh and (entries or link.turn)))
        before = place.before
        if before.forged:
            place.forged = _told(before, listed.said, depth)
        opened = max((at for at in range(first) if listed.said[at].opens), default=0)
        return ListPosition(
            chat, None, place, _with_known_ids(texts, listed.entries[opened:first], chat, place.turn_number)
        )

    def _told_before(self, chat: Conversation, root: ChainLink, digests: Sequence[str]) -> tuple[int, ChainLink]:
        """How much of a list is in a conversation that did not come as lists, and where that ends."""
        links: dict[str, ChainLink] = {}
        whole = passed = root
        for turn in chat.turns:
            entries = OPENAI.entries(messages_of_turn(turn) or [{"role": "user", "content": ""}])
            for said in chain_of(entries):
                whole = replace(whole.then(said), turn=turn.number)
                links[whole.place] = whole
                mute = said.by_model and turn.withheld(Side.RESPONSE)
                if not (turn.withheld(Side.PROMPT) or mute):
                    passed = replace(passed.then(said), turn=turn.number)
                    links[passed.place] = passed
        for known in range(len(digests) - 1, 0, -1):
            if digests[known] in links:
                return known, links[digests[known]]
        return 0, root


def _with_known_ids(
    texts: Sequence[LastText], entries: Iterable[MessageEntry], chat: Conversation, number: int | None
) -> list[LastText]:
    """Texts with the ids that the conversation has for their calls: an equal list may have others."""
    known = () if number is None or number > chat.get_turn_count() else chat.turn(number).tool_calls
    told = (call.call_id for entry in entries for call in read_calls(entry.raw))
    same = {old: call.call_id for old, call in zip(told, known, strict=False)}
    return [one._replace(call_id=same.get(one.call_id, one.call_id)) for one in texts]


def _told(link: ChainLink, said: Sequence[ChainedMessage], depth: int) -> str:
    """What is told of messages never seen as output, with their places in the list as it was sent, from 1."""
    places = [str(said[at].place + 1) for at in (one - depth for one in link.noted) if 0 <= at < len(said)][
        :_SHOWN
    ]
    which = f": message {', '.join(places)}" if places else ""
    more = ", ..." if link.forged > len(places) and places else ""
    what = "message" if link.forged == 1 else "messages"
    return f"{link.forged} {what} of the assistant never seen as output{which}{more}"


Run = Generator[Any, Any, PipelineResult]
"""A check under way; see `turnwise.guard.step.CheckRun`."""

_LINKED: Final = 200  # messages before the checked ones that become links, at most: the last ones


class MovedError(Exception):
    """Another check went on with the conversation meanwhile: the place has to be looked for again."""


@dataclass(slots=True)
class ListPlace:
    """Where texts stand that are checked one after the other, and what is before them."""

    chat: Conversation
    link: ChainLink  # where the conversation stands before `unseen`
    unseen: Sequence[ChainedMessage]  # messages that nobody checked
    entries: Sequence[MessageEntry]  # the same as they came
    said: Sequence[ChainedMessage]  # the checked messages
    fresh: bool = False  # the conversation was made for this check, and has `unseen` already
    forged: str = ""  # what is told of the model's messages that were never seen as output
    _texts: list[str] = field(default_factory=list)
    _checks: list[MessageCheck] = field(default_factory=list)
    _blocked: bool = False

    @property
    def before(self) -> ChainLink:
        """Where the conversation stands right before the checked messages."""
        link = self.link
        for said in self.unseen:
            link = link.then(said, seen=False)
        return link

    @property
    def turn_number(self) -> int | None:
        """The turn that a response, a call or a result belongs to; None where that is a new one."""
        before = self.before
        return None if before.spoken else before.turn or None

    def spoken(self, content: str) -> None:
        """Make the checked message a reply with this text."""
        self.said = (ChainedMessage(str(Role.ASSISTANT), (content,), ("text",), len(self.entries)),)

    def called(self, name: str, arguments: str) -> PlacedText:
        """Add the call of a tool to the reply under check; returns the place of its arguments."""
        said = self.said[-1]
        self.said = (replace(said, texts=(*said.texts, arguments), rest=(*said.rest, f"call:{name}")),)
        return self.text(len(said.texts))

    def text(self, index: int) -> PlacedText:
        """The place of one of the texts under check, by its index."""
        return PlacedText(self, index)

    def enter(self, index: int) -> None:
        """Take in what nobody checked, while no other check runs; a MovedError where it went on meanwhile."""
        if self.fresh or index:
            return
        if not is_latest(self.chat, self.link, self.entries):
            raise MovedError
        absorb(self.chat, self.entries, self.link)

    def note(
        self, index: int, result: PipelineResult, change: Callable[[str, ChainLink], object]
    ) -> PipelineResult:
        """Take in what a check said of a text; `change` gets digest and link of a message that is all checked."""
        number = result.turn_number
        if number is None:
            return result
        if not index:
            link = self.link
            for left, said in zip(range(len(self.unseen), 0, -1), self.unseen, strict=True):
                link = link.then(said, seen=False)
                if left <= _LINKED:
                    self._tell(link, change)
        self._texts[index:] = [result.text]
        self._blocked |= result.blocked
        self._checks[index:] = [check_of(self.chat.turn(number), result)]
        link, done = self.before, 0
        for said in self.said:
            if done + len(said.texts) > len(self._texts):
                break
            texts = self._texts[done : done + len(said.texts)]
            done += len(said.texts)
            link = replace(link.then(said, texts), turn=number, checked=tuple(self._checks[:done]))
            link = replace(link, clean=link.clean and not self._blocked)
        if done == len(self._texts):
            self._tell(link, change)
        return result.replaced(place=link.place)

    def noted(self, index: int, run: Run, change: Callable[[str, ChainLink], object]) -> Run:
        """Run a check, and note the place that it leads to; arguments as for `note`."""
        return self.note(index, (yield from run), change)

    def _tell(self, link: ChainLink, change: Callable[[str, ChainLink], object]) -> None:
        told = replace(link, conversation_id=self.chat.conversation_id)
        for key in dict.fromkeys(told.views):
            change(key, told)


@dataclass(frozen=True, slots=True)
class PlacedText:
    """One of the texts of a place, by its index."""

    place: ListPlace | None  # None where the state store can't tell it, because of `trouble`
    index: int = 0
    trouble: StateError | None = None
    entered: bool = False  # the conversation was brought to the place before, as when a stream opens

    def enter(self) -> None:
        """Bring the conversation to the place, as `ListPlace.enter` does."""
        if self.place is not None and not self.entered:
            self.place.enter(self.index)

    @property
    def forged(self) -> str:
        """What is told of messages never seen as output, beside a text that goes to the model."""
        return "" if self.place is None or self.place.said[-1].by_model else self.place.forged

    def at(self, index: int) -> PlacedText:
        """Another text of the same place."""
        return replace(self, index=index)

    def noted(self, run: Run, work: StateTransaction) -> Run:
        """Run a check; the place is written together with what comes of it."""

        def change(key: str, link: ChainLink) -> None:
            work.change(LINK, key, lambda _: (link, None))

        return run if self.place is None else self.place.noted(self.index, run, change)
