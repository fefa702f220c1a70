"""What a scan's flags say: how many come by chance, how common attacks are, and when neither can be told."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from made_findings import make_findings, with_counts

from turnwise.errors import UsageError
from turnwise.findings import Findings
from turnwise.observers import OBSERVERS
from turnwise.rates import Rate
from turnwise.stats import corrected_prevalence
from turnwise.study.prevalence import read_rates, summarise

PARTS = [[0.1, 0.7, None], [0.9, 0.2]]


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return make_findings(str(tmp_path_factory.mktemp("scan") / "findings"), PARTS)


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    file = tmp_path / "rates.json"
    file.write_text('{"recall": {"count": 40, "of": 50}, "false_positive_rate": {"count": 3, "of": 1000}}')
    return file


def shipped() -> dict[str, Any]:
    """What ships of the detectors on scores of ``local``."""
    file = resources.files("turnwise.study.prevalence") / "detector_rates.json"
    measured = json.loads(file.read_text(encoding="utf-8"))["observers"]
    detectors: dict[str, Any] = measured[OBSERVERS.get("local").describe().version]["detectors"]
    return detectors


def test_rates_ship_for_the_operating_points_of_both_embedded_observers() -> None:
    file = resources.files("turnwise.study.prevalence") / "detector_rates.json"
    measured = json.loads(file.read_text(encoding="utf-8"))["observers"]
    for name in ("local", "local-small"):
        info = OBSERVERS.get(name).describe()
        rows = measured[info.version]["detectors"]
        assert {one: row["threshold"] for one, row in rows.items()} == info.operating_points["history"]


def test_rates_are_those_that_ship_with_their_counts(scanned: Findings) -> None:
    rates = shipped()["any_turn"]
    recall, wrong = Rate(*rates["recall"]), Rate(*rates["false_positives"])
    found = summarise(with_counts(scanned, 10_000, 250))
    assert found.rates.recall is not None
    assert found.rates.false_positives is not None
    assert (found.rates.recall.rate, found.rates.false_positives.rate) == (recall, wrong)
    assert found.estimate == corrected_prevalence(Rate(250, 10_000), recall, wrong)
    assert any("holds if recall and false-positive rate are the same here" in one for one in found.cautions)
    assert any(" % in single services" in caution for caution in found.cautions)


def test_any_detector_with_an_operating_point_has_rates_and_so_has_the_default_of_a_scan(tmp_path: Path) -> None:
    row = shipped()["cusum"]
    own = make_findings(
        str(tmp_path / "findings"),
        PARTS,
        spec="cusum",
        threshold=0.5,
        mapping={"detector": "cusum", "limit": row["threshold"]},
    )
    found = summarise(own)
    assert found.rates.recall is not None
    assert found.rates.recall.rate == Rate(*row["recall"])


def test_a_scan_that_judges_replies_too_is_told_that_the_rates_are_of_prompts(scanned: Findings) -> None:
    manifest = replace(scanned.manifest, selection={"sides": ["prompt", "response"]})
    found = summarise(replace(with_counts(scanned, 10_000, 250), manifest=manifest))
    assert any("this scan judges replies too" in caution for caution in found.cautions)


def test_flags_are_counted_among_conversations_with_a_score(scanned: Findings) -> None:
    found = summarise(scanned)
    assert found.flagged == Rate(2, 4)
    assert "1 conversations have no score and are left out" in found.cautions


def test_it_says_how_many_flags_chance_alone_gives(scanned: Findings) -> None:
    found = summarise(with_counts(scanned, 10_000, 100))
    assert found.by_chance is not None
    expected, low, high = found.by_chance
    assert low < expected < high
    assert low < 100 < high
    assert "there are no more flags than chance alone may give" in found.cautions
    assert (
        "there are no more flags than chance alone may give"
        not in summarise(with_counts(scanned, 10_000, 400)).cautions
    )


def test_rates_of_a_file_are_taken_in_place_of_the_card(scanned: Findings, counts: Path) -> None:
    findings = with_counts(scanned, 10_000, 250)
    found = summarise(findings, read_rates(counts, findings.manifest))
    assert found.estimate == corrected_prevalence(Rate(250, 10_000), Rate(40, 50), Rate(3, 1000))
    assert found.to_dict()["recall"]["on"] == str(counts)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "holds no rates"),
        ("no json", "is not JSON"),
        ('{"recall": 0.8}', "recall needs two whole numbers"),
        ('{"recall": {"count": 5, "of": 4}}', "recall needs two whole numbers"),
        ('{"recall": {"count": 4, "of": 5}, "false_positive_rate": {"count": 0, "of": 0}}', "rate needs two"),
    ],
)  # fmt: skip
def test_a_file_without_counts_is_refused(scanned: Findings, tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "rates.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=told):
        read_rates(file, scanned.manifest)


def test_a_threshold_of_ones_own_has_no_rates(tmp_path: Path) -> None:
    own = make_findings(
        str(tmp_path / "findings"),
        PARTS,
        threshold=0.3,
        mapping={"detector": "any_turn", "threshold": 0.3},
        spec="any_turn:threshold=0.3",
    )
    found = summarise(own)
    assert found.estimate is found.by_chance is None
    assert found.missing == (
        "no rates ship for any_turn:threshold=0.3 at threshold 0.3: it is no operating point; give --rates with "
        "its recall and false positives"
    )


def test_an_observer_of_which_nothing_ships_has_no_rates(tmp_path: Path) -> None:
    found = summarise(make_findings(str(tmp_path / "findings"), PARTS, observer="scripted:0.1"))
    assert found.missing.startswith("no rates ship for observer scripted:0.1")
    assert found.missing.endswith("give --rates with its recall and false positives")


def study(scanned: Findings, threshold: float = 0.5, **run: Any) -> dict[str, Any]:
    """What `turnwise study compare --out` writes of a study with one detector, as far as rates go."""
    made = {name: scanned.manifest.run[name] for name in ("observer", "observer_version", "context")}
    return {
        "data": {"runs": [{"name": "first", **made, **run}]},
        "detectors": [
            {
                "name": "any_turn@first",
                "run": "first",
                "threshold": threshold,
                "built": [{"detector": "any_turn"}],
                "counts": {"caught": 30, "missed": 10, "false_alarms": 2, "cleared": 398},
            }
        ],
    }


def test_rates_come_from_a_study_of_the_same_detector(scanned: Findings, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(study(scanned)))
    rates = read_rates(file, scanned.manifest)
    assert rates.recall is not None
    assert rates.false_positives is not None
    assert (rates.recall.rate, rates.false_positives.rate) == (Rate(30, 40), Rate(2, 400))


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"threshold": 0.6}, "it has any_turn@first at 0.6"), ({"observer_version": "0"}, "it has no run of local")],
)
def test_a_study_of_something_else_is_refused(
    scanned: Findings, tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(study(scanned, **changed)))
    with pytest.raises(UsageError, match=told):
        read_rates(file, scanned.manifest)


def test_a_scan_that_is_not_complete_says_so(tmp_path: Path) -> None:
    found = summarise(make_findings(str(tmp_path / "findings"), PARTS, complete=False))
    assert "the scan is not complete: this is what the parts say that are done" in found.cautions


def test_a_scan_without_a_score_tells_nothing(tmp_path: Path) -> None:
    found = summarise(make_findings(str(tmp_path / "findings"), [[None]]))
    assert found.estimate is None
    assert found.missing == "no conversation was scored"
    assert json.dumps(found.to_dict())


def test_no_flag_and_all_flagged(scanned: Findings, counts: Path) -> None:
    rates = read_rates(counts, scanned.manifest)
    none, every = (summarise(with_counts(scanned, 10, fired), rates).estimate for fired in (0, 10))
    assert none is not None
    assert every is not None
    assert (none.value, none.low, every.value, every.high) == (0, 0, 1, 1)
    assert none.high > 0.2
