"""The values that recognisers find in a text, as a guardrail tells and cuts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.errors import GuardError
from turnwise.guard.finding import Finding, Redaction
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.deobfuscation import folded_readings
from turnwise.guard.recognisers.folding import Folding
from turnwise.guard.recognisers.patterns import compile_pattern
from turnwise.guard.recognisers.text import Span, TextReading, apart, counted

if TYPE_CHECKING:
    from turnwise.guard.recognisers.split_values import Joined


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
    """The values in the readings of the text, in order and apart; `find` gets what `folding` gives."""
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
    return list(_whole(sorted(found.items())))


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
    """The finding of at least one value: kinds and counts, never the values; `names` is singular and plural."""
    parts = [Value(span, joined.text) for joined in over for span in joined.spans]
    whole = {span for span, _ in values}
    spans = apart((*whole, *(part.span for part in parts)))
    texts = {value.span: value.text for value in (*parts, *values)}
    shown = [Value(span, texts[span]) for span in spans]
    redactions = tuple(
        Redaction(span.start, span.end, span.kind, placeholder)
        for (span, _), placeholder in zip(shown, placeholders(shown), strict=True)
    )
    told = [counted((span.kind for span, _ in values), names)] if values else []
    told += [f"{counted((joined.kind,), names)} {joined.over_turns[1]}" for joined in over]
    data: dict[str, Any] = {
        "kinds": dict(Counter([*(span.kind for span, _ in values), *(one.kind for one in over)]))
    }
    if over:
        data["over_turns"] = [joined.over_turns[0] for joined in over]
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
