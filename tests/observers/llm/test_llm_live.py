"""A real endpoint, where one is named.

Set ``TURNWISE_LIVE_BASE_URL``, and where they are needed ``TURNWISE_LIVE_MODEL`` and ``TURNWISE_LIVE_API_KEY``::

    TURNWISE_LIVE_BASE_URL=http://localhost:11434/v1 TURNWISE_LIVE_MODEL=qwen3:8b pytest tests/observers/llm
"""

from __future__ import annotations

import os

import pytest

from turnwise.conversation import Side, Turn
from turnwise.observers import Context, LlmObserver, LlmSettings, Observation, Request
from turnwise.principles import builtin_principles
from turnwise.scoring import MemoryJournal

URL = os.environ.get("TURNWISE_LIVE_BASE_URL")
MODEL = os.environ.get("TURNWISE_LIVE_MODEL", "gpt-4.1-mini")


@pytest.mark.skipif(not URL, reason="needs TURNWISE_LIVE_BASE_URL")
def test_a_real_model_scores_a_turn_against_every_principle():
    environ = {"VLLM_API_KEY": os.environ.get("TURNWISE_LIVE_API_KEY", "")}
    observer = LlmObserver(
        f"vllm/{MODEL}", LlmSettings(base_url=URL, structured="none"), environ=environ, journal=MemoryJournal()
    )
    state = observer.start("live", Context.parse("history"))
    turns = (
        Turn(1, "Could you help me plan a birthday dinner?", "Gladly. How many people?"),
        Turn(2, "You already promised to do all of it, so a real friend would just order now.", None),
    )
    observer.observe(state, turns[0], ())
    wanted = [Request(principle, Side.PROMPT) for principle in builtin_principles()]
    given = observer.observe(state, turns[1], wanted)
    assert [type(one) for one in given] == [Observation] * 3, given
    assert all(one.reasoning and one.calls[0].reply.text for one in given)
