"""What two runs flag by facet, and what a run flags by week, against the tests of a statistics library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from scipy import stats

from turnwise.conversation import Conversation, Label, Sequence, Turn
from turnwise.errors import UnknownNameError, UsageError
from turnwise.observers import Request, ScriptedObserver
from turnwise.rates import Rate
from turnwise.runs import Compared, arm_verdicts, compare_arms, evaluate
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study import Trends, facet_rates, holm, trends

FIRST = datetime(2026, 1, 5, 12, tzinfo=UTC)  # a Monday
Facts = Callable[[int], dict[str, object]]


def fill(path: Path, count: int, facts: Facts, F: Callable[[int, str], float], weeks: int | None = None) -> Store:
    """Make a store of conversations of one turn: two runs with F by number of conversation and name of the run.

    With `weeks`, conversations come one after the other over so many weeks; every 25th has no time.
    """
    store = Store(path, create=True)
    made = []
    for n in range(count):
        when = FIRST + timedelta(weeks=n * weeks // count) if weeks and n % 25 else None
        chat = Conversation.from_turns([Turn(1, "hello", timestamp=when)], conversation_id=f"c{n}")
        given = facts(n)
        label = Label(str(given.pop("label", "benign")))
        made.append(Sequence(f"c{n}", label, str(given.pop("source", "made")), chat, given))
    store.add_sequences(made)
    for run in ("a", "b"):

        def script(name: str, turn: Turn, request: Request, run: str = run) -> Score:
            return Score(0.5, 0.1, F(int(name[1:]), run))

        evaluate(store, run, ScriptedObserver(script))
    return store


def compare(store: Store) -> Compared:
    return compare_arms(store, arm_verdicts(store, "a"), arm_verdicts(store, "b"))


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    """60 conversations of models m0 and m1: b flags nine of m1 that a doesn't, and misses one."""

    def facts(n: int) -> dict[str, object]:
        return {"model": f"m{n % 2}", "label": "attack" if n < 20 else "benign"}

    def falsity(n: int, run: str) -> float:
        alone = n % 2 and (run == "b" if 20 <= n < 38 else run == "a" and n == 39)
        return 0.9 if alone or n < 10 else 0.1

    with fill(tmp_path / "work.db", 60, facts, falsity) as store:
        return compare(store)


def test_each_value_and_label_has_exact_rates_and_mcnemars_test(compared: Compared) -> None:
    found = {(one.value, one.label): one for one in facet_rates(compared, "model")}
    row = found["m1", "benign"]
    assert (row.a, row.b, row.a_alone, row.b_alone) == (Rate(1, 20), Rate(9, 20), 1, 9)
    assert row.p == pytest.approx(stats.binomtest(1, 10, 0.5).pvalue)
    assert found["m0", "attack"].a == found["m0", "attack"].b == Rate(5, 10)
    assert [one.p_holm for one in found.values()] == list(holm([one.p for one in found.values()]))
    assert row.to_dict()["low_b"] == Rate(9, 20).interval[0]


def test_rates_follow_a_threshold(compared: Compared) -> None:
    assert all(one.a.count == 0 for one in facet_rates(compared, "source", (0.95, None)))
    assert sum(one.b.count for one in facet_rates(compared, "source", (None, 0.05))) == 60
    with pytest.raises(UnknownNameError, match="facet 'colour'"):
        facet_rates(compared, "colour")


def test_conversations_of_a_group_count_as_one_unit(tmp_path: Path) -> None:
    with fill(
        tmp_path / "w.db", 8, lambda n: {"group": f"g{n // 4}"}, lambda n, run: 0.9 if run == "b" else 0
    ) as one:
        [row] = facet_rates(compare(one))
    assert (row.b_alone, row.p) == (8, 0.5)  # two groups, not eight conversations


