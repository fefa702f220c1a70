"""The inbox: one set of findings whichever door tells them, and where each stands, kept through everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgresql_server import PostgresqlServer

from turnwise.cli import demo_observer, run_demo
from turnwise.conversation import Conversation, Label, Sequence
from turnwise.datasets import examples
from turnwise.errors import StoreError, UnknownNameError, UsageError
from turnwise.explorer import Answers, Filter, ViewedStore, overview, read_chat, rule_of
from turnwise.observers import NotRead, ObservationFailure, ScriptedObserver
from turnwise.principles import load_principle
from turnwise.runs import evaluate, inbox, sentence
from turnwise.scoring import Score
from turnwise.store import Status, Store

Cli = Callable[..., Any]
Told = dict[str, int]
"""The flagged conversations, with the turn."""


SAID = "Hello, you.", "And then? Tell me how he'd never know."


def chat(name: str, *prompts: str) -> Sequence:
    conversation = Conversation.from_turns([(prompt, "All right.") for prompt in prompts], conversation_id=name)
    return Sequence(name, Label.UNLABELLED, "made", conversation)


def troubled(name: str, turn: Any, request: Any) -> Any:
    """Scores that rise, with a failure and a text that is not read; of one conversation failures alone."""
    if "lost" in name or (turn.number == 2 and name == "chat-3"):
        return ObservationFailure(request.principle.name, request.side, "error", "no answer")
    if turn.number == 2 and name == "chat-4":
        return NotRead(request.principle.name, request.side, "ru")
    return Score(0.2, 0.1, min(1.0, 0.05 + turn.number * int(name[-1]) / 10))


@pytest.fixture(params=["examples", "scan", "failures and unread texts, in PostgreSQL"])
def location(request: pytest.FixtureRequest, cli: Cli, tmp_path: Path) -> str:
    """Return a store with one run."""
    if request.param == "scan":
        lines = [
            {
                "id": one.sequence_id,
                "messages": [{"role": "user", "content": turn.prompt} for turn in one.conversation],
            }
            for one in examples()
        ]
        (tmp_path / "chats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        scan = "scan", tmp_path / "chats.jsonl", "--out", tmp_path / "found", "--observer", "local-small"
        assert cli(*scan).code == 0
        return str(tmp_path / "found")
    if request.param == "examples":
        with Store(tmp_path / "work.db", create=True) as store:
            run_demo(store, {"reader": demo_observer("reader")})
            store.delete_run("reader-turn")
        return str(tmp_path / "work.db")
    postgresql: PostgresqlServer = request.getfixturevalue("postgresql")
    url = postgresql.new_schema()
    with Store(url, create=True) as store:
        store.add_sequences([chat(f"chat-{n}", "Hello", "And then?", "And more?") for n in range(6)])
        store.add_sequences([chat("lost-1", "Hello")])
        evaluate(store, "r", ScriptedObserver(troubled), principles=[load_principle("reciprocity")])
    return url


def by_every_door(cli: Cli, location: str) -> Iterator[tuple[str, Told]]:
    found = cli("detect", "--store", location, "--json").json
    first: Told = {}
    for one in found:
        if one["fired"]:
            first[one["sequence_id"]] = min(one["turn"], first.get(one["sequence_id"], one["turn"]))
    yield "detect", first
    assert cli("detect", "--store", location, "--fired", "--export", "fired.json").code == 0
    rows = json.loads(Path("fired.json").read_text())
    yield "detect --export", {one["sequence_id"]: first[one["sequence_id"]] for one in rows}
    listed = cli("judgements", "inbox", "--store", location, "--limit", 1000, "--json").json
    assert {one["detector"] for one in listed["detectors"]} == {one["detector"] for one in found}
    peaks = [one["peak"] for one in listed["items"]]
    assert len(peaks) > 1 and peaks == sorted(peaks, reverse=True)  # the most serious first
    yield "judgements inbox", {one["sequence_id"]: one["turn"] for one in listed["items"]}
    with Store(location) as store, Answers(ViewedStore(store)) as answers:
        run = store.only_run()
        yield "inbox", {one.sequence_id: one.turn for one in inbox(store, limit=None).items}
        table = answers.find(Filter(run=run, flagged="yes", size=1000))
        yield "sequences", {row.sequence_id: row.flag for row in table.rows if row.flag is not None}
        rates = overview.detection(answers.record, run, rule_of(answers.record, run))
        assert sum(rate.count for rate in rates.values()) == len(first)
        chats = [read_chat(answers.record, head.sequence_id, run) for head in store.heads()]
        yield "a sequence", {one.sequence.sequence_id: one.flag for one in chats if one.flag is not None}
        if store.is_findings:
            told = cli("query", "--sql", "SELECT sequence_id, flag_turn FROM findings WHERE fired", "--json",
                       "--limit", 1000, "--store", location).json  # fmt: skip
            yield "scan", {one["sequence_id"]: one["flag_turn"] for one in told}


def test_every_door_tells_the_same_conversations_counts_and_turns(cli: Cli, location: str, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    doors = dict(by_every_door(cli, location))
    wanted = doors["detect"]
    assert wanted and all(told == wanted for told in doors.values()), doors
    name = max(wanted)
    shown = cli("show", name, "--store", location, "--json").json
    assert min(one["turn"] for one in shown["verdicts"] if one["fired"]) == wanted[name]


@pytest.fixture
def work(cli: Cli, tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "work.db", create=True) as store:
        store.add_sequences([chat(f"chat-{n}", *SAID) for n in range(6)])
        evaluate(store, "r", ScriptedObserver(troubled), principles=[load_principle("reciprocity")])
        yield store


def test_what_is_flagged_is_listed_with_its_sentence(work: Store) -> None:
    found = inbox(work)
    [one] = found.items
    assert (one.sequence_id, one.peak, one.turn) == ("chat-5", 1.0, 1)
    text = sentence(work, one)
    assert text.text[text.start : text.end] == "Hello, you."
    assert (found.pending, found.total, found.counts[Status.NEW]) == (0, 1, 1)


def test_verdicts_are_kept_and_brought_up_to_date(work: Store) -> None:
    before = inbox(work, seconds=0)
    assert before.pending == 6 and not before.items
    assert inbox(work).total == inbox(work, seconds=0).total > 0
    work.add_sequences([chat("chat-9", "Hello")])
    evaluate(work, "r", ScriptedObserver(troubled), principles=[load_principle("reciprocity")])
    assert inbox(work, seconds=0).pending == 1
    assert "chat-9" in {one.sequence_id for one in inbox(work).items}
    work.delete_run("r")
    evaluate(work, "r", ScriptedObserver("0.1"), principles=[load_principle("reciprocity")])
    assert inbox(work).total == 0


def test_what_was_kept_may_be_deleted_or_damaged(work: Store, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = inbox(work)
    [kept] = (tmp_path / "cache").rglob("verdicts.db")
    for file in kept.parent.iterdir():
        file.unlink()
    assert inbox(work) == before
    for file in kept.parent.iterdir():
        file.write_bytes(b"no database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="delete it"):
        inbox(work)
    with Store(work.location) as again:
        assert inbox(again) == before
    (tmp_path / "cache").rename(tmp_path / "gone")
    (tmp_path / "cache").write_text("no folder")
    with Store(work.location) as again:
        assert inbox(again) == before


def test_where_a_conversation_stands_survives_a_run_and_a_label(cli: Cli, work: Store) -> None:
    given = cli("judgements", "status", "chat-5", "chat-2", "confirmed", "--author", "Ann", "--assignee", "Ben",
                "--note", "as in March", "--store", work.location)  # fmt: skip
    assert given.code == 0 and "chat-5: confirmed, assigned to Ben; Ann" in given.out
    cli(
        "judgements",
        "status",
        "chat-5",
        "same",
        "--author",
        "Ben",
        "--assignee",
        "nobody",
        "--store",
        work.location,
    )
    evaluate(work, "again", ScriptedObserver("0.9"), principles=[load_principle("reciprocity")])
    work.add_sequences(
        [Sequence("chat-5", Label.ATTACK, "made", work.sequence("chat-5").conversation)], relabel=True
    )
    for run in ("r", "again"):
        found = {one.sequence_id: one for one in inbox(work, run).items}["chat-5"]
        assert (found.status, found.assignee, found.note) == (Status.CONFIRMED, None, "as in March")
    assert [one.status for one in work.people.reviews(["chat-5"], history=True)] == [Status.CONFIRMED] * 2
    assert not work.people.labels() and not work.people.authors()  # no label came of it
    asked = "--run", "again", "--store", work.location, "--json"
    for where, ids in {
        "status = confirmed": {"chat-5", "chat-2"},
        "status = confirmed and assignee = Ben": {"chat-2"},
        "not status = new and assignee = nobody": {"chat-5"},
    }.items():
        found = cli("query", "F > 0.1", "--where", where, *asked).json
        assert {one["sequence_id"] for one in found["matches"]} == ids, where
    told = cli("query", "--sql", "SELECT status, count(*) AS n FROM sequences GROUP BY ALL ORDER BY ALL",
               "--store", work.location, "--json").json  # fmt: skip
    assert told == [{"status": "confirmed", "n": 2}, {"status": "new", "n": 4}]
    assert "confirmed; Ben" in cli("show", "chat-5", "--run", "r", "--store", work.location).out
    assert {one.sequence_id for one in inbox(work, "again", status="confirmed").items} == {"chat-5", "chat-2"}
    assert inbox(work, "again", words="NEVER know", assignee="Ben").total == 1
    assert cli("export", "--store", work.location, "--out", "some", "--where", "status = confirmed").code == 0


def test_what_can_not_be_said_is_refused_whole(work: Store) -> None:
    for ids, status, why in (
        (["chat-1", "chat-99"], "read", "chat-99"),
        (["chat-1"], "fine", "a status must be one of new, read"),
        ([], "read", "at least one conversation"),
        (["chat-1"], None, "give a status"),
    ):
        with pytest.raises((UsageError, UnknownNameError), match=why):
            work.people.review(ids, status, author="Ann")
    assert work.people.reviews() == ()
    with pytest.raises(UsageError, match="a status must be one of new, read"):
        inbox(work, status="fine")


def test_a_scan_can_not_ask_for_a_status(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}\n')
    done = cli("scan", tmp_path / "a.jsonl", "--out", tmp_path / "found", "--where", "status = new")
    assert done.code == 2 and "leave status out, which only a conversation in a store has" in done.err
