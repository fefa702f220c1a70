"""What a query gives: rates, matches, and tables of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest

from turnwise.conversation import Label
from turnwise.errors import NotScoredError, PatternError, UnknownNameError, UsageError
from turnwise.patterns import Library, NamedPattern, series
from turnwise.scoring import Score
from turnwise.store import Store

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
