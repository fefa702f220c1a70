"""Values that were recognised in the readings of a text, and what a guardrail says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from turnwise.guard.guardrail import CLEAN, Check, Finding, Redaction
from turnwise.guard.recognisers.folding import Folding
from turnwise.guard.recognisers.readings import Reading, readings
from turnwise.guard.recognisers.spans import Span, apart, counted


class Value(NamedTuple):
    """A value that was recognised.

    Args:
        span: where it stands in the original text.
        text: what it says in plain form.
    """

    span: Span
    text: str


def values_in(
    check: Check,
    folding: Folding,
    find: Callable[[Reading], Iterator[Span]],
    allowed: Container[str] = frozenset(),
) -> list[Value]:
    """Return the values in the readings of the text under check, in order and apart from each other.

    Args:
        check: the text.
        folding: the plain form in which values are looked for.
        find: finds them in a reading that has that form.
        allowed: values that are none.
    """
    found: dict[Span, str] = {}
    for reading in check.once(("readings", folding, check.text), lambda: _folded(check, folding)):
        for span in apart(find(reading)):
            text = reading.plain[span.start : span.end]
            if text not in allowed:
                start, end = reading.span(span.start, span.end)
                found.setdefault(span._replace(start=start, end=end), text)
    return list(_whole(sorted(found.items())))


def _whole(found: Iterable[tuple[Span, str]]) -> Iterator[Value]:
    """Yield values apart from each other: of what readings see in one place the surest, as wide as all of it."""
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


def _folded(check: Check, folding: Folding) -> tuple[Reading, ...]:
    first, *others = readings(check)
    plain = check.once((folding, check.text), lambda: folding.fold(first.plain))
    return (first.behind(plain), *(reading.behind(folding.fold(reading.plain)) for reading in others))


def values_found(
    values: Sequence[Value], names: Mapping[str, tuple[str, str]], placeholders: Iterable[str]
) -> Finding:
    """Return the finding of recognised values: kinds and counts, never the values themselves.

    Args:
        values: the values, in order and apart.
        names: singular and plural by kind.
        placeholders: what is to stand in the place of each.
    """
    if not values:
        return CLEAN
    spans = [value.span for value in values]
    return Finding(
        found=True,
        reason=counted((span.kind for span in spans), names),
        confidence=max(span.confidence for span in spans),
        redactions=tuple(
            Redaction(span.start, span.end, span.kind, placeholder)
            for span, placeholder in zip(spans, placeholders, strict=True)
        ),
        data={"kinds": dict(Counter(span.kind for span in spans))},
    )
