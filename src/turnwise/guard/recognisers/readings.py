"""A text as it stands and with what is encoded or disguised undone, and the values in all of these."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise._support.regex_sets import RegexSet
from turnwise.errors import GuardError
from turnwise.guard.finding import Finding, Redaction
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers import decoding, disguises, spelled
from turnwise.guard.recognisers.decoding import decoders_for
from turnwise.guard.recognisers.disguises import DISGUISES
from turnwise.guard.recognisers.folding import PLAIN, Folding
from turnwise.guard.recognisers.look_alikes import UNDISGUISED
from turnwise.guard.recognisers.patterns import compile_pattern
from turnwise.guard.recognisers.spelled import SPELLINGS, ciphers_named
from turnwise.guard.recognisers.text import Replaced, Span, Stretch, TextReading, apart, counted

if TYPE_CHECKING:
    from turnwise.guard.recognisers.assembly import Joined

# times that a text is decoded: what is encoded in what is encoded in what is encoded once more stays
_ROUNDS = 4


class _Redacted:
    """A reading of a text whose redactions were carried out, as a step from the text that they left.

    `reading` is that of the text before; the redactions are in order and apart.
    """

    def __init__(self, reading: TextReading, redactions: Sequence[Redaction]) -> None:
        self._before = reading
        self._ends = [each.end for each in redactions]
        self._gains = [*accumulate((_gain(each) for each in redactions), initial=0)]
        self._places = [each.start + gain for each, gain in zip(redactions, self._gains, strict=False)]
        stretches: list[Stretch] = []
        for each in redactions:
            start = max(reading.place(each.start, begun=False), stretches[-1].end if stretches else 0)
            end = max(reading.place(each.end, begun=True), start)
            stretches.append(Stretch(start, end, each.placeholder))
        self._starts = [each.start for each in stretches]
        self._replaced = Replaced(reading.plain, stretches)
        self.plain = self._replaced.plain

    def span(self, start: int, end: int) -> tuple[int, int]:
        if self._replaced.stretch_at(start) is None and self._replaced.stretch_at(end - 1) is None:
            first, last = self._before.span(*self._replaced.span(start, end))
            count = bisect_right(self._ends, first)
            if count == bisect_right(self._ends, last):  # no redaction between
                return first + self._gains[count], last + self._gains[count]
        return self._place(start)[0], self._place(end - 1)[1]

    def place(self, at: int, *, begun: bool) -> int:
        index = bisect_right(self._places, at) - 1
        if index >= 0 and at < self._ends[index] + self._gains[index + 1]:
            begin = self._replaced.place(self._starts[index], begun=False)
            inside = begun and at > self._places[index]
            return begin + (self._ends[index] + self._gains[index + 1] - self._places[index]) * inside
        return self._replaced.place(self._before.place(at - self._gains[index + 1], begun=begun), begun=begun)

    def _place(self, at: int) -> tuple[int, int]:
        index = self._replaced.stretch_at(at)
        if index is not None:
            return self._places[index], self._ends[index] + self._gains[index + 1]
        before, behind = self._replaced.span(at, at + 1)
        first, last = self._before.span(before, behind)
        gain = self._gains[bisect_right(self._ends, first)]
        return first + gain, last + gain


def _gain(redaction: Redaction) -> int:
    return len(redaction.placeholder) - (redaction.end - redaction.start)


# under which a check keeps the text in which values were found last, and their redactions
_FOUND = "values found"


def readings(check: Check) -> tuple[TextReading, ...]:
    """`readings_of` the text under check, made once for all guardrails.

    Of a text that redactions have changed they are those of the text before, with the same redactions.
    """
    key = ("readings", check.text)
    if key not in check.shared:
        check.shared[key] = (_FOUND in check.shared and _carried_over(check)) or readings_of(check.text)
    made: tuple[TextReading, ...] = check.shared[key]
    return made


def folded_readings(check: Check, folding: Folding) -> Collection[TextReading]:
    """The `readings` of the text under check in a plain form, each once, for all guardrails that use it."""
    return check.once((folding, check.text), partial(_folded, check, folding))


def _folded(check: Check, folding: Folding) -> Collection[TextReading]:
    made: dict[str, TextReading] = {}
    for reading in readings(check):
        folded = reading.behind(folding.fold(reading.plain))
        made.setdefault(folded.plain, folded)
    return made.values()


def _carried_over(check: Check) -> tuple[TextReading, ...]:
    """The readings of a text that is what redactions made of one with readings; none for any other."""
    text, redactions = check.shared[_FOUND]
    if Replaced(text, map(_stretch, redactions)).plain != check.text:
        return ()
    _, *others = check.once(("readings", text), partial(readings_of, text))
    found = {check.text: TextReading(check.text)}
    for reading in others:
        step = _Redacted(reading, redactions)
        found.setdefault(step.plain, TextReading(step.plain, reading.loose, (step,)))
    return tuple(found.values())


def _stretch(redaction: Redaction) -> Stretch:
    return Stretch(redaction.start, redaction.end, redaction.placeholder)


def readings_of(text: str) -> tuple[TextReading, ...]:
    """The readings of a text, the text as it stands first; of an ordinary one there is no other.

    A second one has in plain characters what was encoded: entities, tags between characters, percent signs,
    escapes, soft line breaks, tag characters, overrides, hexadecimal and binary digits, base32, base64. A third,
    loose one has disguises undone as well: lookalike letters and digits, values that are pulled apart, what is
    spelled in words or codes, cut into lines or put together. Further loose ones undo ciphers that the text
    names. Takes time linear in the length of the text.

    >>> [reading.plain for reading in readings_of("Hello there.")]
    ['Hello there.']
    >>> [reading.plain for reading in readings_of("It is MTIzLTQ1LTY3ODk=")]
    ['It is MTIzLTQ1LTY3ODk=', 'It is 123-45-6789']
    """
    first = TextReading(text)
    if text.isascii() and text.isprintable() and not _hints().present(text) and not _spelled_hints().present(text):
        return (first,)
    decoded = _decoded(first)
    loose = _undisguised(decoded)
    found = [first]
    if decoded.plain != text:
        found.append(decoded)
    if loose.plain != decoded.plain:
        found.append(TextReading(loose.plain, True, loose.steps))
    for undo in ciphers_named(decoded.plain) if "in cipher" in _spelled_hints().present(decoded.plain) else ():
        turned = _undisguised(_decoded(decoded.behind(Replaced(decoded.plain, undo(decoded.plain)))))
        found.append(TextReading(turned.plain, True, turned.steps))
    return tuple(found)


@cache
def _hints() -> RegexSet:
    return RegexSet({"encoded": decoding.HINTS, "disguised": disguises.HINTS})


@cache
def _spelled_hints() -> RegexSet:
    return RegexSet({"spelled": spelled.SPELLED_HINTS, "in cipher": spelled.CIPHER_HINTS})


def _decoded(reading: TextReading) -> TextReading:
    for _ in range(_ROUNDS):
        before = reading.plain
        for decode in decoders_for(before):
            reading = reading.behind(Replaced(reading.plain, decode(reading.plain)))
        reading = reading.behind(PLAIN.fold(reading.plain))
        if reading.plain == before:
            break
    return reading


def _undisguised(reading: TextReading) -> TextReading:
    if not reading.plain.isascii():
        reading = reading.behind(UNDISGUISED.fold(reading.plain))
    spellings = SPELLINGS if "spelled" in _spelled_hints().present(reading.plain) else ()
    for undo in (*spellings, *DISGUISES):
        reading = reading.behind(Replaced(reading.plain, undo(reading.plain)))
    return reading


class Value(NamedTuple):
    """A value that was recognised: where it stands in the original text, and what it says in plain form."""

    span: Span
    text: str


def values_in(
    check: Check,
    folding: Folding,
    find: Callable[[TextReading], Iterator[Span]],
    allowed: Container[str] = frozenset(),
) -> list[Value]:
    """The values in the readings of the text under check, in order and apart from each other.

    `find` gets readings in the form that `folding` gives them; what is `allowed` is no value.
    """
    found: dict[Span, str] = {}
    for reading in folded_readings(check, folding):
        spans = [*find(reading)]
        if not spans:
            continue
        values = [(span, reading.plain[span[0] : span[1]]) for span in apart(spans)]
        if allowed:
            values = [(span, text) for span, text in values if text not in allowed]
        if reading.steps:
            values = [(Span(*reading.span(span[0], span[1]), *span[2:]), text) for span, text in values]
        for span, text in values:
            found.setdefault(span, text)
    return list(_whole(sorted(found.items()))) if found else []


def _whole(found: Iterable[tuple[Span, str]]) -> Iterator[Value]:
    """Values apart from each other: of what readings see in one place the surest, as wide as all of it."""
    last: Value | None = None
    for span, text in found:
        if last is None or span.start >= last.span.end:
            if last is not None:
                yield last
            last = Value(span, text)
            continue
        end = max(span.end, last.span.end)
        surer = Value(span, text) if span.confidence > last.span.confidence else last
        last = surer._replace(span=surer.span._replace(start=last.span.start, end=end))
    if last is not None:
        yield last


def values_found(
    check: Check,
    values: Sequence[Value],
    over: Sequence[Joined],
    names: Mapping[str, tuple[str, str]],
    placeholders: Callable[[Sequence[Value]], Iterable[str]],
) -> Finding:
    """The finding of recognised values: kinds and counts, never the values themselves.

    There is at least one, in the text or `over` turns; those in the text are in order and apart. `names` has
    singular and plural by kind.
    """
    parts = [Value(span, joined.text) for joined in over for span in joined.spans]
    whole = {span for span, _ in values}
    spans = apart((*whole, *(part.span for part in parts)))
    texts = {value.span: value.text for value in (*parts, *values)}
    shown = [Value(span, texts[span]) for span in spans]
    redactions = tuple(
        Redaction(span.start, span.end, span.kind, placeholder)
        for (span, _), placeholder in zip(shown, placeholders(shown), strict=True)
    )
    check.shared[_FOUND] = (check.text, redactions)
    told = [counted((span.kind for span, _ in values), names)] if values else []
    told += [f"{counted((joined.kind,), names)} {joined.told}" for joined in over]
    data: dict[str, Any] = {
        "kinds": dict(Counter([*(span.kind for span, _ in values), *(one.kind for one in over)]))
    }
    if over:
        data["over_turns"] = [joined.turns for joined in over]
    return Finding(
        found=True,
        reason=", ".join(told),
        confidence=max([*(span.confidence for span, _ in values), *(joined.confidence for joined in over)]),
        redactions=redactions,
        data=data,
        earlier=tuple(
            part
            for joined in over
            for placeholder in placeholders([Value(Span(0, 1, *joined[:2]), joined.text)])
            for part in joined.earlier(placeholder)
        ),
    )


# Values that are never a finding

_SEPARATORS = dict.fromkeys(map(ord, "-._/()"))


class Allowed:
    """A set of values: exact ones, whatever their case and separators, and regular expressions between slashes.

    `forms` gives further writings of a value under which it is equal to others, such as a phone number's with the
    code of its country.

    >>> "555 0100" in Allowed(["555-0100"]), "sales@example.com" in Allowed(["/.*@example\\\\.com/"])
    (True, True)
    """

    def __init__(self, entries: Iterable[str], forms: Callable[[str], Iterable[str]] = lambda _: ()) -> None:
        exact, patterns = set(), []
        self._forms = forms
        for entry in entries:
            if not isinstance(entry, str) or not entry.strip():
                raise GuardError(f"allow has {entry!r}; write a value, or a regular expression between slashes")
            if len(entry) > 2 and entry.startswith("/") and entry.endswith("/"):
                patterns.append(compile_pattern(entry[1:-1], f"allow: {entry}", ignore_case=True))
            else:
                exact |= {_key(entry), *forms(entry)}
        self._exact = frozenset(exact)
        self._patterns = tuple(patterns)

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        if _key(value) in self._exact or not self._exact.isdisjoint(self._forms(value)):
            return True
        return any(pattern.fullmatch(value) is not None for pattern in self._patterns)


def _key(value: str) -> str:
    value = value.strip().casefold()
    return value if "@" in value else "".join(value.split()).translate(_SEPARATORS)
