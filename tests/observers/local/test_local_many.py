"""Whole conversations at once: the same scores as turn by turn, and nothing of a batch is read twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import Context, LocalObserver, ObservesMany, Request, build_observer, observe_conversations
from turnwise.principles import load_principle

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
BOTH = [Request(load_principle(name), side) for side in Side for name in PRINCIPLES]
PROMPTS, REPLIES = BOTH[:3], BOTH[3:]
HISTORY = Context.parse("history")
HARD = {
    "no turn at all": [],
    "one short turn": [Turn(1, "Hi", "Hello")],
    "blank texts between": [Turn(1, " ", ""), Turn(2, "", "Yes?"), Turn(3, "Tell me.", None), Turn(4, "\n", "So")],
    "a window that moves many times": [Turn(n, f"question {n} " * 9, f"answer {n} " * 5) for n in range(1, 40)],
    "long texts": [
        Turn(1, "ab " * 300, "cd " * 200),
        Turn(2, "and now?", "ef " * 90),
        Turn(3, "x", "y"),
    ],
    "a text that is cut": [Turn(1, "so " * 16_000, None), Turn(2, "ok", "fine")],
    "hidden words": [Turn(1, "tell me the p4ssw0rd", "p a s s w o r d"), Turn(2, "now", "no")],
    "the same text again and again": [Turn(n, "please", "no") for n in range(1, 30)],
    "odd characters": [
        Turn(1, "\ud800 日本 \u202e \x00", "👩‍🚀"),
        Turn(2, "<|im_end|>\n<|im_start|>user\n", "so"),
    ],
}


class OneByOne:
    """An observer without the ability to take many conversations at once."""

    def __init__(self, observer: LocalObserver) -> None:
        self.info, self.parameters = observer.info, observer.parameters
        self.start, self.observe = observer.start, observer.observe


def assert_same(observer: LocalObserver, talks: Sequence[Sequence[Turn]], context: str) -> None:
    for wanted in (BOTH, PROMPTS, REPLIES):
        many = observe_conversations(observer, talks, Context.parse(context), wanted)
        each = observe_conversations(OneByOne(observer), talks, Context.parse(context), wanted)
        assert many.conversation.tolist() == each.conversation.tolist()
        assert many.turn.tolist() == each.turn.tolist()
        assert many.request.tolist() == each.request.tolist()
        assert np.abs(many.scores - each.scores).max(initial=0) <= 1e-6


@pytest.mark.parametrize("context", ["history", "turn"])
@pytest.mark.parametrize("name", HARD)
def test_scores_are_those_of_turn_by_turn(observer: LocalObserver, name: str, context: str) -> None:
    assert_same(observer, [HARD[name]], context)


@pytest.mark.parametrize("context", ["history", "turn"])
def test_conversations_beside_each_other_do_not_matter(observer: LocalObserver, context: str) -> None:
    assert_same(observer, [*HARD.values(), *reversed(HARD.values())], context)


@pytest.mark.parametrize("spec", ["local", "local-small"])
def test_the_shipped_weights_too(spec: str) -> None:
    shipped = build_observer(spec)
    assert isinstance(shipped, LocalObserver)
    assert_same(
        shipped, [HARD["hidden words"], HARD["blank texts between"], [Turn(1, "go on " * 90, "no")]], "history"
    )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.text("ab .", max_size=200), st.none() | st.text("xy", max_size=90)), max_size=9),
        max_size=6,
    )
)
def test_any_conversations(observer: LocalObserver, said: list[list[tuple[str, str | None]]]) -> None:
    talks = [[Turn(n, prompt, reply) for n, (prompt, reply) in enumerate(talk, start=1)] for talk in said]
    assert_same(observer, talks, "history")


def test_the_order_of_conversations_changes_no_score(observer: LocalObserver) -> None:
    talks = list(HARD.values())
    forth = observe_conversations(observer, talks, HISTORY, BOTH)
    back = observe_conversations(observer, talks[::-1], HISTORY, BOTH)
    for place in range(len(talks)):
        mine, other = forth.conversation == place, back.conversation == len(talks) - 1 - place
        np.testing.assert_allclose(forth.scores[mine], back.scores[other], rtol=0, atol=1e-6)


Tokens = Callable[[Sequence[Sequence[Turn]], Sequence[Request]], int]


@pytest.fixture
def tokens_read(observer: LocalObserver, monkeypatch: pytest.MonkeyPatch) -> Tokens:
    """Return a function to how many tokens the network is given for some conversations."""
    run, given = onnxruntime.InferenceSession.run, []

    def counted(self: Any, names: Any, feed: Any) -> Any:
        given.append(feed["ids"].size)
        return run(self, names, feed)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", counted)

    def read(talks: Sequence[Sequence[Turn]], wanted: Sequence[Request]) -> int:
        given.clear()
        observe_conversations(observer, talks, HISTORY, wanted)
        return sum(given)

    return read


def test_what_conversations_share_is_read_once(tokens_read: Tokens) -> None:
    question, replies = "What is the tallest mountain?", (None, "Mount Everest. " * 20, "I don't know.")
    first, longer, other = ([Turn(1, question, reply)] for reply in replies)
    alone = tokens_read([longer], BOTH)
    assert tokens_read([longer, longer, first, longer], BOTH) == alone
    assert tokens_read([other, longer], BOTH) == alone + tokens_read([other], BOTH) - tokens_read([first], BOTH)


def test_what_is_behind_the_last_scored_text_is_not_read(tokens_read: Tokens) -> None:
    short, long = ([Turn(1, "What is the tallest mountain?", reply)] for reply in (None, "Mount Everest."))
    assert tokens_read([long], PROMPTS) == tokens_read([short], PROMPTS) < tokens_read([long], BOTH)


def test_a_principle_that_it_does_not_know_is_a_failure_of_each_text(observer: LocalObserver) -> None:
    own = Request(replace(load_principle("reciprocity"), name="own"), Side.PROMPT)
    found = observe_conversations(
        observer, [[], [Turn(3, "Hi", "Ho"), Turn(4, " ", None)]], HISTORY, [own, *PROMPTS]
    )
    assert [(talk, turn, one.principle, one.reason) for talk, turn, one in found.failures] == [
        (1, 3, "own", "unsupported")
    ]
    assert found.request.tolist() == [1, 2, 3]


def test_a_context_that_it_does_not_support_is_refused(observer: LocalObserver) -> None:
    with pytest.raises(ObserverError, match="can't score in context window:2"):
        observe_conversations(observer, [HARD["one short turn"]], Context.parse("window:2"), BOTH)


def test_the_embedded_observers_take_many_at_once_and_no_conversation_gives_no_row(
    observer: LocalObserver,
) -> None:
    assert isinstance(observer, ObservesMany)
    found = observe_conversations(observer, [], HISTORY, BOTH)
    assert (len(found), found.scores.shape, found.failures) == (0, (0, 3), ())
