"""A pattern asked in the explorer: its counts and values are those of the library, and its copies work."""

import shlex

import pytest
import yaml

from turnwise import GuardrailPipeline
from turnwise.errors import PatternError, UsageError
from turnwise.explorer import ViewedStore, question
from turnwise.patterns import load_patterns

RUN = "reader-history"

PATTERN = "slope(F) > 0.1 and peak(reciprocity.F) > 0.5"


def test_an_error_of_a_pattern_names_the_place(record):
    with pytest.raises(PatternError) as told:
        record.query("slope(F) > ", RUN)
    assert (told.value.line, told.value.column) == (1, 11)


def test_its_values_over_the_turns_are_what_it_compares(record, demo_store):
    curves, holds = question.curves(record, RUN, PATTERN, "grooming-01")
    assert [(curve.name, curve.level) for curve in curves] == [("slope(F)", 0.1), ("peak(reciprocity.F)", 0.5)]
    slope = dict(curves[0].values)
    assert slope[1] is None and slope[9] > 0.1
    [match] = [one for one in demo_store.query(PATTERN, RUN) if one.sequence_id == "grooming-01"]
    assert holds[0] == match.turn


def test_the_words_for_completion_are_those_that_can_be_asked(record):
    words = dict(question.words(record))
    assert {"F", "reciprocity.F", "slope(", "gradual_drift", 'run("reader-turn").F'} <= set(words)


def test_the_command_gives_the_same_answer(record, cli):
    command = shlex.split(question.as_command(record, RUN, PATTERN))
    told = cli(*command[1:], "--json")
    assert told.code == 0, told.err
    assert record.query(PATTERN, RUN).rate.count == len(told.json["matches"])


def test_the_guard_rule_is_one_that_a_guard_takes(record):
    config = yaml.safe_load(question.as_rule(record, PATTERN))
    for rule in config["guardrails"]:
        rule["drift"]["observer"] = "scripted:0.1,0.9,0.95"
    with GuardrailPipeline(config) as pipeline:
        assert not pipeline.check_input("Hello").blocked
    with pytest.raises(PatternError, match="a guard has one run"):
        question.as_rule(record, 'run("reader-turn").F > 0.5')


def test_a_named_pattern_is_saved_where_the_user_said(demo_store, tmp_path):
    record = ViewedStore(demo_store, patterns=tmp_path / "mine.yaml")
    question.save_named(record, "slow_rise", PATTERN, "Rises slowly: < & >")
    question.save_named(record, "second", "slow_rise or peak(F) > 0.9", "")
    assert load_patterns(tmp_path / "mine.yaml").get("slow_rise").expression == PATTERN
    assert record.query("slow_rise", RUN).rate == record.query(PATTERN, RUN).rate
    with pytest.raises(PatternError, match="choose another name"):
        question.save_named(record, "slow_rise", PATTERN, "")
    with pytest.raises(PatternError):
        question.save_named(record, "Not a name!", PATTERN, "")
    with pytest.raises(UsageError, match="--patterns FILE"):
        question.save_named(ViewedStore(demo_store), "third", PATTERN, "")
