"""A Redis server that is full or only reads, or whose keys are damaged: an error in words, or what was kept."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis_server import RedisServer, free_port

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import TurnwiseError
from turnwise.guard import PipelineResult

pytestmark = pytest.mark.integration

DAMAGES = 200
HARMLESS = f"scripted:{','.join(['0.1'] * 100)}"
SAID = [(f"question {turn}", f"answer {turn}") for turn in range(1, 4)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a server that a test may fill and damage."""
    server = RedisServer(tmp_path, appendonly="no")
    yield server
    server.kill()


def guard(server: RedisServer, **state: Any) -> GuardrailPipeline:
    """Return a pipeline that keeps sessions, conversations and limits in the server."""
    config = {
        "session_by": "initiator",
        "rate_limits": {"per_key": {"day": 100}},
        "guardrails": [{"drift": {"observer": HARMLESS}}],
        "state": {"redis": server.url, **state},
    }
    return GuardrailPipeline(config)


def ask(pipeline: GuardrailPipeline, text: str, chat: Conversation | None = None) -> PipelineResult:
    """Check a prompt of the one person of these tests."""
    chat = chat or Conversation.human_ai("ann", "model", conversation_id="c1")
    return pipeline.check_input(text, conversation=chat, key="key")


def talk(pipeline: GuardrailPipeline) -> None:
    """Say what is said in these tests."""
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")
    for prompt, response in SAID:
        asked = ask(pipeline, prompt, chat)
        pipeline.check_output(response, conversation=chat, turn_number=asked.turn_number)


def fill(server: RedisServer) -> None:
    server.client().config_set("maxmemory", 1)


def only_read(server: RedisServer) -> None:
    server.client().replicaof("127.0.0.1", free_port())


def free(server: RedisServer) -> None:
    server.client().config_set("maxmemory", 0)


def lead(server: RedisServer) -> None:
    server.client().replicaof("NO", "ONE")


@pytest.mark.parametrize(
    ("hinder", "told", "help_again"), [(fill, "maxmemory", free), (only_read, "read only replica", lead)]
)
@pytest.mark.parametrize("when_down", ["closed", "open"])
def test_a_server_that_takes_no_writes_is_told_and_used_again(
    server: RedisServer, hinder: Any, told: str, help_again: Any, when_down: str
) -> None:
    with guard(server, when_down=when_down) as pipeline:
        chat = Conversation.human_ai("ann", "model", conversation_id="c1")
        assert not ask(pipeline, "Hello", chat).failures
        hinder(server)
        result = ask(pipeline, "Hello again", chat)
        assert result.failures and result.blocked == (when_down == "closed")
        assert told in str(pipeline.state_status())
        help_again(server)
        while not pipeline.state_status(ask=True).up:  # type: ignore[union-attr]
            pass
        assert not ask(pipeline, "Once more", chat).failures
        kept = pipeline.find_conversation("c1")
        assert kept is not None and [turn.prompt for turn in kept] == ["Hello", "Hello again", "Once more"]


def outcome(server: RedisServer, sound: Any) -> str:
    """Return what comes of damage: an error, or everything as it was kept."""
    try:
        pipeline = guard(server)
    except TurnwiseError as error:
        assert server.url in str(error)
        return "not opened"
    with pipeline:
        try:
            kept, session = pipeline.find_conversation("c1"), pipeline.session("ann").states
        except TurnwiseError as error:
            assert server.url in str(error) or "ann" in str(error) or "c1" in str(error)
            kept, read = None, False
        else:
            read = True
            if kept is not None:
                assert [(turn.prompt, turn.response) for turn in kept] == SAID
            assert session in (sound, {}), "a session that nobody wrote"
        result = ask(pipeline, "more", kept)
        assert result.blocked == bool(result.failures), "what can't be read lets nothing through"
        if not read:
            return "error"
        return "blocked" if result.blocked else "as before" if kept is not None and session else "gone"


def test_keys_with_flipped_bits_are_errors_or_what_was_written(server: RedisServer) -> None:
    with guard(server) as pipeline:
        talk(pipeline)
        sound = pipeline.session("ann").states
    assert sound
    client, rng, seen = server.client(), random.Random(1), Counter[str]()
    kept = {key: client.dump(key) for key in client.keys("*")}
    hashes = sorted(key for key in kept if client.type(key) == b"hash")
    for _ in range(DAMAGES):
        client.flushall()
        for key, value in kept.items():
            client.restore(key, 0, value)
        key = rng.choice(hashes)
        field = rng.choice(sorted(name for name, value in client.hgetall(key).items() if value))
        value = bytearray(client.hget(key, field))
        value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        client.hset(key, field, bytes(value))
        seen[outcome(server, sound)] += 1
    assert seen["error"] > DAMAGES // 20 and seen["as before"] > DAMAGES // 20, seen


@pytest.mark.parametrize("kind", ["string", "list", "set", "zset", "hash"])
def test_keys_of_another_type_are_errors_in_words(server: RedisServer, kind: str) -> None:
    with guard(server) as pipeline:
        talk(pipeline)
        sound = pipeline.session("ann").states
    client = server.client()
    kept = {key: client.dump(key) for key in client.keys("*")}
    for damaged in kept:
        client.flushall()
        for key, value in kept.items():
            client.restore(key, 0, value)
        if client.type(damaged).decode() == kind:
            continue
        client.delete(damaged)
        match kind:
            case "string":
                client.set(damaged, "x")
            case "list":
                client.rpush(damaged, "x")
            case "set":
                client.sadd(damaged, "x")
            case "zset":
                client.zadd(damaged, {"x": 1})
            case _:
                client.hset(damaged, "x", "y")
        assert outcome(server, sound) in {"error", "blocked", "not opened", "as before"}
