"""State in a Redis server: shared by workers, kept over its end, and what happens while it is not there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis_server import RedisServer, Wire, free_port

from turnwise import Conversation, GuardrailPipeline
from turnwise.cli import main
from turnwise.errors import ForgottenError, StateError
from turnwise.guard import RedisStateStore, check_state_store
from turnwise.guard.names import digest_of

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "support" / "state_worker.py"
ATTACKER = "scripted:0.1,0.9,0.9,0.9,0.9,0.9,0.9,0.9"
"""Falsities of an initiator who ends as terminated."""
OPENED: list[GuardrailPipeline | RedisStateStore] = []
"""What a test opened."""
HARMLESS = f"scripted:{','.join(['0.1'] * 1_000)}"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Give a server for tests that leave it running; each has the keys of its own prefix or person."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a server that a test may kill."""
    server = RedisServer(tmp_path)
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Give what the keys of a test begin with."""
    return f"{request.node.name}:"


def guard(where: str | RedisStateStore, observer: str = HARMLESS, **config: Any) -> GuardrailPipeline:
    """Return a pipeline with drift over a server, by its URL or through a store."""
    config = {"session_by": "initiator", "guardrails": [{"drift": {"observer": observer}}], **config}
    if isinstance(where, str):
        pipeline = GuardrailPipeline({**config, "state": {"redis": where, **config.get("state", {})}})
        OPENED.append(pipeline)
        return pipeline
    OPENED.append(where)
    return GuardrailPipeline(config, state_store=where)


@pytest.fixture(autouse=True)
def _connections_end_with_the_test() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def talk(pipeline: GuardrailPipeline, turns: int, name: str = "c1", person: str = "ann") -> Conversation:
    """Say so many turns with their replies, and return the conversation."""
    chat = Conversation.human_ai(person, "model", conversation_id=name)
    for turn in range(1, turns + 1):
        asked = pipeline.check_input(f"question {turn}", conversation=chat)
        pipeline.check_output(f"answer {turn}", conversation=chat, turn_number=asked.turn_number)
    return chat


def wait_for(pipeline: GuardrailPipeline) -> None:
    """Wait until the store answers again."""
    while not pipeline.state_status(ask=True).up:  # type: ignore[union-attr]
        pass


# The store


def test_the_store_in_redis_keeps_the_contract(shared: RedisServer, prefix: str) -> None:
    made: list[str] = []

    def make(**settings: Any) -> RedisStateStore:
        made.append(f"{prefix}{len(made)}:")
        return RedisStateStore(shared.url, prefix=made[-1], **settings)

    check_state_store(make, again=lambda: RedisStateStore(shared.url, prefix=made[-1]))


def test_the_server_itself_lets_go_of_what_is_old_and_keeps_what_must_last(
    shared: RedisServer, prefix: str
) -> None:
    store = RedisStateStore(shared.url, prefix=prefix, ttl=timedelta(days=30))
    talk(guard(store, ATTACKER), 8)
    talk(guard(store), 2, "c2", "ben")
    client, month = shared.client(), 30 * 24 * 3_600
    left = {key.decode().removeprefix(prefix): client.ttl(key) for key in client.keys(f"{prefix}*")}
    ended = f"state:session:drift:{digest_of('ann')}"
    assert left.pop(ended) == -1, "a session that was terminated is kept"
    assert left.pop(f"owner:session:{digest_of('ann')}") == -1
    assert left.pop("meta") == left.pop("live") == left.pop("ended") == -1
    assert {key.split(":")[1] for key in left} == {"conversation", "session", "person"}
    assert all(month - 600 < seconds <= month for seconds in left.values())


def test_a_full_store_stays_within_its_limit_and_forgets_no_end(shared: RedisServer, prefix: str) -> None:
    store = RedisStateStore(shared.url, prefix=prefix, limit=6, ended_limit=1)
    talk(guard(store, ATTACKER), 8)
    for number in range(30):
        talk(guard(store), 1, f"c{number}", f"person {number}")
    assert len(store) == 7
    assert len(shared.client().keys(f"{prefix}*")) <= 3 + 2 * 7
    assert guard(store).session("ann").terminated
    chat = Conversation.human_ai("eve", "model")
    pipeline = guard(store, ATTACKER)
    told = [pipeline.check_input(f"turn {turn}", conversation=chat) for turn in range(8)][-1]
    assert told.blocked and "ended_limit=1: raise it" in told.failures[0]


@pytest.mark.parametrize(
    ("options", "url", "told"),
    [
        ({"requirepass": "right"}, "redis://:wrong-secret@127.0.0.1:{port}/0", "invalid username-password pair"),
        ({"requirepass": "right"}, "redis://127.0.0.1:{port}/0", "Authentication required"),
        ({"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "{url}", "set maxmemory-policy noeviction"),
        ({}, "redis://127.0.0.1:{port}/99", "DB index is out of range"),
        ({}, "{url}?socket_timeout=soon", "its options, after the [?], must be those of redis-py"),
    ],
)
def test_a_server_that_can_not_be_used_is_an_error_at_once(
    tmp_path: Path, options: dict[str, str], url: str, told: str
) -> None:
    server = RedisServer(tmp_path, **options)
    try:
        with pytest.raises(StateError, match=told) as error:
            RedisStateStore(url.format(port=server.port, url=server.url))
        assert "secret" not in str(error.value)
        assert f"redis://127.0.0.1:{server.port}/" in str(error.value)
    finally:
        server.kill()


def test_a_password_is_used_and_shown_nowhere(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, requirepass="p%ss/word")
    url = f"redis://:p%25ss%2Fword@127.0.0.1:{server.port}/0"
    try:
        with guard(url) as pipeline:
            talk(pipeline, 1)
            server.kill()
            result = pipeline.check_input("Hello")
            shown = f"{pipeline.state_store!r} {pipeline.state_status()} {result.to_dict()} {pipeline.config!r}"
            assert result.blocked and "word" not in shown.replace("password", "")
    finally:
        server.kill()


def test_keys_of_a_later_turnwise_are_refused(shared: RedisServer, prefix: str) -> None:
    shared.client().hset(f"{prefix}meta", mapping={"format": 2, "id": "x"})
    with pytest.raises(StateError, match="was made by a later turnwise"):
        RedisStateStore(shared.url, prefix=prefix)


def test_without_conversations_no_text_and_no_name_is_in_the_server(shared: RedisServer, prefix: str) -> None:
    config = {"rate_limits": {"per_key": {"day": 9}}, "state": {"conversations": False}}
    pipeline = guard(RedisStateStore(shared.url, prefix=prefix), **config)
    chat = Conversation.human_ai("Ann Smith", "m")
    pipeline.check_input("What is a spline?", conversation=chat, key="key of Ann")
    client = shared.client()
    hashes = {key: client.hgetall(key) for key in client.keys(f"{prefix}state:*")}
    assert {key.decode().removeprefix(prefix).split(":")[1] for key in hashes} == {"session", "limit"}
    assert not any(word in str(hashes) for word in ("Ann", "spline"))


# Several workers


@pytest.fixture
def start() -> Iterator[Callable[..., Callable[..., dict[str, Any]]]]:
    """Start processes with a pipeline over a server; each takes orders and answers them."""
    workers: list[subprocess.Popen[str]] = []

    def begin(url: str, **config: Any) -> Callable[..., dict[str, Any]]:
        config = {"session_by": "initiator", "guardrails": [{"drift": {"observer": HARMLESS}}], **config}
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps(config), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        workers.append(worker)

        def check(**order: Any) -> dict[str, Any]:
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write(json.dumps({"conversation": "c1", "initiator": "ann", **order}) + "\n")
            worker.stdin.flush()
            values: dict[str, Any] = json.loads(worker.stdout.readline())
            return values

        return check

    yield begin
    for worker in workers:
        worker.kill()
        worker.communicate()


def test_two_processes_lose_and_double_none_of_a_thousand_turns_of_one_conversation(
    server: RedisServer, start: Callable[..., Callable[..., dict[str, Any]]]
) -> None:
    workers = [start(server.url) for _ in range(2)]

    def say(number: int) -> list[dict[str, Any]]:
        return [workers[number](prompt=f"{number} {step}") for step in range(500)]

    with ThreadPoolExecutor(2) as pool:
        told = [answer for answers in pool.map(say, range(2)) for answer in answers]
    assert [answer for answer in told if answer["blocked"] or answer["failures"]] == []
    assert sorted(answer["turn"] for answer in told) == list(range(1, 1_001))
    pipeline = guard(server.url)
    chat = pipeline.load_conversation("c1")
    assert chat is not None
    assert sorted(turn.prompt for turn in chat) == sorted(
        f"{one} {step}" for one in range(2) for step in range(500)
    )
    for number in range(2):
        own = [turn.prompt for turn in chat if turn.prompt.startswith(f"{number} ")]
        assert own == [f"{number} {step}" for step in range(500)], "turns of a worker are in its order"
    assert all(
        turn.metadata["guardrail_results"]["input"]["details"]["drift"]["data"]["turn"] == turn.number
        for turn in chat
    )
    assert pipeline.session("ann").stance.interactions == 1_000  # type: ignore[union-attr]


def test_a_worker_that_is_killed_has_left_a_turn_with_its_verdict_or_nothing(server: RedisServer) -> None:
    config = {"session_by": "initiator", "guardrails": ["halts", {"drift": {"observer": HARMLESS}}]}
    worker = subprocess.Popen(
        [sys.executable, str(WORKER), json.dumps(config), server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = [*(f"question {turn}" for turn in range(1, 6)), "now halt"]
    orders = [json.dumps({"conversation": "c1", "initiator": "ann", "prompt": text}) for text in said]
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write("\n".join(orders) + "\n")
    worker.stdin.flush()
    told = [json.loads(worker.stdout.readline()) for _ in said]
    worker.kill()
    worker.communicate()
    assert told[-1] == {"halted": 6}
    pipeline = guard(server.url)
    kept = pipeline.load_conversation("c1")
    assert [turn.prompt for turn in kept] == said[:-1]
    assert pipeline.session("ann").stance.interactions == 5
    assert pipeline.check_input("again", conversation=kept).turn_number == 6


def test_workers_share_sessions_and_the_limits_of_a_key(
    shared: RedisServer, start: Callable[..., Callable[..., dict[str, Any]]], prefix: str
) -> None:
    stores = [RedisStateStore(shared.url, prefix=prefix) for _ in range(2)]
    limited = [guard(store, rate_limits={"per_key": {"day": 20}}) for store in stores]

    def ask(pipeline: GuardrailPipeline) -> int:
        return sum(not pipeline.check_input("Hello", key="token").rate_limited for _ in range(20))

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(ask, limited)) == 20
    worker = start(shared.url, guardrails=[{"drift": {"observer": ATTACKER}}])
    last = [worker(prompt=f"turn {turn}", initiator="eve") for turn in range(8)][-1]
    assert last["stance"]["mode"] == "terminated"
    elsewhere = start(shared.url)(prompt="Hello", initiator="eve", conversation="another one")
    assert elsewhere["blocked"] and elsewhere["reasons"][0].startswith("drift: session terminated")


# While the server is not there


@pytest.mark.parametrize(
    ("mode", "blocked", "warned"), [("closed", True, False), ("open", False, False), ("memory", False, True)]
)
def test_a_server_that_is_killed_and_started_again_costs_no_turn(
    server: RedisServer, mode: str, blocked: bool, warned: bool
) -> None:
    limits = {"per_key": {"day": 3}}
    with guard(server.url, state={"when_down": mode}, rate_limits=limits) as pipeline:
        chat = talk(pipeline, 2)
        assert pipeline.state_status().to_dict() == {
            "store": f"RedisStateStore('{server.url}')",
            "when_down": mode,
            "up": True,
            "since": None,
            "error": "",
            "checks": 4,
            "without": 0,
            "again": 0,
        }
        server.kill()
        for turn in (3, 4):
            result = pipeline.check_input(f"question {turn}", conversation=chat)
            assert (result.blocked, result.details["state"].path) == (blocked, "open" if warned else mode)
            assert result.failures[0].startswith("state: failed: StateDownError: state store redis://127.0.0.1")
            assert bool(result.warnings) == warned
        refused = [pipeline.check_input("Hello", key="token").rate_limited for _ in range(5)]
        assert sum(refused) == (2 if mode == "memory" else 0), "memory counts by itself"
        status = pipeline.state_status()
        assert (status.up, status.checks, status.without) == (False, 4, 7)
        assert "refused" in status.error and status.since is not None
        server.start()
        wait_for(pipeline)
        result = pipeline.check_input("question 5", conversation=chat)
        assert (result.blocked, result.failures, result.turn_number) == (False, [], 5)
        assert pipeline.state_status().up
    kept = guard(server.url).load_conversation("c1")
    assert [turn.prompt for turn in kept] == [f"question {turn}" for turn in range(1, 6)]
    assert [turn.response for turn in kept][:2] == ["answer 1", "answer 2"]


@pytest.mark.parametrize("mode", ["closed", "open", "memory"])
def test_a_server_that_is_killed_under_load_loses_and_doubles_no_turn(server: RedisServer, mode: str) -> None:
    pipeline = guard(server.url, state={"when_down": mode})
    said, refused = [threading.Event() for _ in range(3)], [threading.Event() for _ in range(3)]
    killed, back = threading.Event(), threading.Event()

    def say(number: int) -> tuple[Conversation, int]:
        chat, failed = Conversation.human_ai(f"person {number}", "model", conversation_id=f"c{number}"), 0
        for turn in count(1):
            told = pipeline.check_input(f"question {turn}", conversation=chat)
            assert told.turn_number == turn
            assert told.blocked == bool(told.failures and mode == "closed")
            failed += bool(told.failures)
            if turn == 20:
                said[number].set()
            if turn == 60:
                killed.wait()
            if turn == 80:
                refused[number].set()
                back.wait()
            if turn >= 90 and not told.failures:
                return chat, failed
        raise AssertionError

    with ThreadPoolExecutor(3) as pool:
        talks = [pool.submit(say, number) for number in range(3)]
        for event in said:
            event.wait()
        server.kill()
        killed.set()
        for event in refused:
            event.wait()
        server.start()
        wait_for(pipeline)
        back.set()
        chats = [talk.result() for talk in talks]
    assert sum(failed for _, failed in chats) == pipeline.state_status().without > 0
    there = guard(server.url)
    for chat, _ in chats:
        kept = there.load_conversation(chat.conversation_id)
        turns = chat.get_turn_count()
        assert [turn.prompt for turn in kept] == [f"question {turn}" for turn in range(1, turns + 1)]
        results = [turn.metadata["guardrail_results"]["input"] for turn in kept]
        assert all("drift" in result["details"] for result in results), "a turn without its verdict"


def test_a_worker_starts_without_the_server_where_checks_go_on_without_it(server: RedisServer) -> None:
    server.kill()
    with pytest.raises(StateError, match=r"it can't be opened.*refused"):
        RedisStateStore(server.url)
    with pytest.raises(Exception, match=r"state: state store redis.*it can't be opened"):
        guard(server.url, state={"when_down": "closed"})
    pipeline = guard(server.url, state={"when_down": "open"})
    assert pipeline.check_input("Hello").failures
    server.start()
    wait_for(pipeline)
    assert pipeline.check_input("Hello").failures == []


def test_a_server_that_answers_nothing_holds_up_one_check_and_not_all(server: RedisServer) -> None:
    pipeline = guard(server.url, state={"when_down": "open", "wait_seconds": 0.5})
    talk(pipeline, 1)
    server.freeze()
    begin = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda number: pipeline.check_input(f"Hello {number}"), range(40)))
    assert time.monotonic() - begin < 10.0, "40 checks that wait half a second each would take 20 s"
    assert all(not result.blocked and result.failures for result in told)
    server.thaw()
    wait_for(pipeline)
    assert pipeline.check_input("Hello").failures == []


def test_a_server_that_comes_back_empty_is_told_once_and_used_again(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, appendonly="no")
    try:
        pipeline = guard(server.url)
        chat = talk(pipeline, 2)
        server.kill()
        server.start()
        wait_for(pipeline)
        told = pipeline.check_input("question 3", conversation=chat)
        assert told.blocked and "was emptied, or is another one than before" in told.reasons[0]
        assert pipeline.check_input("question 4", conversation=chat).failures == []
        kept = guard(server.url).load_conversation("c1")
        assert [turn.prompt for turn in kept] == [f"question {turn}" for turn in range(1, 5)]
    finally:
        server.kill()


def test_a_server_that_lost_its_last_moments_is_given_them_again(server: RedisServer) -> None:
    pipeline = guard(server.url)
    chat = talk(pipeline, 2)
    client = server.client()
    keys = {key: client.dump(key) for key in client.keys("*")}
    pipeline.check_input("question 3", conversation=chat)
    for key, value in keys.items():
        client.restore(key, 0, value, replace=True)
    pipeline.check_input("question 4", conversation=chat)
    kept = guard(server.url).load_conversation("c1")
    assert [turn.prompt for turn in kept] == [f"question {turn}" for turn in range(1, 5)]


@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_on_its_way_doubles_nothing(server: RedisServer, lost: int) -> None:
    wire = Wire(server.port)
    pipeline = guard(wire.url)
    chat = talk(pipeline, 2)
    wire.lose(lost)
    told = pipeline.check_input("question 3", conversation=chat)
    assert bool(told.failures) == (lost == 2), "one is sent again"
    wait_for(pipeline)
    assert pipeline.check_input("question 4", conversation=chat).turn_number == 4
    wire.close()
    there = guard(server.url)
    assert [turn.prompt for turn in there.load_conversation("c1")] == [f"question {turn}" for turn in range(1, 5)]
    assert there.session("ann").stance.interactions == 4


# Configuration and command line


def test_a_configuration_may_take_the_url_from_the_environment(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_URL", shared.url)
    file = tmp_path / "guard.yaml"
    file.write_text("guardrails: [pii]\nstate: {redis: 'env:STATE_URL', keep_days: 30}\n")
    with GuardrailPipeline(file) as pipeline:
        talk(pipeline, 2, "from-the-environment")
        pipeline.reload(file)
        assert pipeline.state_status().checks == 4, "a store that stays keeps its counts"
    with pytest.raises(StateError, match="is closed"):
        pipeline.load_conversation("from-the-environment")
    assert GuardrailPipeline(file).load_conversation("from-the-environment").get_turn_count() == 2


def test_sessions_on_the_command_line(server: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    talk(guard(server.url, ATTACKER), 8)

    def run(*words: str) -> Any:
        with pytest.raises(SystemExit) as done:
            main(["guard", "sessions", *words, "--state", server.url, "--json"])
        said = capsys.readouterr()
        return said.err if done.value.code else json.loads(said.out)

    assert [row["session"] for row in run("--terminated")] == [digest_of("ann")]
    assert run("ann")["conversations"] == ["c1"]
    with pytest.raises(SystemExit):
        main(["guard", "forget", "ann", "--state", server.url, "--json"])
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["sessions"], receipt["conversations"], receipt["limits"]) == (1, 1, 0)
    assert any("append-only file" in place for place in receipt["unreached"])
    assert f"no session 'ann' in {server.url}" in run("ann")


def test_a_conversation_that_was_forgotten_is_refused_by_whoever_holds_it(
    shared: RedisServer, prefix: str
) -> None:
    stores = [RedisStateStore(shared.url, prefix=prefix) for _ in range(2)]
    one, other = map(guard, stores)
    talk(one, 2)
    held = other.load_conversation("c1")
    assert held is not None and held.turn(1).prompt
    receipt = one.forget("Ann")
    assert receipt.conversations == 1 and any("snapshots" in place for place in receipt.unreached)
    for pipeline in (one, other):
        with pytest.raises(ForgottenError, match="'c1' was forgotten"):
            pipeline.check_input("and now?", held)
    client = shared.client()
    texts = b"".join(client.dump(key) or b"" for key in client.scan_iter(f"{prefix}state:conversation:*"))
    assert texts == b""
    talk(one, 1)
    assert one.load_conversation("c1").get_turn_count() == 1


def test_what_a_clock_says_decides_what_is_old(shared: RedisServer, prefix: str) -> None:
    now = [datetime(2025, 1, 1, tzinfo=UTC)]
    store = RedisStateStore(shared.url, prefix=prefix, ttl=timedelta(days=1), clock=lambda: now[0])
    talk(guard(store), 1)
    now[0] += timedelta(days=2)
    assert guard(store).find_conversation("c1") is None
    assert guard(store).forget("ann").conversations == 0


def test_the_redis_of_the_composition_starts_and_keeps_what_must_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["redis"]
    shell, flag, script = (word.replace("$$", "$") for word in service["command"])
    monkeypatch.setenv("REDIS_PASSWORD", "secret")
    port = free_port()
    program = subprocess.Popen(
        [shell, flag, f"{script} --port {port} --bind 127.0.0.1 --dir '{tmp_path}'"], stdout=subprocess.DEVNULL
    )
    try:
        pipeline = guard(f"redis://:secret@127.0.0.1:{port}/0", ATTACKER, state={"when_down": "memory"})
        wait_for(pipeline)
        talk(pipeline, 8)
        assert pipeline.session("ann").terminated
        assert program.poll() is None
    finally:
        program.terminate()
        assert program.wait() == 0, "it ends by the signal that containers get"


def test_what_speaks_against_a_person_is_shared_and_forgotten(shared: RedisServer, prefix: str) -> None:
    """Two workers see one person in new conversations; the fourth ends, and one call forgets."""
    first, second = (
        guard(RedisStateStore(shared.url, prefix=prefix), "scripted:0.9", session_by="conversation") for _ in "ab"
    )
    for number, worker in enumerate((first, second, first, second)):
        chat = Conversation.human_ai(("Ann", "ann ")[number % 2], "model", conversation_id=f"{prefix}{number}")
        stance = worker.check_input("hello", conversation=chat).stance
        assert stance is not None
        assert stance.strikes == number + 1
    assert stance.mode == "terminated"
    assert [one.incidents for one in first.session("ann").persons.values()] == [4]
    assert second.forget("ann").records == 1
    assert not first.session("ann").persons
