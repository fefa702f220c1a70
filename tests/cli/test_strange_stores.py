"""A store that somebody else made: every command refuses what acts in it, and names what was changed in it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnwise import conversation
from turnwise.conversation import Conversation, Label
from turnwise.errors import StoreCorruptError
from turnwise.explorer import Answers, Filter, ViewedStore, judging, lay_beside, overview, read_chat
from turnwise.principles import load_principle
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store

Cli = Callable[..., Any]

COMMANDS: dict[str, str] = {
    "import": "import --from-store STORE --store into.db",
    "detect": "detect --run r --detector any_turn",
    "query": "query peak(F)>0.5 --run r",
    "sql": "query --sql FROM\tevaluations\tORDER\tBY\tALL",
    "show": "show chat-1 --run r",
    "show a turn": "show chat-1 --run r --turn 3",
    "compare": "study compare --run r --detector any_turn --target-fpr 0.3 --folds 0 --splits 1 --replicates 100",
    "export": "export --out out --format jsonl",
    "export csv": "export --out out --format csv",
    "export arangodb": "export --out out --format arangodb",
    "export a run": "export --out out --run r",
    "evaluate": "evaluate --run new --observer scripted:0.2 --principle reciprocity",
    "runs": "runs list",
    "rename": "runs rename r other --yes",
    "judgements": "judgements list",
    "export judgements": "judgements export --out people",
    "hand out": "judgements hand-out --out kit --annotator ann --twice 0",
    "calibrate": "study calibrate --run r --detector any_turn --alpha 0.3",
    "tune": "study tune --run r --detector learned --target-fpr 0.3",
    "discover": "study discover --run r --max-fpr 0.3",
    "retry": "evaluate --failed --run r",
}
"""Commands that open a store; ``--store STORE`` is added where it is not said. ``status`` opens none."""

SCORES = {"detect", "query", "sql", "show", "compare", "calibrate", "tune", "discover", "export", "import"}
SCORES |= {"export csv", "export arangodb", "export a run"}
"""Commands that compute with scores, show or export them."""

TEXTS = {"show", "show a turn", "compare", "export", "import", "export csv", "export arangodb", "export a run"}
TEXTS |= {"evaluate", "hand out"}
"""Commands that compute with texts, show or export them."""


def explore(store: Store) -> object:
    """Read what the pages of the explorer show."""
    with Answers(ViewedStore(store)) as answers:
        record = answers.record
        answers.words.wait()
        rows = answers.find(Filter(run="r")).rows
        chat = read_chat(record, "chat-1", "r")
        halves = lay_beside(store, ("chat-1", "r"), ("chat-1", "s"))
        shown = overview.counts(record), overview.means(record, "r"), record.query("peak(F) > 0.5", "r").rate
        return shown, rows, chat.turns, halves.principles, judging(store, "chat-1", "ann").sequence_id


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 40 conversations that two runs scored and of which a person judged a turn."""
    path = tmp_path_factory.mktemp("strangers") / "work.db"
    principle = load_principle("reciprocity")
    with Store(path, create=True) as store:
        for number in range(40):
            label = Label.ATTACK if number % 2 else Label.BENIGN
            turns = [(f"question {turn} of {number}", "Gladly.") for turn in range(1, 4)]
            chat = Conversation.from_turns(turns, conversation_id=f"chat-{number}")
            store.add_sequences(
                [conversation.Sequence(f"chat-{number}", label, "made", chat, {"goal": f"goal {number}"})]
            )
        evaluate(store, "r", "scripted:0.1,0.3,0.8", principles=[principle])
        evaluate(store, "s", "scripted:0.1,0.2,0.9", principles=[principle])
        versions = {principle.name: principle.revision}
        store.people.judge("chat-0", 1, {principle.name: Score(0.5, 0.2, 0.1)}, "ann", versions=versions)
    return path


