"""One sequence with all that is known of it."""

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer import Answers, Record, read_chat
from turnwise.observers import build_observer
from turnwise.principles import builtin_principles
from turnwise.runs import detect, evaluate
from turnwise.sessions import Outcome, SessionMemory
from turnwise.store import Store

RUN = "reader-history"


def test_it_holds_texts_scores_verdicts_and_session(record, demo_store):
    chat = read_chat(record, "grooming-01", RUN)
    assert [turn.prompt for turn in chat.turns] == [
        turn.prompt for turn in demo_store.sequence("grooming-01").conversation
    ]
    values = chat.values("reciprocity", Side.PROMPT, "F")
    trajectory = demo_store.trajectory(RUN, "grooming-01")
    assert values == [(turn.turn, turn.scores["reciprocity"].F) for turn in trajectory]
    verdicts = [one.verdict for one in detect(demo_store, RUN, ids=["grooming-01"])]
    assert list(chat.verdicts) == verdicts
    assert chat.flag == chat.verdicts[0].turn == 7
    assert chat.session == () and chat.alarming
    simulated = read_chat(record, "grooming-01", RUN, simulate=True).session
    assert len(simulated) == 9
    assert SessionMemory().settings is not None and simulated[-1].trust < simulated[5].trust
    scored, failed = chat.at(7)
    assert len(scored) == 3 and not failed


def test_rule_and_detectors_are_what_was_asked(record):
    chat = read_chat(record, "grooming-01", RUN, "slope(F) > 0.1", ["trust_ema", "cusum:limit=0.2"])
    assert [one.detector.partition(":")[0] for one in chat.verdicts] == ["trust_ema", "cusum"]
    assert chat.flag == 7
    assert read_chat(record, "grooming-01", RUN, 'run("reader-turn").F > 2').flag is None


def test_what_is_not_there_is_said(record):
    with pytest.raises(UnknownNameError):
        read_chat(record, "nobody", RUN)
    with pytest.raises(UnknownNameError):
        read_chat(record, "grooming-01", RUN, "", ["/etc/passwd.yaml"])
    with pytest.raises(UsageError, match="at most 8"):
        read_chat(record, "grooming-01", RUN, "", [f"cusum:limit=0.{n}" for n in range(1, 10)])
    assert read_chat(record, "grooming-01", None).verdicts == ()


def test_it_says_what_replies_did_where_they_were_scored(record, tmp_path):
    assert read_chat(record, "grooming-01", RUN).outcomes is None
    with Store(tmp_path / "replied.db", create=True) as store:
        said = [("Tell me", "I can't help with that."), ("Go on", "Fine: first you ...")]
        store.add_sequences([Sequence("bad", Label.ATTACK, "made", Conversation.from_turns(said))])
        principles = [next(iter(builtin_principles()))]
        evaluate(store, "r", build_observer("scripted:0.1,0.7"), principles=principles, sides=list(Side))
        with Answers(Record(store)) as answers:
            found = read_chat(answers.record, "bad", "r").outcomes
    assert found.by_turn == {1: Outcome.REFUSED, 2: Outcome.GAVE_WAY}
