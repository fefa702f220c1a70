"""A store in a real PostgreSQL: used by commands, by many at once, killed under load, damaged, and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cutting_proxy import proxy_to
from postgresql_server import ADMIN, PostgresqlServer, ask_directly, held_up, running, wait_until

from turnwise.cli import main
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreUnreachableError,
    TurnwiseError,
    UsageError,
)
from turnwise.guard import GuardrailPipeline
from turnwise.guard.audit import AuditSettings, read_audit, verify_audit
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Reply, Score
from turnwise.store import Run, Store, ask, shown_location

pytestmark = pytest.mark.integration

NOW = datetime(2025, 6, 7, 8, 9, 10, 123456, tzinfo=UTC)
PASSWORD = PostgresqlServer.password


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    """Return the URL of an empty schema."""
    return postgresql.new_schema()


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresqlServer]:
    """Return a server of this module's own, durable and with checksums, that a test may kill and damage."""
    with running(checksums=True) as server:
        yield server


def chat(name: str, turns: int = 3, text: str = "turn") -> Sequence:
    """Return a sequence of that many turns."""
    said = [(f"{text} {number}", "fine") for number in range(1, turns + 1)]
    return Sequence(name, Label.ATTACK, "made up", Conversation.from_turns(said, conversation_id=name))


def run_of(name: str = "first") -> Run:
    """Return a run."""
    return Run(name, "probe", "1", "history", {}, {}, "0.1.0", NOW)


def scored(name: str, turn: int, run: str = "first", falsity: float = 0.5) -> Evaluation:
    """Return an evaluation of a turn."""
    key = EvaluationKey(run, name, turn, Side.PROMPT, "p")
    provenance = Provenance("probe", "1", "1", "history", {}, "0.1.0")
    return Evaluation(key, Score(0.5, 0.25, falsity), provenance, NOW)


