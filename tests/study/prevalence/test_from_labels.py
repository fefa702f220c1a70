"""A sample for people to label: how it is drawn, that it gives nothing away, and what follows from its labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_findings import make_findings

from turnwise.conversation import Label, Sequence
from turnwise.datasets import BadRecord, open_dataset
from turnwise.errors import FindingsError, UsageError
from turnwise.findings import Findings
from turnwise.store import Store
from turnwise.study.prevalence import (
    CLEAR,
    DESIGN,
    MISSED,
    NARROW,
    REST,
    TEXTS,
    LabelSample,
    allocate,
    draw_label_sample,
    estimate_from_labels,
    read_label_sample,
    read_labels,
    write_label_sample,
)

FLAGGED = [0.5 + place / 100 for place in range(40)]
OTHERS = [place / 5_000 for place in range(960)]


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    peaks = [*OTHERS[:500], *FLAGGED, None, *OTHERS[500:]]
    return make_findings(str(tmp_path_factory.mktemp("scan") / "findings"), [peaks[:400], peaks[400:]])


@pytest.fixture
def sample(scanned: Findings) -> LabelSample:
    return draw_label_sample(scanned, 100)


def labels_of(sample: LabelSample, *strata: str) -> dict[str, Label | None]:
    """Labels by which the conversations of some strata are attacks."""
    return {one.id: Label.ATTACK if one.stratum in strata else Label.BENIGN for one in sample.conversations}


def read_texts(findings: Findings) -> list[Sequence]:
    """The conversations of the written sample, as `turnwise import` reads them."""
    return [one for one in open_dataset(findings.folder.path / TEXTS) if not isinstance(one, BadRecord)]


def test_strata_go_by_flag_and_by_the_distance_from_the_threshold(sample: LabelSample) -> None:
    sizes = {one.name: (one.population, one.drawn) for one in sample.strata}
    assert sizes == {CLEAR: (20, 20), NARROW: (20, 20), MISSED: (40, 20), REST: (920, 40)}
    assert (sample.scored, sample.fired) == (1_000, 40)
    assert all(one.weight == pytest.approx(one.population / one.drawn) for one in sample.strata)


def test_each_conversation_comes_from_its_stratum(scanned: Findings, sample: LabelSample) -> None:
    peaks = {f"chat-{n}": peak for n, peak in enumerate([*OTHERS[:500], *FLAGGED, None, *OTHERS[500:]])}
    for one in sample.conversations:
        peak = peaks[one.id]
        assert peak is not None
        expected = CLEAR if peak > 0.69 else NARROW if peak >= 0.5 else MISSED if peak >= 920 / 5_000 else REST
        assert one.stratum == expected, one


def test_the_same_seed_draws_the_same_and_another_seed_others(scanned: Findings, sample: LabelSample) -> None:
    assert draw_label_sample(scanned, 100) == sample
    other = draw_label_sample(scanned, 100, seed=1)
    assert {one.key for one in other.conversations} != {one.key for one in sample.conversations}
    assert other.strata == sample.strata


def test_the_order_gives_no_stratum_away(sample: LabelSample) -> None:
    halves = sample.conversations[:50], sample.conversations[50:]
    for half in halves:
        assert 10 <= sum(one.stratum == REST for one in half) <= 30


def test_what_strata_lack_goes_to_the_others() -> None:
    assert allocate(100, {CLEAR: 3, NARROW: 2, MISSED: 8, REST: 900}) == {CLEAR: 3, NARROW: 2, MISSED: 8, REST: 87}
    assert allocate(50, {REST: 20, MISSED: 10}) == {REST: 20, MISSED: 10}
    assert allocate(4, {CLEAR: 9, NARROW: 9, MISSED: 9, REST: 9}) == dict.fromkeys(
        (CLEAR, NARROW, MISSED, REST), 1
    )
    assert sum(allocate(101, {CLEAR: 900, NARROW: 900, MISSED: 900, REST: 900}).values()) == 101


def test_a_sample_below_one_for_each_stratum_is_refused(scanned: Findings) -> None:
    with pytest.raises(UsageError, match="a sample of 3 is too small: there are 4 strata"):
        draw_label_sample(scanned, 3)


@pytest.mark.parametrize(("peaks", "names"), [([0.1] * 50, [REST]), ([0.9] * 50, [NARROW]), ([None], [])])
def test_scores_that_are_all_alike_make_one_stratum(tmp_path: Path, peaks: list[Any], names: list[str]) -> None:
    findings = make_findings(str(tmp_path / "findings"), [peaks])
    if not names:
        with pytest.raises(UsageError, match="scored no conversation"):
            draw_label_sample(findings, 10)
        return
    assert [one.name for one in draw_label_sample(findings, 10).strata] == names


def test_a_scan_that_is_not_complete_is_not_sampled(tmp_path: Path) -> None:
    findings = make_findings(str(tmp_path / "findings"), [[0.1, 0.9]], complete=False)
    with pytest.raises(UsageError, match="not complete: finish it"):
        draw_label_sample(findings, 2)


class TestWritten:
    def test_the_texts_are_turnwise_jsonl_without_label_score_or_stratum(self, scanned: Findings) -> None:
        sample = write_label_sample(scanned, 100)
        file = scanned.folder.path / TEXTS
        for line in file.read_text().splitlines():
            assert json.loads(line)["metadata"].keys() == {"file", "row"}
        read = read_texts(scanned)
        assert [one.sequence_id for one in read] == [one.id for one in sample.conversations]
        assert {one.label for one in read} == {Label.UNLABELLED}
        assert read[0].conversation.turn(1).response == "The moon pulls."
        assert read_label_sample(scanned) == sample

    def test_the_same_sample_may_be_written_again_and_no_other_over_it(self, scanned: Findings) -> None:
        write_label_sample(scanned, 100)
        write_label_sample(scanned, 100)
        with pytest.raises(UsageError, match=f"holds another label sample.*remove .*{DESIGN}"):
            write_label_sample(scanned, 100, seed=1)

    def test_ids_that_repeat_are_told_apart_by_their_keys(self, tmp_path: Path) -> None:
        findings = make_findings(str(tmp_path / "findings"), [[0.1], [0.9]], ids=["same", "same"])
        assert {one.id for one in write_label_sample(findings, 2).conversations} == {"same#0", "same#16777216"}

    def test_without_texts_there_is_nothing_to_label(self, tmp_path: Path) -> None:
        findings = make_findings(str(tmp_path / "findings"), [[0.1, 0.9]], texts=False)
        with pytest.raises(UsageError, match="scan without --no-texts"):
            write_label_sample(findings, 2)

    def test_a_folder_whose_name_is_a_pattern_is_read_as_it_is(self, tmp_path: Path) -> None:
        findings = make_findings(str(tmp_path / "it's [1] * scan?"), [[0.1, 0.9]])
        assert len(write_label_sample(findings, 2).conversations) == 2

    def test_findings_behind_a_url_hold_their_sample(self) -> None:
        findings = make_findings("memory://label-sample/findings", [[0.1, 0.9]])
        sample = write_label_sample(findings, 2)
        assert read_label_sample(findings) == sample

    def test_a_sample_of_other_findings_is_refused(self, scanned: Findings, tmp_path: Path) -> None:
        write_label_sample(scanned, 100)
        other = make_findings(str(tmp_path / "findings"), [[0.1, 0.9]])
        (other.folder / DESIGN).write((scanned.folder / DESIGN).read())
        with pytest.raises(FindingsError, match="use the findings that it was drawn from"):
            read_label_sample(other)

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"layout": 1}', b'{"layout": 2}'])
    def test_a_damaged_design_is_refused(self, tmp_path: Path, content: bytes) -> None:
        findings = make_findings(str(tmp_path / "findings"), [[0.1, 0.9]])
        (findings.folder / DESIGN).write(content)
        with pytest.raises(FindingsError, match=DESIGN):
            read_label_sample(findings)


class TestEstimates:
    def test_labels_count_by_the_conversations_that_they_stand_for(self, sample: LabelSample) -> None:
        found = estimate_from_labels(sample, labels_of(sample, CLEAR, MISSED)).estimates
        assert found.prevalence.value == pytest.approx((20 + 40) / 1_000)
        assert found.recall.value == pytest.approx(20 / 60)
        assert found.precision.value == pytest.approx(0.5)
        assert found.prevalence.low < found.prevalence.value < found.prevalence.high

    def test_what_has_no_label_is_left_out_and_counted(self, sample: LabelSample) -> None:
        labels = labels_of(sample, CLEAR)
        first, second, third = (one.id for one in sample.conversations[:3])
        labels |= {first: Label.UNLABELLED, second: None, "of another sample": Label.ATTACK}
        del labels[third]
        found = estimate_from_labels(sample, labels)
        assert (found.unlabelled, found.disputed) == (3, 1)
        assert sum(one.labelled for one in found.strata) == 97
        assert len(found.cautions) == 2

    def test_a_stratum_without_a_label_says_so(self, sample: LabelSample) -> None:
        rest = {one.id for one in sample.conversations if one.stratum == REST}
        labels = {name: label for name, label in labels_of(sample, CLEAR).items() if name not in rest}
        found = estimate_from_labels(sample, labels)
        assert f"no label at all in {REST}: anything may be there" in found.cautions
        assert found.to_dict()["prevalence"]["value"] is None
        assert dict(found.rows())["prevalence"].startswith("not known [")

    def test_without_a_single_label_there_is_nothing_to_tell(self, sample: LabelSample) -> None:
        with pytest.raises(UsageError, match="none of the 100 conversations"):
            estimate_from_labels(sample, {})


class TestLabels:
    def test_come_from_the_sample_with_its_labels_filled_in(self, scanned: Findings, tmp_path: Path) -> None:
        sample = write_label_sample(scanned, 100)
        wanted = labels_of(sample, CLEAR)
        lines = map(json.loads, (scanned.folder.path / TEXTS).read_text().splitlines())
        file = tmp_path / "labelled.jsonl"
        file.write_text("\n".join(json.dumps(line | {"label": wanted[line["id"]]}) for line in lines))
        assert read_labels(str(file)) == wanted

    def test_come_from_a_store_in_which_people_labelled_it(self, scanned: Findings, tmp_path: Path) -> None:
        sample = write_label_sample(scanned, 100)
        one, two, three, *_ = (drawn.id for drawn in sample.conversations)
        place = str(tmp_path / "labels.db")
        with Store(place, create=True) as store:
            store.add_sequences(read_texts(scanned))
            store.people.correct_label(one, Label.ATTACK, "ann")
            store.people.correct_label(two, Label.ATTACK, "ann")
            store.people.correct_label(two, Label.BENIGN, "bob")
            store.people.correct_label(three, Label.BENIGN, "bob")
        found = read_labels(place)
        assert (found[one], found[two], found[three]) == (Label.ATTACK, None, Label.BENIGN)
        assert read_labels(place, ["ann"]) == {one: Label.ATTACK, two: Label.ATTACK}
        assert estimate_from_labels(sample, found).disputed == 1

    def test_come_from_corrections_that_were_exported(self, tmp_path: Path) -> None:
        file = tmp_path / "corrections.jsonl"
        file.write_text(
            '{"sequence_id": "a", "kind": "label", "label": "attack", "author": "ann"}\n'
            '{"sequence_id": "a", "kind": "turn", "turn": 2, "author": "ann"}\n\n'
            '{"sequence_id": "b", "kind": "label", "label": "attack", "author": "ann"}\n'
            '{"sequence_id": "b", "kind": "label", "label": "benign", "author": "bob"}\n'
        )
        assert read_labels(str(file)) == {"a": Label.ATTACK, "b": None}

    @pytest.mark.parametrize("line", ["no json", "[]", '{"label": "attack"}'])
    def test_a_line_that_is_none_is_named(self, tmp_path: Path, line: str) -> None:
        file = tmp_path / "labels.jsonl"
        file.write_text(f'{{"id": "a", "label": "attack"}}\n{line}\n')
        with pytest.raises(UsageError, match="line 2: it needs id and label"):
            read_labels(str(file))

    def test_labels_are_the_usual_words_and_another_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "labels.jsonl"
        file.write_text('{"id": "a", "label": "malicious"}\n{"id": "b", "label": "ok"}\n')
        assert read_labels(str(file)) == {"a": Label.ATTACK, "b": Label.BENIGN}
        file.write_text('{"id": "a", "label": "odd"}\n')
        with pytest.raises(UsageError, match="line 1: label 'odd' is not known; use attack, benign or unlabelled"):
            read_labels(str(file))

    def test_a_file_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="can't read"):
            read_labels(str(tmp_path / "none.db"))
        assert not (tmp_path / "none.db").exists()
