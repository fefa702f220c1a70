from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.detectors import (
    DETECTORS,
    build_detector,
    check_detector,
    describe_detectors,
    detector_names,
    format_spec,
)
from turnwise.errors import DetectorError, UnknownNameError, UsageError


@pytest.mark.parametrize(
    ("spec", "detector"),
    [
        ("any_turn", "AnyTurn(threshold=0.5)"),
        ("any_turn:threshold=inf", "AnyTurn(threshold=inf)"),
        ("cusum:drift=0.05,limit=0.2", "Cusum(drift=0.05, limit=0.2)"),
        (" cusum : limit = 2 , drift = 5e-2 ", "Cusum(drift=0.05, limit=2.0)"),
        ("slope:window=5,min_turns=2", "Slope(limit=0.1, window=5, min_turns=2)"),
        ("slope:window=None", "Slope(limit=0.1, window=None, min_turns=3)"),
        ("trust_ema:initial=0.8", "TrustEma(alpha=0.3, initial=0.8, limit=0.6)"),
    ],
)
def test_a_specification_builds_its_detector(spec, detector):
    assert repr(build_detector(spec)) == detector


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "cusun",
            "unknown detector 'cusun'; did you mean 'cusum'\\? known: all_of, .*cusum, .* more",
        ),
        ("", "unknown detector ''"),
        ("cusum:drfit=0.1", "unknown parameter of cusum 'drfit'; did you mean 'drift'\\? known: drift, limit"),
    ],
)
def test_an_unknown_name_is_told_with_the_known_ones(spec, message):
    with pytest.raises(UnknownNameError, match=message):
        build_detector(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cusum:", "'' is not parameter=value; write it as cusum:parameter=value,... .* drift, limit"),
        ("cusum:limit", "'limit' is not parameter=value"),
        ("cusum:limit=", "'limit=' is not parameter=value"),
        ("cusum:limit=0.2,", "'' is not parameter=value"),
        ("cusum:limit=high", "limit must be a number or none, not 'high'"),
        ("cusum:limit=1,limit=2", "limit is given twice"),
        ("cusum:limit=none", "limit must be a number in .*, not None"),
        ("cusum:drift=7", "drift must be a number in \\[0, 1\\], not 7"),
        ("any_turn:threshold=50", "threshold must be a number in \\[0, 1\\]"),
        ("any_turn:threshold=nan", "threshold must be a number"),
    ],
)
def test_a_specification_that_does_not_fit_says_what_and_where(spec, message):
    with pytest.raises(DetectorError, match=message) as caught:
        build_detector(spec)
    assert isinstance(caught.value, UsageError)
    assert "cusum" in str(caught.value) or "any_turn" in str(caught.value)


numbers = st.floats(0, 1)
detectors = st.one_of(
    st.builds(DETECTORS.get("any_turn"), numbers | st.just(math.inf)),
    st.builds(DETECTORS.get("cusum"), drift=numbers, limit=st.floats(0, 1e6)),
    st.builds(DETECTORS.get("trust_ema"), alpha=st.floats(0, 1, exclude_min=True), initial=numbers, limit=numbers),
    st.builds(
        DETECTORS.get("slope"),
        limit=st.floats(-1, 1),
        window=st.none() | st.integers(9, 50),
        min_turns=st.integers(2, 9),
    ),
)


@given(detector=detectors)
def test_the_canonical_text_builds_an_equal_detector(detector):
    spec = format_spec(detector)
    assert build_detector(spec) == detector
    assert format_spec(build_detector(spec)) == spec


def test_the_canonical_text_leaves_defaults_out():
    assert format_spec(build_detector("cusum")) == "cusum"
    assert format_spec(build_detector({"detector": "cusum", "limit": 2})) == "cusum:limit=2.0"
    assert format_spec(build_detector("slope:window=4")) == "slope:window=4"


def test_the_listing_names_every_detector_with_its_parameters():
    rows = {row.name: row for row in describe_detectors()}
    assert tuple(rows) == detector_names()
    assert rows["slope"].parameters == {"limit": 0.1, "window": None, "min_turns": 3}
    assert rows["trust_ema"].parameters == {"alpha": 0.3, "initial": 0.5, "limit": 0.6}
    assert all(row.summary.endswith(".") and "\n" not in row.summary for row in rows.values())


PLUGIN = '''
from dataclasses import dataclass

from turnwise.detectors import build_detector


class Elsewhere:
    """A detector of another package."""

    name = "elsewhere"
    threshold = 0.5

    def __init__(self, level, flavour=1.0):
        if flavour > 9:
            raise ValueError("flavour is too strong")
        self.level = level

    def with_threshold(self, value):
        return Elsewhere(self.level)

    def start(self):
        return build_detector("any_turn").start()

    def update(self, state, scores):
        return build_detector(f"any_turn:threshold={self.threshold}").update(state, scores)


def careful(threshold=0.25):
    """Looks at single turns, carefully."""
    return build_detector(f"any_turn:threshold={threshold}")
'''


@pytest.fixture
def installed_plugin(tmp_path, monkeypatch):
    """Put a package with two detectors on the path, as an installer would."""
    (tmp_path / "elsewhere_detectors.py").write_text(PLUGIN, encoding="utf-8")
    info = tmp_path / "elsewhere_detectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere-detectors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[turnwise.detectors]\nelsewhere = elsewhere_detectors:Elsewhere\ncareful = elsewhere_detectors:careful\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(DETECTORS, "_parts", {})


@pytest.mark.shows("FR-011")
@pytest.mark.usefixtures("installed_plugin")
def test_a_detector_of_an_installed_package_is_built_by_name():
    assert {"careful", "elsewhere"} <= set(detector_names())
    assert build_detector("careful:threshold=0.75") == build_detector("any_turn:threshold=0.75")
    check_detector(lambda: build_detector("careful:threshold=0.75"))
    rows = {row.name: row for row in describe_detectors()}
    assert rows["careful"].summary == "Looks at single turns, carefully."
    assert rows["elsewhere"].parameters == {"level": "required", "flavour": 1.0}


@pytest.mark.usefixtures("installed_plugin")
def test_a_foreign_detector_that_can_t_be_built_is_an_error_of_turnwise():
    with pytest.raises(DetectorError, match="missing a required argument: 'level'"):
        build_detector("elsewhere")
    with pytest.raises(DetectorError, match="can't be built: flavour is too strong"):
        build_detector("elsewhere:level=1,flavour=10")


@pytest.mark.usefixtures("installed_plugin")
def test_of_a_detector_that_is_no_dataclass_only_the_name_is_written():
    assert format_spec(build_detector("elsewhere:level=1")) == "elsewhere"


def test_a_parameter_without_default_is_always_written():
    @dataclass(frozen=True)
    class Needy(DETECTORS.get("cusum")):
        _: KW_ONLY
        level: float | None

    assert format_spec(Needy(level=None)) == "cusum:level=none"
    assert format_spec(Needy(level=3)) == "cusum:level=3"
