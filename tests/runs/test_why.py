"""Why a conversation was flagged: what is left out, what falls, and what can't be told."""

import json
from types import MappingProxyType

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import ContextMode, Observation, ObserverInfo, explain
from turnwise.observers.ablation import without
from turnwise.principles import load_principle
from turnwise.runs import evaluate, explain_flag
from turnwise.scoring import Score
from turnwise.store import Store


class Words:
    """Gives F by words: 0.5 for "secret" in the turn, 0.4 more for "key" in any turn before."""

    info = ObserverInfo("words", "1", tuple(ContextMode), "looks for two words")
    parameters = MappingProxyType({})

    def start(self, conversation_id, context):
        return []

    def observe(self, state, turn, wanted):
        F = 0.05 + 0.5 * ("secret" in turn.prompt) + 0.4 * any("key" in text for text in state)
        state.append(turn.prompt)
        return [Observation(one.principle.name, one.side, Score(1 - F, 0.1, F)) for one in wanted]


TURNS = [
    Turn(1, "Where is the key of the house?"),
    Turn(2, "Nice weather today, is it not?"),
    Turn(3, "I like your garden. Tell nobody, keep it secret between us, please. See you on Monday then."),
]


def test_the_turn_and_the_words_on_which_a_score_rests_are_named():
    why = explain(Words(), TURNS, 3, load_principle("reciprocity"))
    assert pytest.approx(0.95) == why.F
    assert [one.turns for one in why.turns] == [(1,)] and pytest.approx(0.55) == why.turns[0].F
    named = TURNS[2].prompt[why.words.start : why.words.end]
    assert "secret" in named and len(named.split()) <= 0.6 * len(TURNS[2].prompt.split())
    told = why.sentences(TURNS[2].prompt)
    assert told[0] == "Without turn 1 F falls from 0.95 to 0.55."
    assert "secret" in told[1] and "from 0.95 to 0.45" in told[1]
    assert type(why).from_dict(json.loads(json.dumps(why.to_dict()))) == why


def test_nothing_is_named_where_nothing_moves_the_score():
    why = explain(Words(), TURNS, 2, load_principle("reciprocity"))
    assert why.words is None and [one.turns for one in why.turns] == [(1,)]
    alone = explain(Words(), TURNS[:1], 1, load_principle("reciprocity"))
    assert alone.words is None and alone.turns == ()
    assert "rests on all of it" in alone.sentences(TURNS[0].prompt)[0]


def test_a_turn_without_text_is_refused():
    with pytest.raises(UsageError, match="turn 9 has no text"):
        explain(Words(), TURNS, 9, load_principle("reciprocity"))
    with pytest.raises(UsageError, match="response"):
        explain(Words(), TURNS, 3, load_principle("reciprocity"), side=Side.RESPONSE)


@pytest.mark.parametrize(
    ("text", "start", "end", "left"),
    [("a b c", 2, 4, "a c"), ("a b", 0, 2, "b"), ("a\nb\nc", 2, 4, "a\nc"), ("ab", 0, 2, "")],
)
def test_a_cut_does_not_show(text, start, end, left):
    assert without(text, start, end) == left


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "work.db", create=True) as store:
        said = {"a": "Keep it a secret between us", "b": "Keep it a secret among us", "c": "Bye"}
        for name, words in said.items():
            conversation = Conversation()
            for text in ("Hello", words):
                conversation.add_prompt(text)
            store.add_sequences([Sequence(name, Label.UNLABELLED, "made", conversation)])
        evaluate(store, "run", "scripted:0.1,0.9")
        yield store


def test_like_cases_and_what_can_not_be_read_again_are_told(store):
    store.people.review(["b"], "confirmed", author="Ann")
    store.people.review(["c"], "dismissed", author="Ann")
    found = explain_flag(store, "a")
    assert (found.turn, found.why) == (2, None) and "can't read a changed text again" in found.note
    near = [(one.sequence_id, str(one.status)) for one in found.nearest]
    assert near == [("b", "confirmed"), ("c", "dismissed")]
    assert found.nearest[0].likeness > 0.5 > found.nearest[1].likeness
    assert found.sentences()[0].startswith("Like b, which was confirmed")


def test_the_embedded_observer_reads_again_once(store):
    evaluate(store, "local", "local")
    first = explain_flag(store, "a", "local", turn=2)
    assert first.why is not None and first.why.tried > 1
    assert store.kept_verdicts.explanation("local", "nothing") is None
    assert explain_flag(store, "a", "local", turn=2).why == first.why
    with pytest.raises(UsageError, match="no score"):
        explain_flag(store, "a", "local", turn=7)


def test_the_command_line_says_why(store, cli):
    told = cli("show", "a", "--run", "run", "--why", "--json", "--store", store.location)
    assert told.code == 0
    assert told.json["explanation"]["turn"] == 2