def turnwise(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command in this process, and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return int(leaving.value.code or 0), out, err


# Every command -------------------------------------------------------------------------------------------


def test_commands_say_of_a_server_what_they_say_of_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        {
            "id": f"{label}_{number}",
            "label": label,
            "messages": [
                {"role": "user", "content": f"{label} {number} says {turn} \0 ␀ ␀0"} for turn in range(3)
            ],
        }
        for label in ("attack", "benign")
        for number in range(3)
    ]
    Path("chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("rules.json").write_text(json.dumps([{"contains": "attack", "F": 0.9}]))
    commands = [
        ("import", "chats.jsonl"),
        ("evaluate", "--run", "first", "--observer", "scripted:0.5,0.25,0.75"),
        ("runs", "list"),
        ("detect", "--run", "first", "--detector", "any_turn:threshold=0.5"),
        ("query", "F > 0.5"),
        ("query", "F > 0.5", "--where", "label = attack and turns >= 3"),
        ("query", "--sql", "SELECT label, count(*), max(F) FROM evaluations GROUP BY ALL ORDER BY ALL"),
        ("show", "attack_1", "--run", "first"),
        ("runs", "rename", "first", "pilot", "--yes"),
        ("runs", "delete", "pilot", "--yes"),
        ("llm", "cache", "--clear"),
    ]
    for command in commands:
        told = {}
        for store in ("work.db", url):
            code, out, err = turnwise(capsys, *command, "--store", store, "--json")
            assert code == 0, (command, err)
            assert PASSWORD not in out + err
            told[store] = _without_what_varies(json.loads(out))
        assert told[url] == told["work.db"], command


def _without_what_varies(value: Any) -> Any:
    """Return what a command said without times and durations."""
    varying = ("seconds", "created_at", "first", "last", "latency_s", "store", "rate", "per_second")
    if isinstance(value, dict):
        return {key: _without_what_varies(item) for key, item in value.items() if key not in varying}
    return [_without_what_varies(item) for item in value] if isinstance(value, list) else value


def test_the_environment_and_a_project_name_a_server_without_its_password_being_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNWISE_STORE", url)
    code, out, err = turnwise(capsys, "doctor")
    assert (code, PASSWORD in out + err) == (1, False)  # there is no store yet
    assert "postgresql://keeper@127.0.0.1" in out
    code, out, err = turnwise(capsys, "runs", "list")
    assert code == 1
    assert "there is no store at postgresql://keeper@127.0.0.1" in err
    assert PASSWORD not in out + err
    with Store(url, create=True) as store:
        assert PASSWORD not in repr(store) + store.location + store._repr_html_()
        assert store.location == shown_location(url)


def test_a_guard_keeps_its_audit_in_a_server(url: str) -> None:
    settings = AuditSettings(url, sink="store", text="raw")
    with closing(settings.open()) as audit:
        assert PASSWORD not in audit.status.path
    long = "x" * 5_000  # whoever talks chooses the name of a conversation
    with Store(url) as store:
        store.audit.append([{"time": NOW.isoformat(), "kind": "check", "conversation_id": long, "blocked": False}])
        assert [record["conversation_id"] for record in store.audit.events(conversation_ids=[long])] == [long]
    assert read_audit(url).checked == 1


def test_what_is_forgotten_is_in_no_row_of_the_audit_and_the_chain_holds(url: str) -> None:
    config = {"guardrails": ["pii"], "audit": {"path": url, "sink": "store", "text": "raw"}}
    with GuardrailPipeline(config) as guard, GuardrailPipeline(config) as other:
        for number in range(5):
            guard.check_input(f"what Ann says {number}", Conversation.human_ai("Ann", "m"))
            other.check_input(f"what Ben says {number}", Conversation.human_ai("Ben", "m"))
        assert other._setup.audit.flush()
        receipt = guard.forget("ann")
    assert list(receipt.audit.values()) == [5] and "write-ahead log" in receipt.unreached[0]
    found = verify_audit(url)
    assert found.intact and (found.events, found.erased) == (11, 5)
    with Store(url) as store:
        rows = json.dumps([record for _, record in store.audit.rows()])
    assert "Ann" not in rows and "what Ben says 4" in rows


# Many at once --------------------------------------------------------------------------------------------


def test_writers_and_readers_at_once_lose_and_double_nothing(url: str) -> None:
    # Each writer is a store of its own, as in processes; the reader asks all the while, so its watermark is tried.
    writers, each = 4, 30
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(url, create=True)) for _ in range(writers)]
        reader = stack.enter_context(Store(url))
        stores[0].start_run(run_of())
        stores[0].add_sequences(chat(f"s{number}", each) for number in range(writers))

        def write(number: int) -> None:
            # All import the same sequence, and are the first to score this principle.
            stores[number].add_sequences([chat("shared")])
            for turn in range(1, each + 1):
                stores[number].append([scored(f"s{number}", turn)])

        done = threading.Event()

        def read() -> list[int]:
            seen = [0]
            while not done.is_set():
                if stores[0].counts()["evaluations"]:
                    [(count,)] = ask(reader.mirror, "SELECT count(*) FROM evaluations").rows
                    seen.append(count)
            return seen

        with ThreadPoolExecutor(writers + 1) as pool:
            reading = pool.submit(read)
            list(pool.map(write, range(writers)))
            done.set()
            seen = reading.result()
        assert seen == sorted(seen)
        [(count,)] = ask(reader.mirror, "SELECT count(*) FROM evaluations").rows
        assert count == stores[0].counts()["evaluations"] == writers * each
        assert stores[0].counts()["sequences"] == writers + 1
    # Each store that was closed leaves nothing behind.
    assert ask_directly(url, "SELECT count(*) FROM writers") == [(0,)]


def test_many_may_make_the_same_store_at_once(url: str) -> None:
    together = threading.Barrier(4)

    def make(number: int) -> dict[str, int]:
        together.wait()
        with Store(url, create=True) as store:
            return store.counts()

    with ThreadPoolExecutor(4) as pool:
        assert [counts["sequences"] for counts in pool.map(make, range(4))] == [0, 0, 0, 0]


def test_who_waits_too_long_for_another_writer_says_so_and_readers_wait_for_nobody(url: str) -> None:
    with Store(url, create=True, busy_seconds=0.2) as store:
        store.add_sequences([chat("a")])
        with held_up(url):
            with pytest.raises(StoreLockedError, match="is locked by another process; wait for it to finish"):
                store.add_sequences([chat("b")])
            assert store.sequence("a").sequence_id == "a"
            with Store(url) as again:
                assert again.counts()["sequences"] == 1
        assert [one.new for one in store.add_sequences([chat("b")])] == [True]


def test_two_records_in_one_database_have_nothing_to_do_with_each_other(postgresql: PostgresqlServer) -> None:
    first, second = postgresql.new_schema(), postgresql.new_schema()
    with Store(first, create=True) as one, Store(second, create=True, busy_seconds=0.2) as other, held_up(first):
        assert [one.new for one in other.add_sequences([chat("a")])] == [True]
        assert one.counts()["sequences"] == 0


