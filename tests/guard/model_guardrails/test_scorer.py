"""The scorer, the one place where guardrails ask an observer, and speakers, whose texts it is asked about."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnwise.conversation import Side, Turn
from turnwise.conversation.turn import CHECKING_KEYS, GUARD_KEY
from turnwise.detectors import build_detector
from turnwise.errors import ObserverError, UnknownNameError, UsageError
from turnwise.guard.guardrails.drift_speaker import KEPT, Speaker
from turnwise.guard.scorer import Scorer, shared_observer
from turnwise.observers import (
    Context,
    ContextMode,
    LastingLlmObserver,
    Observation,
    ObservationFailure,
    Observer,
    Request,
    ScriptedObserver,
)
from turnwise.principles import builtin_principles
from turnwise.scoring import Score

TALK = [
    "Hello, how are you?",
    "Tell me about the history of fireworks.",
    "Which salts give which colour?",
    "Thanks!",
]
PROMPT, RESPONSE = Side.PROMPT, Side.RESPONSE


class Listener:
    """An observer that keeps what it heard, so that a test sees which turns a score rests on."""

    def __init__(self) -> None:
        described = ScriptedObserver("0.5")
        self.info, self.parameters = described.info, {}
        self.heard: list[tuple[tuple[int, str, str | None], ...]] = []

    def start(self, conversation_id: str, context: Context) -> list:
        return []

    def observe(self, state: list, turn: Turn, wanted: object) -> list:
        state.append((turn.number, turn.prompt, turn.response))
        self.heard.append(tuple(state))
        return []


def listening(observer: Listener, context: str = "history") -> Scorer:
    checked: Observer = observer
    return Scorer(checked, context)


@pytest.mark.parametrize("context", ["turn", "history"])
def test_it_gives_what_the_observer_gives_turn_by_turn(local: Observer, context: str) -> None:
    scorer = Scorer("local", context)
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    own = local.start("c", Context.parse(context))
    wanted = [Request(principle, PROMPT) for principle in builtin_principles()]
    for number, text in enumerate(TALK, start=1):
        answers = local.observe(own, Turn(number, text), wanted)
        expected = {one.principle: one.score for one in answers if isinstance(one, Observation)}
        assert speaker.score(Turn(number, text)).scores == expected
        assert set(expected) == {"reciprocity", "context_integrity", "third_party_harm"}


def test_observers_of_one_specification_are_one_even_when_threads_ask_together() -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> int:
        barrier.wait()
        return id(shared_observer("scripted:0.25"))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert shared_observer("local") is shared_observer("local")
    assert shared_observer("scripted:0.5") is not shared_observer("scripted:0.25")


def test_a_specification_of_a_model_gives_an_observer_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    observer = shared_observer("llm:openai/gpt-4.1-mini")
    assert isinstance(observer, LastingLlmObserver)
    assert shared_observer("llm:openai/gpt-4.1-mini") is observer


def test_turns_are_read_again_as_they_stand_by_now() -> None:
    observer = Listener()
    scorer = listening(observer)
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    one, two, three = Turn(1, "one"), Turn(2, "two"), Turn(3, "three")
    speaker.score(one)
    speaker.score(two, "redacted")
    one.response, two.prompt = "late answer", "redacted"
    speaker.follow()
    speaker.score(three)
    assert observer.heard[-1] == ((1, "one", "late answer"), (2, "redacted", None), (3, "three", None))
    heard = len(observer.heard)
    speaker.follow()
    assert len(observer.heard) == heard
    two.response = "answer"
    speaker.follow()
    speaker.score(Turn(4, "four"))
    assert observer.heard[-1][1:] == ((2, "redacted", "answer"), (3, "three", None), (4, "four", None))
    heard = len(observer.heard)
    alone = listening(observer, "turn")
    Speaker(alone, build_detector("any_turn"), "c").follow()
    assert len(observer.heard) == heard


def test_a_reply_that_is_blocked_or_still_checked_is_not_read() -> None:
    observer = Listener()
    scorer = listening(observer)
    speaker, turn = Speaker(scorer, build_detector("any_turn"), "c"), Turn(1, "one")
    speaker.score(turn)
    turn.response, turn.metadata = "answer", {CHECKING_KEYS[RESPONSE]: True}
    speaker.follow()
    assert observer.heard == [((1, "one", None),)]
    turn.metadata = {GUARD_KEY: {"input": None, "output": {"blocked": True}}}
    speaker.follow()
    assert observer.heard == [((1, "one", None),)]
    turn.metadata = {}
    speaker.follow()
    assert observer.heard[-1] == ((1, "one", "answer"),)


def test_what_a_state_remembers_does_not_grow() -> None:
    scorer = listening(Listener())
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    for number in range(1, 50):
        speaker.score(Turn(number, f"Question {number}?"))
    assert len(speaker._recent) == KEPT


def test_in_context_turn_each_turn_stands_alone() -> None:
    observer = Listener()
    scorer = listening(observer, "turn")
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    speaker.score(Turn(1, "one"))
    speaker.score(Turn(2, "two"))
    assert observer.heard[-1] == ((2, "two", None),)


def test_a_turn_after_earlier_ones_is_scored_without_a_state() -> None:
    scorer = Scorer("local", "history")
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    turns = [Turn(number, text) for number, text in enumerate(TALK, start=1)]
    for turn in turns:
        with_state = speaker.score(turn)
    assert scorer.score_after(turns[:-1], turns[-1], PROMPT).scores == with_state.scores
    assert scorer.score_after((), turns[0], PROMPT).scores != with_state.scores


def test_a_lone_surrogate_is_read_as_a_sign_that_can_not_be_read() -> None:
    scorer = Scorer("local")
    broken = scorer.score_after((), Turn(1, "Hello \ud800 you"), PROMPT).scores
    assert broken == scorer.score_after((), Turn(1, "Hello \ufffd you"), PROMPT).scores
    observer = Listener()
    listening(observer).score_after((), Turn(1, "a\ud800", "b\udfff"), RESPONSE)
    listening(observer).score_after((), Turn(1, "a\ud800"), PROMPT)
    assert observer.heard == [((1, "a\ufffd", "b\ufffd"),), ((1, "a\ufffd", None),)]


def test_a_failure_is_told_beside_scores_and_raised_without_any() -> None:
    def script(conversation_id: str, turn: Turn, request: object) -> Score | ObservationFailure:
        name = request.principle.name  # type: ignore[attr-defined]
        if turn.number == 2 or name == "reciprocity":
            return ObservationFailure(name, PROMPT, "refused", "it would not say")
        return Score(0.5, 0.5, 0.5)

    scorer = Scorer(ScriptedObserver(script), "history", ["reciprocity", "context_integrity"])
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    reading = speaker.score(Turn(1, "one"))
    assert set(reading.scores) == {"context_integrity"}
    assert [one.principle for one in reading.failures] == ["reciprocity"]
    with pytest.raises(ObserverError, match="could not score a prompt: refused: it would not say"):
        speaker.score(Turn(2, "two"))


def test_what_foreign_code_raises_becomes_an_error_of_ours() -> None:
    def script(conversation_id: str, turn: Turn, request: object) -> Score:
        raise ZeroDivisionError("in a plug-in")

    scorer = Scorer(ScriptedObserver(script))
    speaker = Speaker(scorer, build_detector("any_turn"), "c")
    for number in (1, 2):  # one turn that can't be scored does not keep the next one from being tried
        told = f"observer 'scripted' failed at turn {number}: ZeroDivisionError: in a plug-in"
        with pytest.raises(ObserverError, match=told):
            speaker.score(Turn(number, "one"))


def test_operating_points_are_those_of_the_observer_in_this_context(local: Observer) -> None:
    points = local.info.operating_points["history"]
    name = next(iter(points))
    assert Scorer("local", "history").operating_points[name] == points[name]
    assert "nonesuch" not in Scorer("local", "history").operating_points
    assert not Scorer("scripted:0.5", "history").operating_points


def test_what_can_not_work_is_refused_when_it_is_built(tmp_path: object) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'local'"):
        Scorer("locl")
    with pytest.raises(UsageError, match="unknown context"):
        Scorer("local", "everything")
    with pytest.raises(UsageError, match="can't score in context 'window:3'"):
        Scorer("local", "window:3")
    with pytest.raises(UnknownNameError, match="principle"):
        Scorer("local", "turn", ["candor"])


def test_a_principle_that_the_observer_does_not_know_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "candour"
    folder.mkdir()
    (folder / "prompt.md").write_text("Say what is meant.")
    (folder / "principle.toml").write_text(
        'name = "candour"\nversion = "1"\nsummary = "What is said is meant."\n'
        '[meaning]\ntruth = "a"\nindeterminacy = "b"\nfalsity = "c"\n'
    )
    with pytest.raises(UsageError, match="can't score principle 'candour'; it scores only reciprocity"):
        Scorer("local", "turn", [str(folder)])
    assert Scorer("scripted:0.5", "turn", [str(folder)]).principles == ("candour",)


def test_threads_on_several_conversations_get_the_scores_of_their_own() -> None:
    scorer = Scorer("local", "history")

    def talk(offset: int) -> list[float]:
        speaker = Speaker(scorer, build_detector("any_turn"), f"c{offset}")
        texts = TALK[offset:] + TALK[:offset]
        return [
            speaker.score(Turn(number, text)).scores["reciprocity"].F for number, text in enumerate(texts, start=1)
        ]

    alone = [talk(offset) for offset in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(talk, [0, 1, 2, 3] * 2)) == alone * 2
    assert scorer.info.contexts == (ContextMode.TURN, ContextMode.HISTORY)