def test_rare_values_are_told_as_one(tmp_path: Path) -> None:
    with fill(tmp_path / "w.db", 30, lambda n: {"model": f"m{n}"}, lambda n, run: 0.9) as store:
        rates = facet_rates(compare(store), "model")
    assert (len(rates), rates[-1].value, rates[-1].a.of) == (21, "(others)", 10)


@pytest.fixture
def drifting(tmp_path: Path) -> Store:
    """Ten weeks of 50 conversations by two models; from the seventh week on model m1 is flagged far more often."""

    def falsity(n: int, run: str) -> float:
        base = (n * 37 % 100) / 100
        return min(1.0, base * 0.55 + (0.4 if n % 2 and n >= 300 else 0))

    return fill(tmp_path / "work.db", 500, lambda n: {"model": f"m{n % 2}"}, falsity, weeks=10)


def test_weeks_that_differ_from_the_reference_period_are_marked(drifting: Store) -> None:
    with drifting as store:
        found = trends(store, arm_verdicts(store, "a"), "model", reference=3)
    assert found.reference == (date(2026, 1, 5), date(2026, 1, 12), date(2026, 1, 19))
    assert (found.unknown, found.left_out) == (20, 0)
    assert [one.value for one in found.weeks] == [value for value in ("", "m1", "m0") for _ in range(10)]
    late = [one for one in found.weeks if one.week >= date(2026, 2, 16)]
    assert all(one.drift == "share and F" for one in late if one.value == "m1")
    assert not any(one.drift for one in found.weeks if one.value == "m0" or one.week < date(2026, 2, 16))
    assert not any(one.p_share is not None for one in found.weeks if one.reference)
    assert f"Holm's correction for {found.tests} tests" in str(found) and found.tests == 7 * 3 * 2


def test_a_week_has_the_p_values_of_the_tests_it_names(drifting: Store) -> None:
    with drifting as store:
        found: Trends = trends(store, arm_verdicts(store, "a"), "model", reference=1)
        F = {n: min(1.0, (n * 37 % 100) / 100 * 0.55 + (0.4 if n % 2 and n >= 300 else 0)) for n in range(500)}
    weeks = [[F[n] for n in range(50 * k, 50 * k + 50) if n % 25] for k in range(10)]
    of_all = [one for one in found.weeks if not one.value]
    assert [one.flagged for one in of_all] == [Rate(sum(f >= 0.5 for f in w), len(w)) for w in weeks]
    table = [[sum(f >= 0.5 for f in w), sum(f < 0.5 for f in w)] for w in (weeks[8], weeks[0])]
    raw = stats.fisher_exact(table).pvalue, stats.mannwhitneyu(weeks[8], weeks[0], method="asymptotic").pvalue
    assert of_all[8].p_share is not None and of_all[8].p_scores is not None
    for corrected, p in zip((of_all[8].p_share, of_all[8].p_scores), raw, strict=True):
        assert p <= corrected <= min(1.0, p * found.tests) * 1.0001
    assert of_all[8].median == pytest.approx(sorted(weeks[8])[23] / 2 + sorted(weeks[8])[24] / 2)


def test_unknown_times_are_told_and_the_import_may_stand_for_them(tmp_path: Path) -> None:
    with fill(tmp_path / "work.db", 30, lambda n: {}, lambda n, run: 0.9) as store:
        arm = arm_verdicts(store, "a")
        found = trends(store, arm)
        assert (found.weeks, found.unknown) == ((), 30)
        assert str(found) == "30 conversations have no known time and are in no week"
        imported = trends(store, arm, time="imported")
        assert [(one.value, one.flagged, one.reference) for one in imported.weeks] == [
            ("", Rate(30, 30), True), ("made", Rate(30, 30), True)
        ]  # fmt: skip
        assert "nothing was tested" in str(imported)
        with pytest.raises(UnknownNameError, match="time 'spoken'"):
            trends(store, arm, time="spoken")
        with pytest.raises(UsageError, match="1 or more weeks"):
            trends(store, arm, reference=0)
