"""How many flags of a scan chance alone would give, and how common attacks are among what was scanned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.errors import UsageError
from turnwise.findings import Findings, Manifest
from turnwise.rates import Rate
from turnwise.scoring import unread_in_words
from turnwise.study.prevalence.rates import DetectorRates, shipped_rates
from turnwise.study.stats.prevalence import corrected_prevalence, expected_by_chance

if TYPE_CHECKING:
    from turnwise.study.stats.bootstrap import Interval

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
        for name, known in {
            "recall": self.rates.recall,
            "false positives": self.rates.false_positives,
        }.items():
            if known is not None:
                rows.append((f"{name} taken for it", f"{known.rate} ({known.on})"))
        return rows


def summarise(findings: Findings, rates: DetectorRates | None = None) -> Prevalence:
    """Return what the flags of a scan say of all conversations that it scored.

    The estimate is that of Rogan and Gladen; its interval carries the uncertainty of the flags, of recall and of
    the false-positive rate (`turnwise.study.stats.prevalence`).

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

    >>> from turnwise.study.stats.bootstrap import Interval
    >>> shown_share(Interval(0.0022, 0.0, 0.0087, 0.95, "melding", 0))
    '0.22 % [0.00, 0.87]'
    """
    digits = 1 if found.high > 0.1 else 2 if found.high > 0.001 else 4
    value = "not known" if math.isnan(found.value) else f"{100 * found.value:.{digits}f} %"
    return f"{value} [{100 * found.low:.{digits}f}, {100 * found.high:.{digits}f}]"
