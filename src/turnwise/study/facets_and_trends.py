"""What arms flag by source, model, label, category or language, and week by week, with tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate
from turnwise.runs.flips import FACETS, OWN, ArmVerdicts, Compared, Thresholds, facts_of
from turnwise.stats import fisher_exact, holm, holm_corrected, p_cell, rank_sum, sign_flip, sign_test

if TYPE_CHECKING:
    from turnwise.store import Store

MOST_FACET_VALUES = 20
"""Values of a facet that are told apart, the commonest first; the others are one."""

OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class FacetRate:
    """What two arms flag of the conversations with a value of a facet and a label.

    Args:
        value: the value; empty for all conversations.
        label: what they are labelled; of attacks the rates are recall, of benign ones false alarms.
        a: flagged by the first arm.
        b: flagged by the second arm.
        a_alone: flagged by the first arm alone.
        b_alone: flagged by the second arm alone.
        p: two-sided exact p-value of McNemar's test that both flag the same share, with groups as the unit.
        p_holm: the same, by Holm's correction for all rows that are tested together.
    """

    value: str
    label: str
    a: Rate
    b: Rate
    a_alone: int
    b_alone: int
    p: float
    p_holm: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        row: dict[str, Any] = {"value": self.value, "label": self.label, "conversations": self.a.of}
        for name, rate in (("a", self.a), ("b", self.b)):
            row |= {
                f"flagged_{name}": rate.count,
                f"low_{name}": rate.interval[0],
                f"high_{name}": rate.interval[1],
            }
        return row | {"a_alone": self.a_alone, "b_alone": self.b_alone, "p": self.p, "p_holm": self.p_holm}

    def cells(self) -> dict[str, str]:
        """What a table shows of it, by heading."""
        return {
            "value": self.value, "label": self.label, "flagged by A": str(self.a), "flagged by B": str(self.b),
            "A alone": f"{self.a_alone:,}", "B alone": f"{self.b_alone:,}", "p (Holm)": p_cell(self.p_holm),
        }  # fmt: skip


def facet_rates(compared: Compared, facet: str = "source", thresholds: Thresholds = OWN) -> tuple[FacetRate, ...]:
    """What each arm flags by a facet and by label, the commonest values first.

    Intervals are exact and take conversations for independent; the test takes the groups of the metadata as they
    are (`turnwise.study.mcnemar`), and Holm's correction is over all rows.

    Args:
        compared: two arms.
        facet: ``source``, ``label``, ``model``, ``category`` or ``language``.
        thresholds: other thresholds of the arms.

    Raises:
        UnknownNameError: no such facet.
    """
    if facet not in FACETS:
        raise UnknownNameError("facet", facet, FACETS)
    flagged = compared.flagged(thresholds)
    values, labels, groups = (compared.facts[name] for name in (facet, "label", "group"))
    common = [value for value, _ in Counter(values.tolist()).most_common()]
    shown = common[:MOST_FACET_VALUES]
    found = []
    for value in shown + [OTHERS] * (len(common) > len(shown)):
        of_value = values == value if value != OTHERS else ~_among(values, shown)
        for label in sorted(set(labels[of_value].tolist())):
            found.append(_rate(value, label, of_value & (labels == label), flagged, groups))
    return holm_corrected(found)


def _among(values: NDArray[Any], some: list[str]) -> NDArray[np.bool_]:
    return np.isin(values.astype(str), some)


def _rate(
    value: str,
    label: str,
    chosen: NDArray[np.bool_],
    flagged: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    groups: NDArray[Any],
) -> FacetRate:
    a, b = (one[chosen] for one in flagged)
    size, differ = len(a), a != b
    net: Counter[str] = Counter()
    for group, more in zip(groups[chosen][differ].tolist(), b[differ].tolist(), strict=True):
        net[group] += 1 if more else -1
    signs = list(net.values())
    alone = all(abs(one) <= 1 for one in signs)
    p = sign_test(sum(one > 0 for one in signs), sum(one < 0 for one in signs)) if alone else sign_flip(signs)
    counts = int((a & ~b).sum()), int((b & ~a).sum())
    return FacetRate(value, label, Rate(int(a.sum()), size), Rate(int(b.sum()), size), *counts, p)


TIMES: Final = ("said", "imported")
"""What the time of a conversation is: when its first turn was said, or when it came into the store."""

MOST_VALUES: Final = 8
"""Values of a facet that are told apart, the commonest first."""

LEVEL: Final = 0.05
"""Corrected p-value below which a week has drifted."""

LEAST: Final = 10
"""Conversations from which on a week is tested, and that the reference period must have."""


@dataclass(frozen=True, slots=True)
class TrendWeek:
    """A week of a value.

    Args:
        value: value of the facet; empty for all conversations.
        week: its Monday, in UTC.
        flagged: how many of its conversations the arm flags.
        median: median of the conversations' highest F, or other scores; None where there are none.
        reference: whether it belongs to the reference period.
        p_share: p-value that the share flagged is that of the reference period (Fisher's exact test), by Holm's
            correction for all tests of the table; None where it is not tested.
        p_scores: the same that the highest F are distributed as there (Mann and Whitney).
    """

    value: str
    week: date
    flagged: Rate
    median: float | None
    reference: bool
    p_share: float | None = None
    p_scores: float | None = None

    @property
    def drift(self) -> str:
        """What has drifted: ``share``, ``F``, both, or nothing."""
        tests = {"share": self.p_share, "F": self.p_scores}
        return " and ".join(name for name, p in tests.items() if p is not None and p < LEVEL)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        low, high = self.flagged.interval
        return {
            "value": self.value, "week": self.week.isoformat(), "conversations": self.flagged.of,
            "flagged": self.flagged.count, "low": low, "high": high, "median_F": self.median,
            "reference": self.reference, "p_share": self.p_share, "p_F": self.p_scores, "drift": self.drift,
        }  # fmt: skip

    def cells(self) -> dict[str, str]:
        """What a table shows of it, by heading."""
        untested = "reference" if self.reference else "–"
        share, scores = (untested if p is None else p_cell(p) for p in (self.p_share, self.p_scores))
        return {
            "value": self.value or "all", "week of": self.week.isoformat(), "flagged": str(self.flagged),
            "median F": "–" if self.median is None else f"{self.median:.3f}", "p share": share, "p F": scores,
            "drift": f"▲ {self.drift}" if self.drift else "",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trends:
    """What an arm flags week by week.

    Args:
        weeks: first those of all conversations, then by value, the commonest first; in the order of time.
        reference: Mondays of the reference period.
        unknown: conversations whose time is not known; they are in no week.
        left_out: conversations of rarer values, which are only among all.
        tests: how many tests Holm's correction is for.
    """

    weeks: tuple[TrendWeek, ...]
    reference: tuple[date, ...]
    unknown: int
    left_out: int
    tests: int

    def __str__(self) -> str:
        first, last = (self.reference[0], self.reference[-1]) if self.reference else (None, None)
        drifted = sum(bool(one.drift) for one in self.weeks)
        said = [f"{self.unknown} conversations have no known time and are in no week"] if self.unknown else []
        if self.tests:
            said.append(
                f"reference: weeks of {first} to {last}; {drifted} drifted, at {LEVEL:g} by Holm's correction for "
                f"{self.tests} tests (share: Fisher's exact test; F: Mann and Whitney)"
            )
        elif self.weeks:
            said.append(f"nothing was tested: that takes weeks after a reference period, of {LEAST} conversations")
        return "; ".join(said)


def trends(
    store: Store,
    arm: ArmVerdicts,
    by: str = "source",
    *,
    reference: int = 4,
    time: str = "said",
    threshold: float | None = None,
    corrected_by: Collection[str] = (),
    facts: Mapping[str, NDArray[Any]] | None = None,
) -> Trends:
    """What an arm flags week by week, of all conversations and by a facet, tested against the first weeks.

    A week drifts where the share flagged, or the distribution of the highest F, differs from that of the same
    value in the reference period, by Holm's correction for all tests. Conversations are taken for independent.

    Args:
        store: the store of the run.
        arm: the verdicts.
        by: ``source``, ``label``, ``model``, ``category`` or ``language``.
        reference: how many weeks, the first with conversations, are the reference period; at least 1, and at
            most half of the weeks that there are.
        time: ``said`` (when the first turn was said) or ``imported``.
        threshold: another threshold of the arm.
        corrected_by: people whose corrected labels replace the imported ones, where they agree.
        facts: what `turnwise.runs.flips.facts_of` said of the arm's sequences, where that is known already.

    Raises:
        UnknownNameError: no such facet or time.
        UsageError: the reference period has no week.
    """
    if by not in FACETS:
        raise UnknownNameError("facet", by, FACETS)
    if time not in TIMES:
        raise UnknownNameError("time", time, TIMES)
    if reference < 1:
        raise UsageError(f"the reference period has 1 or more weeks, not {reference}")
    mondays = _mondays(store, arm.sequences, time == "imported")
    known = ~np.isnat(mondays)
    some = arm.only(known)
    mondays, flagged, F = mondays[known], some.flagged(threshold), some.peaks.highest(some.sequences)
    values = (facts or facts_of(store, arm.sequences, corrected_by))[by][known]
    common = [value for value, _ in Counter(values.tolist()).most_common(MOST_VALUES)]
    chosen = [("", np.ones(len(mondays), bool)), *((value, values == value) for value in common)]
    found = weekly(
        [WeeklySeries(value, mondays[mask], flagged[mask], F[mask]) for value, mask in chosen], reference
    )
    inside = sum(int(mask.sum()) for _, mask in chosen[1:])
    return replace(found, unknown=int((~known).sum()), left_out=len(mondays) - inside)


class WeeklySeries(NamedTuple):
    """Conversations of one value: the Monday of each, whether it is flagged, and its score, if any."""

    value: str
    mondays: NDArray[np.datetime64]
    flagged: NDArray[np.bool_]
    scores: NDArray[np.float64] | None


def weekly(series: Sequence[WeeklySeries], reference: int = 4) -> Trends:
    """Test the weeks of each series against its first `reference` weeks, at most half of all."""
    weeks = np.unique(np.concatenate([one.mondays for one in series])) if series else np.array([], "datetime64[D]")
    first = weeks[: max(1, min(reference, len(weeks) // 2))]
    made = [week for one in series for week in _weeks(one, first)]
    given = [(place, name, p) for place, week in enumerate(made)
             for name in ("p_share", "p_scores") if (p := getattr(week, name)) is not None]  # fmt: skip
    for (place, name, _), p in zip(given, holm([p for *_, p in given]), strict=True):
        made[place] = replace(made[place], **{name: p})  # type: ignore[arg-type]
    return Trends(tuple(made), tuple(first.tolist()), 0, 0, len(given))


def _mondays(store: Store, sequences: NDArray[np.int64], imported: bool) -> NDArray[np.datetime64]:
    """The Monday of the week of each sequence, in UTC; not a time where it is not known."""
    times = store.source.begun(imported)
    return mondays_of([when.date() if (when := times.get(number)) else None for number in sequences.tolist()])


def mondays_of(dates: Sequence[date | None]) -> NDArray[np.datetime64]:
    """The Monday of the week of each date; not a time where there is none.

    >>> mondays_of([date(2026, 11, 28)]).tolist()
    [datetime.date(2026, 11, 23)]
    """
    days = np.array(dates, "datetime64[D]")
    after = (days.astype(np.int64) + 3) % 7  # the first day of 1970 was a Thursday
    return np.where(np.isnat(days), days, days - after.astype("timedelta64[D]"))


def _weeks(series: WeeklySeries, first: NDArray[np.datetime64]) -> list[TrendWeek]:
    """The weeks of a series, with p-values that are not corrected yet."""
    value, mondays, flagged, scores = series
    before = np.isin(mondays, first)
    base = Rate(int(flagged[before].sum()), int(before.sum()))
    found = []
    for monday in np.unique(mondays):
        mine = mondays == monday
        rate = Rate(int(flagged[mine].sum()), int(mine.sum()))
        median = None if scores is None else float(np.median(scores[mine]))
        week = TrendWeek(value, monday.item(), rate, median, bool(monday in first))
        if not week.reference and min(rate.of, base.of) >= LEAST:
            ranks = None if scores is None else rank_sum(scores[mine], scores[before])
            week = replace(week, p_share=fisher_exact(rate, base), p_scores=ranks)
        found.append(week)
    return found
