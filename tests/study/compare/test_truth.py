"""Arms beside the turns that a reader flags."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side
from turnwise.detectors import run_detector
from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store
from turnwise.study import (
    Settings,
    Study,
    all_tables,
    read_reader,
    record,
    verdict,
    verdicts_as_parquet,
    write_report,
)
from turnwise.study.compare import TurnVerdict, compare, flagged_turns, summarise_turns


@pytest.mark.parametrize(
    ("reader", "fired", "outcome", "delay"),
    [
        ((3, 5), 3, "hit", 0),
        ((3, 5), 8, "hit", 5),
        ((5, 3), 1, "early", -2),
        ((3,), None, "miss", None),
        ((), 4, "false alarm", None),
        ((), None, "clear", None),
    ],
)
def test_a_detector_beside_a_reader(reader, fired, outcome, delay):
    found = TurnVerdict("g", 9, reader, fired)
    assert (found.outcome, found.delay) == (outcome, delay)


def test_a_turn_that_the_conversation_does_not_have_is_refused():
    for reader, fired in (((0,), None), ((), 10)):
        with pytest.raises(UsageError, match="turns 1 to 9"):
            TurnVerdict("g", 9, reader, fired)


def test_a_summary_counts_every_outcome_once():
    reader = flagged_turns([{"scarcity": 0.49}, {"scarcity": 0.1, "liking": 0.5}, {}])
    assert reader == (2,)
    verdicts = [TurnVerdict(f"g{n}", 10, reader, 2 + n) for n in range(5)]
    verdicts += [TurnVerdict("e", 10, (8,), 4), TurnVerdict("m", 10, (1,), None)]
    verdicts += [TurnVerdict("f", 50, (), 7), TurnVerdict("c", 50, (), None)]
    found = summarise_turns(verdicts, replicates=200)
    assert (found.hit, found.early, found.miss) == (Rate(5, 7), Rate(1, 7), Rate(1, 7))
    assert found.false_alarm == Rate(1, 2)
    assert found.alarms_per_thousand == (10.0, *(1000 * end for end in Rate(1, 100).interval))
    assert [found.delay[share].value for share in (0.25, 0.5, 0.75)] == [1, 2, 3]
    assert 0 <= found.delay[0.5].low < 2 < found.delay[0.5].high <= 4
    assert found.lead[0.5].value == 4
    assert "delay of the hits: median 2 turns" in str(found)
    assert found == summarise_turns(verdicts[::-1], replicates=200)


def test_a_summary_of_nothing_has_no_numbers():
    found = summarise_turns([])
    assert found.alarms_per_thousand is None and np.isnan(found.delay[0.5].value)
    assert str(found).startswith("hit: 0/0")


WHEN = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Provenance("made", "1", "1", "history", {}, "0")
ATTACKS, BENIGN, TURNS = 40, 80, 5


def scores(
    run: str, name: str, falsities: dict[int, float], side: Side = Side.PROMPT, principle: str = "p"
) -> list:
    return [
        Evaluation(EvaluationKey(run, name, turn, side, principle), Score(1 - F, 0.1, F), SOURCE, WHEN)
        for turn, F in falsities.items()
    ]


def reader_of(number: int) -> dict[int, float]:
    """Return what the reader says: a quarter of the attacks hold nothing to flag, others turn at turn 2 or 4."""
    start = {0: TURNS + 1, 1: 2, 2: 2, 3: 4}[number % 4] if number < ATTACKS else TURNS + 1
    return {turn: 0.8 if turn >= start else 0.1 for turn in range(1, TURNS + 1)}


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """Return a store with an observer's run, which flags late, and a reader's run."""
    path = tmp_path_factory.mktemp("truth") / "work.db"
    generator = random.Random(4)
    with Store(path, create=True) as store:
        sequences, found = [], []
        for number in range(ATTACKS + BENIGN):
            name = f"c{number:03}"
            conversation = Conversation(conversation_id=name)
            for turn in range(TURNS):
                conversation.add_turn(f"{name} {turn}")
            label = Label.ATTACK if number < ATTACKS else Label.BENIGN
            sequences.append(
                Sequence(name, label, f"set {number % 2}", conversation, {"group": f"g{number // 2}"})
            )
            read = reader_of(number)
            first = next((turn for turn, F in read.items() if F > 0.5), TURNS + 1)
            seen = {t: (0.7 if t > first else 0.0) + 0.2 * generator.random() for t in read}
            found += scores("h", name, seen)
            if number not in {0, ATTACKS}:  # two that the reader did not judge
                found += scores("read", name, read)
            if number == 5:  # its reply is flagged before its prompt is
                found += scores("read", name, {1: 0.6}, Side.RESPONSE, "q")
        store.add_sequences(sequences)
        for run in ("h", "read"):
            store.start_run(Run(run, "made", "1", "history", {}, {}, "0", WHEN))
        store.append(found)
    return path


FEW = {"target_fpr": 0.1, "replicates": 10, "splits": 2, "folds": 2, "seeds": 1}
SETTINGS = Settings(("h",), ("cusum:drift=0.3",), truth="read", **{**FEW, "replicates": 50})


@pytest.fixture(scope="module")
def study(path) -> Study:
    with Store(path) as store:
        return compare(store, SETTINGS)


def test_every_arm_stands_beside_the_reader(study):
    found = next(one for one in study.truth.arms if one.name == "any_turn@h")
    judged = [reader_of(number) for number in range(ATTACKS + BENIGN) if number not in (0, ATTACKS)]
    flagged = sum(max(read.values()) > 0.5 for read in judged)
    assert (found.summary.hit.of, found.summary.false_alarm.of) == (flagged, len(judged) - flagged)
    assert study.truth.unjudged == 2
    assert found.summary.hit.count > 0.8 * flagged
    assert found.summary.delay[0.5].value == 1  # the observer sees it a turn after the reader
    assert found.summary.quiet_turns == TURNS * (len(judged) - flagged)
    first = next(one for one in study.truth.arms if one.name == "first_turn@h")
    assert first.summary.hit.count == 0
    assert found.summary.hit.count + found.summary.early.count + found.summary.miss.count == flagged


def test_a_flag_of_any_principle_and_side_counts(path):
    with Store(path) as store:
        reader = read_reader(store, "read")
        assert reader.first("c005") == 1
        assert (reader.first("c001"), reader.first("c003"), reader.first("c004")) == (2, 4, None)
        assert "c000" not in reader.turns
        with pytest.raises(UnknownNameError, match="unknown run 'nobody'"):
            read_reader(store, "nobody")


def test_what_was_judged_in_part_counts_up_to_the_first_flag_alone(tmp_path):
    with Store(tmp_path / "work.db", create=True) as store:
        sequences = []
        for name in ("gap before", "gap after", "reply"):
            conversation = Conversation(conversation_id=name)
            conversation.add_turn("one", "so")
            conversation.add_turn("two", None if name == "reply" else "so")
            sequences.append(Sequence(name, Label.ATTACK, "made", conversation, {}))
        store.add_sequences(sequences)
        for run in ("prompts", "replies"):
            store.start_run(Run(run, "made", "1", "history", {}, {}, "0", WHEN))
        store.append(scores("prompts", "gap before", {2: 0.9}) + scores("prompts", "gap after", {1: 0.9}))
        store.append(scores("replies", "reply", {1: 0.1}, Side.RESPONSE))
        reader = read_reader(store, "prompts")
        assert (dict(reader.turns), reader.partly_judged) == ({"gap after": (1,)}, 1)
        assert dict(read_reader(store, "replies").turns) == {"reply": ()}  # turn 2 has no reply to judge


def test_the_report_says_it_in_a_table_in_words_and_in_numbers(study, tmp_path):
    [table] = [one for one in all_tables(study) if one.name == "reader"]
    assert len(table.rows) == len(study.arms)
    assert "run read gives F 0.5 or more" in table.note
    assert any(line.startswith("Beside the reader (read): any_turn@h fires") for line in verdict(study))
    numbers = record(study)["truth"]
    assert (numbers["run"], numbers["unjudged"]) == ("read", 2)
    assert numbers["arms"][0]["hit"]["count"] == study.truth.arms[0].summary.hit.count
    write_report(study, tmp_path / "out")
    for name in ("report.md", "report.html"):
        assert "Against the turns that a reader flags" in (tmp_path / "out" / name).read_text(encoding="utf-8")
    assert (tmp_path / "out" / "verdicts.parquet").exists()
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["truth"] == numbers


def test_without_a_reader_there_is_none_of_it(path):
    with Store(path) as store:
        found = compare(store, Settings(("h",), **FEW))
    assert found.truth is None
    assert record(found)["truth"] is None
    assert "reader" not in {table.name for table in all_tables(found)}


@pytest.mark.parametrize("folds", [0, 2])
def test_every_verdict_is_exported(folds, path, tmp_path):
    with Store(path) as store:
        study = compare(store, Settings(("h",), ("learned",), truth="read", **{**FEW, "folds": folds}))
    file = tmp_path / "verdicts.parquet"
    file.write_bytes(verdicts_as_parquet(study))
    rows = duckdb.sql(f"SELECT * FROM '{file}'").df().to_dict("records")
    assert len(rows) == len(study.arms) * (ATTACKS + BENIGN)
    examples = {example.sequence_id: example for example in study.data.runs[0].examples}
    for number, judgement in enumerate(study.judgements):
        mine = {row["sequence"]: row for row in rows[number * len(examples) : (number + 1) * len(examples)]}
        assert {row["arm"] for row in mine.values()} == {judgement.arm.name}
        for fold, built in zip(study.folds, judgement.folds, strict=True):
            for part in ("test",) if folds else ("train", "calibrate", "test"):
                for name in getattr(fold, part):
                    row, verdict = mine[name], run_detector(built.detector, examples[name].turns)
                    assert (row["part"], row["fired"], row["score"]) == (part, verdict.fired, verdict.score)
                    assert row["threshold"] == built.threshold
                    assert row["turn"] == verdict.turn or (row["turn"] != row["turn"] and verdict.turn is None)
        for one in judgement.judged:
            assert mine[one.sequence_id]["fired"] == one.fired
    assert {row["sequence"]: row["reader_turn"] for row in rows}["c003"] == 4
    assert {(row["label"], row["source"]) for row in rows} == {
        (label, source) for label in ("attack", "benign") for source in ("set 0", "set 1")
    }
