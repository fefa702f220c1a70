"""The copy that questions are asked of: complete, kept up to date, and never of another store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.patterns import match, parse
from turnwise.scoring import Evaluation, Score
from turnwise.store import Run, Store
from turnwise.store.query import ask

Make = Callable[..., Any]


@pytest.fixture
def fill(make_sequence: Make, make_run: Make, make_evaluation: Make) -> Callable[..., None]:
    """Return a function that stores sequences of given falsities of p, turn by turn; None is a gap."""

    def fill(store: Store, run: str = "first", **falsities: tuple[float | None, ...]) -> None:
        sequences: list[Sequence] = [
            make_sequence(
                name,
                *((f"turn {turn} " * turn, "yes") for turn in range(1, len(given) + 1)),
                label=Label.BENIGN if name.startswith("benign") else Label.ATTACK,
                source="other" if name.endswith("x") else "made up",
            )
            for name, given in falsities.items()
        ]
        store.add_sequences(sequences)
        store.start_run(make_run(run))
        outcomes: list[Evaluation] = [
            make_evaluation(name, turn, score=Score(1 - F, 0.25, F), run=run)
            for name, given in falsities.items()
            for turn, F in enumerate(given, start=1)
            if F is not None
        ]
        store.append(outcomes)

    return fill


def rows(store: Store, statement: str) -> list[tuple[Any, ...]]:
    return list(ask(store.mirror, statement).rows)


def test_everything_is_copied_but_texts(store: Store, fill: Callable[..., None], make_evaluation: Make) -> None:
    fill(store, attack_1=(0.25, None), benign_x=(0.5,))
    store.append([make_evaluation("attack_1", 2, "q", side=Side.RESPONSE, score=Score(0.5, 0.75, 1))])
    assert rows(store, "FROM sequences ORDER BY ALL") == [
        ("attack_1", "attack", "made up", 2, "new", None),
        ("benign_x", "benign", "other", 1, "new", None),
    ]
    assert rows(store, "FROM runs") == [("first", "probe:fast", "3", "history")]
    assert rows(store, "FROM evaluations ORDER BY ALL") == [
        ("first", "attack_1", "attack", "made up", 1, "prompt", "p", 0.75, 0.25, 0.25, 7),
        ("first", "attack_1", "attack", "made up", 2, "response", "q", 0.5, 0.75, 1.0, 3),
        ("first", "benign_x", "benign", "other", 1, "prompt", "p", 0.5, 0.25, 0.5, 7),
    ]


def test_the_stored_trajectories_and_the_copy_give_the_same_matches(
    store: Store, fill: Callable[..., None]
) -> None:
    fill(store, attack_1=(0.1, 0.5, 0.9), attack_2=(0.9, None, 0.1), benign_1=(0.1, 0.2), benign_x=(None, None))
    for text in ("p.F > 0.4", "slope(p.F) > 0.1", "mean(chars) > 10 and strength < 1", "last(balance) < 0"):
        found = {one.sequence_id: (one.turn, one.final) for one in store.query(text)}
        expected = {
            head.sequence_id: tuple(outcome)
            for head, turns in store.trajectories("first")
            if (outcome := match(parse(text), turns)).ever
        }
        assert found == expected


def test_what_is_new_is_picked_up(store: Store, fill: Callable[..., None], make_evaluation: Make) -> None:
    fill(store, attack_1=(0.1, None, 0.1))
    assert [match.turn for match in store.query("p.F > 0.5")] == []
    store.append([make_evaluation("attack_1", 2, score=Score(0, 0, 1))])
    assert [match.turn for match in store.query("p.F > 0.5")] == [2]
    fill(store, attack_2=(0.9,))
    assert [match.sequence_id for match in store.query("p.F > 0.5")] == ["attack_1", "attack_2"]
    store.append([make_evaluation("attack_2", 1, "q", score=Score(0, 0, 0.75))])
    assert [match.sequence_id for match in store.query("q.F > 0.5 and p.F > 0.5")] == ["attack_2"]
    fill(store, "second", attack_3=(0.9,))
    assert [match.sequence_id for match in store.query("p.F > 0.5", "second")] == ["attack_3"]
    assert store.query("p.F > 0.5", "first").rate.of == 2
    assert rows(store, "SELECT run, count(*) FROM evaluations GROUP BY run ORDER BY run") == [
        ("first", 5),
        ("second", 1),
    ]


def test_another_process_that_writes_is_seen(location: str, store: Store, fill: Callable[..., None]) -> None:
    fill(store, attack_1=(0.9,))
    with Store(location) as reader:
        assert len(reader.query("p.F > 0.5")) == 1
        fill(store, attack_2=(0.8,))
        assert len(reader.query("p.F > 0.5")) == 2


def test_a_store_that_was_replaced_is_copied_anew(
    location: str, store: Store, fill: Callable[..., None], raw: Callable[..., Any]
) -> None:
    fill(store, attack_1=(0.9,), attack_2=(0.9, 0.9))
    assert len(store.query("p.F > 0.5")) == 2
    raw("DELETE FROM evaluations WHERE turn = 2")
    raw("""UPDATE evaluations SET created_at = '2031-01-01T00:00:00+00:00', "F" = 0.125 WHERE id = 2""")
    assert [match.sequence_id for match in store.query("p.F > 0.5")] == ["attack_1"]
    store.close()
    with Store(location) as other:
        assert [match.sequence_id for match in other.query("p.F > 0.5")] == ["attack_1"]


def test_another_label_is_seen_at_once(
    location: str, store: Store, fill: Callable[..., None], make_sequence: Make
) -> None:
    fill(store, attack_1=(0.9,), attack_2=(0.9,))
    marked = store.source.newest()
    with Store(location) as reader:
        for one in (store, reader):
            assert len(one.query("p.F > 0.5", label=Label.ATTACK)) == 2
        benign = make_sequence("attack_1", ("turn 1 ", "yes"), label=Label.BENIGN)
        for _ in range(2):  # the second time nothing changes
            store.add_sequences([benign], relabel=True)
            for one in (store, reader):
                assert [match.sequence_id for match in one.query("p.F > 0.5", label=Label.BENIGN)] == ["attack_1"]
                assert rows(one, "SELECT label FROM sequences ORDER BY sequence_id") == [("benign",), ("attack",)]
    assert store.source.newest() != marked  # a page that shows the store is drawn anew


def test_a_run_without_evaluations_says_so(store: Store, make_run: Callable[..., Run]) -> None:
    with pytest.raises(UsageError, match="no run yet"):
        store.query("F > 0.5")
    store.start_run(make_run("empty"))
    with pytest.raises(UsageError, match="no evaluation yet; turnwise evaluate --run empty"):
        store.query("F > 0.5")
    with pytest.raises(UnknownNameError, match="did you mean 'empty'"):
        store.query("F > 0.5", "emty")
    assert rows(store, "SELECT count(*) FROM evaluations") == [(0,)]


def test_a_result_outlives_its_store(location: str, store: Store, fill: Callable[..., None]) -> None:
    fill(store, attack_1=(0.9,))
    result = store.query("p.F > 0.5")
    store.close()
    assert [match.sequence_id for match in result] == ["attack_1"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO runs VALUES ('a', 'b', 'c', 'd')",
        "DROP TABLE copied.evaluations",
        "CREATE TABLE mine (a INTEGER)",
        "COPY copied.runs TO 'stolen.csv'",
        "ATTACH 'other.db' AS other",
        "SET enable_external_access = true",
        "SELECT 1; DROP TABLE copied.evaluations",
        "WITH gone AS (DELETE FROM copied.evaluations RETURNING *) FROM gone",
        "FROM read_csv('secret.csv')",
        "FROM read_text('secret.csv')",
        "FROM 'secret.csv'",
        "FROM glob('*')",
        "FROM store",
        "INSTALL httpfs",
        "COMMIT",
        "",
        "SELEC 1",
        "SELECT 'a'::INTEGER",
    ],
)
def test_sql_asks_and_does_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, fill: Callable[..., None], statement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("word\nswordfish\n")
    before = sorted(tmp_path.iterdir())
    fill(store, attack_1=(0.9,))
    with pytest.raises(UsageError) as refused:
        rows(store, statement)
    assert "swordfish" not in str(refused.value)
    assert rows(store, "SELECT count(*) FROM evaluations") == [(1,)]
    assert [file for file in sorted(tmp_path.iterdir()) if "work.db" not in file.name] == [
        file for file in before if "work.db" not in file.name
    ]


def test_question_in_sql_leaves_no_thread_behind_that_holds_the_copy(
    store: Store, fill: Callable[..., None]
) -> None:
    """Else that thread closes the copy while the process ends, which aborts it."""
    fill(store, attack=(0.1, 0.9))
    before = set(threading.enumerate())
    for _ in range(20):
        assert list(ask(store.mirror, "SELECT count(*) FROM evaluations").rows) == [(2,)]
        assert not {thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)} - before
