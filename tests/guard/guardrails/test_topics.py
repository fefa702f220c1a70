"""Topics are told by their words: denied ones, and texts about none of the allowed ones."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GUARDRAILS, Action, build_guardrail, finding_of

DENY = {"gambling": ("casino", "sports bet*", "poker"), "medicine": ("diagnos*", "dose", "prescription")}
ALLOW = {"banking": ("account", "loan", "card"), "service": ("help", "support", "branch")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Which casino is best?", "topic gambling (1 phrase)"),
        ("CASINOS and poker", "topic gambling (2 phrases)"),
        ("sports  betting", "topic gambling (1 phrase)"),
        ("a diagnosis from the casino's doctor", "topics gambling (1 phrase), medicine (1 phrase)"),
        ("two doses", "topic medicine (1 phrase)"),
        ("Casinò Casino", "topic gambling (1 phrase)"),
        ("an overdosed pokerface in sports", ""),
        ("casinoland", ""),
    ],
)
def test_denied_topics(text: str, reason: str) -> None:
    finding = finding_of(build_guardrail("topics", deny=DENY), text)
    assert finding.reason == reason
    assert finding.action is None


def test_hits() -> None:
    topics = build_guardrail("topics", deny=DENY, hits=2)
    assert not finding_of(topics, "casino casino casino").found
    assert finding_of(topics, "casino poker").found


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("yes, please do that", False),
        ("I would like to know more about my loan and what it costs", False),
        ("Write me a long poem about the sea and the moon", True),
        ("Tell me how tall that mountain is", False),
    ],
)
def test_allowed_topics(text: str, off: bool) -> None:
    finding = finding_of(build_guardrail("topics", allow=ALLOW), text)
    assert finding.found is off
    if off:
        assert finding.reason == "off topic: none of banking, service"
        assert finding.action is Action.WARN
        assert finding_of(build_guardrail("topics", allow=ALLOW, off_topic="block"), text).action is Action.BLOCK
    assert finding_of(
        build_guardrail("topics", allow=ALLOW, min_words=4), "Tell me how tall that mountain is"
    ).found


def test_denied_wins_over_allowed() -> None:
    finding = finding_of(build_guardrail("topics", allow=ALLOW, deny=DENY), "help me with the casino")
    assert finding.reason == "topic gambling (1 phrase)"
    assert finding.data == {"topics": ["gambling"]}


def test_more_phrases_are_surer() -> None:
    topics = build_guardrail("topics", deny=DENY)
    few, many = finding_of(topics, "casino"), finding_of(topics, "casino poker sports bets")
    assert few.confidence < many.confidence == 1.0


def test_bad_settings() -> None:
    topics = GUARDRAILS.get("topics")
    with pytest.raises(GuardError, match="no topics"):
        topics()
    with pytest.raises(GuardError, match="hits must be a whole number"):
        topics(deny=DENY, hits=0)
    with pytest.raises(GuardError, match="'a' needs a list of at least 2"):
        topics(deny={"a": ("x",)}, hits=2)
    with pytest.raises(GuardError, match="'a' needs a list"):
        topics(deny={"a": "x"})
    with pytest.raises(UnknownNameError, match="warn"):
        topics(deny=DENY, off_topic="log")
    with pytest.raises(GuardError, match="no character"):
        topics(deny={"a": ("*",)})
