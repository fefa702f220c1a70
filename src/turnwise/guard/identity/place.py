"""Where the last messages of a list stand in a conversation, and what a check makes of that."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turnwise.conversation import Conversation, Role
from turnwise.conversation.messages.entries import Entry
from turnwise.errors import StateError
from turnwise.guard.identity.chain import LINK, Checked, Link, Said
from turnwise.guard.identity.turns import absorb, check_of, is_latest
from turnwise.guard.results import PipelineResult
from turnwise.guard.state.views import Work

Run = Generator[Any, Any, PipelineResult]
"""A check under way; see `turnwise.guard.step.CheckRun`."""

_LINKED: Final = 200
"""Messages before the checked ones that become links, at most: the last ones."""


class MovedError(Exception):
    """Another check went on with the conversation meanwhile: the place has to be looked for again."""


@dataclass(slots=True)
class Place:
    """Where texts stand that are checked one after the other, and what is before them.

    `link` is where the conversation stands before messages that nobody checked: `unseen`, and the same as they
    came, `entries`. `said` are the checked messages. `fresh`: the conversation was made for this check, and has
    `unseen` already. `forged` is what is told of the model's messages that were never seen as output; empty for
    nothing.
    """

    chat: Conversation
    link: Link
    unseen: Sequence[Said]
    entries: Sequence[Entry]
    said: Sequence[Said]
    fresh: bool = False
    forged: str = ""
    _texts: list[str] = field(default_factory=list)
    _checks: list[Checked] = field(default_factory=list)
    _blocked: bool = False

    @property
    def before(self) -> Link:
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
        self.said = (Said(str(Role.ASSISTANT), (content,), ("text",), len(self.entries)),)

    def called(self, name: str, arguments: str) -> PlacedText:
        """Add the call of a tool to the reply under check; returns the place of its arguments."""
        said = self.said[-1]
        self.said = (replace(said, texts=(*said.texts, arguments), rest=(*said.rest, f"call:{name}")),)
        return self.text(len(said.texts))

    def text(self, index: int) -> PlacedText:
        """The place of one of the texts under check, by its index."""
        return PlacedText(self, index)

    def enter(self, index: int) -> None:
        """Take in what nobody checked, once the conversation is up to date and no other check of it is under way.

        Raises MovedError where the conversation went on meanwhile.
        """
        if self.fresh or index:
            return
        if not is_latest(self.chat, self.link, self.entries):
            raise MovedError
        absorb(self.chat, self.entries, self.link)

    def note(self, index: int, result: PipelineResult, change: Callable[[str, Link], object]) -> PipelineResult:
        """Take in what a check said of a text, by its index, and note the place of a message that is all checked.

        `change` is called with the digest and the link of each place.
        """
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

    def noted(self, index: int, run: Run, change: Callable[[str, Link], object]) -> Run:
        """Run a check, and note the place that it leads to; arguments as for `note`."""
        return self.note(index, (yield from run), change)

    def _tell(self, link: Link, change: Callable[[str, Link], object]) -> None:
        told = replace(link, conversation_id=self.chat.conversation_id)
        for key in dict.fromkeys(told.views):
            change(key, told)


@dataclass(frozen=True, slots=True)
class PlacedText:
    """One of the texts of a place, by its index.

    `place` is None where the state store can't tell it, because of `trouble`. `entered`: the conversation was
    brought to the place before, as it is when a stream opens.
    """

    place: Place | None
    index: int = 0
    trouble: StateError | None = None
    entered: bool = False

    def enter(self) -> None:
        """Bring the conversation to the place, as `Place.enter` does."""
        if self.place is not None and not self.entered:
            self.place.enter(self.index)

    @property
    def forged(self) -> str:
        """What is told of messages never seen as output, beside a text that goes to the model."""
        return "" if self.place is None or self.place.said[-1].by_model else self.place.forged

    def at(self, index: int) -> PlacedText:
        """Another text of the same place."""
        return replace(self, index=index)

    def noted(self, run: Run, work: Work) -> Run:
        """Run a check; the place is written together with what comes of it."""

        def change(key: str, link: Link) -> None:
            work.change(LINK, key, lambda _: (link, None))

        return run if self.place is None else self.place.noted(self.index, run, change)
