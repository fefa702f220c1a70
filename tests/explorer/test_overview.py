"""The overview of a store, and of what a scan found."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from random_stores import Content, contents, fill
from tests.support.found import conversation, make_findings

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.errors import UnknownNameError
from turnwise.explorer import Answers, Filter, Record, overview, rule_of
from turnwise.rates import Rate
from turnwise.runs import detect, evaluate
from turnwise.scoring import Failure
from turnwise.store import Store

RUN = "reader-history"


def test_counts_are_those_of_the_store(record, demo_store):
    counts, there = overview.counts(record), demo_store.counts()
    assert sum(one.sequences for one in counts.sources) == there["sequences"]
    assert sum(one.turns for one in counts.sources) == there["turns"]
    assert sum(one.evaluations for one in counts.runs) == there["evaluations"]
    assert [one.name for one in counts.runs] == [run.name for run in demo_store.runs()]
    mark = record.newest()
    assert mark.evaluations >= there["evaluations"] and mark.last is not None


def test_the_latest_run_is_the_last_that_nobody_is_writing(tmp_path):
    chat = Sequence("a", Label.BENIGN, "made", Conversation.from_turns([("Hello", "yes")]))
    with Store(tmp_path / "runs.db", create=True) as store:
        store.add_sequences([chat])
        evaluate(store, "done", "scripted:0.1")
    with Store(tmp_path / "runs.db") as writer, Store(tmp_path / "runs.db") as store:
        writer.start_run(replace(store.run("done"), name="going on"))
        record = Record(store)
        assert record.latest_run() == "done"
        going = {one.name: one.going_on for one in overview.counts(record).runs}
        assert going["going on"] and not going["done"]
        writer.close()
        assert Record(store).latest_run() == "going on"


def test_means_are_over_all_prompts_of_a_label_at_a_turn(record, demo_store):
    [mean] = [one for one in overview.means(record, RUN) if (one.label, one.turn) == ("attack", 1)]
    first = [
        score.F
        for head, trajectory in demo_store.trajectories(RUN)
        if head.label == "attack"
        for score in next(iter(trajectory)).scores.values()
    ]
    assert mean.scores == len(first) and abs(mean.F - sum(first) / len(first)) < 1e-9


def test_what_is_flagged_by_default_is_what_detect_says(record, demo_store):
    rule = rule_of(record, RUN)
    assert rule == "any_turn or cusum"
    fired, judged = defaultdict(set), defaultdict(set)
    for one in detect(demo_store, RUN):
        judged[one.head.label, one.head.source].add(one.head.sequence_id)
        if one.verdict.fired:
            fired[one.head.label, one.head.source].add(one.head.sequence_id)
    wanted = {key: Rate(len(fired[key]), len(ids)) for key, ids in judged.items()}
    assert overview.detection(record, RUN, rule) == wanted and fired


def test_a_pattern_flags_what_a_query_finds(record, demo_store):
    assert overview.detection(record, RUN, "F >= 0.6") == demo_store.query("F >= 0.6", RUN).rates


@settings(max_examples=12)
@given(contents())
def test_failed_tries_and_cost_are_those_of_each_run(content: Content):
    with TemporaryDirectory() as folder:
        path = Path(folder, "work.db")
        fill(path, content)
        with Store(path) as store:
            counted = {run.name: run for run in overview.counts(Record(store)).runs}
    assert set(counted) == {run.name for run in content.runs} - {content.deleted}
    for name, run in counted.items():
        mine = [one for one in content.scored if one.key.run == name]
        assert run.failures == sum(isinstance(one, Failure) for one in mine)
        costs = [one.cost_usd for one in mine if one.cost_usd is not None]
        assert (run.cost_usd is None) == (not costs)
        assert math.isclose(run.cost_usd or 0.0, math.fsum(costs), rel_tol=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    slow = {"label": "attack", "metadata": {"tactic": "slow"}}
    parts = (
        [conversation(f"rise-{n}", 0.1, 0.4, 0.6 + n / 100, **slow) for n in range(9)],
        [conversation(f"flat-{n}", 0.1, 0.2, source="other") for n in range(11)],
    )
    return make_findings(tmp_path_factory.mktemp("explorer") / "findings", *parts)


@pytest.fixture(scope="module")
def answers(folder):
    with Store(folder) as store, Answers(Record(store)) as opened:
        yield opened


def test_the_overview_counts_what_was_scanned(answers):
    counted = overview.counts(answers.record)
    assert [(one.source, one.labels, one.turns) for one in counted.sources] == [
        ("other", {"unlabelled": 11}, 22),
        ("logs", {"attack": 9}, 27),
    ]
    assert [(run.name, run.sequences, run.evaluations) for run in counted.runs] == [("scan", 20, 98)]
    means = {(one.label, one.turn): one.F for one in overview.means(answers.record, "scan")}
    assert means["unlabelled", 2] == pytest.approx((0.2 + 0.1) / 2)
    assert overview.detection(answers.record, "scan", "F >= 0.5")[Label.ATTACK, "logs"].count == 9
    mark = answers.record.newest()
    assert (mark.evaluations, mark.failures, mark.sequences) == (98, 0, (1 << 24) + 11)


def test_tables_are_filtered_sorted_and_flagged(answers):
    found = answers.find(Filter(run="scan", flagged="yes", sort="F", descending=True, size=3))
    assert (found.total, found.of, found.rule) == (9, 20, "any_turn")
    assert [(row.sequence_id, row.flag, row.tactic) for row in found.rows] == [
        (f"rise-{n}", 3, "slow") for n in (8, 7, 6)
    ]
    assert found.rows[0].series == ((1, 0.1), (2, 0.4), (3, pytest.approx(0.68)))
    assert answers.find(Filter(run="scan", tactic="slow", source="logs")).total == 9
    assert answers.find(Filter(run="scan", rule="cusum:drift=0.05,limit=0.3", flagged="yes")).complete


def test_words_are_found_in_the_texts(answers):
    answers.words.wait()
    found = answers.find(Filter(run="scan", words='"rise 3" "part 2"'))
    assert [row.sequence_id for row in found.rows] == ["rise-3"]
    assert answers.find(Filter(run="scan", words="what")).total == 20


def test_there_is_no_audit_to_watch(answers):
    assert answers.record.named.audits() == {}
    with pytest.raises(UnknownNameError):
        answers.record.named.audit("store")
