"""The table of sequences: what its filters, its order and its pages give."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.detectors import DETECTORS, ByPrinciple, detector
from turnwise.errors import DetectorError, PatternError, UnknownNameError, UsageError
from turnwise.explorer import Answers, Filter, SequencePage, ViewedStore
from turnwise.principles import load_principle
from turnwise.runs import detect, evaluate
from turnwise.store import Store

RUN = "reader-history"


def ids(answers, **wanted):
    return [row.sequence_id for row in answers.find(Filter(run=RUN, size=1_000, **wanted)).rows]


def test_a_row_says_what_the_run_scored(answers, demo_store):
    [row] = [one for one in answers.find(Filter(run=RUN)).rows if one.sequence_id == "grooming-01"]
    turns = list(demo_store.trajectory(RUN, "grooming-01"))
    peaks = [max(score.F for score in turn.scores.values()) for turn in turns]
    assert (row.label, row.source, row.tactic) == ("attack", "turnwise_examples", "emotional_grooming")
    assert row.series == tuple(enumerate(peaks, start=1)) and max(peaks) == row.F
    assert min(score.T for turn in turns for score in turn.scores.values()) == row.T
    threshold = demo_store.run(RUN).operating_points["any_turn"]
    assert row.flag == next(at for at, peak in enumerate(peaks, start=1) if peak >= threshold)


def test_filters_leave_what_they_say(answers, demo_store):
    heads = {head.sequence_id: head for head in demo_store.heads()}
    assert ids(answers) == list(heads)
    assert ids(answers, label="attack") == [one for one, head in heads.items() if head.label == "attack"]
    assert ids(answers, source="turnwise_twins") == [
        one for one, head in heads.items() if head.source == "turnwise_twins"
    ]
    assert ids(answers, least_turns=6, most_turns=7) == [
        one for one, head in heads.items() if 6 <= head.turns <= 7
    ]
    assert ids(answers, tactic="role_spoofing") == ["role-01", "role-02"]
    peaks = {
        one: max(score.F for turn in demo_store.trajectory(RUN, one) for score in turn.scores.values())
        for one in heads
    }
    assert ids(answers, least=0.9) == [one for one, peak in peaks.items() if peak >= 0.9]
    flagged, not_flagged = ids(answers, flagged="yes"), ids(answers, flagged="no")
    assert sorted([*flagged, *not_flagged]) == sorted(heads) and flagged
    late = ids(answers, first_flag=5)
    assert late and set(late) < set(flagged)


@pytest.mark.parametrize("sort", ["id", "turns", "F", "T", "flag", "label"])
def test_it_sorts_either_way_and_what_is_missing_comes_last(answers, sort):
    for descending in (False, True):
        rows = answers.find(Filter(run=RUN, sort=sort, descending=descending, size=1_000)).rows
        values = [row.sequence_id if sort == "id" else getattr(row, sort) for row in rows]
        there = [value for value in values if value is not None]
        assert there == sorted(there, reverse=descending)
        assert values[len(there) :] == [None] * (len(values) - len(there))


def test_pages_go_on_where_the_one_before_ended(answers):
    pages = [answers.find(Filter(run=RUN, page=page, size=15)) for page in (1, 2, 3)]
    assert [len(page.rows) for page in pages] == [15, 15, 8]
    assert [row.sequence_id for page in pages for row in page.rows] == ids(answers)
    assert {page.total for page in pages} == {38}


def test_it_is_said_where_a_file_leaves_rows_out(answers):
    assert len(answers.every(Filter(run=RUN))) == 38
    assert answers.find(Filter(run=RUN)).left_out == ""
    assert SequencePage((), 100_001, 250_000).left_out == "CSV saves the first 100,000"


def test_any_pattern_flags_and_so_does_any_detector(answers, demo_store):
    result = demo_store.query("slope(F) > 0.1", RUN)
    found = answers.find(Filter(run=RUN, rule="slope(F) > 0.1", flagged="yes", size=1_000))
    assert {row.sequence_id: row.flag for row in found.rows} == {one.sequence_id: one.turn for one in result}
    final = ids(answers, rule="slope(F) > 0.1", when="final", flagged="yes")
    assert final == [one.sequence_id for one in demo_store.query("slope(F) > 0.1", RUN, when="final")]
    cusum = "cusum:drift=0.05,limit=0.2"
    wanted = Filter(run=RUN, rule=cusum, flagged="yes", size=1_000)
    while not (found := answers.find(wanted)).complete:
        assert found.judged[0] < found.judged[1]
    verdicts = {one.head.sequence_id: one.verdict for one in detect(demo_store, RUN, [cusum])}
    fired = {name: verdict.turn for name, verdict in verdicts.items() if verdict and verdict.fired}
    assert {row.sequence_id: row.flag for row in found.rows} == fired


@pytest.fixture
def growing(tmp_path):
    """A store, and what adds a scored conversation to its run."""
    with Store(tmp_path / "work.db", create=True) as store:

        def add(name):
            chat = Conversation.from_turns([("Hi", "Hello")], conversation_id=name)
            store.add_sequences([Sequence(name, Label.ATTACK, "made", chat)])
            evaluate(store, "r", "scripted:0.9", principles=[load_principle("reciprocity")])

        add("chat-1")
        yield store, add


@pytest.fixture
def asked(monkeypatch):
    """Register a detector by the name of ``asking``; what is set in the list is called as it begins."""
    monkeypatch.setattr(DETECTORS, "_parts", dict(DETECTORS._parts))
    jobs: list[Callable[[], object]] = []

    @detector("asking")
    @dataclass(frozen=True)
    class Asking(ByPrinciple):
        name = "asking"
        label = "F"
        limit: float = 0.5

        def start(self):
            jobs[-1]()
            return super().start()

        def follow(self, memory, scores, score):
            return None, score.F

    return jobs


def test_a_detector_is_at_work_on_a_run_once_though_the_run_grows(growing, asked):
    store, add = growing
    go_on, begun = threading.Event(), []
    asked.append(lambda: (begun.append(1), go_on.wait()))
    with Answers(ViewedStore(store)) as answers:
        wanted = Filter(run="r", rule="asking", flagged="yes")
        assert not answers.find(wanted).complete
        add("chat-2")
        assert not answers.find(wanted).complete
        assert len(begun) <= 1
        go_on.set()
        while not (found := answers.find(wanted)).complete or found.total < 2:
            pass
        assert [row.sequence_id for row in found.rows] == ["chat-1", "chat-2"]


def test_the_error_of_a_detector_is_told_once(growing, asked):
    store, _ = growing

    def fail():
        raise DetectorError("the disk is full")

    asked.append(fail)
    with Answers(ViewedStore(store)) as answers:
        wanted = Filter(run="r", rule="asking", flagged="yes")
        with pytest.raises(DetectorError, match="the disk is full"):
            while True:
                answers.find(wanted)
        asked.append(lambda: None)
        while not (found := answers.find(wanted)).complete:
            pass
        assert found.total == 1


def test_it_finds_words_in_the_texts(answers, demo_store):
    answers.words.wait()
    said = {
        one.sequence_id: " ".join(f"{turn.prompt} {turn.response or ''}" for turn in one.conversation).lower()
        for one in demo_store.sequences()
    }
    found = ids(answers, words="number")
    assert found and all("number" in said[one] for one in found)
    assert ids(answers, words='number -"ring dish"') == [one for one in found if "ring dish" not in said[one]]
    assert ids(answers, words='"ring dish"') == [one for one, text in said.items() if "ring dish" in text]
    assert ids(answers, words='") OR words MATCH ("a') == []


def test_without_a_run_there_are_sequences_all_the_same(answers):
    found = answers.find(Filter(size=5))
    assert len(found.rows) == 5 and found.rows[0].F is None and found.rows[0].series == ()


def test_what_can_not_be_is_said_in_words(answers):
    for wanted, error in (
        ({"run": "nobody"}, UnknownNameError),
        ({"rule": "slope(Q) > 0.1"}, PatternError),
        ({"rule": "cusum:drift=x"}, UsageError),
        ({"words": "-only"}, UsageError),
        ({"principle": "nobody", "least": 0.5}, UnknownNameError),
    ):
        with pytest.raises(error):
            answers.find(Filter(**{"run": RUN, **wanted}))
    for state in ({"page": "0"}, {"size": "100000"}, {"sort": "1; DROP"}, {"least": "x"}, {"flagged": "perhaps"}):
        with pytest.raises(UsageError):
            Filter.of_address(state)
    assert Filter.of_address({"label": "attack", "page": "2", "descending": "yes", "other": "x"}) == Filter(
        label="attack", page=2, descending=True
    )
