"""The copy that questions are asked of: complete, kept up to date, and never of another store."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import NotScoredError, PatternError, UnknownNameError, UsageError
from turnwise.patterns import Library, NamedPattern, match, parse, series
from turnwise.scoring import Evaluation, Score
from turnwise.store import Run, Store, ask

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


Make = Callable[..., Any]


@pytest.fixture
def asked(store: Store, make_sequence: Make, make_run: Make, make_evaluation: Make) -> Store:
    """Return a store of two attacks that fall or rise, and two benign conversations, of two sources."""
    given = {
        ("rises", Label.ATTACK, "one"): (0.1, 0.8),
        ("falls", Label.ATTACK, "two"): (0.8, 0.1),
        ("calm", Label.BENIGN, "one"): (0.1, 0.2),
        ("brief", Label.BENIGN, "two"): (0.7,),
    }
    store.start_run(make_run())
    for (name, label, source), falsities in given.items():
        store.add_sequences([make_sequence(name, label=label, source=source)])
        store.append(
            [make_evaluation(name, at, score=Score(0.5, 0, F)) for at, F in enumerate(falsities, start=1)]
        )
    store.add_sequences([make_sequence("never evaluated", label=Label.ATTACK, source="three")])
    return store


def test_matches_and_rates_by_label_and_source(asked: Store) -> None:
    result = asked.query("p.F > 0.5")
    assert [astuple(match) for match in result] == [
        ("rises", Label.ATTACK, "one", 2, 2, True),
        ("falls", Label.ATTACK, "two", 2, 1, False),
        ("brief", Label.BENIGN, "two", 2, 1, True),
    ]
    assert (result.rate.count, result.rate.of, len(result)) == (3, 4, 3)
    assert {label: (rate.count, rate.of) for label, rate in result.by_label.items()} == {
        "attack": (2, 2),
        "benign": (1, 2),
    }
    assert {source: (rate.count, rate.of) for source, rate in result.by_source.items()} == {
        "one": (1, 2),
        "two": (2, 2),
    }
    assert result.seconds > 0


def test_ever_and_final_are_two_questions(asked: Store) -> None:
    assert [match.sequence_id for match in asked.query("p.F > 0.5", when="final")] == ["rises", "brief"]
    with pytest.raises(UnknownNameError, match="ever, final"):
        asked.query("p.F > 0.5", when="always")


def test_only_some_sequences(asked: Store) -> None:
    attacks = asked.query("p.F > 0.5", label=Label.ATTACK)
    assert (attacks.rate.count, attacks.rate.of) == (2, 2)
    both = asked.query("p.F > 0.5", label=Label.BENIGN, source="two")
    assert [match.sequence_id for match in both] == ["brief"]
    assert asked.query("p.F > 0.5", source="three").rate.of == 0
    with pytest.raises(UnknownNameError, match="did you mean 'three'"):
        asked.query("p.F > 0.5", source="thre")


def test_a_pattern_as_text_as_a_tree_and_by_name(asked: Store) -> None:
    mine = Library([NamedPattern("hot", "peak(x) > 0.5", "High once.", "ours", {"x": "p.F"})])
    as_text = list(asked.query("peak(p.F) > 0.5"))
    from turnwise.patterns import peak

    assert list(asked.query(peak(series("p").F) > 0.5)) == as_text
    assert list(asked.query("hot", patterns=mine)) == as_text


@pytest.mark.parametrize(
    ("pattern", "error", "said"),
    [
        ("q.F > 0.5", PatternError, "column 1: unknown principle 'q'"),
        ("p.F > > 0.5", PatternError, "column 7"),
        ("peak(p.F)", PatternError, "compare it"),
        (series("q").F > 0.5, UnknownNameError, "unknown principle 'q'"),
    ],
)
def test_patterns_that_can_not_be_asked(asked: Store, pattern: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        asked.query(pattern)


@pytest.mark.parametrize("pattern", ["response.F > 0.5", "F > 0.5 or response.p.F > 0.5", "response.chars > 3"])
def test_a_pattern_over_what_nobody_scored_is_no_answer(asked: Store, pattern: str) -> None:
    with pytest.raises(NotScoredError, match=r"is not scored: run 'first' has p\.F; "):
        asked.query(pattern)


@pytest.mark.shows("FR-010")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("source = two", ["falls", "brief"]),
        ('label != "benign" and turns = 2', ["rises", "falls"]),
        ("(id = rises or id = calm) and not source == two", ["rises", "calm"]),
        ("metadata.tactic = boil", ["rises"]),
        ('metadata.tags = "b"', ["rises"]),
        ("metadata.deep.level >= 2", ["rises"]),
        ("metadata.tactic != boil", []),
        ("response_chars < 0 or chars > 1000", []),
        ("cost >= 0.5", ["calm"]),
    ],
)
def test_only_sequences_for_which_a_condition_holds(
    store: Store, make_sequence: Make, make_run: Make, make_evaluation: Make, where: str, expected: list[str]
) -> None:
    store.start_run(make_run())
    extra: dict[str, dict[str, Any]] = {"rises": {"tactic": "boil", "tags": ["a", "b"], "deep": {"level": 2}}}
    sides = (("rises", "one"), ("falls", "two"), ("calm", "one"), ("brief", "two"))
    for name, source in sides:
        label = Label.ATTACK if name in ("rises", "falls") else Label.BENIGN
        store.add_sequences([make_sequence(name, label=label, source=source, **extra.get(name, {}))])
        store.append([make_evaluation(name, 1, cost_usd=0.5 if name == "calm" else None)])
    assert [match.sequence_id for match in store.query("F >= 0", where=where)] == expected


def test_a_text_in_where_is_never_sql(asked: Store) -> None:
    assert asked.query("F >= 0", where='id = "x\' OR 1=1 --"').rate.of == 0
    with pytest.raises(PatternError, match="known: assignee, chars, cost, id, label"):
        asked.query("F >= 0", where="1 = 1")


@pytest.mark.parametrize("library", ["arrow", "frame", "polars"])
def test_tables_of_other_libraries(asked: Store, library: str) -> None:
    pytest.importorskip({"arrow": "pyarrow", "frame": "pandas"}.get(library, library))
    table = getattr(asked.query("p.F > 0.5", label=Label.ATTACK), f"to_{library}")()
    if library == "frame":
        rows = table.to_dict("records")
    else:
        rows = table.to_pylist() if library == "arrow" else table.to_dicts()
    assert rows == [
        {"sequence_id": "rises", "label": "attack", "source": "one", "turns": 2, "turn": 2, "final": True},
        {"sequence_id": "falls", "label": "attack", "source": "two", "turns": 2, "turn": 1, "final": False},
    ]


@pytest.mark.parametrize(
    ("method", "package"), [("to_arrow", "pyarrow"), ("to_frame", "pandas"), ("to_polars", "polars")]
)
def test_a_library_that_is_not_installed_is_named(
    asked: Store, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    result = asked.query("p.F > 0.5")
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not there
    with pytest.raises(UsageError, match=f"pip install {package}"):
        getattr(result, method)()


def test_queries_from_several_threads(asked: Store, location: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda limit: len(asked.query(f"p.F > {limit}")), (0.05, 0.3, 0.75, 0.9) * 3))
    assert counts == [4, 3, 2, 0] * 3
