"""Where drift began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnwise import analyze_conversation_forensics
from turnwise.conversation import Conversation
from turnwise.forensics import in_words
from turnwise.guard import GuardrailPipeline

Talk = Callable[..., Conversation]


@pytest.mark.parametrize(
    ("falsities", "turn", "led_to"),
    [
        # CUSUM of F less 0.2: the sum is zero before a rise begins.
        ([0.1, 0.1, 0.1, 0.5, 0.6], 4, 5),
        ([0.1, 0.3, 0.0, 0.0, 0.3, 0.4, 0.5], 5, 7),
        ([0.4, 0.4, 0.4], 1, 3),  # from the start
        ([0.9], 1, 1),
        ([0.1, 0.9, 0.1, 0.9], 2, 2),  # the first alarm counts
        ([0.2, 0.2, 0.8], 3, 3),
    ],
)
def test_the_sum_was_lowest_before_the_turn_where_drift_began(
    talk: Talk, falsities: list[float], turn: int, led_to: int
) -> None:
    analysis = analyze_conversation_forensics(talk(falsities))
    [drift] = analysis["drift"]
    assert (drift["began"]["turn"], drift["began"]["led_to"], drift["began"]["alarm"]) == (turn, led_to, True)
    assert drift["alarms"][0] == led_to
    assert "Page" in drift["began"]["method"]
    assert f"drift began at turn {turn}" in " ".join(in_words(analysis))


def test_without_an_alarm_the_highest_score_is_told_as_such(talk: Talk) -> None:
    analysis = analyze_conversation_forensics(talk([0.1, 0.1, 0.4, 0.1]))
    [drift] = analysis["drift"]
    assert (drift["began"]["turn"], drift["began"]["led_to"], drift["began"]["alarm"]) == (3, 3, False)
    assert drift["alarms"] == []
    said = " ".join(in_words(analysis))
    assert "no alarm" in said
    assert "drift began" not in said


@pytest.mark.parametrize("falsities", [[0.0, 0.0, 0.0], [0.1, 0.1]])
def test_a_score_that_never_rose_has_no_beginning(talk: Talk, falsities: list[float]) -> None:
    analysis = analyze_conversation_forensics(talk(falsities))
    assert analysis["drift"][0]["began"] is None
    assert any("never rose" in line for line in in_words(analysis))


def test_a_detector_that_is_no_sum_starts_from_its_lowest_score(talk: Talk) -> None:
    analysis = analyze_conversation_forensics(talk([0.2, 0.3, 0.1, 0.2, 0.9], detector="any_turn"))
    assert (analysis["drift"][0]["began"]["turn"], analysis["drift"][0]["began"]["led_to"]) == (4, 5)


def test_scores_of_the_detector_turn_by_turn(talk: Talk) -> None:
    [drift] = analyze_conversation_forensics(talk([0.1, 0.4, 0.6]))["drift"]
    assert [point["turn"] for point in drift["scores"]] == [1, 2, 3]
    assert [point["score"] for point in drift["scores"]] == pytest.approx([0.0, 0.2, 0.6])
    assert [point["active"] for point in drift["scores"]] == [False, False, True]
    assert (drift["guardrail"], drift["threshold"], drift["warn"]) == ("drift", 0.5, None)
    assert drift["detector"].startswith("cusum")


def test_the_trajectory_has_every_principle_at_every_turn(talk: Talk) -> None:
    trajectory = analyze_conversation_forensics(talk([0.25, 0.5]))["trajectory"]
    assert [(point["turn"], point["side"]) for point in trajectory] == [(1, "input"), (2, "input")]
    assert set(trajectory[0]["scores"]) == {"reciprocity", "context_integrity", "third_party_harm"}
    assert [point["scores"]["reciprocity"]["F"] for point in trajectory] == [0.25, 0.5]


def test_two_drift_guardrails_are_told_apart() -> None:
    def drift(name: str, at: float) -> dict[str, Any]:
        settings = {"observer": "scripted:0.1,0.6,0.9", "detector": "any_turn", "block_at": at, "session": None}
        return {"use": "drift", "name": name, **settings}

    pipeline = GuardrailPipeline({"guardrails": [drift("strict", 0.5), drift("mild", 0.8)]})
    chat = Conversation("ann", "bot")
    for _ in range(3):
        pipeline.check_input("hello", conversation=chat)
    analysis = analyze_conversation_forensics(chat)
    assert {one["guardrail"]: one["began"]["led_to"] for one in analysis["drift"]} == {"strict": 2, "mild": 3}
