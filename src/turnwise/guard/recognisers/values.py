"""What a guardrail says of values that it recognised in a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from turnwise.guard.guardrail import CLEAN, Finding, Redaction
from turnwise.guard.recognisers.folding import Folded
from turnwise.guard.recognisers.spans import Span, counted


def values_found(
    spans: Sequence[Span], folded: Folded, names: Mapping[str, tuple[str, str]], placeholders: Iterable[str]
) -> Finding:
    """Return the finding of recognised values: kinds and counts, never the values themselves.

    Args:
        spans: where they stand in the folded text, in order and apart.
        folded: the folded text, which knows the places in the original.
        names: singular and plural by kind.
        placeholders: what is to stand in the place of each.
    """
    if not spans:
        return CLEAN
    return Finding(
        found=True,
        reason=counted((span.kind for span in spans), names),
        confidence=max(span.confidence for span in spans),
        redactions=tuple(
            Redaction(*folded.span(span.start, span.end), span.kind, placeholder)
            for span, placeholder in zip(spans, placeholders, strict=True)
        ),
        data={"kinds": dict(Counter(span.kind for span in spans))},
    )
