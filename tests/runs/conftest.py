"""What the tests of runs share: logs, sequences, principles, an installed plug-in, and what a store says."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chat_logs import chats, lines

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.observers import OBSERVERS, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.scoring import Score
from turnwise.store import Store

NOW = datetime(2025, 6, 7, 8, 9, 10, tzinfo=UTC)

CONTENT = {
    "sequences": "SELECT sequence_id, label, source, turns, content_sha256, conversation, metadata FROM sequences",
    "turns": """SELECT sequence_id, turn, prompt, response, prompt_chars, response_chars, timestamp,
        response_timestamp, t.metadata FROM turns t JOIN sequences s ON s.id = t.sequence""",
    "runs": """SELECT name, observer, observer_version, context, parameters, operating_points
        FROM runs""",
    "provenances": """SELECT DISTINCT r.name, principle, principle_version
        FROM provenances p JOIN runs r ON r.id = p.run""",
    "evaluations": """SELECT r.name, s.sequence_id, e.principle, e.turn, e.side, p.principle, p.principle_version,
        T, I, F, reasoning, text, e.latency_s, e.cost_usd FROM evaluations e
        JOIN runs r ON r.id = e.run JOIN sequences s ON s.id = e.sequence
        JOIN provenances p ON p.id = e.provenance LEFT JOIN replies ON replies.id = e.reply""",
    # A failure that was stored before the kill is tried again after it, and may fail again.
    "failures": """SELECT DISTINCT r.name, s.sequence_id, f.principle, turn, side, reason, message, text
        FROM failures f JOIN runs r ON r.id = f.run JOIN sequences s ON s.id = f.sequence
        LEFT JOIN replies ON replies.id = f.reply""",
    "replies": "SELECT text FROM replies",
    "schema_migrations": "SELECT version, name FROM schema_migrations",
}
"""What a store says, without its keys and without when and by which state of the checkout it was written."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store of a test is, or is to be."""
    return tmp_path / "work.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store(path, create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def make_sequence() -> Callable[..., Sequence]:
    """Return a function from an id and turns to a sequence; three turns, the last without a reply, by default."""

    def make(
        sequence_id: str, *turns: tuple[str, str | None], label: Label = Label.ATTACK, **metadata: Any
    ) -> Sequence:
        given = turns or (("one", "first"), ("two", "second"), ("three", None))
        chat = Conversation.from_turns(given, conversation_id=sequence_id)
        return Sequence(sequence_id, label, "made up", chat, metadata)

    return make


@pytest.fixture
def make_principle() -> Callable[..., Principle]:
    """Return a function from a name to a principle."""

    def make(name: str, version: str = "1") -> Principle:
        return Principle(name, version, "a summary", "kept", "unclear", "violated", "judge it")

    return make


@pytest.fixture
def principles(make_principle: Callable[..., Principle]) -> tuple[Principle, ...]:
    """Return two principles."""
    return make_principle("p"), make_principle("q")


class Counted(ScriptedObserver):
    """Gives F by turn number, 0.1 a turn, and remembers what it was asked for."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(self._answer, **changes)
        self.asked: list[tuple[str, int, str, Side]] = []
        self.answer: Callable[[str, Turn, Request], Any] = lambda conversation_id, turn, request: Score(
            T=1 - turn.number / 10, I=0.5, F=turn.number / 10
        )

    def _answer(self, conversation_id: str, turn: Turn, request: Request) -> Any:
        self.asked.append((conversation_id, turn.number, request.principle.name, request.side))
        return self.answer(conversation_id, turn, request)


@pytest.fixture
def observer() -> Counted:
    """Return an observer that remembers what it was asked for; set `answer` to change what it gives."""
    return Counted()


@pytest.fixture(scope="session")
def probe_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the observer `probe` as a package of its own, for other processes."""
    folder = tmp_path_factory.mktemp("site")
    described = folder / "probe_observer-1.0.dist-info"
    described.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("probe_observer.py"), folder)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: probe-observer\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[turnwise.observers]\nprobe = probe_observer:ProbeObserver\nbroken = probe_observer:Nothing\n"
    )
    return folder


@pytest.fixture
def probe(probe_site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the observer `probe` in this process."""
    monkeypatch.syspath_prepend(str(probe_site))
    # What is loaded by name stays loaded: not beyond this test.
    monkeypatch.setattr(OBSERVERS, "_parts", dict(OBSERVERS._parts))


@pytest.fixture(scope="session")
def content() -> Callable[[Path], dict[str, list[tuple[Any, ...]]]]:
    """Return a function to the content of a store: every table, without keys and times, in one order."""

    def read(path: Path) -> dict[str, list[tuple[Any, ...]]]:
        with closing(sqlite3.connect(path)) as connection:
            return {name: sorted(connection.execute(query), key=repr) for name, query in CONTENT.items()}

    return read


@pytest.fixture
def logs(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of conversations as JSONL and return its path."""

    def write(name: str = "logs.jsonl", count: int = 60, seed: int = 1) -> Path:
        path = tmp_path / name
        path.write_bytes(lines(chats(count, seed)))
        return path

    return write
