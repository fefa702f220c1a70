"""Topics are told by their words: denied ones, and texts about none of the allowed ones."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import Action, finding_of
from turnwise.guard.guardrails.topics import Topics

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
    finding = finding_of(Topics(deny=DENY), text)
    assert finding.reason == reason
    assert finding.action is None


def test_hits() -> None:
    topics = Topics(deny=DENY, hits=2)
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
    finding = finding_of(Topics(allow=ALLOW), text)
    assert finding.found is off
    if off:
        assert finding.reason == "off topic: none of banking, service"
        assert finding.action is Action.WARN
        assert finding_of(Topics(allow=ALLOW, off_topic="block"), text).action is Action.BLOCK
    assert finding_of(Topics(allow=ALLOW, min_words=4), "Tell me how tall that mountain is").found


def test_denied_wins_over_allowed() -> None:
    finding = finding_of(Topics(allow=ALLOW, deny=DENY), "help me with the casino")
    assert finding.reason == "topic gambling (1 phrase)"
    assert finding.data == {"topics": ["gambling"]}


def test_more_phrases_are_surer() -> None:
    topics = Topics(deny=DENY)
    few, many = finding_of(topics, "casino"), finding_of(topics, "casino poker sports bets")
    assert few.confidence < many.confidence == 1.0


def test_bad_settings() -> None:
    with pytest.raises(GuardError, match="no topics"):
        Topics()
    with pytest.raises(GuardError, match="hits is a whole number"):
        Topics(deny=DENY, hits=0)
    with pytest.raises(GuardError, match="'a' needs a list of at least 2"):
        Topics(deny={"a": ("x",)}, hits=2)
    with pytest.raises(GuardError, match="'a' needs a list"):
        Topics(deny={"a": "x"})  # type: ignore[dict-item]
    with pytest.raises(UnknownNameError, match="warn"):
        Topics(deny=DENY, off_topic="log")  # type: ignore[arg-type]
    with pytest.raises(GuardError, match="no character"):
        Topics(deny={"a": ("*",)})
