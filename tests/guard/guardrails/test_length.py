"""Lengths are limited in characters and estimated tokens."""

from __future__ import annotations

import pytest

from turnwise.conversation import Side
from turnwise.errors import GuardError
from turnwise.guard import GUARDRAILS, build_guardrail, finding_of


@pytest.mark.parametrize(
    ("limits", "text", "reason"),
    [
        ({"max_characters": 3}, "abc", ""),
        ({"max_characters": 3}, "abcd", "4 characters, at most 3 are allowed"),
        ({"max_characters": 1}, "\U0001f600", ""),
        ({"max_tokens": 2}, "abcdefgh", ""),
        ({"max_tokens": 2}, "abcdefghi", "about 3 tokens, at most 2 are allowed"),
        ({"max_tokens": 1}, "éé", ""),
        ({"max_tokens": 1}, "猫猫", "about 2 tokens, at most 1 are allowed"),
        ({"min_characters": 2}, "ab", ""),
        ({"min_characters": 2}, " a ", "fewer than 2 characters"),
        (
            {"max_characters": 3, "max_tokens": 1},
            "abcdef",
            "6 characters, at most 3 are allowed; about 2 tokens, at most 1",
        ),
    ],
)
def test_limits(limits: dict[str, int], text: str, reason: str) -> None:
    finding = finding_of(build_guardrail("length", **limits), text, Side.RESPONSE)
    assert finding.found is bool(reason)
    assert finding.reason.startswith(reason)


def test_a_broken_surrogate_counts() -> None:
    one = build_guardrail("length", max_tokens=1)
    assert [finding_of(one, "\ud800" * count).found for count in (1, 2)] == [False, True]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "no limit"),
        ({"max_characters": 0}, "max_characters must be a whole number of at least 1, not 0"),
        ({"max_tokens": True}, "max_tokens"),
        ({"min_characters": 5, "max_characters": 4}, "use at most 4, the maximum"),
    ],
)
def test_bad_settings(limits: dict[str, int], message: str) -> None:
    with pytest.raises(GuardError, match=message):
        GUARDRAILS.get("length")(**limits)
