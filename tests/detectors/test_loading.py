"""The one way to a detector: texts, files, mappings and detectors, with or without calibrated thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import yaml

from turnwise.detectors import (
    DETECTORS,
    build_detector,
    format_spec,
    load_detector,
    name_detector,
    to_mapping,
)
from turnwise.errors import DetectorError

SPECS = [
    "cusum:drift=0.1,limit=0.7",
    "learned:weights={peak:2.5;slope:4},intercept=-1",
    "k_of:k=2,members=[any_turn; cusum:limit=2; pattern:slope(F) > 0.1]",
    "any_turn:threshold=inf",
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_detector_survives_its_file(spec, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(to_mapping(build_detector(spec))), encoding="utf-8")
    assert load_detector(str(path)) == build_detector(spec)
    assert load_detector(str(path), {"cusum": 0.9}) == build_detector(spec)


def test_a_text_is_no_file():
    assert load_detector("cusum") == build_detector("cusum")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("detector: cusun", "unknown detector 'cusun'; did you mean 'cusum'"),
        ("detector: cusum\nlimit: high", "limit must be a number"),
        ("- cusum", "under 'detector'"),
        ("", "under 'detector'"),
        ("detector: [", "can't be read"),
        ("detector: " + "[" * 1000, "can't be read: line 1: nested more than 50 levels deep"),
        ("a: &a [1]\ndetector: *a", "line 2: .a is an alias"),
        ("detector: cusum\nlimit: " + "9" * 5000, "line 2: a whole number has 5000 digits"),
        ("detector: !!python/object:os.system {}", "can't be read"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(content, message, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DetectorError, match=message) as caught:
        load_detector(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DetectorError, match=r"none.yaml: the detector can't be read"):
        load_detector(str(tmp_path / "none.yaml"))


POINTS = {"cusum": 0.02, "any_turn": 0.4, "slope": 0.08}


@pytest.mark.parametrize(
    ("spec", "threshold", "source"),
    [
        ("cusum", 0.02, "operating point"),
        ("cusum:drift=0.25", 0.02, "operating point"),
        ("cusum:drift=0.1", 0.5, "default"),
        ("cusum:limit=0.5", 0.5, "given"),
        ("any_turn:threshold=0.5", 0.5, "given"),
        ({"detector": "slope"}, 0.08, "operating point"),
        ({"detector": "slope", "limit": 0.3}, 0.3, "given"),
        (build_detector("cusum"), 0.5, "given"),
        ("page_hinkley", build_detector("page_hinkley").threshold, "default"),
    ],
)
def test_a_threshold_is_given_or_calibrated_or_the_detectors_own(spec, threshold, source):
    named = name_detector(spec, POINTS)
    assert (named.detector.threshold, named.source) == (threshold, source)
    assert load_detector(spec, POINTS) == named.detector


def test_a_file_without_a_threshold_takes_the_operating_point(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("detector: cusum\ndrift: 0.25\n", encoding="utf-8")
    assert name_detector(path, POINTS) == name_detector(str(path), POINTS)
    assert name_detector(path, POINTS).detector.threshold == 0.02
    assert name_detector(path, POINTS).spec == str(path)


def test_members_of_a_combination_are_calibrated_each_by_itself():
    detector = load_detector("any_of:members=[cusum; any_turn:threshold=0.9; page_hinkley]", POINTS)
    assert [member.threshold for member in detector.members[:2]] == [0.02, 0.9]
    assert detector.members[2] == build_detector("page_hinkley")


def test_operating_points_of_other_detectors_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[float] = []

    @dataclass(frozen=True)
    class Counted(DETECTORS.get("any_turn")):  # type: ignore[misc]
        name: ClassVar[str] = "counted"

        def __post_init__(self) -> None:
            super().__post_init__()
            built.append(self.threshold)

    monkeypatch.setitem(DETECTORS._parts, "counted", Counted)
    points = {"counted": 0.25, "cusum": 0.75}
    assert name_detector("cusum", points).detector.threshold == 0.75
    assert built == []
    named = name_detector("any_of:members=[counted; cusum]", points)
    assert [member.threshold for member in named.detector.members] == [0.25, 0.75]
    assert format_spec(named.plain) == "any_of:members=[counted;cusum]"
