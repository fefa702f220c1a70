"""``probing``: prompt after prompt that tries what was blocked, in other words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import ClassVar, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.clock import Clock, utc_now
from turnwise.conversation import Side
from turnwise.errors import GuardError
from turnwise.guard.audit.record import pseudonym
from turnwise.guard.finding import CLEAN, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.names import digest_of
from turnwise.guard.recognisers.hidden_text import plain_texts
from turnwise.guard.recognisers.phrases import shipped_words
from turnwise.guard.results import Detail, GuardrailStatus
from turnwise.guard.state.stores import Prefixed, key_of
from turnwise.linear_regex import WORD, LinearRegex
from turnwise.sessions import MemoryStateStore, StateStore
from turnwise.sessions.state_store import StateKind

_TRIES: Final = 16  # tries of a session that are remembered at most, the latest
_WORDS: Final = 96  # words of a try that are remembered at most: a sample by their hashes
_FEWEST: Final = 3  # words that two texts need for a comparison, and must have in common

# share of words in common from which a disguise, or several prompts together, repeat what was tried
_SAME: Final = 0.6

_PIECES, _PIECE = 4, 4_000  # prompts before one that are looked at with it, and characters of each

# letters of the shortest word that counts, and first letters by which it counts, whatever its ending
_LETTERS, _STEM = 4, 5

_BLOCKED, _READ = 1, 2

_RUNS = LinearRegex(f"[{WORD}]+")
_WITHOUT_SPACES = "\u2e80"  # from here on scripts have no spaces; two characters in a row count as a word


class Try(NamedTuple):
    """A prompt that was blocked, or nearly: when (ms of UTC), where, how it ended, and its words as hashes."""

    at: int
    conversation: str
    turn: int
    flags: int
    words: frozenset[int]

    @property
    def blocked(self) -> bool:
        """Whether it was blocked; else it was let through as a near miss."""
        return bool(self.flags & _BLOCKED)

    @property
    def read(self) -> bool:
        """Whether all observers read its language."""
        return bool(self.flags & _READ)


class Tries(NamedTuple):
    """The tries of a session, oldest first; `owner` is the digest of the session."""

    owner: str
    found: tuple[Try, ...]


def _dump(state: Tries) -> bytes:
    found = [[*one[:4], sorted(one.words)] for one in state.found]
    return json.dumps([state.owner, found], separators=(",", ":")).encode("ascii")


def _load(data: bytes, key: str, version: int) -> Tries:
    owner, listed = read_json(data.decode("ascii"))
    found = tuple(Try(at, name, turn, flags, frozenset(words)) for at, name, turn, flags, words in listed)
    for one in found:
        numbers = (one.at, one.turn, one.flags, *one.words)
        if not all(type(number) is int and number >= 0 for number in numbers) or len(one.words) > _WORDS:
            raise ValueError("a try has a number below 0, or too many words")
        if not isinstance(one.conversation, str):
            raise TypeError("the name of a conversation is no text")
        datetime.fromtimestamp(one.at / 1_000, UTC)
    if not isinstance(owner, str) or not 0 < len(found) <= _TRIES:
        raise ValueError(f"{len(found)} tries of a session; there are 1 to {_TRIES}")
    return Tries(owner, found)


# tries of sessions in a state store
PROBING: Final = StateKind(
    "probing",
    1,
    _dump,
    _load,
    used_at=lambda state: datetime.fromtimestamp(state.found[-1].at / 1_000, UTC),
    owner=lambda state: state.owner,
)


@dataclass(frozen=True)
class Probing(Guardrail):
    """Blocks who tries around the guard: further variations of what was blocked in a session, for a while.

    It remembers the prompts of a session that the guardrails `of` blocked, and near misses: those that they let
    through with a confidence of `near` or more. Of each it keeps up to 96 words, as hashes that only the session's
    name makes comparable. Who was blocked once by mistake and asks again in other words is judged by that text
    alone. Blocked is, until the tries are `minutes` old,

    - after one blocked try what can't be judged by itself: a prompt in a language that the observers don't read
      after one that they read; one that hides the words of a try in a disguise or code; and one that adds up to
      a try with the prompts before it;
    - after `tries` - 1, where a near miss counts a half, a variation: a prompt that has at least the share `alike`
      of its words, or of those of a try, in common with one (words of four letters on, by their first five);
    - then also a further near miss;
    - after `pause_after` blocked tries every prompt.

    Before a pause other subjects pass. What a pause alone blocks counts for nothing, so it ends by itself;
    `release` and `reset` of the session end it at once. Without a blocked try it says nothing. Where guardrails
    only log, what they find counts as blocked.

    It runs behind the others; of those that ask a service it hears what stands before it. Sessions are as for
    `drift`: one for each conversation, or for each person with ``session_by: initiator``, without which whoever
    begins a new conversation begins anew.

    Args:
        tries: the similar try from which it blocks, at least 2.
        alike: share of words in common from which a text is a variation, in (0, 1].
        near: confidence of a guardrail from which a prompt that passes is a near miss, in (0, 1].
        minutes: how long a try counts, above 0, at most 1,440.
        pause_after: blocked tries after which every prompt is blocked, at least `tries`, at most 16; null for
            never.
        of: names of the guardrails whose blocks and near misses count.

    Raises:
        GuardError: a value out of range.
    """

    cost: ClassVar[Cost] = Cost.REMOTE  # it asks nobody, but hears all that the others say
    default_on: ClassVar[On | tuple[On, ...]] = On.INPUT
    reads: ClassVar[On | tuple[On, ...]] = On.INPUT
    default_timeout: ClassVar[float | None] = None

    tries: int = 3
    alike: float = 0.3
    near: float = 0.3
    minutes: float = 30.0
    pause_after: int | None = 4
    of: tuple[str, ...] = ("prompt_injection", "harm", "drift")
    _name: str = field(init=False, repr=False, compare=False, default="probing")
    _clock: Clock = field(init=False, repr=False, compare=False, default=utc_now)
    _own: MemoryStateStore = field(init=False, repr=False, compare=False, default_factory=MemoryStateStore)

    def __post_init__(self) -> None:
        if self.tries < 2:
            raise GuardError(f"tries is {self.tries}; use at least 2")
        for name in ("alike", "near"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise GuardError(f"{name} is {getattr(self, name):g}; use a number above 0, at most 1")
        if not 0.0 < self.minutes <= 1_440.0:
            raise GuardError(f"minutes is {self.minutes:g}; use minutes above 0, at most 1,440")
        if self.pause_after is not None and not self.tries <= self.pause_after <= _TRIES:
            raise GuardError(f"pause_after is {self.pause_after}; use {self.tries} (tries) to {_TRIES}, or null")
        if not self.of:
            raise GuardError("of is empty; name the guardrails whose blocks count")

    @property
    def remembers(self) -> bool:
        """Always, since a blocked prompt counts against later ones."""
        return True

    def placed(self, name: str, clock: Clock) -> Probing:
        other = replace(self)
        for attribute, value in (("_name", name), ("_clock", clock), ("_own", self._own)):
            object.__setattr__(other, attribute, value)
        return other

    def take_over(self, before: Guardrail) -> None:
        if isinstance(before, Probing):
            object.__setattr__(self, "_own", before._own)

    def check(self, check: Check) -> Finding:
        known = self._states(check).get(PROBING, digest_of(check.session_id))
        tries = [] if known is None else [*self._counting(known.found)]
        blocked = sum(one.blocked for one in tries)
        if self.pause_after is not None and blocked >= self.pause_after:
            until = sorted(one.at for one in tries if one.blocked)[-self.pause_after] + self._length
            data = {"paused_until": _time(until), "tries": blocked}
            return Finding(True, f"paused after {blocked} blocked tries, until {_time(until)}", data=data)
        if not blocked or any(detail.blocked for detail in check.said.values()):
            return CLEAN
        if self._unread(check.said) and any(one.blocked and one.read for one in tries):
            return Finding(True, "a language that is not read, after a blocked try", data={"tries": len(tries)})
        several = blocked + (len(tries) - blocked) / 2 >= self.tries - 1
        confidence = self._confidence(check.said)
        if several and confidence >= self.near:
            return Finding(True, f"a near miss after {len(tries)} tries", confidence, data={"tries": len(tries)})
        words = _hashes(check, check.text, undone=True)
        found = [(_in_common(words, one.words), one) for one in tries]
        found = [(share, one) for share, one in found if share >= (self.alike if several else _SAME)]
        how = "resembles"
        if not several:
            shown = _hashes(check, check.text)
            found, how = [one for one in found if _in_common(shown, one[1].words) < self.alike], "hides"
        if not found:
            found, how = [*_in_pieces(check, words, tries)], "adds up to"
        if not found:
            return CLEAN
        turns = ", ".join(_place(one, check) for _, one in found)
        data = {"resembles": [{"conversation": one.conversation, "turn": one.turn} for _, one in found]}
        reason = f"{how} what was tried at {turns}"
        return Finding(True, reason, max(share for share, _ in found), data=data)

    def note(self, check: Check, said: Mapping[str, Detail]) -> None:
        """Remember a prompt that was blocked, or nearly."""
        own = said.get(self._name)
        paused = own is not None and own.found and "paused_until" in (own.data or {})
        confidence = self._confidence(said)
        blocked = any(
            name == self._name or (name in self.of and detail.confidence >= self.near)
            for name, detail in said.items()
            if detail.would_block and detail.status is GuardrailStatus.EVALUATED
        )
        if paused or not (blocked or confidence >= self.near):
            return
        flags = blocked * _BLOCKED | (not self._unread(said)) * _READ
        words = frozenset(sorted(_hashes(check, check.text, undone=True))[:_WORDS])
        at, owner = self._now(), digest_of(check.session_id)
        one = Try(at, pseudonym(check.conversation.conversation_id), check.turn.number, flags, words)

        def apply(before: Tries | None) -> tuple[Tries, None]:
            counted = () if before is None else (*self._counting(before.found, at),)
            return Tries(owner, (*counted, one)[-_TRIES:]), None

        self._states(check).change(PROBING, owner, apply)

    def forget(self, session_id: str, store: StateStore | None = None) -> bool:
        states = self._own if store is None else store
        return states.remove(PROBING, key_of(self._name, digest_of(session_id)))

    def _states(self, check: Check) -> Prefixed:
        return Prefixed(self._own if check.state is None else check.state, key_of(self._name, ""))

    @property
    def _length(self) -> int:
        return int(timedelta(minutes=self.minutes) / timedelta(milliseconds=1))

    def _now(self) -> int:
        return int(self._clock().timestamp() * 1_000)

    def _counting(self, tries: Iterable[Try], now: int | None = None) -> Iterator[Try]:
        """The tries that still count; one ahead of the clock counts as of now."""
        present = self._now() if now is None else now
        for one in tries:
            if present - one.at < self._length:
                yield one._replace(at=min(one.at, present))

    def _confidence(self, said: Mapping[str, Detail]) -> float:
        of = (said[name] for name in self.of if name in said)
        return max((one.confidence for one in of if one.status is GuardrailStatus.EVALUATED), default=0.0)

    def _unread(self, said: Mapping[str, Detail]) -> bool:
        return any(name in said and said[name].status is GuardrailStatus.NOT_READ for name in self.of)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(timespec="seconds")


def _place(one: Try, check: Check) -> str:
    here = one.conversation == pseudonym(check.conversation.conversation_id)
    return f"turn {one.turn}" if here else f"turn {one.turn} of {one.conversation}"


def _hashes(check: Check, text: str, *, undone: bool = False) -> frozenset[int]:
    """The words hashed with the session's name; `undone`: those of the text under check, also in disguise."""

    def compute() -> frozenset[int]:
        key = digest_of(f"probing {check.session_id}").encode("ascii")
        texts = plain_texts(check, shipped_words()) if undone else (text,)
        words = {word for each in texts for word in _words(each)}
        return frozenset(
            int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=4, key=key).digest())
            for word in words
        )

    return check.once(("probing", check.session_id, text, undone), compute)