def forged(intact: Path, folder: Path, script: str) -> Path:
    path = Path(shutil.copy(intact, folder / "work.db"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.executescript(script)
    return path


def arguments(command: str, path: Path) -> list[str]:
    words = [word.replace("\t", " ") for word in COMMANDS[command].replace("STORE", str(path)).split(" ")]
    return words if "--store" in words else [*words, "--store", str(path)]


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d+ s\b", "", text)


REBUILT = """
ALTER TABLE {table} RENAME TO old;
CREATE TABLE {table} ({columns});
INSERT INTO {table} SELECT {values} FROM old;
DROP TABLE old;
"""

FOREIGN = {
    "a trigger that forges": (
        "CREATE TRIGGER softer AFTER INSERT ON evaluations BEGIN "
        "UPDATE evaluations SET F = 0.01 WHERE id = new.id; END;",
        "the trigger 'softer' on 'evaluations'",
    ),
    "a view beside": ("CREATE VIEW spy AS SELECT * FROM turns;", "the view 'spy'"),
    "a view in place of scores": (
        "ALTER TABLE evaluations RENAME TO hidden; CREATE VIEW evaluations AS SELECT * FROM hidden;",
        "the view 'evaluations'",
    ),
    "a view that never ends": (
        "DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE r(id) AS "
        "(SELECT 1 UNION ALL SELECT id + 1 FROM r) SELECT id, 'r' AS name FROM r;",
        "the view 'runs'",
    ),
    "versions that never end": (
        "DROP TABLE schema_migrations; CREATE VIEW schema_migrations AS WITH RECURSIVE r(version) AS "
        "(SELECT 1 UNION ALL SELECT version + 1 FROM r) SELECT version FROM r;",
        "the view 'schema_migrations'",
    ),
    "a table of others": ("CREATE TABLE metadata (id INTEGER);", "the table 'metadata'"),
    "an index of others": ("CREATE INDEX quick ON turns (prompt);", "the index 'quick' on 'turns'"),
    "a virtual table": ("DROP TABLE calls; CREATE VIRTUAL TABLE calls USING fts5(x);", "in the table 'calls'"),
    "a computed column": (
        "ALTER TABLE evaluations ADD COLUMN cited REAL GENERATED ALWAYS AS (F / 100) VIRTUAL;",
        "in the table 'evaluations'",
    ),
    "a table that drops rows": (
        REBUILT.format(
            table="failures",
            columns="id INTEGER PRIMARY KEY, run, reason UNIQUE ON CONFLICT IGNORE",
            values="id, run, reason",
        ),
        "'CONFLICT' in the table 'failures'",
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_objects_are_named_and_nothing_is_done(
    cli: Cli, intact: Path, tmp_path: Path, what: str, command: str
) -> None:
    script, named = FOREIGN[what]
    path = forged(intact, tmp_path, script)
    before = path.read_bytes()
    done = cli(*arguments(command, path))
    assert done.code == 1, done
    assert named in done.err
    assert "holds what turnwise does not make" in done.err
    assert "DROP it with sqlite3; else ask whoever made it for a turnwise export" in done.err
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {path.name}


CHANGED = {
    "a score above 1": (
        "UPDATE evaluations SET F = 7 WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES,
        r"evaluations\.F where run is 'r' and sequence is 'chat-1' and turn is 3 and .*: 7\.0 is not a number in",
    ),
    "a text for a score": (
        "UPDATE evaluations SET F = 'low' WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES,
        r"evaluations\.F where run is 'r' and sequence is 'chat-1' and turn is 3 and .*: 'low' is not a number in",
    ),
    "a text that looks like a score": (
        REBUILT.format(
            table="evaluations",
            columns="id INTEGER PRIMARY KEY, run, sequence, principle, turn, side, provenance, reply, latency_s, "
            "cost_usd, created_at, T, I, F TEXT, reasoning",
            values="*",
        ),
        SCORES,
        r"evaluations\.F where run is '(r|new)' and .*: '0\.\d' is not a number in",
    ),
    "a score that is missing": (
        REBUILT.format(
            table="evaluations",
            columns="id INTEGER PRIMARY KEY, run, sequence, principle, turn, side, provenance, reply, latency_s, "
            "cost_usd, created_at, T FLOAT, I FLOAT, F FLOAT, reasoning",
            values="*",
        )
        + "UPDATE evaluations SET F = NULL WHERE sequence = 2 AND turn = 3;",
        SCORES,
        r"evaluations\.F where run is '[rs]' and sequence is 'chat-1' and turn is 3 .*: None is not a number",
    ),
    "two scores of one turn": (
        REBUILT.format(
            table="evaluations",
            columns="id INTEGER PRIMARY KEY, run, sequence, principle, turn, side, provenance, reply, latency_s, "
            "cost_usd, created_at, T FLOAT, I FLOAT, F FLOAT, reasoning",
            values="*",
        )
        + "UPDATE evaluations SET turn = 2, F = 0.01 WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES,
        r"evaluations\.turn where run is 'r' and sequence is 'chat-1' and turn is 2 .*: there are two scores of|"
        r"sequence 'chat-1' in run 'r' can't be read \(two evaluations for .*turn=2|"
        r"rows don't fit together \(UNIQUE constraint failed: evaluations\.run, evaluations\.sequence",
    ),
    "a score of another run's principle": (
        "UPDATE evaluations SET provenance = 2 WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES - {"detect", "compare", "calibrate", "tune", "discover"},
        r"evaluations\.turn where run is 'r' and sequence is 'chat-1' and .* its provenance is of another run",
    ),
    "a turn below 1": (
        "UPDATE evaluations SET turn = -3 WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES,
        r"evaluations\.turn where run is 'r' and sequence is 'chat-1' and turn is -3 and .*: -3 is not a whole",
    ),
    "a turn that is not there": (
        "UPDATE evaluations SET turn = 30 WHERE sequence = 2 AND turn = 3 AND run = 1;",
        SCORES,
        r"sequence (is )?'chat-1'.*(turn is 30|turn 30)",
    ),
    "fewer turns than there are": (
        "UPDATE sequences SET turns = -2 WHERE id = 2;",
        SCORES | TEXTS,
        r"sequences\.turns where sequence_id is 'chat-1'.*: -2 is not a whole number from 1",
    ),
    "a changed prompt": (
        "UPDATE turns SET prompt = 'question 9 of 1' WHERE sequence = 2 AND turn = 3;",
        TEXTS,
        r"sequence 'chat-1' can't be read \(its prompts, .* do not match its content_sha256\)",
    ),
    "a longer prompt": (
        "UPDATE turns SET prompt = prompt || ', please' WHERE sequence = 2 AND turn = 3;",
        TEXTS,
        r"sequence 'chat-1' can't be read \(the prompt of turn 3 has 23 characters, and 15 are stored",
    ),
}
"""What is changed, which commands must refuse it, and how they name it."""


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", CHANGED)
def test_what_was_changed_is_named_and_never_taken_for_good(
    cli: Cli, intact: Path, tmp_path: Path, what: str, command: str
) -> None:
    script, refusing, named = CHANGED[what]
    path = forged(intact, tmp_path, script)
    done = cli(*arguments(command, path))
    if command in refusing or done.code == 1:
        assert done.code == 1, done
        assert re.search(named, done.err), done.err
        assert {file.name for file in tmp_path.iterdir()} == {path.name}
        return
    path.unlink()
    for written in ("people", "kit"):
        shutil.rmtree(tmp_path / written, ignore_errors=True)
    shutil.copy(intact, path)
    assert (done.code, timeless(done.out)) == (0, timeless(cli(*arguments(command, path)).out))


@pytest.mark.parametrize("what", CHANGED)
def test_the_explorer_refuses_what_was_changed(intact: Path, tmp_path: Path, what: str) -> None:
    script, _, named = CHANGED[what]
    with Store(forged(intact, tmp_path, script)) as store, pytest.raises(StoreCorruptError, match=named):
        explore(store)


def test_the_explorer_shows_what_is_intact(intact: Path) -> None:
    with Store(intact) as store:
        assert explore(store)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_nobody_changed_serves_every_command(cli: Cli, intact: Path, command: str) -> None:
    done = cli(*arguments(command, Path(shutil.copy(intact, "work.db"))))
    assert done.code == 0, done
