"""Numbers and addresses are told by what stands right beside them."""

from __future__ import annotations

import pytest

from turnwise.guard import build_guardrail, finding_of

PII = build_guardrail("pii", regions=("US", "GB"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4111 1111 1111 1111 222", ["4111 1111 1111 1111"]),
        ("4111-1111-1111-1111 222", ["4111-1111-1111-1111"]),
        ("62 00 00 00 00 00 00 05", ["62 00 00 00 00 00 00 05"]),
        ("1-123-45-6789", []),
        ("123-45-6789% of it", []),
        ("ssn 12 345 6789-1", []),
        ("mail jane@a.example.2x.", ["jane@a.example"]),
        ("mail jané@exämple.de", ["jané@exämple.de"]),
        ("mail ..jane@example.com", ["jane@example.com"]),
        ("jane_ [at] example (dot) com", ["jane_ [at] example (dot) com"]),
        ("host 8.8.4.4.5", []),
        ("host 8.8.4.04", []),
        ("host 8 [dot] 8(.)4.4", ["8 [dot] 8(.)4.4"]),
        ("::ffff:8.8.4.4, 2001:db8::1.", ["::ffff:8.8.4.4", "2001:db8::1"]),
        ("éde89370400440532013000", []),
        ("DE89 3704 0044 0532 0130 00 x", ["DE89 3704 0044 0532 0130 00"]),
        ("call +44 20 7946 0958x", []),
        ("call (020) 7946 0958", ["(020) 7946 0958"]),
        ("call 01.02.2024", []),
        ("dl dl no 12345678", ["12345678"]),
        ("passport us no: c01x00t47", ["c01x00t47"]),
    ],
)
def test_values_word_for_word(text: str, values: list[str]) -> None:
    assert [text[each.start : each.end] for each in finding_of(PII, text).redactions] == values
