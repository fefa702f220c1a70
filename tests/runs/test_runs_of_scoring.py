"""A run: what is missing is scored and stored, what is there is left alone, and the counts say which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise._support.revision import code_version
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.errors import ConversationError, ObserverError, UnknownNameError, UsageError
from turnwise.observers import Context, Observation, ObservationFailure, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.runs import Progress, Summary, evaluate
from turnwise.scoring import Score
from turnwise.store import Store

NOW = datetime(2025, 6, 7, 8, 9, 10, tzinfo=UTC)
Principles = tuple[Principle, ...]


@pytest.fixture
def filled(store: Store, make_sequence: Callable[..., Sequence]) -> Store:
    """Return a store with four sequences of three turns: a and c attacks, b and d benign."""
    labels = [Label.ATTACK, Label.BENIGN, Label.ATTACK, Label.BENIGN]
    store.add_sequences(make_sequence(name, label=label) for name, label in zip("abcd", labels, strict=True))
    return store


def counts(summary: Summary) -> tuple[int, int, int, int, int]:
    return summary.sequences, summary.evaluations, summary.failures, summary.skipped, summary.gaps


@pytest.mark.shows("FR-001")
def test_every_turn_is_scored_once(filled: Store, observer: Any, principles: Principles) -> None:
    first = evaluate(filled, "r", observer, principles=principles)
    assert counts(first) == (4, 24, 0, 0, 0)
    assert first.run == "r"
    assert first.seconds > 0
    assert len(observer.asked) == len(set(observer.asked)) == 24
    again = evaluate(filled, "r", observer, principles=principles)
    assert counts(again) == (4, 0, 0, 24, 0)
    assert len(observer.asked) == 24
    assert filled.counts()["evaluations"] == 24
    series = filled.trajectory("r", "c").series("q")
    assert [(turn, score.F) for turn, score in series] == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_a_specification_does_as_well_as_an_observer(filled: Store, principles: Principles) -> None:
    summary = evaluate(filled, "r", "scripted:0.1,0.9", principles=principles)
    assert counts(summary) == (4, 16, 0, 0, 8)
    assert filled.run("r").observer == "scripted:0.1,0.9"
    assert filled.run("r").parameters == {"script": "0.1,0.9"}


def test_gaps_are_asked_for_again_and_are_no_failures(filled: Store, principles: Principles) -> None:
    assert evaluate(filled, "r", "scripted:0.5", principles=principles).gaps == 16
    again = evaluate(filled, "r", "scripted:0.5", principles=principles)
    assert counts(again) == (4, 0, 0, 8, 16)
    assert filled.counts()["failures"] == 0


@pytest.mark.shows("FR-003")
def test_provenance_is_whole(filled: Store, principles: Principles) -> None:
    def script(conversation_id: str, turn: Turn, request: Request) -> Score:
        return Score(0.25, 0.5, 0.75)

    observer = ScriptedObserver(script, version="7")
    evaluate(filled, "r", observer, principles=principles, context="window:2", clock=lambda: NOW)
    run = filled.run("r")
    assert (run.observer, run.observer_version, run.context) == ("scripted", "7", "window:2")
    assert (run.parameters, run.code_version, run.created_at) == ({"script": "script"}, code_version(), NOW)
    (evaluation, *_) = filled.trajectory("r", "a").evaluations
    provenance = evaluation.provenance
    assert (provenance.observer, provenance.observer_version) == ("scripted", "7")
    assert (provenance.context, provenance.principle_version) == ("window:2", principles[0].revision)
    assert (provenance.parameters, provenance.code_version) == ({"script": "script"}, code_version())
    assert evaluation.created_at == NOW


@pytest.mark.shows("FR-003")
def test_all_that_an_observer_says_is_kept(filled: Store, principles: Principles) -> None:
    class Talkative(ScriptedObserver):
        def observe(self, state: str, turn: Turn, wanted: Any) -> Any:
            said: dict[str, Any] = {"raw_reply": f"raw {turn.number}", "latency_s": 0.5, "cost_usd": 0.125}
            p, q = [(request.principle.name, request.side) for request in wanted]
            return [
                Observation(*p, Score(1, 0, 0), reasoning="because", **said),
                ObservationFailure(*q, "malformed", "no JSON", **said),
            ]

    summary = evaluate(filled, "r", Talkative("0.1"), principles=principles, ids=["a"], clock=lambda: NOW)
    assert counts(summary) == (1, 3, 3, 0, 0)
    scored = filled.trajectory("r", "a", replies=True).evaluations[1]
    assert (scored.reasoning, scored.raw_reply, scored.latency_s, scored.cost_usd) == (
        "because",
        "raw 2",
        0.5,
        0.125,
    )
    failed = filled.failures("r", replies=True)[1]
    assert (failed.reason, failed.message, failed.raw_reply) == ("malformed", "no JSON", "raw 2")
    assert (failed.latency_s, failed.cost_usd, failed.created_at) == (0.5, 0.125, NOW)
    assert failed.provenance == replace(scored.provenance, principle_version=principles[1].revision)


def test_failures_are_tried_again(filled: Store, observer: Any, principles: Principles) -> None:
    working = observer.answer

    def break_down(conversation_id: str, turn: Turn, request: Request) -> Score:
        if conversation_id == "b" and turn.number >= 2:
            raise TimeoutError("too slow")
        result: Score = working(conversation_id, turn, request)
        return result

    observer.answer = break_down
    assert counts(evaluate(filled, "r", observer, principles=principles)) == (4, 20, 4, 0, 0)
    assert {failure.message for failure in filled.failures("r")} == {
        "observer 'scripted' failed at turn 2: TimeoutError: too slow"
    }
    assert counts(evaluate(filled, "r", observer, principles=principles)) == (4, 0, 4, 20, 0)
    observer.answer = working
    observer.asked.clear()
    assert counts(evaluate(filled, "r", observer, principles=principles)) == (4, 4, 0, 20, 0)
    assert {asked[:2] for asked in observer.asked} == {("b", 2), ("b", 3)}
    assert len(filled.failures("r")) == 8


@pytest.mark.shows("FR-002", "EDGE-3")
def test_a_further_principle_is_scored_alone(
    filled: Store, observer: Any, principles: Principles, make_principle: Callable[..., Principle]
) -> None:
    evaluate(filled, "r", observer, principles=principles)
    observer.asked.clear()
    third = make_principle("third")
    assert counts(evaluate(filled, "r", observer, principles=[*principles, third])) == (4, 12, 0, 24, 0)
    assert {asked[2] for asked in observer.asked} == {"third"}
    assert len(observer.asked) == 12
    assert filled.trajectory("r", "a").principles == ("p", "q", "third")


def test_a_further_side_is_scored_alone(filled: Store, observer: Any, principles: Principles) -> None:
    evaluate(filled, "r", observer, principles=principles)
    both = (Side.PROMPT, Side.RESPONSE)
    # The last turn has no reply, so two of three are there to be judged.
    assert counts(evaluate(filled, "r", observer, principles=principles, sides=both)) == (4, 16, 0, 24, 0)
    assert len(filled.trajectory("r", "a").series("p", Side.RESPONSE)) == 2


def test_ids_and_label_narrow_what_is_scored(filled: Store, observer: Any, principles: Principles) -> None:
    assert evaluate(filled, "r", observer, principles=principles, ids=["d", "a"]).sequences == 2
    assert [asked[0] for asked in observer.asked[::6]] == ["a", "d"]
    benign = evaluate(filled, "r", observer, principles=principles, label=Label.BENIGN)
    assert counts(benign) == (2, 6, 0, 6, 0)
    assert counts(evaluate(filled, "r", observer, principles=principles, ids=[])) == (0, 0, 0, 0, 0)
    with pytest.raises(UnknownNameError, match="unknown sequence 'zz'"):
        evaluate(filled, "r", observer, principles=principles, ids=["a", "zz"])


def test_a_transcript_is_scored_at_its_end(filled: Store, observer: Any, principles: Principles) -> None:
    summary = evaluate(filled, "r", observer, principles=principles, context=Context.parse("transcript"))
    assert counts(summary) == (4, 8, 0, 0, 0)
    assert {asked[1] for asked in observer.asked} == {3}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"principles": ()}, "no principle to judge against"),
        ({"sides": ()}, "no side to judge"),
        ({"jobs": 0}, "jobs must be at least 1, not 0"),
        ({"jobs": -3}, "jobs must be at least 1, not -3"),
        ({"context": "sideways"}, "unknown context 'sideways'"),
        ({"context": "window:0"}, "unknown context 'window:0'"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_stored(
    filled: Store, observer: Any, principles: Principles, change: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        evaluate(filled, "r", observer, **{"principles": principles, **change})
    assert filled.runs() == ()
    assert observer.asked == []


def test_two_principles_of_one_name_are_refused(
    filled: Store, observer: Any, make_principle: Callable[..., Principle]
) -> None:
    with pytest.raises(UsageError, match="two principles have one name: p, p"):
        evaluate(filled, "r", observer, principles=[make_principle("p"), make_principle("p", "2")])


def test_a_context_that_the_observer_does_not_support_is_refused(
    filled: Store, probe: None, principles: Principles
) -> None:
    with pytest.raises(UsageError, match="'probe' can't score in context 'window:2'; use one of turn, hist"):
        evaluate(filled, "r", "probe", principles=principles, context="window:2")


def test_a_run_never_mixes_configurations(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", "scripted:0.1", principles=principles)
    for observer, context, what in (
        ("scripted:0.2", "history", "observer 'scripted:0.1', not 'scripted:0.2'"),
        ("scripted:0.1", "turn", "context 'history', not 'turn'"),
    ):
        with pytest.raises(UsageError, match=f"run 'r' was made with {what}"):
            evaluate(filled, "r", observer, principles=principles, context=context)
    newer = ScriptedObserver(lambda conversation_id, turn, request: None, version="2")
    older = ScriptedObserver(lambda conversation_id, turn, request: Score(1, 0, 0))
    evaluate(filled, "s", older, principles=principles)
    with pytest.raises(UsageError, match="run 's' was made with observer version '1', not '2'"):
        evaluate(filled, "s", newer, principles=principles)


def test_a_run_never_mixes_versions_of_a_principle(
    filled: Store, observer: Any, principles: Principles, make_principle: Callable[..., Principle]
) -> None:
    evaluate(filled, "r", observer, principles=principles)
    changed = [principles[0], make_principle("q", "2")]
    # Nothing is missing, and still the user is told that these are not the scores that were asked for.
    with pytest.raises(
        UsageError, match=r"against version 1\+\w+ of principle 'q', not 2\+\w+: .* use another --run"
    ):
        evaluate(filled, "r", observer, principles=changed)
    assert evaluate(filled, "s", observer, principles=changed).evaluations == 24


def test_settings_are_compared_as_json_gives_them_back(filled: Store, principles: Principles) -> None:
    observer = ScriptedObserver("0.1")
    observer.parameters = {"pair": (1, 2)}
    evaluate(filled, "r", observer, principles=principles)
    assert evaluate(filled, "r", observer, principles=principles).skipped == 8
    assert filled.run("r").parameters == {"pair": [1, 2]}
    observer.parameters = {"when": NOW}
    with pytest.raises(ConversationError, match="parameters of the observer 'scripted' holds a datetime"):
        evaluate(filled, "s", observer, principles=principles)


def test_progress_counts_every_sequence_once(
    filled: Store, observer: Any, principles: Principles, make_sequence: Callable[..., Sequence]
) -> None:
    filled.add_sequences(make_sequence(f"more {number}") for number in range(40))
    for jobs in (1, 3):
        told: list[Progress] = []
        summary = evaluate(filled, f"r{jobs}", observer, principles=principles, jobs=jobs, progress=told.append)
        assert told[-1].done == told[-1].total == told[-1].here == summary.sequences == 44
        assert told[-1].counts.scores == summary.evaluations
        done = [one.done for one in told]
        assert done == sorted(set(done))
    told = []
    evaluate(filled, "r1", observer, principles=principles, progress=told.append)
    assert (told[-1].done, told[-1].before, told[-1].here) == (44, 44, 0)


def test_progress_tells_of_what_is_durable(filled: Store, path: Path, principles: Principles) -> None:
    told: list[int] = []
    seen: list[int] = []

    def tell(reached: Progress) -> None:
        told.append(reached.done)
        with Store(path) as other:
            seen.append(other.counts()["evaluations"])

    evaluate(filled, "r", "scripted:0.1,0.2,0.3", principles=principles, progress=tell)
    assert told[-1] == 4
    assert all(stored >= 6 * done for done, stored in zip(told, seen, strict=True))


def test_progress_does_not_wait_for_the_end(filled: Store, observer: Any, principles: Principles) -> None:
    told: list[Progress] = []
    by_then: list[int] = []
    working = observer.answer

    def wait(conversation_id: str, turn: Turn, request: Request) -> Any:
        if turn.number == 1:
            by_then.append(told[-1].done if told else 0)
            filled.append([])  # once this is durable, so is all that was queued before it
        return working(conversation_id, turn, request)

    observer.answer = wait
    evaluate(filled, "r", observer, principles=principles[:1], progress=told.append)
    assert by_then[3] >= 2
    assert told[-1].done == 4


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), ObserverError("no credit left: add some")], ids=["interrupt", "error"]
)
def test_what_was_scored_before_a_stop_is_stored_and_the_rest_follows(
    filled: Store, observer: Any, principles: Principles, jobs: int, stop: BaseException
) -> None:
    working = observer.answer

    def stopping(conversation_id: str, turn: Turn, request: Request) -> Any:
        if conversation_id == "c" and turn.number == 2:
            raise stop
        return working(conversation_id, turn, request)

    observer.answer = stopping
    with pytest.raises(type(stop)):
        evaluate(filled, "r", observer, principles=principles, jobs=jobs)
    # Stored by the time that the caller hears of it; of c nothing, since its second turn never came.
    stored = [trajectory.sequence_id for _, trajectory in filled.trajectories("r") if len(trajectory)]
    assert stored == ["a", "b"]
    assert filled.failures("r") == ()
    observer.answer = working
    assert counts(evaluate(filled, "r", observer, principles=principles, jobs=jobs)) == (4, 12, 0, 12, 0)


def test_an_interrupt_while_progress_is_told_keeps_what_was_scored(
    filled: Store, observer: Any, principles: Principles
) -> None:
    def interrupt(reached: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(filled, "r", observer, principles=principles, jobs=2, progress=interrupt)
    assert filled.counts()["evaluations"] >= 6
    evaluate(filled, "r", observer, principles=principles)
    assert filled.counts()["evaluations"] == 24


def test_an_empty_store_gives_an_empty_run(store: Store, observer: Any, principles: Principles) -> None:
    assert counts(evaluate(store, "r", observer, principles=principles)) == (0, 0, 0, 0, 0)
    assert [run.name for run in store.runs()] == ["r"]
