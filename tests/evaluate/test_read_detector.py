"""Detectors from YAML files."""

from __future__ import annotations

import pytest
import yaml

from turnwise.detectors import build_detector, to_mapping
from turnwise.errors import DetectorError
from turnwise.evaluate import calibrated, read_detector

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
    assert read_detector(str(path)) == build_detector(spec)
    assert calibrated(str(path), {"cusum": 0.9}) == build_detector(spec)


def test_a_text_is_no_file():
    assert read_detector("cusum") == build_detector("cusum")


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
        read_detector(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DetectorError, match=r"none.yaml: the detector can't be read"):
        read_detector(str(tmp_path / "none.yaml"))
