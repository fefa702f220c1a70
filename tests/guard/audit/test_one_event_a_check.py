"""Every check is told to the audit once: with each state store and without one, however it came in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from turnwise.conversation import Conversation
from turnwise.guard import NO_CONVERSATION, GuardrailPipeline, MemoryStateStore, SqliteStateStore

STORES = {
    "none": lambda folder: None,
    "memory": lambda folder: MemoryStateStore(),
    "sqlite": lambda folder: SqliteStateStore(folder / "state.db"),
}


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("named", [True, False], ids=["in a conversation", "alone"])
def test_texts_tools_streams_and_lists(tmp_path: Path, store: str, named: bool) -> None:
    config = {"guardrails": ["pii", "prompt_injection"], "audit": {"path": str(tmp_path / "audit.jsonl")}}
    chat = Conversation.human_ai("ann", "bot") if named else NO_CONVERSATION
    with GuardrailPipeline(config, state_store=STORES[store](tmp_path)) as guard:
        results = [guard.check_input("Mail bob@example.com", conversation=chat)]
        results.append(guard.check_output("I did.", conversation=chat))
        results.append(asyncio.run(guard.acheck_input("And now?", conversation=chat)))
        stream = guard.stream_output(chat)
        stream.feed("Nothing more.")
        results.append(stream.end())
        if isinstance(chat, Conversation):
            guard.check_input("Where is it?", conversation=chat)
            results.append(chat.turns[-1])
            results.append(guard.check_tool_call("find", '{"id": 1}', conversation=chat, call_id="t1"))
            results.append(guard.check_tool_result("in Bonn", conversation=chat, call_id="t1"))
        results.append(guard.check_messages([{"role": "user", "content": "Hello"}], conversation_id="list"))
    told = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert len(told) == len(results)
    assert len({json.dumps({**event, "time": ""}) for event in told}) == len(told)


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_check_that_is_cancelled(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"guardrails": ["pii"], "audit": {"path": str(tmp_path / "audit.jsonl")}}
    with GuardrailPipeline(config, state_store=STORES[store](tmp_path)) as guard:
        monkeypatch.setattr("turnwise.guard.step.Step.run", lambda self, check: _interrupt())
        with pytest.raises(KeyboardInterrupt):
            guard.check_input("Hello", conversation=Conversation.human_ai("ann", "bot"))
    [event] = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert "cancelled" in json.dumps(event)


def _interrupt() -> None:
    raise KeyboardInterrupt
