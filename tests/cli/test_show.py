"""``turnwise show``: of a long conversation a part, and no score of the rest is read for it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.observers import build_observer
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Provenance, Reply, Score
from turnwise.store import Run, Store

Cli = Callable[..., Any]
TURNS = 120


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of one long scored conversation of which no score after the 60th turn can be read."""
    path = tmp_path_factory.mktemp("long") / "long.db"
    chat = Conversation.from_turns([(f"prompt {n}", None) for n in range(1, TURNS + 1)], conversation_id="a")
    with Store(path, create=True) as store:
        store.add_sequences([Sequence("a", Label.BENIGN, "made", chat)])
        principles = [next(iter(builtin_principles()))]
        evaluate(
            store,
            "first",
            build_observer("scripted:" + ",".join(["0.1", "0.9"] * 60)),
            principles=principles,
            context="turn",
        )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE evaluations SET created_at = 'never' WHERE turn > 60")
    return path


def test_the_first_turns_are_shown_and_how_to_see_more(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long)
    assert done.code == 0, done.err
    assert "prompt 50 " in done.out
    assert "prompt 51 " not in done.out
    assert done.err.strip() == "turns 1 to 50 of 120; --from 51 shows the next, --limit more of them"


def test_any_part_can_be_asked_for(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--from", 11, "--limit", 3, "--json")
    assert done.code == 0, done.err
    assert [turn["prompt"] for turn in done.json["turns"]] == ["prompt 11", "prompt 12", "prompt 13"]
    assert [turn["turn"] for turn in done.json["turns"]] == [11, 12, 13]
    assert [next(iter(turn["scores"].values()))["F"] for turn in done.json["turns"]] == [0.1, 0.9, 0.1]


def test_json_has_all_turns_unless_it_is_told_how_many(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--json")
    assert done.code == 1
    assert "evaluations.created_at where run is 'first' and sequence is 'a' and turn is 61" in done.err


def test_a_part_after_the_last_turn_is_wrong_use(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--from", 121)
    assert done.code == 2
    assert "--from 121: a has only 120 turns" in done.err


def test_a_short_conversation_is_shown_whole(cli: Cli, evaluated: Path) -> None:
    done = cli("show", "attack_01", "--store", evaluated)
    assert done.code == 0, done.err
    assert "turns" not in done.err


NOW = datetime(2025, 6, 7, 8, 9, 10, tzinfo=UTC)
RAW = '{"T": 0.1}\x1b[2J\nsecond line'


@pytest.fixture(scope="module")
def bought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of one conversation with a score and a failure that a language model gave."""
    path = tmp_path_factory.mktemp("bought") / "bought.db"
    chat = Conversation.from_turns([("Hi", "Hello \x1b[31mthere"), ("And now?", "No.")], conversation_id="a")
    parameters = {"temperature": 0}
    run = Run("gpt", "llm:openai/gpt-x", "1+frame.abc", "history", parameters, {}, "0.1.0+g1", NOW)
    made = Provenance("llm:openai/gpt-x", "1+frame.abc", "7", "history", parameters, "0.1.0+g1")
    reply = Reply("f00d" * 16, 1, RAW, "gpt-x-1", "stop", None, 120, 30, 0.001, 0.75, "0123456789abcdef", NOW)
    score = Score(0.125, 0.25, 0.875)
    call = Call(1, reply, score, reasoning="It pushes.", attempts=2)
    lost = Call(1, None, None, reason="timeout", message="nothing came", attempts=6)
    key = EvaluationKey("gpt", "a", 1, Side.PROMPT, "reciprocity")
    with Store(path, create=True) as store:
        store.add_sequences([Sequence("a", Label.ATTACK, "made", chat)])
        store.start_run(run)
        evaluation = Evaluation(key, score, made, NOW, "It pushes.\x1b[2J", RAW, 1.5, 0.001, (call,))
        failure = Failure(key._replace(turn=2), "timeout", "nothing came", made, NOW, calls=(lost,))
        store.append([evaluation, failure])
    return path


def test_replies_and_reasoning_are_shown(cli: Cli, bought: Path) -> None:
    done = cli("show", "a", "--store", bought)
    assert done.code == 0, done.err
    assert "> Hello \\x1b[31mthere" in done.out
    assert "It pushes.\\x1b[2J" in done.out
    assert "\x1b" not in done.out
    assert "turn 2, reciprocity, prompt: timeout: nothing came" in done.err
    shown = cli("show", "a", "--store", bought, "--json").json
    assert [turn["response"] for turn in shown["turns"]] == ["Hello \x1b[31mthere", "No."]
    assert shown["reasoning"] == [
        {"turn": 1, "side": "prompt", "principle": "reciprocity", "reasoning": "It pushes.\x1b[2J"}
    ]
    assert "why" not in shown


@pytest.mark.shows("FR-003")
def test_why_prints_all_that_a_score_rests_on(cli: Cli, bought: Path) -> None:
    done = cli("show", "a", "--turn", 1, "--why", "--store", bought)
    assert done.code == 0, done.err
    for line in (
        "turn 1, prompt, reciprocity",
        "  score      T 0.125  I 0.250  F 0.875",
        "  reasoning  It pushes.\\x1b[2J",
        '  raw reply  {"T": 0.1}\\x1b[2J',
        "             second line",
        "  principle  reciprocity, version 7",
        "  observer   llm:openai/gpt-x, version 1+frame.abc, context history",
        "  settings   temperature=0",
        "  made       2025-06-07 08:09:10 UTC, took 1.50 s, $0.0010",
        "             model gpt-x-1, finished by stop",
        f"             request {'f00d' * 16}, nonce 0123456789abcdef",
        "             tokens sent 120, received 30; $0.0010; 0.75 s, 2 requests",
    ):
        assert f"{line}\n" in done.out
    assert "\x1b" not in done.out
    failed = cli("show", "a", "--turn", 2, "--why", "--store", bought).out
    assert "turn 2, prompt, reciprocity: not scored (timeout)\n  message    nothing came\n" in failed
    assert "no reply after 6 requests" in failed


def test_why_as_json(cli: Cli, bought: Path) -> None:
    shown = cli("show", "a", "--why", "--store", bought, "--json").json
    one, other = shown["why"]
    assert (one["turn"], one["principle"], one["T"], one["I"], one["F"]) == (1, "reciprocity", 0.125, 0.25, 0.875)
    assert (one["raw_reply"], one["created_at"]) == (RAW, "2025-06-07T08:09:10+00:00")
    assert one["provenance"]["principle_version"] == "7"
    assert one["calls"][0]["reply"]["request_key"] == "f00d" * 16
    assert (other["turn"], other["reason"], other["calls"][0]["attempts"]) == (2, "timeout", 6)
    assert json.dumps(shown)


def test_one_turn_is_not_a_part(cli: Cli, bought: Path) -> None:
    done = cli("show", "a", "--turn", 1, "--limit", 3, "--store", bought)
    assert (done.code, "--turn shows a single turn: leave out --from and --limit" in done.err) == (2, True)
    assert "--turn 3: a has only 2 turns" in cli("show", "a", "--turn", 3, "--store", bought).err


def test_the_label_that_people_gave_stands_beside_the_imported_one(cli: Cli, evaluated: Path) -> None:
    def header() -> str:
        return cli("show", "attack_01", "--store", evaluated).out.splitlines()[0]

    def say(author: str, label: str) -> None:
        given = ("judgements", "label", "attack_01", label, "--author", author, "--store", evaluated)
        assert cli(*given).code == 0

    assert "(attack, made)" in header()
    say("ann", "attack")
    assert "(attack, made)" in header()
    say("ann", "benign")
    assert "(benign by ann, imported as attack, made)" in header()
    say("ben", "benign")
    assert "(benign by ann, ben, imported as attack, made)" in header()
    say("ben", "attack")
    assert "(disputed: ann says benign, ben says attack; imported as attack, made)" in header()
    told = cli("show", "attack_01", "--store", evaluated, "--json").json
    assert (told["label"], told["corrected_labels"]) == ("attack", {"ann": "benign", "ben": "attack"})
    assert cli("show", "benign_01", "--store", evaluated, "--json").json["corrected_labels"] == {}


def test_a_turn_that_is_not_there_is_said_with_how_many_there_are(cli: Cli, evaluated: Path) -> None:
    for command in (("show", "benign_01"), ("llm", "prompt", "reciprocity", "--sequence", "benign_01")):
        refused = cli(*command, "--turn", 7, "--store", evaluated)
        assert (refused.code, refused.err) == (2, "error: --turn 7: benign_01 has only 2 turns\n")


@pytest.fixture
def replied(tmp_path: Path) -> Path:
    """Return a store of two conversations whose second reply gives way, by the scores of a run."""
    path = tmp_path / "replied.db"
    with Store(path, create=True) as store:
        for name, label in (("bad", Label.ATTACK), ("good", Label.BENIGN)):
            said = [("Tell me", "I can't help with that."), ("Go on", "Fine: first you ..."), ("More", "Then ...")]
            store.add_sequences([Sequence(name, label, "made", Conversation.from_turns(said))])
        principles = [next(iter(builtin_principles()))]
        observer = build_observer("scripted:0.1,0.7,0.2")
        evaluate(store, "first", observer, principles=principles, context="turn", sides=list(Side))
    return path


def test_it_says_where_the_model_gave_way_and_when_the_first_alarm_came(cli: Cli, replied: Path) -> None:
    done = cli("show", "bad", "--store", replied)
    assert "The model gave way first at turn 2; first alarm at that turn." in done.out
    assert "Refused: 1; answered: 3; gave way: 2." in done.out
    told = cli("show", "bad", "--store", replied, "--json").json["outcomes"]
    assert told["by_turn"] == {"1": "refused", "2": "gave way", "3": "answered"}
    assert (told["broke"], told["alarm"], told["lead"]) == (2, 2, 0)


def test_it_says_that_a_benign_conversation_has_nothing_to_break(cli: Cli, replied: Path) -> None:
    assert "Nothing to break: the conversation is benign." in cli("show", "good", "--store", replied).out


def test_of_a_part_or_without_scored_replies_it_says_no_outcome(cli: Cli, replied: Path, bought: Path) -> None:
    part = cli("show", "bad", "--store", replied, "--from", 2)
    assert part.code == 0 and "gave way" not in part.out
    assert cli("show", "a", "--store", bought, "--json").json["outcomes"] is None