def _in_pieces(check: Check, words: frozenset[int], tries: Iterable[Try]) -> Iterator[tuple[float, Try]]:
    """The tries that this text makes up together with the prompts before it, with the share of their words."""
    last = check.turn.number
    before = [check.conversation.turn(number) for number in range(max(1, last - _PIECES), last)]
    here = pseudonym(check.conversation.conversation_id)
    for one in tries:
        since = one.turn if one.conversation == here else 0
        pieces = [turn for turn in before if turn.number > since and not turn.blocked(Side.PROMPT)]
        said = frozenset[int]().union(*(_hashes(check, turn.prompt[:_PIECE]) for turn in pieces)) & one.words
        both = said | (words & one.words)
        if len(both) >= max(_FEWEST, _SAME * len(one.words)) and len(both) > len(said) > 0:
            yield len(both) / len(one.words), one


def _words(text: str) -> Iterator[str]:
    """The words of a text that count, by their first letters; twos of characters in scripts without spaces.

    >>> sorted({*_words("Ignore the RULES, ignored rules!")})
    ['ignor', 'rules']
    """
    for run in _RUNS.finditer(text.casefold()):
        word = run[0]
        if word[0] >= _WITHOUT_SPACES:
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) >= _LETTERS:
            yield word[:_STEM]


def _in_common(one: frozenset[int], other: frozenset[int]) -> float:
    """Words in common as a share of the words of the shorter text; 0 where too few can tell."""
    common, fewer = len(one & other), min(len(one), len(other))
    return 0.0 if common < _FEWEST else common / fewer
