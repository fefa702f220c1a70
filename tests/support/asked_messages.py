"""The messages that the observer ``llm`` sends, taken from a client that keeps what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnwise.conversation import Side, Turn
from turnwise.observers import Context, LlmObserver, Message, Request, ScriptedClient
from turnwise.principles import Principle


def asked(
    principle: Principle,
    turns: Sequence[Turn],
    side: Side = Side.PROMPT,
    context: str = "history",
    draw: Callable[[], str] = lambda: "0" * 16,
) -> tuple[Message, Message]:
    """Return what is sent for a score of the last of some turns; `draw` gives nonces."""
    client = ScriptedClient()
    observer = LlmObserver("ollama/m", client=client, draw=draw)
    state = observer.start("s", Context.parse(context))
    for turn in turns[:-1]:
        observer.observe(state, turn, ())
    observer.observe(state, turns[-1], [Request(principle, side)])
    system, user = client.requests[0].messages
    return system, user
