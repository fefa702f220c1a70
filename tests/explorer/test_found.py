"""The explorer over the findings of a scan: what its views show, and what people say there."""

from __future__ import annotations

import pytest
from tests.support.found import conversation, make_findings

from turnwise.conversation import Label
from turnwise.errors import UnknownNameError
from turnwise.explorer import Answers, Filter, ViewedStore, overview
from turnwise.store import Store


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
    with Store(folder) as store, Answers(ViewedStore(store)) as opened:
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
