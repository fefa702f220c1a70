"""A finished comparison, and what its arms would say at other thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.work_store import write_study_files

from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer import FinishedStudy, find_studies
from turnwise.rates import Rate


def verdict(
    name: str, label: str, score: float | None, threshold: float | None = 0.5, **more: Any
) -> dict[str, Any]:
    fired = None if score is None else threshold is not None and score >= threshold
    row = {
        "arm": "cusum", "sequence": name, "source": "made", "label": label, "part": "test", "fold": 1,
        "score": score, "threshold": threshold, "fired": fired, "turn": 3 if fired else None, "reader_turn": None,
    }  # fmt: skip
    return {**row, **more}


ROWS = [
    *(verdict(f"a{number}", "attack", score) for number, score in enumerate((0.2, 0.45, 0.5, 0.9))),
    *(verdict(f"b{number}", "benign", score) for number, score in enumerate((0.1, 0.2, 0.48, 0.6, 0.05))),
    verdict("lost", "attack", None),
    verdict("trained", "attack", 0.99, part="train"),
    verdict("elsewhere", "benign", 0.7, source="other"),
]


def write_study(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return write_study_files(
        folder,
        rows,
        {"warnings": ["few groups"], "chosen": "cusum"},
        "arm,recall\n<b>cusum</b>,50 %\n",
        "**Detection**\n\n| arm | recall |\n|---|---:|\n| x | 50 % |\n\nIntervals are exact.\n",
        "<svg/>",
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    return FinishedStudy(write_study(tmp_path_factory.mktemp("studies") / "first [1]", ROWS))


def test_at_its_own_threshold_a_study_says_what_it_said(study: FinishedStudy) -> None:
    arm = study.arm("cusum")
    assert (arm.own, arm.start, arm.several, arm.odd) == (0.5, 0.5, False, 0)
    found = arm.at(arm.start)
    assert (found.recall, found.false_positives) == (Rate(2, 4), Rate(2, 6))
    assert (found.before, found.changed, found.missing) == ((found.recall, found.false_positives), (), 1)


def test_a_lower_threshold_flags_more_and_names_them_the_nearest_first(study: FinishedStudy) -> None:
    found = study.arm("cusum").at(0.2)
    assert (found.recall, found.false_positives) == (Rate(4, 4), Rate(4, 6))
    assert [(one.sequence_id, one.flagged, one.better) for one in found.changed] == [
        ("b2", True, False),
        ("a1", True, True),
        ("a0", True, True),
        ("b1", True, False),
    ]


def test_a_higher_threshold_lets_go(study: FinishedStudy) -> None:
    found = study.arm("cusum").at(0.65)
    assert (found.recall, found.false_positives) == (Rate(1, 4), Rate(1, 6))
    assert [(one.sequence_id, one.flagged, one.turn, one.better) for one in found.changed] == [
        ("a2", False, 3, False),
        ("b3", False, 3, True),
    ]


def test_steps_lead_from_one_change_to_the_next(study: FinishedStudy) -> None:
    arm = study.arm("cusum")
    up = arm.next_step(0.5, up=True)
    assert up == 0.6
    assert [one.sequence_id for one in arm.at(up).changed] == ["a2"]
    assert arm.next_step(0.5, up=False) == 0.48
    above = arm.next_step(0.9, up=True)
    assert arm.at(above).recall == Rate(0, 4)
    assert arm.next_step(above, up=True) == above


def test_parts_and_sources_are_looked_at_apart(study: FinishedStudy) -> None:
    assert (study.parts, study.sources, study.arms) == (("test", "train"), ("made", "other"), ("cusum",))
    assert study.arm("cusum", "train").at(0.5).recall == Rate(1, 1)
    assert study.arm("cusum").at(0.5, ["other"]).false_positives == Rate(1, 1)


def test_thresholds_of_folds_are_moved_together(tmp_path: Path) -> None:
    rows = [verdict("a", "attack", 0.6, 0.5), verdict("b", "benign", 5.2, 5.0), verdict("c", "attack", 4.0, 5.0)]
    arm = FinishedStudy(write_study(tmp_path / "folds", rows)).arm("cusum")
    assert (arm.several, arm.start) == (True, 0.0)
    assert arm.at(0.0).recall == Rate(1, 2)
    found = arm.at(0.15)
    assert [(one.sequence_id, one.flagged) for one in found.changed] == [("a", False)]
    assert found.false_positives == Rate(1, 1)


def test_an_arm_that_never_fires_can_be_made_to(tmp_path: Path) -> None:
    rows = [verdict("a", "attack", 0.6, None), verdict("b", "benign", 0.1, None)]
    arm = FinishedStudy(write_study(tmp_path / "never", rows)).arm("cusum")
    assert arm.at(arm.start).recall == Rate(0, 1)
    assert arm.at(0.6).recall == Rate(1, 1)


def test_a_verdict_that_does_not_follow_from_its_score_is_counted(tmp_path: Path) -> None:
    rows = [verdict("a", "attack", 0.6, fired=False, turn=None), verdict("b", "benign", 0.1)]
    assert FinishedStudy(write_study(tmp_path / "odd", rows)).arm("cusum").odd == 1


def test_tables_and_figures_are_shown_as_they_were_written(study: FinishedStudy) -> None:
    (table,) = study.tables()
    assert (table.title, table.columns, table.numeric) == ("Detection", ("arm", "recall"), (False, True))
    assert (table.rows, table.note) == ((("<b>cusum</b>", "50 %"),), "Intervals are exact.")
    assert study.figures() == {"recall": b"<svg/>"}
    assert study.warnings == ("few groups",)


def test_what_is_not_there_is_named(study: FinishedStudy, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown arm 'cusun'"):
        study.arm("cusun")
    with pytest.raises(UnknownNameError, match="unknown part 'calibrate'"):
        study.arm("cusum", "calibrate")
    with pytest.raises(UsageError, match="name a folder that turnwise study compare --report wrote"):
        FinishedStudy(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing", b"no parquet at all"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write_study(tmp_path / "broken", ROWS)
    (folder / "verdicts.parquet").write_bytes(content)
    with pytest.raises(UsageError, match=r"verdicts\.parquet"):
        FinishedStudy(folder)


def test_only_named_folders_and_those_beside_the_store_can_be_opened(tmp_path: Path) -> None:
    named = write_study(tmp_path / "elsewhere", ROWS)
    (tmp_path / "work").mkdir()
    write_study(tmp_path / "work/beside", ROWS)
    (tmp_path / "work/no-study").mkdir()
    store = str(tmp_path / "work/work.db")
    assert find_studies([named], store) == {"elsewhere": named, "beside": tmp_path / "work/beside"}
    assert find_studies([named], "postgresql://server/work") == {"elsewhere": named}
    with pytest.raises(UsageError, match="holds no study"):
        find_studies([tmp_path / "work/no-study"], store)


def test_a_verdict_without_evidence_is_flagged_at_no_threshold(tmp_path: Path) -> None:
    rows = [*ROWS, verdict("short", "attack", None, fired=False), verdict("brief", "benign", None, fired=False)]
    arm = FinishedStudy(write_study(tmp_path / "silent", rows)).arm("cusum")
    for threshold in (0.5, -1e9):
        found = arm.at(threshold)
        assert (found.recall.of, found.false_positives.of, found.missing) == (5, 7, 1)
    assert (found.recall.count, found.false_positives.count) == (4, 6)
    assert arm.steps[0] == 0.05 and arm.odd == 0
