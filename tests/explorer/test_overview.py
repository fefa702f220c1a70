"""The numbers of the overview."""

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from random_stores import Content, contents, fill

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.explorer import ViewedStore, overview, rule_of
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
        record = ViewedStore(store)
        assert record.latest_run() == "done"
        going = {one.name: one.going_on for one in overview.counts(record).runs}
        assert going["going on"] and not going["done"]
        writer.close()
        assert ViewedStore(store).latest_run() == "going on"


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
            counted = {run.name: run for run in overview.counts(ViewedStore(store)).runs}
    assert set(counted) == {run.name for run in content.runs} - {content.deleted}
    for name, run in counted.items():
        mine = [one for one in content.scored if one.key.run == name]
        assert run.failures == sum(isinstance(one, Failure) for one in mine)
        costs = [one.cost_usd for one in mine if one.cost_usd is not None]
        assert (run.cost_usd is None) == (not costs)
        assert math.isclose(run.cost_usd or 0.0, math.fsum(costs), rel_tol=1e-9)
