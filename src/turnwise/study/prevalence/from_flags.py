"""How common attacks are, from the flags of a scan and how often its detector is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.detectors import load_detector, to_mapping
from turnwise.errors import UsageError
from turnwise.findings import Findings, Manifest
from turnwise.principles import principle_names
from turnwise.rates import Rate
from turnwise.scoring import unread_in_words
from turnwise.stats import corrected_prevalence, expected_by_chance

if TYPE_CHECKING:
    from turnwise.stats import Interval

SHIPPED: Final = "detector_rates.json"
"""Beside this module: what `benchmarks/screen.py --rates` measured of the shipped detectors and observers."""

SHAPE: Final = (
    '{"recall": {"count": 62, "of": 84}, "false_positive_rate": {"count": 14, "of": 1515}}, '
    "or results.json of a study"
)
"""What a file of rates holds."""


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A rate, and what it was measured on.

    Args:
        rate: flagged conversations of those that were counted.
        on: what they were, in words.
    """

    rate: Rate
    on: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        low, high = self.rate.interval
        return {
            "value": self.rate.count / self.rate.of,
            "ci": [low, high],
            "count": self.rate.count,
            "of": self.rate.of,
            "on": self.on,
        }


@dataclass(frozen=True, slots=True)
class DetectorRates:
    """What is known of how often a detector is right.

    Args:
        recall: share of attacks that it flags; None where nobody measured it.
        false_positives: share of benign conversations that it flags; None likewise.
        missing: why one of them is not known, and what to do; empty where both are.
        caution: what keeps them from being those of these conversations; may be empty.
    """

    recall: MeasuredRate | None
    false_positives: MeasuredRate | None
    missing: str = ""
    caution: str = ""


def shipped_rates(manifest: Manifest) -> DetectorRates:
    """Return what was measured of a scan's detector at the operating point of a shipped observer.

    Recall is on attacks that a model wrote, false positives are on ordinary chats. None of them was trained on,
    and prompts were judged with all that was said before them.

    Args:
        manifest: of the scan.
    """
    run, detector = manifest.run, manifest.detector
    observer, context = str(run["observer"]), str(run["context"])
    own = [str(one["name"]) for one in manifest.principles if one["name"] not in principle_names()]
    if own:
        return _unknown(f"no rates ship for principle {', '.join(own)}")
    shipped = read_json((resources.files("turnwise.study.prevalence") / SHIPPED).read_bytes())
    measured = shipped["observers"].get(str(run["observer_version"]))
    if measured is None or (measured["observer"], measured["context"]) != (observer, context):
        return _unknown(f"no rates ship for observer {observer} {run['observer_version']} in context {context}")
    rows = measured["detectors"]
    points = {name: row["threshold"] for name, row in rows.items()}
    name = str(detector["mapping"].get("detector"))
    if name not in rows or to_mapping(load_detector(name, points)) != dict(detector["mapping"]):
        at = _number(detector["threshold"])
        return _unknown(f"no rates ship for {detector['spec']} at threshold {at}: it is no operating point")
    services = [Rate(*counts) for counts in rows[name]["by_service"].values()]
    shares = [100 * one.count / one.of for one in services if one.of]
    caution = f"false positives were {min(shares):.1f} % to {max(shares):.1f} % in single services"
    if list(manifest.selection.get("sides", ("prompt",))) != ["prompt"]:
        caution += "; they are of verdicts over prompts, and this scan judges replies too"
    return DetectorRates(
        MeasuredRate(Rate(*rows[name]["recall"]), shipped["recall_on"]),
        MeasuredRate(Rate(*rows[name]["false_positives"]), shipped["false_positives_on"]),
        caution=caution,
    )


