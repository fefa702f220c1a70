"""How much of a text that is still growing may be shown: all that no guardrail can still object to."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple

from turnwise.conversation import Conversation, Side, Turn
from turnwise.guard.finding import Redaction
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.deobfuscation import readings
from turnwise.guard.results import Detail
from turnwise.guard.step import Step

CONTEXT: Final = 512
"""Characters that were shown already and are looked at again, since words before a value say what it is."""

LONGEST_RUN: Final = 8_192
"""Characters without white space that are held back until they end: keys, tokens and what is encoded are such."""

_LEAST_STEP, _STEPS = 16, 32
"""A look comes after so many characters, or after this part of what is looked at where that is more, so that the
time for a text is linear in its length however much is held back."""

_RUN = frozenset(string.ascii_letters + string.digits + string.punctuation).union(
    map(chr, range(0xE0020, 0xE007F))
)
"""Characters of which a value may have more than a guardrail reaches: ASCII that shows, and invisible copies."""

_WORD = frozenset(string.ascii_letters + string.digits + "+/_=-")

_LONG_WORD = 12  # characters of a word from which the line before it may be a part of it, as base64 is written

_CODE = frozenset(string.hexdigits + "x")

_LONGEST_CODE = 10

_LONGEST_ROW = 2_048  # characters of a row of codes, such as ``34 31 31``, that are held back until it ends
_SIGN = 0.25  # what a sign counts beside a letter or digit where it is measured how far a guardrail reaches


class Chunk(NamedTuple):
    """A stretch of a text from `start` up to `end`, and what stands there now; `put` if that is a replacement."""

    start: int
    end: int
    text: str
    put: bool


def replaced(chunks: Sequence[Chunk], redactions: Iterable[Redaction]) -> list[Chunk]:
    """Apply redactions to chunks (in order, without a gap); they count in the text that these make up now.

    >>> [chunk.text for chunk in replaced([Chunk(0, 9, "I am Ann.", False)], [Redaction(5, 8, "name")])]
    ['I am ', '[NAME]', '.']
    """
    done: list[Chunk] = []
    rest = deque(chunks)
    at = 0
    for redaction in redactions:
        while at + len(rest[0].text) <= redaction.start:
            at += len(rest[0].text)
            done.append(rest.popleft())
        first = rest[0]
        start, lead = first.start, first.text[: redaction.start - at]
        if lead and not first.put:
            start += len(lead)
            done.append(Chunk(first.start, start, lead, False))
            lead = ""
        while at + len(rest[0].text) < redaction.end:
            at += len(rest.popleft().text)
        last = rest.popleft()
        used = redaction.end - at
        end = last.end if last.put else last.start + used
        done.append(Chunk(start, end, lead + redaction.placeholder, True))
        at = redaction.end
        if last.text[used:]:
            rest.appendleft(Chunk(end, last.end, last.text[used:], last.put))
    return [*done, *rest]


def shown_up_to(chunks: Iterable[Chunk], start: int, end: int) -> str:
    """What chunks show of a stretch of the text; what was put in place of a part counts where that part ends."""
    parts = []
    for chunk in chunks:
        if chunk.put:
            if start < chunk.end <= end or (chunk.start == chunk.end and start <= chunk.end <= end):
                parts.append(chunk.text)
        elif chunk.end > start and chunk.start < end:
            parts.append(chunk.text[max(0, start - chunk.start) : end - chunk.start])
    return "".join(parts)


class HeldBack:
    """A growing text; held back is what guardrails still reach, and what that would cut in two."""

    def __init__(self, steps: Sequence[Step], turn: Turn, conversation: Conversation, session_id: str) -> None:
        self._steps = tuple(steps)
        self._reach = max((step.guardrail.reach or 0 for step in steps), default=0)
        self._about = (turn, conversation, session_id)
        self._base = 0
        """Offset in the text of the first character that is still looked at."""
        self._text = ""
        """What is looked at."""
        self._waiting: list[str] = []
        self._came = 0
        self._settled = 0
        self._look_at = 1
        self._chunks: list[Chunk] = []
        self._put: list[tuple[int, int]] = []
        """What was replaced in the part that was shown."""

    @property
    def came(self) -> int:
        """Characters that have come."""
        return self._came

    @property
    def settled(self) -> int:
        """Characters of the text that were shown, or something in their place."""
        return self._settled

    @property
    def pending(self) -> str:
        """What is held back, redacted as the last look at it says."""
        end = self._base + len(self._text)
        return shown_up_to(self._chunks, self._settled, end) + "".join(self._waiting)

    def covered(self, start: int, end: int) -> int:
        """How many characters of a stretch that was shown had been replaced by then."""
        return sum(max(0, min(end, behind) - max(start, first)) for first, behind in self._put)

    def add(self, piece: str) -> bool:
        """Take a piece of the text; return whether it is time for a look."""
        self._waiting.append(piece)
        self._came += len(piece)
        return self._came >= self._look_at or not self._reach

    def look(self, *, here: bool) -> Generator[tuple[Step, Check], Detail, tuple[str, str, Detail | None]]:
        """What may be shown now, and name and verdict of a guardrail that blocked."""
        self._text += "".join(self._waiting)
        self._waiting.clear()
        text, end = self._text, self._base + len(self._text)
        self._look_at = end + max(_LEAST_STEP, len(text) // _STEPS)
        check = Check(text, Side.RESPONSE, *self._about, before=self._base, more=True)
        chunks = [Chunk(self._base, end, text, False)] if text else []
        for step in self._steps:
            detail = step.run(check) if here else (yield step, check)
            if detail.blocked:
                self._chunks = chunks
                return "", step.name, detail
            if detail.redactions:
                chunks = replaced(chunks, detail.redactions)
                check.text = "".join(chunk.text for chunk in chunks)
        self._chunks = chunks
        cut = self._cut(check, chunks)
        shown = shown_up_to(chunks, self._settled, cut)
        if cut > self._settled:
            self._put += [
                (each.start, each.end) for each in chunks if each.put and self._settled < each.end <= cut
            ]
            self._settled = cut
            self._forget(chunks)
        return shown, "", None

    def _cut(self, check: Check, chunks: Sequence[Chunk]) -> int:
        if not self._reach:
            return self._base + len(self._text)
        text, base = self._text, self._base
        check.text = text
        others = readings(check)[1:]
        cut, before = self._out_of_reach(), -1
        while cut != before:
            before = cut
            cut = _start_of_row(text, _start_of_run(text, cut))
            for reading in others:
                if 0 < cut < len(text):
                    place = reading.place(cut)
                    if place < len(reading.plain):
                        start, end = reading.span(place, place + 1)
                        cut = start if start < cut < end else cut
            for chunk in chunks:
                if chunk.put and chunk.start < base + cut < chunk.end:
                    cut = chunk.start - base
        return max(base + cut, self._settled)

    def _out_of_reach(self) -> int:
        """Offset in what is looked at behind which there is as much as the farthest guardrail reaches."""
        text, at, left = self._text, len(self._text), float(self._reach)
        least = self._settled - self._base
        while at > least and left > 0:
            at -= 1
            mark = text[at]
            left -= 1.0 if mark.isalnum() else _SIGN if mark.isprintable() and mark != " " else 0.0
        return at

    def _forget(self, chunks: Sequence[Chunk]) -> None:
        """Leave out what need not be looked at again: up to a word some way before what is held back."""
        start = self._settled - self._base - CONTEXT * bool(self._reach)
        if start <= CONTEXT // 2 and self._reach:
            return
        start = _start_of_run(self._text, start)
        for chunk in chunks:
            if chunk.put and chunk.start < self._base + start < chunk.end:
                start = chunk.end - self._base
        self._text = self._text[start:]
        self._base += start


def _start_of_run(text: str, at: int) -> int:
    """Where the characters without white space around a place begin, with lines that go on there."""
    least = max(0, at - LONGEST_RUN)
    start = at
    while start > least and start < len(text) and text[start] in _RUN and text[start - 1] in _RUN:
        start -= 1
    if start == least and least:
        return at
    while start > least and text[start - 1] == "\n":
        end = start - 1 - text.endswith("\r", 0, start - 1)
        first = end
        while first > least and text[first - 1] in _WORD:
            first -= 1
        if end - first < _LONG_WORD:
            break
        start = first
    return start


def _start_of_row(text: str, at: int) -> int:
    """Where the row of codes or single characters around a place begins."""
    least = max(0, at - _LONGEST_ROW)
    start = at
    while start > least:
        end = start
        while end > least and text[end - 1] not in _WORD:
            end -= 1
        first = end
        while first > least and text[first - 1] in _WORD:
            first -= 1
        size = end - first
        if not 0 < size <= _LONGEST_CODE or not (size == 1 or _CODE.issuperset(text[first:end])):
            break
        start = first
    return at if start <= least and least else start
