"""The numbers of the overview."""

from turnwise.explorer.data import overview
from turnwise.explorer.data.flags import rule_of

RUN = "reader-history"


def test_counts_are_those_of_the_store(record, demo_store):
    counts, there = overview.counts(record), demo_store.counts()
    assert sum(one.sequences for one in counts.sources) == there["sequences"]
    assert sum(one.turns for one in counts.sources) == there["turns"]
    assert sum(one.evaluations for one in counts.runs) == there["evaluations"]
    assert [one.name for one in counts.runs] == [run.name for run in demo_store.runs()]
    mark = overview.mark(record)
    assert mark.evaluations >= there["evaluations"] and mark.last is not None


def test_means_are_over_all_prompts_of_a_label_at_a_turn(record, demo_store):
    [mean] = [one for one in overview.means(record, RUN) if (one.label, one.turn) == ("attack", 1)]
    first = [
        score.F
        for head, trajectory in demo_store.trajectories(RUN)
        if head.label == "attack"
        for score in next(iter(trajectory)).scores.values()
    ]
    assert mean.scores == len(first) and abs(mean.F - sum(first) / len(first)) < 1e-9


def test_what_is_flagged_by_default_is_the_runs_own_threshold(record, demo_store):
    rule = rule_of(record, RUN)
    threshold = demo_store.run(RUN).operating_points["any_turn"]
    assert rule == f"F >= {threshold:.4g}"
    assert overview.detection(record, RUN, rule) == demo_store.query(rule, RUN).rates
