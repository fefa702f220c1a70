"""``second_look``: whom the screen's trajectory asks, whose score counts, and what is kept of both."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import BudgetError, ObserverError, PatternError, UsageError
from turnwise.observers import (
    Context,
    NotRead,
    Observation,
    ObservationFailure,
    ObserverSession,
    Request,
    Script,
    ScriptedObserver,
    SecondLookObserver,
    build_observer,
    check_observer,
)
from turnwise.principles import load_principle
from turnwise.runs import evaluate
from turnwise.scoring import EvaluationKey, Score
from turnwise.store import Store

HISTORY = Context.parse("history")
PRINCIPLE = load_principle("reciprocity")
WANTED = [Request(PRINCIPLE, Side.PROMPT)]
ASK = "F >= 0.2 or peak(F) >= 0.5"


def look(
    screen: str | Script, judge: str | Script = "0.9,0.9,0.9,0.9,0.9,0.9", **settings: object
) -> SecondLookObserver:
    given = {"ask": ASK, **settings}
    return SecondLookObserver((ScriptedObserver(screen), ScriptedObserver(judge)), **given)  # type: ignore[arg-type]


def observed(
    observer: SecondLookObserver, turns: int, name: str = "chat"
) -> list[Observation | ObservationFailure]:
    session = ObserverSession(observer, HISTORY, name)
    return [one for n in range(1, turns + 1) for one in session.observe(Turn(n, "text"), WANTED).given]  # type: ignore[misc]


def falsity(one: Observation | ObservationFailure) -> float:
    assert isinstance(one, Observation)
    return one.score.F


def stages(given: list[Observation | ObservationFailure]) -> list[list[str]]:
    return [[stage.name for stage in one.stages] for one in given]


def test_the_judge_is_asked_where_the_screen_points_and_decides_there() -> None:
    given = observed(look("0.1,0.3,0.1", "0.8,0.7,0.6"), 3)
    assert [falsity(one) for one in given] == [0.1, 0.7, 0.1]
    assert stages(given) == [["screen"], ["screen", "judge"], ["screen"]]
    assert given[1].stages[1].why == "scripted F 0.30, asked where F >= 0.2 or peak(F) >= 0.5"


def test_once_a_turn_was_a_clear_sign_every_later_one_is_asked_about() -> None:
    assert stages(observed(look("0.6,0.0,0.0"), 3)) == [["screen", "judge"]] * 3


@pytest.mark.parametrize("most", [None, 1, 3])
def test_the_same_turns_are_asked_about_whatever_scores_were_wanted_before(most: int | None) -> None:
    observer = look("0.6,0.0,0.3,0.0", per_conversation=most)
    whole, part = ObserverSession(observer, HISTORY, "c"), ObserverSession(observer, HISTORY, "c")
    for number in range(1, 5):
        turn = Turn(number, "text")
        one = whole.observe(turn, WANTED).given
        two = part.observe(turn, WANTED if number > 2 else ()).given
        assert two in ((), one)


def test_a_copied_conversation_goes_on_by_itself() -> None:
    observer = look("0.6,0.0", per_conversation=1)
    session = ObserverSession(observer, HISTORY, "c")
    session.observe(Turn(1, "text"), WANTED)
    other = copy.copy(session).copy()
    for one in (session, other):
        assert one.observe(Turn(2, "text"), WANTED).given[0].reasoning.startswith("no second look")  # type: ignore[union-attr]


def _broken(conversation_id: str, turn: Turn, request: Request) -> ObservationFailure:
    return ObservationFailure(request.principle.name, request.side, "malformed", "no JSON", cost_usd=0.25)


@pytest.mark.parametrize("judge", [_broken, "0.5"])
def test_where_the_judge_gives_no_score_the_named_path_is_taken_and_said(judge: str | Script) -> None:
    why = "malformed" if judge is _broken else "no_answer"
    (_, kept) = observed(look("0.1,0.3", judge), 2)
    assert isinstance(kept, Observation)
    assert kept.score.F == 0.3
    assert "no second look" in (kept.reasoning or "")
    assert kept.cost_usd == (0.25 if judge is _broken else None)
    (_, failed) = observed(look("0.1,0.3", judge, unanswered="fail"), 2)
    assert isinstance(failed, ObservationFailure)
    assert failed.reason == why


class Spent(ScriptedObserver):
    """Has spent its budget."""

    def observe(self, state, turn, wanted):  # type: ignore[no-untyped-def]
        if wanted:
            raise BudgetError("the budget is used up")
        return []


def test_a_budget_that_is_used_up_is_no_end_of_the_screening() -> None:
    observer = SecondLookObserver((ScriptedObserver("0.3,0.3"), Spent("0.9")), ask=ASK, unanswered="fail")
    assert [one.reason for one in observed(observer, 2) if isinstance(one, ObservationFailure)] == ["budget"] * 2


def test_a_conversation_has_so_many_second_looks() -> None:
    given = observed(look("0.3,0.3,0.3", per_conversation=2), 3)
    assert [falsity(one) for one in given] == [0.9, 0.9, 0.3]


@pytest.mark.parametrize("of", ["turns", "conversations"])
def test_a_sample_of_the_rest_is_judged_and_decides_nothing(of: str) -> None:
    observer = look(",".join(["0.1"] * 50), ",".join(["0.9"] * 50), sample=0.3, sample_of=of, seed=7)
    judged: dict[int, list[int]] = {}
    for chat in range(40):
        given = observed(observer, 50, f"c{chat}")
        assert {falsity(one) for one in given} == {0.1}
        seen = [stage for one in given for stage in one.stages if stage.name == "judge"]
        assert {stage.why for stage in seen} <= {"sampled"}
        assert of == "turns" or len(seen) in (0, 50)
        judged[chat] = [turn for turn, names in enumerate(stages(given), start=1) if "judge" in names]
    assert 0.15 < sum(map(len, judged.values())) / 2_000 < 0.45
    # What is drawn stays the same for a seed: a run that goes on, and a study of it, rely on that.
    if of == "turns":
        assert judged[0] == [4, 9, 14, 15, 19, 20, 35, 36, 40, 42, 43, 46, 48, 49, 50]
    else:
        assert [chat for chat, turns in judged.items() if turns] == [0, 3, 4, 5, 10, 13, 19, 22, 23, 31, 32, 33]


def _foreign(conversation_id: str, turn: Turn, request: Request) -> NotRead:
    return NotRead(request.principle.name, request.side, "fi")


def test_a_text_that_the_screen_does_not_read_is_shown_to_the_judge_unless_told_otherwise() -> None:
    (one,) = observed(look(_foreign, "0.7"), 1)
    assert falsity(one) == 0.7
    assert one.stages[1].why == "scripted does not read fi"
    (left,) = observed(look(_foreign, "0.7", unread="leave"), 1)
    assert isinstance(left, NotRead)


def test_the_screen_that_ships_has_a_threshold_of_its_own_for_each_side_that_is_read() -> None:
    observer = build_observer("second_look:local+scripted:0.2", sides=("prompt", "response"))
    of_prompts = "F >= 0.06 or peak(F) >= 0.5"
    assert observer.parameters["ask"] == f"{of_prompts} or response.F >= 0.06 or peak(response.F) >= 0.5"


def test_it_keeps_the_contract_of_observers() -> None:
    check_observer(lambda: look("0.1,0.3,0.6,0.2"))


def test_what_can_not_work_is_refused() -> None:
    with pytest.raises(UsageError, match="say where the judge is asked, such as ask="):
        build_observer("second_look:scripted:0.1+scripted:0.2")
    with pytest.raises(ObserverError, match="needs a screen and a judge"):
        build_observer("second_look:local")
    with pytest.raises(PatternError, match="not by those of runs"):
        look("0.1", ask='run("x").F > 0.2')
    with pytest.raises(PatternError, match="must be a condition"):
        look("0.1", ask="F + 1")
    with pytest.raises(UsageError, match="share"):
        look("0.1", sample=1.5)


def _store(path: Path, turns: int = 4) -> Store:
    store = Store(path, create=True)
    for name in ("a", "b"):
        chat = Conversation.from_turns([(f"text {n}", "yes") for n in range(1, turns + 1)])
        store.add_sequences([Sequence(name, Label.UNLABELLED, "test", chat)])
    return store


def test_a_run_keeps_the_scores_of_both_beside_its_own(tmp_path: Path) -> None:
    with _store(tmp_path / "s.db") as store:
        spec, settings = "second_look:scripted:0.1,0.3,0.1,0.1+scripted:0.9,0.8,0.7,0.6", {"ask": ASK}
        made = evaluate(store, "first", spec, principles=[PRINCIPLE], settings=settings)
        assert (made.evaluations, made.failures) == (8, 0)
        found = {
            run: [one.score.F for one in store.trajectory(run, "a").evaluations]
            for run in ("first", "first.screen", "first.judge")
        }
        assert found == {
            "first": [0.1, 0.8, 0.1, 0.1],
            "first.screen": [0.1, 0.3, 0.1, 0.1],
            "first.judge": [0.8],
        }
        (judged,) = store.trajectory("first.judge", "a").evaluations
        assert judged.reasoning == f"Asked: scripted:0.1,0.3,0.1,0.1 F 0.30, asked where {ASK}"
        assert store.run("first").parameters["judge"]["observer"] == "scripted:0.9,0.8,0.7,0.6"  # type: ignore[index]
        assert evaluate(store, "first", spec, principles=[PRINCIPLE], settings=settings).skipped == 8


def test_a_run_that_was_stopped_asks_for_what_is_missing_and_stores_nothing_twice(tmp_path: Path) -> None:
    spec = "second_look:scripted:0.6,0.1,0.1,0.1+scripted:0.9,0.8,0.7"  # no answer at turn 4
    settings = {"ask": ASK, "unanswered": "fail"}
    with _store(tmp_path / "s.db") as store:
        keys = [EvaluationKey("first", name, 1, Side.PROMPT, PRINCIPLE.name) for name in ("a", "b")]
        evaluate(store, "first", spec, principles=[PRINCIPLE], settings=settings, only=keys)
        made = evaluate(store, "first", spec, principles=[PRINCIPLE], settings=settings)
        assert (made.skipped, made.evaluations, made.failures) == (2, 4, 2)
        again = evaluate(store, "first", spec, principles=[PRINCIPLE], settings=settings)
        assert (again.skipped, again.failures) == (6, 2)
        assert [one.score.F for one in store.trajectory("first", "b").evaluations] == [0.9, 0.8, 0.7]
        assert [one.score.F for one in store.trajectory("first.screen", "b").evaluations] == [0.6, 0.1, 0.1, 0.1]


def test_scores_of_replies_are_asked_for_by_a_pattern_that_reads_them() -> None:
    def screen(conversation_id: str, turn: Turn, request: Request) -> Score:
        return Score(T=0.9, I=0.0, F=0.4 if request.side is Side.RESPONSE else 0.0)

    observer = look(screen, "0.9", ask="response.F >= 0.2 or peak(response.F) >= 0.5", sides=("response",))
    session = ObserverSession(observer, HISTORY, "c")
    (given,) = session.observe(Turn(1, "text", "reply"), [Request(PRINCIPLE, Side.RESPONSE)]).given
    assert isinstance(given, Observation)
    assert given.score.F == 0.9
