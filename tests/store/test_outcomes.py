"""Evaluations and failures: kept apart, kept whole, and never twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Evaluation, EvaluationKey, Failure, Score
from turnwise.store import Run, Store

MakeSequence = Callable[..., Sequence]
MakeEvaluation = Callable[..., Evaluation]
MakeFailure = Callable[..., Failure]


@pytest.fixture
def begun(store: Store, make_sequence: MakeSequence, make_run: Callable[..., Run]) -> Store:
    """Return a store with three sequences and two runs."""
    store.add_sequences([make_sequence(name) for name in ("a", "b", "c")])
    store.start_run(make_run())
    store.start_run(make_run("second", observer="other"))
    return store


@pytest.mark.shows("FR-001")
def test_an_evaluation_comes_back_whole(location: str, begun: Store, make_evaluation: MakeEvaluation) -> None:
    full = make_evaluation(
        "a",
        2,
        score=Score(1.0, 0.0, 1 / 3),
        reasoning="because ü",
        raw_reply='{"T": 1}',
        latency_s=0.25,
        cost_usd=0.000_012,
    )
    bare = make_evaluation("a", 1, side=Side.RESPONSE)
    begun.append([full, bare])
    with Store(location) as again:
        assert again.trajectory("first", "a", replies=True).evaluations == (bare, full)
    assert full.provenance.parameters == {"depth": 2, "tags": ["a", None]}
    assert full.created_at.utcoffset() is not None


@pytest.mark.shows("FR-008")
def test_a_failure_comes_back_whole_and_is_no_score(
    location: str, begun: Store, make_failure: MakeFailure
) -> None:
    full = make_failure("a", 2, "q", raw_reply="I'd rather not", latency_s=1.5, cost_usd=0.01)
    begun.append([full, make_failure("b")])
    with Store(location) as again:
        assert again.failures("first", replies=True) == (full, make_failure("b"))
        assert again.failures("first", ids=["b", "c"]) == (make_failure("b"),)
        assert again.failures("second") == ()
        assert len(again.trajectory("first", "a")) == 0
        assert again.recorded("first", ["a", "b"]) == set()
        assert again.counts()["evaluations"] == 0


def test_failures_come_oldest_first_whatever_the_ids(begun: Store, make_failure: MakeFailure) -> None:
    order = [("c", 1), ("a", 1), ("b", 2), ("a", 1), ("c", 2)]
    begun.append([make_failure(*about) for about in order])
    assert [(f.key.sequence_id, f.key.turn) for f in begun.failures("first", ids=["a", "b", "c"])] == order
    assert [(f.key.sequence_id, f.key.turn) for f in begun.failures("first", ids=["c"])] == [("c", 1), ("c", 2)]
    with pytest.raises(UnknownNameError, match="unknown sequence 'z'"):
        begun.failures("first", ids=["z"])


def test_what_is_acknowledged_is_in_the_database(
    begun: Store, make_evaluation: MakeEvaluation, raw: Callable[..., list[tuple[Any, ...]]]
) -> None:
    for turn in (1, 2):
        begun.append([make_evaluation("a", turn, raw_reply=f"reply {turn}")])
        assert raw("SELECT max(turn), count(*) FROM evaluations") == [(turn, turn)]
        assert raw("SELECT count(*) FROM replies") == [(turn,)]
    begun.append_soon([make_evaluation("b")]).result()
    assert raw("SELECT count(*) FROM evaluations") == [(3,)]


def test_a_score_is_stored_once(begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure) -> None:
    begun.append([make_evaluation("a", score=Score(0.1, 0.2, 0.3))])
    with pytest.raises(UsageError, match="an evaluation of run 'first' is in the store already"):
        begun.append([make_evaluation("b", raw_reply="x"), make_failure("b", 2), make_evaluation("a")])
    with pytest.raises(UsageError, match="it was given twice, or another process scores the same run"):
        begun.append([make_evaluation("b"), make_evaluation("b")])
    assert begun.counts()["evaluations"] == 1
    assert begun.counts()["failures"] == 0
    assert begun.trajectory("first", "a").evaluations[0].score == Score(0.1, 0.2, 0.3)
    # Every part of the key makes another score of it.
    begun.append(
        [
            make_evaluation("a", 2),
            make_evaluation("a", principle="q"),
            make_evaluation("a", side=Side.RESPONSE),
            make_evaluation("b"),
            make_evaluation("a", run="second"),
        ]
    )
    assert begun.counts()["evaluations"] == 6


def test_a_failure_may_happen_again_and_be_mended(
    begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    begun.append([make_failure("a")])
    begun.append([make_failure("a")])
    begun.append([make_evaluation("a")])
    assert len(begun.failures("first")) == 2
    assert [turn for turn, _ in begun.trajectory("first", "a").series("p")] == [1]


@pytest.mark.parametrize(
    ("about", "what"),
    [({"run": "third"}, "unknown run 'third'"), ({"sequence_id": "z"}, "unknown sequence 'z'")],
)
def test_what_an_evaluation_is_about_has_to_exist(
    begun: Store, make_evaluation: MakeEvaluation, about: dict[str, str], what: str
) -> None:
    given = make_evaluation(about.get("sequence_id", "a"), run=about.get("run", "first"))
    with pytest.raises(UnknownNameError, match=what):
        begun.append([make_evaluation("b"), given])
    assert begun.counts()["evaluations"] == 0


def test_a_run_never_mixes_versions_of_a_principle(
    begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    begun.append([make_evaluation("a", version="1"), make_evaluation("a", principle="q", version="7")])
    with pytest.raises(UsageError, match="principle 'p' was scored in version 1, not 2, in this run"):
        begun.append([make_evaluation("b", principle="q", version="7"), make_evaluation("b", version="2")])
    begun.append([make_evaluation("b", version="2", run="second")])
    assert begun.principle_versions("first") == {"p": "1", "q": "7"}
    assert begun.principle_versions("second") == {"p": "2"}
    assert begun.counts()["evaluations"] == 3


def test_each_score_keeps_the_code_that_made_it(begun: Store, make_evaluation: MakeEvaluation) -> None:
    begun.append([make_evaluation("a", 1, code_version="0.1.0"), make_evaluation("a", 2, code_version="0.2.0")])
    begun.append([make_evaluation("b", 1, code_version="0.2.0")])
    made_by = [evaluation.provenance.code_version for evaluation in begun.trajectory("first", "a").evaluations]
    assert made_by == ["0.1.0", "0.2.0"]


def test_broken_words_do_not_cost_the_score(
    begun: Store, make_evaluation: MakeEvaluation, make_failure: MakeFailure
) -> None:
    begun.append([make_evaluation("a", reasoning="cut \ud83d", raw_reply="\ud83d off")])
    begun.append([make_failure("b", message="odd \udcff", raw_reply="\udcff")])
    (evaluation,) = begun.trajectory("first", "a", replies=True).evaluations
    assert (evaluation.reasoning, evaluation.raw_reply) == ("cut \\ud83d", "\\ud83d off")
    (failure,) = begun.failures("first", replies=True)
    assert (failure.message, failure.raw_reply) == ("odd \\udcff", "\\udcff")


def test_nothing_to_append_is_fine(begun: Store) -> None:
    begun.append([])
    assert begun.counts()["evaluations"] == 0


def test_recorded_tells_what_is_there(begun: Store, make_evaluation: MakeEvaluation) -> None:
    begun.append([make_evaluation("a"), make_evaluation("b", 2, "q", side=Side.RESPONSE), make_evaluation("c")])
    begun.append([make_evaluation("a", run="second")])
    assert begun.recorded("first", ["a", "b"]) == {
        EvaluationKey("first", "a", 1, Side.PROMPT, "p"),
        EvaluationKey("first", "b", 2, Side.RESPONSE, "q"),
    }
    assert begun.recorded("second", ["a", "b", "c"]) == {EvaluationKey("second", "a", 1, Side.PROMPT, "p")}
    assert begun.recorded("first", []) == set()


def test_a_trajectory_is_sparse_and_knows_lengths(
    store: Store, make_sequence: MakeSequence, make_run: Callable[..., Run], make_evaluation: MakeEvaluation
) -> None:
    store.add_sequences([make_sequence("a", ("four", "reply"), ("ü", None), ("", "x"))])
    store.start_run(make_run())
    store.append([make_evaluation("a", 3), make_evaluation("a", 1), make_evaluation("a", 1, side=Side.RESPONSE)])
    trajectory = store.trajectory("first", "a")
    assert (trajectory.run, trajectory.sequence_id, trajectory.turns) == ("first", "a", 3)
    assert [turn for turn, _ in trajectory.series("p")] == [1, 3]
    assert [(turn.length, turn.response_length) for turn in trajectory] == [(4, 5), (1, 0), (0, 1)]
    assert [(len(turn.scores), len(turn.response_scores)) for turn in trajectory] == [(1, 1), (0, 0), (1, 0)]
    with pytest.raises(UnknownNameError, match="unknown sequence 'b'"):
        store.trajectory("first", "b")


def test_trajectories_come_for_every_sequence_in_the_order_of_import(
    store: Store, make_sequence: MakeSequence, make_run: Callable[..., Run], make_evaluation: MakeEvaluation
) -> None:
    store.add_sequences([make_sequence("b", label=Label.BENIGN), make_sequence("a"), make_sequence("c")])
    store.start_run(make_run())
    store.start_run(make_run("second"))
    store.append([make_evaluation("c"), make_evaluation("b"), make_evaluation("b", 2)])
    store.append([make_evaluation("a", run="second")])

    def found(**chosen: Any) -> list[tuple[str, int]]:
        return [(head.sequence_id, len(trajectory)) for head, trajectory in store.trajectories("first", **chosen)]

    assert found() == [("b", 2), ("a", 0), ("c", 1)]
    assert found(label=Label.ATTACK) == [("a", 0), ("c", 1)]
    assert found(ids=["c", "b"]) == [("b", 2), ("c", 1)]


def test_more_sequences_than_a_page_holds(
    store: Store,
    make_sequence: MakeSequence,
    make_run: Callable[..., Run],
    make_evaluation: MakeEvaluation,
    make_failure: MakeFailure,
) -> None:
    names = [f"s{number:04}" for number in range(1_203)]
    store.add_sequences(make_sequence(name, (name, None)) for name in names)
    store.start_run(make_run())
    store.append([make_evaluation(name) for name in reversed(names)])
    store.append([make_failure(name) for name in reversed(names)])
    keys = [dataclasses.replace(make_evaluation(name)).key for name in names]
    assert [trajectory.evaluations[0].key for _, trajectory in store.trajectories("first")] == keys
    assert [head.sequence_id for head, _ in store.trajectories("first", ids=names[::-1])] == names
    assert store.recorded("first", names) == set(keys)
    assert [failure.key.sequence_id for failure in store.failures("first", ids=names)] == names[::-1]