# Killed --------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_under_load_loses_nothing_that_was_acknowledged(mortal: PostgresqlServer) -> None:
    threads, each = 4, 60
    url = mortal.new_schema()
    with Store(url, create=True, busy_seconds=60) as store:
        store.start_run(run_of())
        store.add_sequences(chat(f"s{number}", each) for number in range(threads))
        acknowledged: list[tuple[str, int]] = []
        enough = threading.Event()

        def write(name: str) -> None:
            for turn in range(1, each + 1):
                store.append([scored(name, turn)])
                acknowledged.append((name, turn))
                if len(acknowledged) >= threads * each // 4:
                    enough.set()

        with ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(write, f"s{number}") for number in range(threads)]
            enough.wait()
            mortal.kill()
            kept = list(acknowledged)
            mortal.start()
            rows = ask_directly(
                url, "SELECT sequence_id, turn FROM evaluations e JOIN sequences s ON s.id = sequence"
            )
            assert set(kept) <= set(rows)
            for job in jobs:  # what was under way is done again, and what was committed unheard is not
                job.result()
        assert len(acknowledged) == store.counts()["evaluations"] == threads * each
        # The run is still kept from others, over a lock that was had anew.
        with Store(url) as other, pytest.raises(StoreLockedError, match="is being written by another process"):
            other.delete_run("first")


def test_a_server_that_is_killed_during_an_evaluation_costs_no_score(
    mortal: PostgresqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = mortal.new_schema(), tmp_path / "work.db"
    for where in (url, file):
        with Store(where, create=True) as store:
            store.add_sequences(chat(f"s{number}", 10) for number in range(60))
    command = ("evaluate", "--run", "first", "--observer", "scripted:0.1,0.5,0.9", "--json", "--store")
    assert turnwise(capsys, *command, file)[0] == 0

    def evaluated() -> str:
        words = [sys.executable, "-m", "turnwise", *command, url]
        return subprocess.run(words, capture_output=True, text=True, check=False).stderr

    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            job, before = pool.submit(evaluated), _scores(url)
            wait_until(lambda job=job, before=before: job.done() or _scores(url) > before, "nothing is scored")
            mortal.kill()
            mortal.start()
            assert "Traceback" not in job.result()
    assert turnwise(capsys, *command, url)[0] == 0
    with Store(url) as there, Store(file) as here:
        for number in range(60):
            kept = there.trajectory("first", f"s{number}").evaluations
            assert [(one.key, one.score) for one in kept] == [
                (one.key, one.score) for one in here.trajectory("first", f"s{number}").evaluations
            ]


def _scores(url: str) -> int:
    return int(ask_directly(url, "SELECT count(*) FROM evaluations")[0][0])


def test_after_a_restart_the_next_call_of_each_kind_works(mortal: PostgresqlServer) -> None:
    url = mortal.new_schema()
    reply = Reply("k", 1, "text", "judge", "stop", None, 1, 1, 0.1, 0.1, "nonce", NOW)
    with Store(url, create=True) as store:
        store.start_run(run_of())
        store.add_sequences([chat("a")])
        store.append([scored("a", 1)])
        store.journal.record(reply)
        calls: list[Callable[[], Any]] = [
            store.counts,
            lambda: store.journal.find("k", 1),
            lambda: len(store.query("F > 0.1")),
            lambda: len(store.query("F > 0.1", where="turns = 3")),
            lambda: store.append([scored("a", 2)]),
            lambda: store.rename_run("first", "first"),
        ]
        for call in calls[:4]:
            call()
        for call in calls[:-1]:
            mortal.stop()
            mortal.start()
            call()
        assert store.trajectory("first", "a").evaluations == (scored("a", 1), scored("a", 2))
        mortal.stop()
        mortal.start()
        with Store(url) as other:
            other.append([scored("a", 3)])
        assert len(store.query("F > 0.1", when="final")) == 1


def test_a_server_that_stays_away_is_an_error_after_the_time_that_was_given(mortal: PostgresqlServer) -> None:
    url = mortal.new_schema()
    with Store(url, create=True, busy_seconds=0.3) as store:
        mortal.stop()
        for call in (store.counts, lambda: store.add_sequences([chat("a")]), lambda: store.journal.find("k", 1)):
            with pytest.raises(StoreUnreachableError, match="can't be reached") as raised:
                call()
            assert PASSWORD not in str(raised.value)
        mortal.start()
        assert [one.new for one in store.add_sequences([chat("a")])] == [True]


@pytest.mark.parametrize("delivered", [True, False], ids=["answer lost", "commit lost"])
def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_done_twice(
    postgresql: PostgresqlServer, url: str, delivered: bool
) -> None:
    with proxy_to(postgresql.port) as proxy:
        through = url.replace(f":{postgresql.port}", f":{proxy.port}")
        with Store(through, create=True) as store:
            store.start_run(run_of())
            store.add_sequences([chat("a")])
            store.append([scored("a", 1)])
            for turn in (2, 3):
                proxy.cut_once(b"COMMIT", delivered=delivered)
                store.append([scored("a", turn)])
            proxy.cut_once(b"COMMIT", delivered=delivered)
            assert [one.new for one in store.add_sequences([chat("b")])] == [True]
            proxy.cut_once(b"SELECT", delivered=delivered)
            assert store.counts()["sequences"] == 2
            assert proxy.cuts == 4
            assert store.trajectory("first", "a").evaluations == tuple(scored("a", turn) for turn in (1, 2, 3))


# Refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda s: s.url(password="wr0ng-word"), StoreUnreachableError, "check user and password"),
        (lambda s: s.url(user="nobody-here"), StoreUnreachableError, "check user and password"),
        (lambda s: s.url("nowhere"), StoreUnreachableError, "make a database with createdb"),
        (lambda s: s.url().replace(f":{s.port}", ":1"), StoreUnreachableError, "whether PostgreSQL runs there"),
        (lambda s: s.url(password="an@t-word"), UsageError, "write it as %40"),
        (lambda s: s.url().replace(f":{s.port}", ":port"), UsageError, "is not a store: give a file"),
        (lambda s: s.url(query="sslmode=wr0ng-word"), StoreError, "sslmode"),
        (lambda s: s.url(query="options=-csearch_path%3Dnot_there"), StoreError, "search_path has no schema"),
        (lambda s: s.url().replace("postgresql:", "postgresql+asyncpg:"), UsageError, "write postgresql://"),
    ],
    ids=["password", "user", "database", "port", "at", "no port", "setting", "schema", "driver"],
)
def test_a_wrong_url_is_one_line_without_the_password(
    postgresql: PostgresqlServer,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[PostgresqlServer], str],
    kind: type[TurnwiseError],
    said: str,
) -> None:
    url = change(postgresql)
    with pytest.raises(kind, match=said) as raised:
        Store(url, create=True, busy_seconds=0.2)
    assert "\n" not in str(raised.value)
    code, out, err = turnwise(capsys, "runs", "list", "--store", url)
    assert code == (2 if kind is UsageError else 1)
    assert err.count("\n") <= 2
    for word in (PASSWORD, 'wr0ng-word"@', "t-word"):
        assert word not in str(raised.value) + out + err


