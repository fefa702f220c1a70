"""Patterns match in linear time, are named in the reason, and a wrong one is told apart at the start."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError
from turnwise.guard import build_guardrail, finding_of

REGEX = build_guardrail("regex", patterns={"case number": r"\bCASE-\d{6}\b", "badge": r"B\d{3}"})


def test_names_counts_and_redactions() -> None:
    text = "é CASE-123456, case-654321 and b123"
    finding = finding_of(REGEX, text)
    assert finding.reason == "2 case number, 1 badge"
    assert [text[each.start : each.end] for each in finding.redactions] == ["CASE-123456", "case-654321", "b123"]
    assert [each.placeholder for each in finding.redactions] == ["[CASE NUMBER]", "[CASE NUMBER]", "[BADGE]"]
    assert finding.data == {"patterns": ["case number", "badge"]}


def test_clean_and_case() -> None:
    assert not finding_of(REGEX, "CASE-12345").found
    assert not finding_of(build_guardrail("regex", patterns={"a": "abc"}, ignore_case=False), "ABC").found


def test_overlapping_matches_are_kept_apart() -> None:
    finding = finding_of(build_guardrail("regex", patterns={"short": "bc", "long": "abcd"}), "xabcdx")
    assert [(each.start, each.end, each.kind) for each in finding.redactions] == [(1, 5, "long")]


def test_very_many_matches_are_cut_out_to_the_end() -> None:
    text = "a " * 5_000
    redactions = finding_of(build_guardrail("regex", patterns={"a": "a"}), text).redactions
    assert len(redactions) == 1_001
    assert redactions[-1].end == len(text)


def test_a_pattern_that_is_slow_elsewhere_takes_linear_time() -> None:
    assert not finding_of(build_guardrail("regex", patterns={"slow": r"(a+)+$"}), "a" * 100_000 + "!").found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"a(?=b)", "pattern 'p': column 2: (?= is a lookaround"),
        (r"(?<!x)ab", "column 1: (?<! is a lookaround"),
        (r"(a)x\1", r"column 5: \1 is a backreference"),
        (r"(?P<n>a)(?P=n)", "column 9: (?P= is a backreference"),
        (r"a++", "column 2: ++ is an atomic group or possessive quantifier"),
        (r"(?>a)", "column 1: (?> is an atomic group"),
        (r"a(b", "missing ): a(b"),
        (r"[z-a]", "column 2: invalid character class range: z-a"),
        (r"a**", "column 2: bad repetition operator: **"),
        (r"x*", "matches every text, even the empty one"),
    ],
)
def test_a_wrong_pattern_is_an_error_at_the_start(pattern: str, message: str) -> None:
    with pytest.raises(GuardError) as raised:
        build_guardrail("regex", patterns={"p": pattern})
    assert message in str(raised.value)
    assert pattern in str(raised.value)


def test_an_escaped_backslash_is_no_backreference() -> None:
    assert finding_of(build_guardrail("regex", patterns={"p": r"a\\1"}), r"a\1").found


def test_bad_settings() -> None:
    with pytest.raises(GuardError, match="no patterns"):
        build_guardrail("regex", patterns={})
    with pytest.raises(GuardError, match="NAME: EXPRESSION"):
        build_guardrail("regex", patterns={"a": ""})