def read_rates(path: str | Path, manifest: Manifest) -> DetectorRates:
    """Return the rates in a file: counts that somebody wrote down, or ``results.json`` of a study.

    Of a study the detector with the name and threshold of the scan's counts, on scores of the same observer.

    Args:
        path: JSON of the shape `SHAPE`.
        manifest: of the scan.

    Raises:
        UsageError: it can't be read, has another shape, or is a study of something else.
    """
    try:
        found = read_json(to_path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}): a file of rates holds {SHAPE}") from error
    if isinstance(found, Mapping) and isinstance(found.get("detectors"), list):
        return _of_study(found, str(path), manifest)
    if not isinstance(found, Mapping):
        raise UsageError(f"{path} holds no rates: it must be {SHAPE}")
    recall, wrong = (_rate(found, name, str(path)) for name in ("recall", "false_positive_rate"))
    return DetectorRates(MeasuredRate(recall, str(path)), MeasuredRate(wrong, str(path)))


def _rate(found: Mapping[str, Any], name: str, path: str) -> Rate:
    value = found.get(name)
    count, of = (value.get("count"), value.get("of")) if isinstance(value, Mapping) else (None, None)
    if type(count) is int and type(of) is int and 0 <= count <= of and of:
        return Rate(count, of)
    raise UsageError(
        f"{path}: {name} needs two whole numbers, of at least 1 and count from 0 to of, as in {SHAPE}"
    )


