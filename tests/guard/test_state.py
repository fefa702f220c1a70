"""What a pipeline keeps in a state store: sessions, conversations, limits; and what happens without the store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from guard_rails import Contains, Waits

from turnwise import Conversation, GuardrailPipeline
from turnwise.cli import main
from turnwise.conversation import Turn
from turnwise.errors import ConversationError, GuardError, SessionError, StateDownError, StateError
from turnwise.guard import (
    NO_CONVERSATION,
    MemoryStateStore,
    RedisStateStore,
    SqliteStateStore,
    StateStore,
    check_state_store,
    open_state_store,
)
from turnwise.guard import state as guard_state
from turnwise.guard.rate_limits import LIMIT
from turnwise.guard.state import FORGOTTEN, STORED
from turnwise.sessions import SESSION

ATTACKER = "scripted:0.1,0.9,0.9,0.9,0.9,0.9,0.9,0.9"
"""Falsities of an initiator who ends as terminated."""


def digest_of(name: str) -> str:
    """Return what stands for a name in a state store."""
    return sha256(name.encode()).hexdigest()[:32]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Down:
    """A store that can be taken down and put up again."""

    def __init__(self) -> None:
        self.store, self.up = MemoryStateStore(), True

    def __len__(self) -> int:
        return len(self.store)

    def __getattr__(self, name: str) -> Any:
        if not self.up:
            raise StateError("state store: the network is down")
        return getattr(self.store, name)


def guard(
    store: StateStore | None = None, observer: str = "scripted:" + "0.1," * 50 + "0.1", **config: Any
) -> GuardrailPipeline:
    """Return a pipeline with drift, over a store of this process where none is given."""
    clock = config.pop("clock", None)
    keywords = {} if clock is None else {"clock": clock}
    return GuardrailPipeline(
        {"guardrails": [Contains(), {"drift": {"observer": observer}}], **config},
        state_store=MemoryStateStore() if store is None else store,
        **keywords,
    )


def talk(pipeline: GuardrailPipeline, turns: int, name: str = "c1", person: str = "ann") -> Conversation:
    """Say so many turns with their replies, and return the conversation."""
    chat = Conversation.human_ai(person, "model", conversation_id=name)
    for turn in range(1, turns + 1):
        asked = pipeline.check_input(f"question {turn}", conversation=chat)
        pipeline.check_output(f"answer {turn}", conversation=chat, turn_number=asked.turn_number)
    return chat


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    """Give an empty store of either kind."""
    made = MemoryStateStore() if request.param == "memory" else SqliteStateStore(tmp_path / "guard.db")
    yield made
    made.close()


# The stores


def test_the_store_in_memory_keeps_the_contract() -> None:
    check_state_store(MemoryStateStore)


def test_the_store_in_sqlite_keeps_the_contract(tmp_path: Path) -> None:
    files = iter(tmp_path / f"{number}.db" for number in range(9))
    made: list[Path] = []

    def make(**settings: Any) -> SqliteStateStore:
        made.append(next(files))
        return SqliteStateStore(made[-1], **settings)

    check_state_store(make, again=lambda: SqliteStateStore(made[-1]))
    check_state_store(lambda **settings: SqliteStateStore(":memory:", **settings))


def test_the_kit_finds_a_store_that_loses_changes() -> None:
    class Forgetful(MemoryStateStore):
        def change_all(self, changes: Any) -> Any:
            return super().change_all(changes[:1])

    with pytest.raises(AssertionError, match=r"swallowed|two changes gave"):
        check_state_store(Forgetful)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"limit": 0}, "limit must be"),
        ({"ttl": timedelta(0)}, "ttl must be"),
        ({"wait_seconds": 0.0}, "wait_seconds is"),
    ],
)
def test_bounds_out_of_range_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SessionError, match=told):
        SqliteStateStore(":memory:", **settings)


def test_the_file_is_readable_by_its_owner_alone_and_names_are_not_in_it(tmp_path: Path) -> None:
    path = tmp_path / "guard.db"
    with guard(
        SqliteStateStore(path), rate_limits={"per_key": {"day": 9}}, state={"conversations": False}
    ) as pipeline:
        for name in ("Ann Smith", "Ben Jones"):
            chat = Conversation.human_ai(name, "m")
            pipeline.check_input("What is a spline?", conversation=chat, key=f"key of {name}", session_id=name)
    assert path.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(path)) as file, file:
        rows = file.execute("SELECT kind, key, owner FROM states").fetchall()
    assert sorted(kind for kind, *_ in rows) == ["limit", "limit", "session", "session"]
    held = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert not any(word in held for word in (b"Ann", b"Ben", b"spline"))
    store = SqliteStateStore(path)
    assert store.get(SESSION, f"drift:{digest_of('ann smith')}").interactions == 1


def test_a_terminated_session_outlives_room_and_time(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteStateStore(tmp_path / "guard.db", limit=3, ttl=timedelta(days=1), clock=clock)
    talk(guard(store, ATTACKER, session_by="initiator", clock=clock), 8)
    assert guard(store, session_by="initiator", clock=clock).session("ann").terminated
    for number in range(6):
        talk(guard(store, session_by="initiator", clock=clock), 1, f"other {number}", f"person {number}")
    clock.now += timedelta(days=300)
    pipeline = guard(store, session_by="initiator", clock=clock)
    assert len(store) <= 4
    assert pipeline.session("person 5").stance is None
    assert talk(pipeline, 1, "new").turn(1).metadata["guardrail_results"]["blocked"]


def test_workers_that_make_a_store_at_the_same_moment_all_get_it(tmp_path: Path) -> None:
    workers, stores = 4, 60
    ready = Barrier(workers)

    def work(_: int) -> None:
        try:
            for number in range(stores):
                ready.wait()
                SqliteStateStore(str(tmp_path / f"{number}.db")).close()
        except StateError:
            ready.abort()
            raise

    with ThreadPoolExecutor(workers) as pool:
        [*pool.map(work, range(workers))]


def test_threads_that_come_and_go_leave_no_connection_open(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "guard.db")
    for _ in range(30):
        thread = Thread(target=store.get, args=(SESSION, "a"))
        thread.start()
        thread.join()
    assert len(store._idle) == 1
    store.close()
    with pytest.raises(StateError, match="is closed"):
        store.get(SESSION, "a")


# Conversations


def test_a_second_worker_goes_on_where_the_first_one_stopped(store: StateStore) -> None:
    first, second = guard(store), guard(store)
    kept = talk(first, 3)
    chat = second.load_conversation("c1")
    assert chat is not None
    assert chat.to_dict() == kept.to_dict()
    assert [turn.prompt for turn in chat] == ["question 1", "question 2", "question 3"]
    result = second.check_input("question 4", conversation=chat)
    assert (result.turn_number, result.stance.interactions) == (4, 4)
    # The first worker still holds its object: it sees what the other one added before it checks.
    assert first.check_output("answer 4", conversation=kept).turn_number == 4
    assert kept.turn(4).prompt == "question 4"
    assert [message["content"] for message in second.load_conversation("c1").to_messages()][-1] == "answer 4"
    assert second.find_conversation("nobody's") is None


def test_a_conversation_made_anew_under_its_name_goes_on(store: StateStore) -> None:
    talk(guard(store), 3)
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")
    assert guard(store).check_input("question 4", conversation=chat).turn_number == 4
    assert chat.turn(2).response == "answer 2"
    other = Conversation.from_turns([("something else", "yes")], conversation_id="c1", initiator="ann")
    result = guard(store).check_input("question 5", conversation=other)
    assert result.blocked
    assert "conversation 'c1' in the state store is another one: turn 1 differs" in result.failures[0]


def test_a_conversation_that_began_elsewhere_is_taken_in_whole(store: StateStore) -> None:
    chat = Conversation.from_turns([("one", "1"), ("two", "2")], conversation_id="c1", initiator="ann")
    guard(store).check_input("three", conversation=chat)
    assert [turn.prompt for turn in guard(store).load_conversation("c1")] == ["one", "two", "three"]


def test_what_callers_add_and_change_themselves_is_kept_with_the_next_check(store: StateStore) -> None:
    pipeline = guard(store)
    chat = Conversation.human_ai("ann", "model", conversation_id="c1", metadata={"topic": "locks"})
    pipeline.check_input("one", conversation=chat)
    chat.add_response("said without a check")
    chat.add_exchange("two", "2")
    pipeline.check_input("three", conversation=chat)
    kept = guard(store).load_conversation("c1")
    assert [(turn.prompt, turn.response) for turn in kept] == [
        ("one", "said without a check"),
        ("two", "2"),
        ("three", None),
    ]
    assert kept.metadata == {"topic": "locks"}


def test_a_reply_that_two_workers_give_counts_once(store: StateStore) -> None:
    first, second = guard(store), guard(store)
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")
    first.check_input("one", conversation=chat)
    second.check_output("mine", conversation=second.load_conversation("c1"))
    with pytest.raises(ConversationError, match="turn 1 already has a response"):
        first.check_output("no, mine", conversation=chat, turn_number=1)
    assert first.load_conversation("c1").turn(1).response == "mine"


def test_async_checks_of_one_conversation_take_turns(store: StateStore) -> None:
    pipeline = GuardrailPipeline(
        {"guardrails": [Waits(), {"drift": {"observer": "scripted:" + "0.1," * 20 + "0.1"}}]}, state_store=store
    )
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")

    async def both() -> list[Any]:
        return await asyncio.gather(*(pipeline.acheck_input(f"{n}", conversation=chat) for n in range(6)))

    results = asyncio.run(both())
    assert sorted(result.turn_number for result in results) == [1, 2, 3, 4, 5, 6]
    kept = pipeline.load_conversation("c1")
    assert [turn.prompt for turn in kept] == [turn.prompt for turn in chat]
    assert pipeline.session("c1").stance.interactions == 6


def test_loading_reads_the_latest_turns_alone() -> None:
    class Counting(MemoryStateStore):
        asked = 0

        def parts(self, kind: Any, key: str, names: Any = None) -> Any:
            found = super().parts(kind, key, names)
            self.asked += len(found)
            return found

    store, asked = Counting(), {}
    pipeline = guard(store)
    for turns in (10, 100):
        talk(pipeline, turns, f"of {turns}")
        store.asked = 0
        chat = guard(store).load_conversation(f"of {turns}")
        guard(store).check_input("one more", conversation=chat)
        asked[turns] = store.asked
        assert chat.get_turn_count() == turns + 1
        assert chat.turn(2).prompt == "question 2"
    assert asked[10] == asked[100] <= 14


def test_the_state_of_a_hundred_turns_is_small(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "guard.db")
    pipeline = guard(store, rate_limits={"per_key": {"minute": 20}})
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")
    for turn in range(100):
        pipeline.check_input(f"question {turn}", conversation=chat, key=f"ann {turn // 20}")
        pipeline.check_output("an answer", conversation=chat)
    parts = store.parts(STORED, "c1")
    states = [len(STORED.pack(store.get(STORED, "c1"))), len(parts["state:drift"])]
    states.append(len(SESSION.pack(store.get(SESSION, f"drift:{digest_of('c1')}"))))
    states.append(len(LIMIT.pack(store.get(LIMIT, digest_of("ann 4")))))
    assert sum(states) <= 1_100
    assert max(len(part) for name, part in parts.items() if name.startswith("turn:")) <= 600


def test_early_turns_of_a_stored_conversation_are_read_once_and_in_place() -> None:
    reads: list[range] = []

    def load(numbers: range) -> list[Turn]:
        reads.append(numbers)
        return [Turn(number, str(number)) for number in numbers]

    chat = Conversation()
    outline = chat.history.outline._replace(turns=200)
    chat.history.take_over(outline, {200: Turn(200, "last")}, load)
    turns = chat.turns
    assert (turns[-1].prompt, turns[149].prompt, reads) == ("last", "150", [range(87, 151)])
    assert [turn.prompt for turn in turns] == [*map(str, range(1, 200)), "last"]
    assert turns[3:5] == (Turn(4, "4"), Turn(5, "5"))
    assert len(reads) == 2


# Limits, sessions, clock


def test_workers_share_the_limits_of_a_key(store: StateStore) -> None:
    clock = Clock()
    limits = {"per_key": {"minute": 3}, "roles": {"paying": {"minute": 5}}, "everyone": {"hour": 8}}
    workers = [guard(store, rate_limits=limits, clock=clock) for _ in range(2)]

    def passed(key: str, tries: int, role: str | None = None) -> int:
        return sum(not workers[n % 2].check_input("hi", key=key, role=role).rate_limited for n in range(tries))

    assert [passed("ann", 6), passed("ann", 4, "paying"), passed("ben", 2), passed("eve", 3)] == [3, 2, 2, 1]
    clock.now += timedelta(minutes=1)
    assert passed("ann", 2) == 0, "the limit over all keys"
    clock.now += timedelta(hours=1)
    assert passed("ann", 4) == 3
    assert workers[0].forget("ann").limits
    assert passed("ann", 4) == 3


def test_a_clock_that_is_set_back_lifts_no_shared_limit(store: StateStore) -> None:
    clock = Clock()
    pipeline = guard(store, rate_limits={"per_key": {"minute": 1}}, clock=clock)
    assert not pipeline.check_input("hi", key="ann").blocked
    clock.now -= timedelta(hours=3)
    assert pipeline.check_input("hi", key="ann").rate_limited
    other = guard(store, rate_limits={"per_key": {"minute": 1}}, clock=clock)
    assert other.check_input("hi", key="ann").rate_limited
    clock.now += timedelta(minutes=1)
    assert not other.check_input("hi", key="ann").rate_limited


def test_one_clock_reaches_turns_sessions_and_checks(store: StateStore) -> None:
    clock = Clock()
    pipeline = guard(store, clock=clock, session_by="initiator")
    chat = talk(pipeline, 1)
    assert chat.turn(1).timestamp == chat.turn(1).response_timestamp == clock.now
    assert chat.turn(1).metadata["guardrail_results"]["timestamp"] == clock.now.isoformat()
    assert pipeline.session("ann").states["drift"].last_at == clock.now
    clock.now += timedelta(days=40)
    assert pipeline.check_input("hello again", conversation=chat).stance.restarted
    alone = GuardrailPipeline({"guardrails": [{"drift": {"observer": "scripted:0.1,0.1"}}]}, clock=clock)
    chat = talk(alone, 1)
    assert alone.session(chat.conversation_id).states["drift"].last_at == clock.now


def test_a_session_can_be_looked_at_released_and_reset(store: StateStore) -> None:
    for pipeline in (
        guard(store, ATTACKER, session_by="initiator"),
        GuardrailPipeline({"session_by": "initiator", "guardrails": [{"drift": {"observer": ATTACKER}}]}),
    ):
        session = pipeline.session("ann")
        assert (session.stance, session.trust, session.breaker, session.reset()) == (None, None, None, False)
        talk(pipeline, 8)
        assert (session.terminated, str(session.breaker), session.stance.mode) == (
            True,
            "terminated",
            "terminated",
        )
        assert "circuit breaker terminated" in repr(session)
        trust = session.trust
        session.release()
        assert (session.terminated, session.trust, session.stance.interactions) == (False, trust, 8)
        assert session.reset()
        assert session.stance is None


def test_forgetting_a_person_leaves_nothing(store: StateStore) -> None:
    pipeline = guard(store, session_by="initiator", rate_limits={"per_key": {"day": 5}})
    talk(pipeline, 2, "c1")
    talk(pipeline, 2, "c2")
    talk(pipeline, 1, "c3", "ben")
    pipeline.check_input("hi", key="ann")
    receipt = pipeline.forget("ann")
    assert (receipt.sessions, receipt.conversations, receipt.limits) == (1, 2, 1)
    assert not pipeline.forget("ann")
    assert pipeline.find_conversation("c2") is None
    assert pipeline.load_conversation("c3").get_turn_count() == 1
    assert len(store) - len(store.keys(FORGOTTEN)) == 2


@pytest.mark.parametrize("name", [None, "unknown", "Unknown", "  "])
def test_an_initiator_without_a_name_is_shared_with_nobody(store: StateStore, name: str | None) -> None:
    attacker = guard(store, ATTACKER, session_by="initiator")
    talk(attacker, 8, "attack", name) if name else [
        attacker.check_input("x", conversation=chat)
        for chat in [Conversation(conversation_id="attack")]
        for _ in range(8)
    ]
    assert attacker.session("attack").terminated
    for stranger in (Conversation(name, "model"), NO_CONVERSATION):
        assert not guard(store, session_by="initiator").check_input("Hello", conversation=stranger).blocked


def test_a_conversation_that_is_not_there_is_an_error_or_asked_for(store: StateStore) -> None:
    pipeline = guard(store)
    with pytest.raises(
        GuardError, match=r"no conversation sha256:\w+: .*find_conversation.*or begin it with"
    ) as error:
        pipeline.load_conversation("ann@example.com")
    assert "ann@" not in str(error.value)
    assert pipeline.find_conversation("ann@example.com") is None
    pipeline.check_input("Hello", Conversation(conversation_id="ann@example.com"))
    found = pipeline.load_conversation("ann@example.com")
    assert found.turn(1).prompt == "Hello"
    assert pipeline.find_conversation("ann@example.com", held=found) is found


def test_a_message_by_itself_is_not_kept(store: StateStore) -> None:
    pipeline = guard(store)
    pipeline.check_input("Hello")
    assert len(store) == 0
    pipeline.check_input("Hello", session_id="ann")
    assert store.keys(STORED) == []
    assert pipeline.session("ann").stance.interactions == 1


# What goes wrong


def test_a_broken_state_is_an_error_that_names_its_key_and_never_an_empty_one(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "guard.db")
    talk(guard(store, ATTACKER), 8)
    for change in (
        "x'00'",
        "payload || x'00'",
        "substr(payload, 1, length(payload) - 3)",
        "CAST('session/9' || x'0a' AS BLOB)",
    ):
        with closing(sqlite3.connect(tmp_path / "guard.db")) as file, file:
            before = file.execute("SELECT payload FROM states WHERE kind = 'session'").fetchone()
            file.execute(f"UPDATE states SET payload = {change} WHERE kind = 'session'")
        key = f"drift:{digest_of('c1')}"
        with pytest.raises(StateError, match=key):
            store.get(SESSION, key)
        result = guard(store).check_input("Hello", conversation=guard(store).load_conversation("c1"))
        assert result.blocked
        assert key in result.failures[0]
        assert result.details["drift"].path == "closed"
        with closing(sqlite3.connect(tmp_path / "guard.db")) as file, file:
            file.execute("UPDATE states SET payload = ? WHERE kind = 'session'", before)


WORDS = {
    "turn-1": "660d117acd20cc08",
    "turn-2": "468d9654e97888fb",
    "conversation-1": "f5eead91a42098ac",
    "state-1": "491f25d399614985",
}
"""What was written can only be read with the same words: a change of them is a further version."""


def words_of(name: str) -> bytes:
    return (Path(guard_state.__file__).parent / "words" / f"{name}.txt").read_bytes()


@pytest.mark.parametrize("name", WORDS)
def test_words_of_payloads_never_change(name: str) -> None:
    assert sha256(words_of(name)).hexdigest()[:16] == WORDS[name]


def rewritten(path: Path, version: int) -> None:
    """Write the turns of a store as another version would."""
    with closing(sqlite3.connect(path)) as file, file:
        for key, name, payload in file.execute("SELECT key, name, payload FROM parts WHERE name LIKE 'turn:%'"):
            assert payload[0] == 2
            data = zlib.decompressobj(zdict=words_of("turn-2")).decompress(payload[1:])
            packer = zlib.compressobj(9, zdict=words_of("turn-1"))
            before = bytes([version]) + packer.compress(data) + packer.flush()
            file.execute("UPDATE parts SET payload = ? WHERE key = ? AND name = ?", (before, key, name))


def test_turns_that_an_earlier_version_wrote_are_read_and_those_of_a_later_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "guard.db"
    with SqliteStateStore(path) as store:
        chat = talk(guard(store), 3)
    rewritten(path, 1)
    with SqliteStateStore(path) as store:
        loaded = guard(store).load_conversation("c1")
        assert [turn.to_dict() for turn in loaded.turns] == [turn.to_dict() for turn in chat.turns]
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE parts SET payload = CAST(x'03' || substr(payload, 2) AS BLOB) WHERE name = 'turn:3'")
    with SqliteStateStore(path) as store, pytest.raises(StateError, match=r"turn 3 .* of another turnwise"):
        guard(store).load_conversation("c1")


@pytest.mark.parametrize("part", ["turn:3", "state:drift"])
def test_a_broken_part_of_a_conversation_blocks_and_says_which(tmp_path: Path, part: str) -> None:
    store = SqliteStateStore(tmp_path / "guard.db")
    talk(guard(store), 3)
    with closing(sqlite3.connect(tmp_path / "guard.db")) as file, file:
        file.execute("UPDATE parts SET payload = x'0102' WHERE name = ?", (part,))
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")
    result = guard(store).check_input("Hello", conversation=chat)
    assert result.blocked
    assert result.details["state"].path == "closed"
    assert "c1" in result.reasons[0] and "is broken" in result.reasons[0]
    assert result.details["drift"].reason == "the state store can't be used"
    with pytest.raises(StateError, match="is broken"):
        guard(store).load_conversation("c1")
    assert guard(store).forget("c1").conversations == 1


@pytest.mark.parametrize(
    ("mode", "blocked", "path", "in_warnings"),
    [("closed", True, "closed", False), ("open", False, "open", False), ("memory", False, "open", True)],
)
def test_while_the_store_is_down_checks_go_as_the_setting_says(
    mode: str, blocked: bool, path: str, in_warnings: bool
) -> None:
    store: Any = Down()
    pipeline = guard(store, state={"when_down": mode}, rate_limits={"per_key": {"minute": 2}})
    chat = talk(pipeline, 1)
    store.up = False
    result = pipeline.check_input("two", conversation=chat, key="ann")
    assert (result.blocked, result.details["state"].path) == (blocked, path)
    assert result.failures == ["state: failed: StateError: state store: the network is down"]
    assert bool(result.warnings) == in_warnings
    assert chat.turn(2).metadata["guardrail_results"]["details"]["state"]["status"] == "failed"
    assert pipeline.check_input("a bad one", conversation=chat).blocked, "what looks at the text alone goes on"
    refused = [pipeline.check_input("hi", key="ann").rate_limited for _ in range(3)]
    assert any(refused) == (mode == "memory"), "memory counts in this process"
    store.up = True
    result = pipeline.check_input("four", conversation=chat)
    assert (result.blocked, result.failures) == (False, [])
    kept = guard(store).load_conversation("c1")
    assert [turn.prompt for turn in kept] == ["question 1", "two", "a bad one", "four"]


@pytest.mark.parametrize(("mode", "blocked"), [("closed", True), ("open", False), ("memory", False)])
def test_a_store_that_goes_down_within_a_check_is_told_as_one_down_before(mode: str, blocked: bool) -> None:
    class Gone(MemoryStateStore):
        def get(self, *_: Any) -> Any:
            raise StateDownError("state store: the network is down")

    pipeline = guard(Gone(), state={"when_down": mode})
    for _ in range(2):
        result = pipeline.check_input("Hello", session_id="ann")
        assert (result.blocked, result.details["drift"].status) == (blocked, "evaluated")
        assert result.failures == ["state: failed: StateDownError: state store: the network is down"]
    assert result.stance.interactions == (2 if mode == "memory" else 1), "memory goes on with what it knows"


def test_how_a_store_does_can_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    store: Any = Down()
    pipeline = guard(store, state={"when_down": "open"})
    chat = talk(pipeline, 1)
    store.up = False
    pipeline.check_input("two", conversation=chat)
    status = pipeline.state_status()
    assert (status.up, status.checks, status.without, status.error) == (
        False,
        2,
        1,
        "state store: the network is down",
    )
    assert json.loads(json.dumps(status.to_dict()))["when_down"] == "open"
    store.up = True
    assert not pipeline.state_status().up, "no check has met it since"
    assert pipeline.state_status(ask=True).up
    told = [record.getMessage().partition(": it ")[2] for record in caplog.records if "can" in record.getMessage()]
    assert told == ["can't be used; when_down=open", "can be used again"]
    assert GuardrailPipeline({"guardrails": ["pii"]}).state_status() is None


def test_a_verdict_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    store: Any = Down()

    class Cuts(Contains):
        def check(self, check: Any) -> Any:
            store.up = "cut" not in check.text
            return super().check(check)

    pipeline = GuardrailPipeline({"guardrails": [Cuts()]}, state_store=store)
    chat = talk(pipeline, 1)
    result = pipeline.check_input("now it is cut", conversation=chat)
    assert result.blocked
    assert result.details["cuts"].status == "evaluated"
    assert chat.turn(2).metadata["guardrail_results"]["blocked"]
    assert not chat.to_messages()[2:]


def test_a_check_that_others_outrun_again_and_again_is_told_and_its_turn_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnwise.guard.state.guard_state._AGAIN_SECONDS", 0.0)
    store = MemoryStateStore()
    busy = guard(store)
    talk(busy, 1)
    outrun = [True]

    class Slow(Contains):
        def check(self, check: Any) -> Any:
            if outrun[0]:
                busy.check_input("me first", conversation=busy.load_conversation("c1"))
            return super().check(check)

    slow = GuardrailPipeline({"guardrails": [Slow()]}, state_store=store)
    chat = slow.load_conversation("c1")
    told = slow.check_input("my turn", conversation=chat)
    assert told.blocked and "other checks of this conversation were faster again and again" in told.reasons[0]
    assert slow.state_status().again == 19
    outrun[0] = False
    assert not slow.check_input("once more", conversation=chat).failures
    prompts = [turn.prompt for turn in busy.load_conversation("c1")]
    assert prompts == ["question 1", *["me first"] * 20, "my turn", "once more"]


def test_a_cancelled_check_stays_for_all_workers(store: StateStore) -> None:
    pipeline = GuardrailPipeline({"guardrails": [Waits()]}, state_store=store)
    chat = Conversation.human_ai("ann", "model", conversation_id="c1")

    async def cancelled() -> None:
        task = asyncio.ensure_future(pipeline.acheck_input("one", conversation=chat))
        while not chat.get_turn_count():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    kept = pipeline.load_conversation("c1")
    assert kept.turn(1).metadata["guardrail_results"]["reasons"] == [
        "cancelled: failed: nobody waits for the check any more"
    ]
    assert pipeline.check_input("two", conversation=chat).turn_number == 2


# Configuration and command line


def test_a_configuration_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "guard.yaml"
    file.write_text(f"guardrails: [pii]\nstate: {{sqlite: {tmp_path / 'guard.db'}, keep_days: 30}}\n")
    with GuardrailPipeline(file) as pipeline:
        talk(pipeline, 2)
    with pytest.raises(StateError, match="is closed"):
        pipeline.load_conversation("c1")
    assert GuardrailPipeline(file).load_conversation("c1").get_turn_count() == 2
    with pytest.raises(GuardError, match="there is no state store to load from"):
        GuardrailPipeline({"guardrails": ["pii"]}).load_conversation("c1")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"sqlit": "x.db"}, "did you mean 'sqlite'"),
        ({"sqlite": ""}, "name the file that states are kept in"),
        ({"redis": "http://:secret@cache"}, r"can't be read; use redis://\["),
        ({"redis": "redis://:secret#word@cache:port"}, r"can't be read; use redis://\["),
        ({"redis": "redis://cache", "sqlite": "x.db"}, "choose sqlite or redis"),
        ({"redis": "env:NOT_SET_ANYWHERE"}, "the environment variable NOT_SET_ANYWHERE is not set"),
        ({"when_down": "ajar"}, "'closed', 'open' or 'memory'"),
        ({"keep_days": -1}, "keep_days is -1"),
        ({"sqlite": "/nowhere/at/all.db"}, "state: state store /nowhere/at/all.db: it can't be opened"),
    ],
)
def test_a_state_that_can_not_be_is_an_error(state: dict[str, Any], told: str) -> None:
    with pytest.raises(GuardError, match=told) as error:
        GuardrailPipeline({"guardrails": ["pii"], "state": state})
    assert "secret" not in str(error.value)


def test_a_store_in_redis_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StateError, match=r"pip install 'turnwise\[redis\]'"):
        RedisStateStore("redis://cache")


def test_a_store_is_opened_by_what_a_user_names_it(tmp_path: Path) -> None:
    assert repr(open_state_store(str(tmp_path / "guard.db"))).startswith("SqliteStateStore(")
    assert open_state_store(f"sqlite:///{tmp_path}/guard.db").path == f"{tmp_path}/guard.db"
    with pytest.raises(StateError, match="no state store is known for mysql"):
        open_state_store("mysql://somewhere")


def test_sessions_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "guard.db")
    with SqliteStateStore(path) as store:
        talk(guard(store, ATTACKER, session_by="initiator"), 8)
        talk(guard(store, session_by="initiator"), 1, "c2", "ben")

    def run(*words: str) -> Any:
        with pytest.raises(SystemExit) as done:
            main(["guard", "sessions", *words, "--state", path, "--json"])
        said = capsys.readouterr()
        return said.err if done.value.code else json.loads(said.out)

    rows = run()
    assert {(row["session"], row["phase"], row["turns"]) for row in rows} == {
        (digest_of("ann"), "terminated", 8),
        (digest_of("ben"), "normal", 1),
    }
    assert [row["session"] for row in run("--terminated")] == [digest_of("ann")]
    shown = run("ann")
    assert shown["conversations"] == ["c1"] and shown["memories"][0]["guardrail"] == "drift"
    with pytest.raises(SystemExit):
        main(["guard", "forget", "ann", "--state", path, "--json"])
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["sessions"], receipt["conversations"], receipt["limits"]) == (1, 1, 0)
    assert "no session 'ann'" in run("ann")
    assert run(digest_of("ben"))["memories"][0]["turns"] == 1