def test_a_schema_of_somebody_else_and_a_wrong_encoding_are_refused(
    postgresql: PostgresqlServer, url: str
) -> None:
    ask_directly(url, "CREATE TABLE users (name text)")
    for create in (True, False):
        with pytest.raises(StoreCorruptError, match="is a database but not a turnwise store"):
            Store(url, create=create)
    postgresql.ask("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(StoreError, match="is encoded in SQL_ASCII, which can't hold every text"):
        Store(postgresql.url("ascii"), create=True)


def test_who_may_only_read_reads_and_is_told_so(postgresql: PostgresqlServer, url: str) -> None:
    schema = url.rpartition("%3D")[2]
    with Store(url, create=True) as store:
        store.add_sequences([chat("a")])
    postgresql.ask(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    postgresql.ask(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    postgresql.ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    with Store(url.replace(f"//{ADMIN}:", "//reader:")) as reader:
        assert reader.sequence("a").sequence_id == "a"
        with pytest.raises(StoreError, match=r"permission denied .*; grant it, or make the user owner"):
            reader.add_sequences([chat("b")])


def test_an_id_that_no_index_can_hold_is_wrong_use(url: str) -> None:
    with Store(url, create=True) as store:
        with pytest.raises(UsageError, match="an id or a name is too long for PostgreSQL"):
            store.add_sequences([chat("good"), chat(os.urandom(5_000).hex())])
        assert store.counts()["sequences"] == 0


# Damaged -------------------------------------------------------------------------------------------------


def test_a_page_that_was_overwritten_is_damage_and_the_rest_can_be_read(mortal: PostgresqlServer) -> None:
    url = mortal.new_schema()
    with Store(url, create=True) as store:
        store.add_sequences([chat("a")])
    [(file,)] = ask_directly(url, "SELECT pg_relation_filepath('turns')")
    ask_directly(url, "CHECKPOINT")
    mortal.stop()
    with (mortal.data / file).open("r+b") as pages:
        pages.seek(4_000)
        pages.write(b"\xa5" * 100)
    mortal.start()
    with Store(url) as store:
        with pytest.raises(StoreCorruptError, match=r"is damaged \(invalid page in block 0 .*restore a backup"):
            store.sequence("a")
        assert [head.sequence_id for head in store.heads()] == ["a"]


def test_a_value_that_can_not_be_is_named_and_other_rows_are_read(url: str) -> None:
    with Store(url, create=True) as store:
        store.add_sequences([chat("a"), chat("b")])
        ask_directly(url, "UPDATE sequences SET imported_at = 'infinity' WHERE sequence_id = 'a'")
        place = r"sequences\.imported_at where sequence_id is 'a' and id is 1: 'infinity' is not a time"
        with pytest.raises(StoreCorruptError, match=place):
            store.sequence("a")
        assert store.sequence("b").sequence_id == "b"
        ask_directly(url, "DROP TABLE calls")
        with pytest.raises(StoreCorruptError, match='relation "calls" does not exist'):
            store.tallies()


# Asked with psql -----------------------------------------------------------------------------------------


def test_the_statements_of_the_page_for_analysts_can_be_asked(url: str) -> None:
    with Store(url, create=True) as store:
        store.start_run(run_of())
        store.add_sequences([chat("a"), chat("b")])
        store.append([scored("a", 1, falsity=0.1), scored("a", 2, falsity=0.9), scored("b", 1, falsity=0.2)])
    page = Path(__file__).parents[2] / "docs" / "sql.md"
    blocks = page.read_text(encoding="utf-8").split("```sql\n")[1:]
    statements = [block.partition("```")[0] for block in blocks]
    assert len(statements) >= 3
    for statement in statements:
        assert ask_directly(url, statement), statement


def test_two_runs_are_compared_as_in_a_file(url: str, tmp_path: Path) -> None:
    from turnwise.observers import ScriptedObserver
    from turnwise.runs import arm_verdicts, compare_arms, evaluate
    from turnwise.study import facet_rates, trends

    told = []
    for location in (url, str(tmp_path / "work.db")):
        with Store(location, create=True) as store:
            store.add_sequences([
                Sequence(f"c{n}", Label.BENIGN, "made up", Conversation.from_turns(
                    [Turn(1, "hello", timestamp=NOW + timedelta(days=n)), Turn(2, "more")], conversation_id=f"c{n}"
                ), {"model": f"m{n % 2}"})
                for n in range(60)
            ])  # fmt: skip
            for run, step in (("a", 37), ("b", 61)):

                def script(name: str, turn: Turn, _: object, step: int = step) -> Score:
                    return Score(0.5, 0.1, int(name[1:]) * step * turn.number % 100 / 100)

                evaluate(store, run, ScriptedObserver(script))
            for detector in ("any_turn", "cusum"):
                pair = compare_arms(store, arm_verdicts(store, "a", detector), arm_verdicts(store, "b", detector))
                told.append((
                    pair.flips(store, pair.flipped()), facet_rates(pair, "model"),
                    trends(store, pair.b, "model").weeks,
                ))  # fmt: skip
    assert told[:2] == told[2:]
    assert all(flips and weeks for flips, _, weeks in told)


def test_what_was_erased_is_in_no_file_of_the_server() -> None:
    with running(checksums=False) as server:
        url = server.new_schema()
        with Store(url, create=True) as store:
            store.add_sequences(chat(f"chat-{number}", text=f"zebrafinch{number}") for number in range(6))
            store.start_run(run_of())
            store.append(scored(f"chat-{number}", turn) for number in range(6) for turn in (1, 2, 3))
            store.people.review(["chat-2"], "confirmed", author="eve", note="zebrafinch2 noted")
            receipt = store.erase(["chat-2", "chat-4"], author="eve", reason="asked for")
            assert receipt.counts["sequences"] == 2
            assert [head.sequence_id for head in store.heads()] == ["chat-0", "chat-1", "chat-3", "chat-5"]
            assert [one.concerns("chat-2") for one in store.erasures()] == [True]
            scored_ids = [head.sequence_id for head, _ in store.trajectories("first")]
            assert scored_ids == ["chat-0", "chat-1", "chat-3", "chat-5"]
        ask_directly(server.url(), "CHECKPOINT")
        held = {
            number: [
                file.name
                for file in (server.data / "base").rglob("*")
                if file.is_file() and f"zebrafinch{number} ".encode() in file.read_bytes()
            ]
            for number in range(6)
        }
        assert not held[2] and not held[4], held
        assert all(held[number] for number in (0, 1, 3, 5)), held