def _of_study(found: Mapping[str, Any], path: str, manifest: Manifest) -> DetectorRates:
    threshold = manifest.detector["threshold"]
    name = manifest.detector["mapping"].get("detector")
    try:
        runs = {
            (one["observer"], one["observer_version"], one["context"]): one["name"]
            for one in found["data"]["runs"]
        }
        asked = tuple(manifest.run[key] for key in ("observer", "observer_version", "context"))
        run = runs.get(asked)
        rows = found["detectors"]
        same = [
            row
            for row in rows
            if row["run"] == run
            and threshold is not None
            and row["threshold"] is not None
            and math.isclose(row["threshold"], threshold, rel_tol=1e-6)
            and any(built["detector"] == name for built in row["built"])
        ]
        if len(same) != 1:
            known = ", ".join(f"{row['name']} at {_number(row['threshold'])}" for row in rows if row["run"] == run)
            there = f"it has {known}" if known else f"it has no run of {asked[0]} {asked[1]} in context {asked[2]}"
            raise UsageError(
                f"{path} is no study of {name} at threshold {_number(threshold)}: {there}; scan with the detector "
                "and threshold that were studied"
            )
        counts = same[0]["counts"]
        recall = Rate(counts["caught"], counts["caught"] + counts["missed"])
        wrong = Rate(counts["false_alarms"], counts["false_alarms"] + counts["cleared"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is no results.json of a study, or damaged ({type(error).__name__}: {error}); "
            "turnwise study compare --report writes one"
        ) from error
    if not (recall.of and wrong.of):
        raise UsageError(f"{path}: {same[0]['name']} needs tests on an attack and a benign conversation")
    on = f"{path}: {same[0]['name']}, test conversations"
    return DetectorRates(MeasuredRate(recall, on), MeasuredRate(wrong, on))


def _unknown(why: str) -> DetectorRates:
    return DetectorRates(None, None, f"{why}; give --rates with its recall and false positives")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


TRANSFER = (
    "it holds if recall and false-positive rate are the same here as where they were measured: label a sample "
    "(--label-sample) to know"
)


@dataclass(frozen=True, slots=True)
class Prevalence:
    """What the flags of a scan say of all conversations that it scored.

    Args:
        flagged: conversations that the detector flagged, of those that were scored.
        by_chance: how many would be flagged if none were an attack: expected number and its 95 % interval; None
            where the false-positive rate is not known.
        estimate: share of attacks, corrected for recall and false positives; None where it can't be told.
        rates: recall and false-positive rate, and where they come from.
        missing: why something can't be told, and what to do; empty where nothing is missing.
        cautions: what a reader must know, a sentence each.
    """

    flagged: Rate
    by_chance: tuple[float, float, float] | None
    estimate: Interval | None
    rates: DetectorRates
    missing: str
    cautions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        by_chance, estimate = self.by_chance, self.estimate
        low, high = self.flagged.interval
        return {
            "scored": self.flagged.of,
            "flagged": self.flagged.count,
            "flagged_share": {"value": self.flagged.count / self.flagged.of, "ci": [low, high]}
            if self.flagged.of
            else None,
            "expected_by_chance": None
            if by_chance is None
            else {"value": by_chance[0], "ci": list(by_chance[1:])},
            "prevalence": None if estimate is None else interval_to_dict(estimate),
            "recall": None if self.rates.recall is None else self.rates.recall.to_dict(),
            "false_positive_rate": None
            if self.rates.false_positives is None
            else self.rates.false_positives.to_dict(),
            "missing": self.missing,
            "cautions": list(self.cautions),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return it as rows of a table: the name of each number, and its value with its interval."""
        rows = [("flagged", str(self.flagged))]
        if self.by_chance is not None:
            digits = 0 if self.by_chance[0] >= 10 else 1
            expected, low, high = (f"{value:,.{digits}f}" for value in self.by_chance)
            rows.append(("flags by chance alone", f"{expected} [{low}, {high}]"))
        rows.append(
            ("prevalence", shown_share(self.estimate) if self.estimate else f"can't be told: {self.missing}")
        )
        for name, known in {"recall": self.rates.recall, "false positives": self.rates.false_positives}.items():
            if known is not None:
                rows.append((f"{name} taken for it", f"{known.rate} ({known.on})"))
        return rows


def summarise(findings: Findings, rates: DetectorRates | None = None) -> Prevalence:
    """Return what the flags of a scan say of all conversations that it scored.

    The estimate is that of Rogan and Gladen; its interval carries the uncertainty of the flags, of recall and of
    the false-positive rate (`turnwise.stats.prevalence`).

    Args:
        findings: of the scan; where it is not complete, the parts that are done count.
        rates: how often the detector is right (`read_rates`); by default what ships for the observer's operating
            points.
    """
    manifest = findings.manifest
    known = shipped_rates(manifest) if rates is None else rates
    flagged = Rate(manifest.totals.fired, manifest.totals.scored)
    recall, wrong = known.recall, known.false_positives
    missing, estimate = known.missing, None
    if not flagged.of:
        missing = "no conversation was scored"
    elif recall is not None and wrong is not None:
        try:
            estimate = corrected_prevalence(flagged, recall.rate, wrong.rate)
        except UsageError as error:
            missing = str(error)
    by_chance = None if wrong is None or not flagged.of else expected_by_chance(flagged.of, wrong.rate)
    told = by_chance is not None or estimate is not None
    cautions = [known.caution if told else "", "" if estimate is None else estimate.note, *_of_scan(manifest)]
    if by_chance is not None and flagged.count <= by_chance[2]:
        cautions.append("there are no more flags than chance alone may give")
    if estimate is not None:
        cautions.append(TRANSFER)
    return Prevalence(flagged, by_chance, estimate, known, missing, tuple(filter(None, cautions)))


def _of_scan(manifest: Manifest) -> list[str]:
    """What of a scan itself keeps its flags from standing for all conversations."""
    totals, found = manifest.totals, []
    if not manifest.complete:
        found.append("the scan is not complete: this is what the parts say that are done")
    if unscored := totals.conversations - totals.scored:
        found.append(f"{unscored:,} conversations have no score and are left out")
    if totals.unread:
        found.append(f"texts in languages that the observer does not read: {unread_in_words(totals.unread)}")
    if manifest.selection.get("where"):
        found.append("it is about the conversations that --where left")
    return found


def interval_to_dict(found: Interval) -> dict[str, Any]:
    """Return a share with its interval as plain values; a value that is not a number becomes None."""
    return {
        "value": found.value if math.isfinite(found.value) else None,
        "ci": [found.low, found.high],
        "confidence": found.confidence,
        "method": found.method,
        "note": found.note,
    }


def shown_share(found: Interval) -> str:
    """Return a share with its interval in per cent, with digits enough for a rare thing.

    >>> from turnwise.stats.bootstrap import Interval
    >>> shown_share(Interval(0.0022, 0.0, 0.0087, 0.95, "melding", 0))
    '0.22 % [0.00, 0.87]'
    """
    digits = 1 if found.high > 0.1 else 2 if found.high > 0.001 else 4
    value = "not known" if math.isnan(found.value) else f"{100 * found.value:.{digits}f} %"
    return f"{value} [{100 * found.low:.{digits}f}, {100 * found.high:.{digits}f}]"
