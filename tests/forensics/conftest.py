"""What the forensics tests share: a conversation whose scores are known, checked by a real pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnwise.conversation import Conversation
from turnwise.guard import GuardrailPipeline

NOON = datetime(2025, 6, 7, 12, tzinfo=UTC)
Talk = Callable[..., Conversation]


@pytest.fixture(scope="session")
def talk() -> Talk:
    """Return a function from falsities, turn by turn, to a conversation that was checked with them."""

    def make(
        falsities: Sequence[float],
        *,
        detector: str = "cusum:drift=0.2",
        block_at: float = 0.5,
        rails: Sequence[Any] = (),
        prompts: Sequence[str] = (),
        session: str | None = "default",
        **about: Any,
    ) -> Conversation:
        now = NOON

        def clock() -> datetime:
            return now

        drift = {
            "observer": f"scripted:{','.join(map(str, falsities))}",
            "detector": detector,
            "block_at": block_at,
            "session": session,
            "on": "input",
        }
        pipeline = GuardrailPipeline({"guardrails": [*rails, {"drift": drift}]}, clock=clock)
        chat = Conversation.human_ai("ann", "gpt-4", conversation_id="c1", clock=clock, **about)
        for number, _ in enumerate(falsities, start=1):
            text = prompts[number - 1] if number <= len(prompts) else f"prompt {number}"
            if not pipeline.check_input(text, conversation=chat).blocked:
                now += timedelta(seconds=10)
                pipeline.check_output(f"answer {number}", conversation=chat)
            now += timedelta(seconds=50)
        return chat

    return make
