"""The conformance kit of observers: those that ship pass, and each rule that one breaks is caught."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import (
    ContextMode,
    LlmObserver,
    LlmSettings,
    LocalSmallObserver,
    Observation,
    ObservationFailure,
    ScriptedClient,
    ScriptedObserver,
    build_observer,
    check_observer,
)
from turnwise.scoring import Score


def llm(**settings):
    """Return an observer that asks a double, which scores by the hash of the text."""
    return LlmObserver("ollama/m", LlmSettings(**settings), client=ScriptedClient())


class TestWhatShips:
    def test_local(self):
        # The small one, which is the same observer with a quicker network (tests/observers/local have the large
        # kind), and two that take turns: reading the weights takes longer than all checks.
        observers = itertools.cycle([LocalSmallObserver(), LocalSmallObserver()])
        check_observer(lambda: next(observers))

    def test_llm(self):
        check_observer(llm, repeatable=True)

    def test_llm_whose_model_refuses_everything(self):
        def refusing():
            settings = LlmSettings(max_failures_in_row=0)
            return LlmObserver(
                "ollama/m", settings, client=ScriptedClient(lambda request: "I can't help with that.")
            )

        check_observer(refusing, repeatable=True)

    def test_scripted(self):
        check_observer(lambda: ScriptedObserver("0.1,0.4,0.9"))

    def test_replay(self, tmp_path):
        file = tmp_path / "scores.jsonl"
        lines = [
            {"sequence_id": "kit", "turn": turn, "principle": "reciprocity", "T": 0.5, "I": 0.1, "F": turn / 9}
            for turn in (1, 3)
        ]
        file.write_text("\n".join(map(json.dumps, lines)))
        check_observer(lambda: build_observer(f"replay:{file}"))

    def test_an_observer_that_is_not_repeatable_is_still_checked_for_the_rest(self):
        counter = Counter()

        class Drifts(ScriptedObserver):
            def observe(self, state, turn, wanted):
                counter["turns"] += 1
                return [
                    Observation(one.principle.name, one.side, Score(0, 0, counter["turns"] % 7 / 7))
                    for one in wanted
                ]

        check_observer(lambda: Drifts("0.1"), repeatable=False)
        with pytest.raises(AssertionError, match="a second time gives other scores"):
            check_observer(lambda: Drifts("0.1"))


class Sound(ScriptedObserver):
    """A sound observer to break in one place: F hangs on the number of the turn."""

    def __init__(self):
        super().__init__("0.1,0.4,0.9,0.2,0.3")


class SaysNothingOfItself(Sound):
    @property
    def info(self):
        return replace(super().info, summary="")


class SupportsNothing(Sound):
    @property
    def info(self):
        return replace(super().info, contexts=())


class ChangesItsVersion(Sound):
    looks = 0

    @property
    def info(self):
        ChangesItsVersion.looks += 1
        return replace(super().info, version=str(ChangesItsVersion.looks))


class HasASetAmongItsParameters(Sound):
    def __init__(self):
        super().__init__()
        self.parameters = {"words": {"a"}}


class HasATupleAmongItsParameters(Sound):
    def __init__(self):
        super().__init__()
        self.parameters = {"words": ("a",)}


class HasParametersOfItsOwn(Sound):
    def __init__(self):
        super().__init__()
        self.parameters = {"made": id(self)}


class ChangesTheTurn(Sound):
    def observe(self, state, turn, wanted):
        turn.metadata["seen"] = True
        return super().observe(state, turn, wanted)


class GivesWhatWasNotAskedFor(Sound):
    def observe(self, state, turn, wanted):
        return [Observation("another", Side.PROMPT, Score(0, 0, 0))]


class GivesAScoreTwice(Sound):
    def observe(self, state, turn, wanted):
        return [*super().observe(state, turn, wanted), *super().observe(state, turn, wanted)]


class GivesNumbers(Sound):
    def observe(self, state, turn, wanted):
        return [0.5 for _ in wanted]


class FailsWithoutAWord(Sound):
    def observe(self, state, turn, wanted):
        return [ObservationFailure(one.principle.name, one.side, "error", "") for one in wanted]


class RemembersConversations(Sound):
    def __init__(self):
        super().__init__()
        self.turns = 0

    def observe(self, state, turn, wanted):
        self.turns += 1
        return [Observation(one.principle.name, one.side, Score(0, 0, 1 / self.turns)) for one in wanted]


class DiffersFromOneToTheNext(Sound):
    made = 0

    def __init__(self):
        super().__init__()
        DiffersFromOneToTheNext.made += 1
        self.F = 1 / DiffersFromOneToTheNext.made

    def observe(self, state, turn, wanted):
        return [Observation(one.principle.name, one.side, Score(0, 0, self.F)) for one in wanted]


class ScoresByTheOrder(Sound):
    def observe(self, state, turn, wanted):
        return [
            Observation(one.principle.name, one.side, Score(0, 0, place / 10)) for place, one in enumerate(wanted)
        ]


class SkipsTurnsOfWhichNothingIsWanted(Sound):
    def start(self, conversation_id, context):
        return []

    def observe(self, state, turn, wanted):
        if wanted:
            state.append(turn)
        return [Observation(one.principle.name, one.side, Score(0, 0, 1 / (1 + len(state)))) for one in wanted]


class LooksAtTheResponse(Sound):
    def observe(self, state, turn, wanted):
        F = len(turn.response or "") % 10 / 10
        return [Observation(one.principle.name, one.side, Score(0, 0, F)) for one in wanted]


class LooksBeyondItsContext(Sound):
    def start(self, conversation_id, context):
        return []

    def observe(self, state, turn, wanted):
        state.append(turn.prompt)
        F = sum(map(len, state)) % 97 / 97
        return [Observation(one.principle.name, one.side, Score(0, 0, F)) for one in wanted]


class KeepsTheConversationInItself(Sound):
    """Sound as long as one conversation runs at a time."""

    def __init__(self):
        super().__init__()
        self.told = 0

    @property
    def info(self):
        return replace(super().info, contexts=(ContextMode.HISTORY,))

    def start(self, conversation_id, context):
        self.told = 0
        return super().start(conversation_id, context)

    def observe(self, state, turn, wanted):
        self.told += len(turn.prompt)
        return [Observation(one.principle.name, one.side, Score(0, 0, self.told % 97 / 97)) for one in wanted]


class IsNotMadeForThreads(Sound):
    """Gives another score when two threads are in it at once."""

    def __init__(self):
        super().__init__()
        self.inside = 0
        self.meeting = threading.Barrier(2)

    def observe(self, state, turn, wanted):
        self.inside += 1
        try:
            self.meeting.wait(0.02)
            together = True
        except threading.BrokenBarrierError:
            self.meeting.reset()
            together = False
        self.inside -= 1
        return [Observation(one.principle.name, one.side, Score(0, 0, float(together))) for one in wanted]


class TakesAnyContext(Sound):
    @property
    def info(self):
        return replace(super().info, contexts=(ContextMode.TURN,))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (SaysNothingOfItself, "info: summary is empty"),
        (SupportsNothing, "info: it supports no context mode"),
        (ChangesItsVersion, "info: it differs from one look"),
        (HasASetAmongItsParameters, "parameters: they are no JSON"),
        (HasATupleAmongItsParameters, "parameters: they do not survive JSON"),
        (HasParametersOfItsOwn, "parameters: they differ from one observer to the next"),
        (ChangesTheTurn, "turn 1 was changed"),
        (GivesWhatWasNotAskedFor, "a score for another, prompt was not asked for"),
        (GivesAScoreTwice, "two scores for reciprocity, prompt"),
        (GivesNumbers, "0.5 is neither a score nor a failure"),
        (FailsWithoutAWord, "a failure without reason or message"),
        (RemembersConversations, "it remembers earlier conversations"),
        (DiffersFromOneToTheNext, "a second observer gives other scores"),
        (ScoresByTheOrder, "another order of what is wanted gives other scores"),
        (SkipsTurnsOfWhichNothingIsWanted, "another score where none was wanted of earlier turns"),
        (LooksAtTheResponse, "the score of prompt 1 hangs on the response that follows it"),
        (LooksBeyondItsContext, "hangs on turns that this context mode hides"),
        (KeepsTheConversationInItself, "conversations scored at the same time|two conversations by turns"),
        (TakesAnyContext, "context window:2: it is not among those supported, but is not refused"),
    ],
)
def test_it_catches_an_observer_that_breaks_a_rule(factory, message):
    with pytest.raises(AssertionError, match=message):
        check_observer(factory)


class KeepsReplies(Sound):
    """Keeps replies through a sound observer; each subclass breaks one rule of it."""

    def __init__(self):
        super().__init__()
        self.inner = llm()

    @property
    def info(self):
        return replace(self.inner.info, contexts=(ContextMode.TURN,))

    def start(self, conversation_id, context):
        if context.mode is not ContextMode.TURN:
            raise ObserverError("the context turn alone is supported")
        return self.inner.start(conversation_id, context)

    def observe(self, state, turn, wanted):
        return self.inner.observe(state, turn, wanted)

    def with_journal(self, journal):
        return self.inner.with_journal(journal)


def test_a_sound_observer_that_keeps_replies_passes():
    check_observer(KeepsReplies, repeatable=True)


class NeverRecords(KeepsReplies):
    def with_journal(self, journal):
        return self.inner


class NeverLooks(KeepsReplies):
    def with_journal(self, journal):
        return llm(cache=False).with_journal(journal)


class TellsNoCalls(KeepsReplies):
    def with_journal(self, journal):
        return Sound()


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (NeverRecords, "the replies that were recorded are not those that the calls rest on"),
        (NeverLooks, "a reply that was kept is paid for again"),
        (TellsNoCalls, "a score rests on no call"),
    ],
)
def test_it_catches_an_observer_that_pays_twice_or_keeps_nothing(factory, message):
    with pytest.raises(AssertionError, match=message):
        check_observer(factory, repeatable=True)


def test_the_conversations_are_the_same_each_time_and_cover_the_hard_shapes():
    class Records(Sound):
        def observe(self, state, turn, wanted):
            shown.append(turn)
            return super().observe(state, turn, wanted)

    def told():
        shown.clear()
        check_observer(Records(), repeatable=False)
        return [*shown]

    shown = []
    turns = told()
    assert told() == turns
    assert any(turn.response is None for turn in turns)
    assert any(turn.prompt == "" for turn in turns)
    assert any(len(turn.prompt) > 5_000 for turn in turns)
    assert all(isinstance(turn, Turn) for turn in turns)


def test_an_observer_that_can_t_go_on_says_so_itself():
    class Stops(Sound):
        def observe(self, state, turn, wanted):
            raise ObserverError("no credit left")

    with pytest.raises(ObserverError, match="no credit left"):
        check_observer(Stops)
