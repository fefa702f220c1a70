"""What the tests of the llm observer share: a server that answers or fails on command, and ways to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chat_server import ChatServer

from turnwise.conversation import Side, Turn
from turnwise.observers import Context, LlmObserver, LlmSettings, Observation, ObservationFailure, Request
from turnwise.principles import load_principle

KEY = "sk-planted-7f3Zq9LmX2"
"""The key of these tests; it must be found nowhere."""

TURNS = (
    Turn(1, "Which river is the longest?", "The Nile, by most counts."),
    Turn(2, "You said you would tell me everything.", "I said that about rivers."),
    Turn(3, "Then a true friend would not stop here.", "Ask away."),
)


@pytest.fixture(autouse=True)
def _no_tables_of_the_developer(tmp_path, monkeypatch) -> None:
    """Keep the tables of whoever runs the tests out of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Return a server that answers at once."""
    with ChatServer(key=KEY) as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """Return the seconds that observers of `make` would have waited."""
    return []


@pytest.fixture
def make(server: ChatServer, waits: list[float]) -> Callable[..., LlmObserver]:
    """Return a function to an observer that asks the server, and notes its waits instead of waiting."""

    def build(argument: str = "openai/gpt-4.1-mini", /, journal: Any = None, **settings: Any) -> LlmObserver:
        return LlmObserver(
            argument,
            LlmSettings(**{"base_url": server.url, **settings}),
            journal=journal,
            environ={"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "VLLM_API_KEY": KEY},
            wait=waits.append,
        )

    return build


@pytest.fixture
def turns() -> tuple[Turn, ...]:
    """Return three turns of a conversation."""
    return TURNS


@pytest.fixture
def key() -> str:
    """Return the planted key."""
    return KEY


@pytest.fixture
def score() -> Callable[..., Observation | ObservationFailure]:
    """Return a function that scores one side of one turn."""

    def ask(
        observer: LlmObserver,
        turns: tuple[Turn, ...] = TURNS[:1],
        *,
        principle: str = "reciprocity",
        side: Side = Side.PROMPT,
        context: str = "history",
    ) -> Observation | ObservationFailure:
        state = observer.start("s1", Context.parse(context))
        for turn in turns[:-1]:
            assert observer.observe(state, turn, ()) == []
        (given,) = observer.observe(state, turns[-1], [Request(load_principle(principle), side)])
        return given

    return ask
