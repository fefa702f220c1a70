"""Gain of context, gain of trajectory, and every arm, at matched false-positive rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.stats import Difference, MatchedRates, p_cell
from turnwise.study.compare import Study
from turnwise.study.compare.context_and_trajectory import (
    CONTEXT,
    LOSS,
    NOT_SHOWN,
    NOT_STABLE,
    SHOWN,
    TRAJECTORY,
    Kind,
    TwoByTwo,
)
from turnwise.study.report.table import (
    NONE,
    Column,
    Table,
    as_json,
    difference_cell,
    interval_cell,
    make_table,
    points,
    points_cell,
)

ONE_THRESHOLD = (
    "takes these thresholds as given: that other calibration conversations would have set other ones is not in it"
)
"""What an interval does that conditions on a threshold; tables, words and pages say it alike."""

AT_THESE = "for these thresholds alone"
"""The same in a title, which the terminal shows too."""


def two_by_two_as_json(study: Study) -> list[dict[str, Any]]:
    """For each observer, recall by what it sees and what decides, and the two gains."""
    return [
        {
            "observer": one.observer,
            "false_positive_rate": one.rate,
            "seeds": [study.settings.seed + number for number in range(study.settings.seeds)],
            "folds": one.folds,
            "attacks": one.attacks,
            "benign": one.benign,
            "left_out": one.left_out,
            "recall": as_json(one.cells),
            **{
                kind: [
                    {
                        **{
                            name: as_json(getattr(gain, name))
                            for name in ("attacks", "a", "b", "by_seed", "p_holm")
                        },
                        "stable": gain.stable,
                        "says": gain.says,
                    }
                    for gain in one.gains
                    if gain.kind == kind
                ]
                for kind in (CONTEXT, TRAJECTORY)
            },
            "chosen": as_json(one.chosen),
            "says": shown_words(one),
        }
        for one in study.two_by_two
    ]


def shown_words(one: TwoByTwo, *, figures: bool = False) -> str:
    """Which of the two gains is shown, in one plain sentence; `figures` adds how much."""
    found = {what: gain for what, kind in _WAYS.items() if (gain := one.first(kind))}
    shown = [gain.kind for gain in found.values() if gain.says == SHOWN]
    if len(found) == 1:
        head = f"The gain of trajectory is {'shown' if shown else 'not shown'} here"
    elif len(shown) == 1:
        head = f"Only the {shown[0]} is shown here"
    else:
        head = f"{'Both gains are' if shown else 'Neither gain is'} shown here"
    told = [
        f"{what} {_SAYS[gain.says]}" + (f" ({points_cell(gain.by_seed[0])} points)" if figures else "")
        for what, gain in found.items()
    ]
    at = f", in recall at {100 * one.rate:g} % false positives" if figures else ""
    return f"{head}{at}: {', '.join(told)}."


_WAYS: dict[str, Kind] = {"reading the history": CONTEXT, "watching over time": TRAJECTORY}
_SAYS = {
    SHOWN: "finds more",
    LOSS: "finds less",
    NOT_SHOWN: "adds nothing that is shown",
    NOT_STABLE: "adds nothing that is stable over seeds",
}


def seeds_cell(by_seed: Sequence[Difference]) -> str:
    """The least and the most of some seeds, in points; of a single one nothing."""
    values = [one.value for one in by_seed]
    return f"{points(min(values))} to {points(max(values))}" if len(values) > 1 else NONE


def two_by_two_table(study: Study) -> Table:
    """What the observer sees by what decides: recall at the same false-positive rate."""
    columns: dict[str, None] = {}
    rows: dict[str, dict[str, str]] = {}
    sees: dict[str, str] = {}
    for one in study.two_by_two:
        for cell in one.cells:
            columns.setdefault(cell.decision)
            sees[cell.run] = _SEES.get(cell.sees, cell.sees)
            rows.setdefault(cell.run, {})[cell.decision] = interval_cell(cell.recall, 100, 1)
    rate = f"{100 * study.settings.target_fpr:g} %"
    of = "; ".join(
        dict.fromkeys(f"{one.attacks} attacks, {one.benign} benign conversations" for one in study.two_by_two)
    )
    chosen = "; ".join(
        f"{run}: {', '.join(f'{name} {count}' for name, count in counts.items())}"
        for one in study.two_by_two
        for run, counts in one.chosen.items()
    )
    return Table(
        "two_by_two",
        f"Recall at {rate} false positives, by what the observer sees and what decides, %",
        ("observer sees", "run", *columns),
        tuple((sees[run], run, *(cells.get(name, NONE) for name in columns)) for run, cells in rows.items()),
        2,
        f"{of}, each tested once with what the other folds chose and fitted; every decision flags {rate} of the "
        "benign ones. Settings of EMA, CUSUM and peak accumulation, and the best accumulator, are chosen on the "
        f"other folds alone. Best there, of all folds and seeds: {chosen}. Detectors of files don't stand for it.",
    )


_SEES = {"turn": "the turn alone", "history": "the history"}


def gains_table(study: Study) -> Table:
    """The gain of context and the gain of trajectory, on all attacks and by source."""
    several = len({run for one in study.two_by_two for run in one.chosen}) > 2
    rows = []
    for one in study.two_by_two:
        for gain in one.gains:
            (decided, run), (then, other) = gain.a, gain.b
            what = (
                f"{then}, history against the turn alone" if gain.kind == CONTEXT else f"{then} against {decided}"
            )
            where = f" ({run} to {other})" if gain.kind == CONTEXT and several else ""
            where = where or (f", {other}" if gain.kind == TRAJECTORY else "")
            rows.append(
                (
                    gain.kind,
                    f"{what}{where}",
                    gain.attacks,
                    points_cell(gain.by_seed[0]),
                    seeds_cell(gain.by_seed),
                    p_cell(gain.p_holm),
                    gain.says,
                )
            )
    return Table(
        "gains",
        "Gain of context and gain of trajectory, points of recall",
        ("gain", "of", "attacks of", "gain, points", f"{study.settings.seeds} seeds", "p, Holm", "shown"),
        tuple(rows),
        3,
        " ".join([*(shown_words(one) for one in study.two_by_two[:1]), _HOW]),
    )


_HOW = (
    "Gain of context: same decision, more seen. Gain of trajectory: same observer, the best accumulator against "
    "the highest F. Interval of the first seed, and p, are those of a paired bootstrap over groups, thresholds "
    "moving with it; p is the largest of the seeds, with Holm's correction over the rows of all attacks, or over "
    "those by source. Shown: p under 0.05, every seed's interval above 0, and every seed's gain inside every "
    "other seed's interval."
)


class _Matched(NamedTuple):
    arm: str
    found: MatchedRates


def matched_table(study: Study) -> Table:
    """Every arm against the reference, at equal false-positive rates."""
    first = study.arms[study.reference].name
    rows = [_Matched(name, found) for name, found in study.matched_rates.items()]
    rates = tuple(rows[-1].found.recall) if rows else ()

    def at_rate(of: str, rate: float, heading: str, scale: float, digits: int) -> Column:
        def cell(found: Mapping[float, Any]) -> str:
            return difference_cell(found[rate], scale, digits)

        return Column("", heading, cell, f"found.{of}")

    return make_table(
        "matched",
        f"Arms at the same false-positive rate as {first}, on the test conversations",
        (
            Column("", "arm", at="arm"),
            *(at_rate("partial_auc", rate, f"partial AUC to {100 * rate:g} %", 1, 3) for rate in rates),
            *(at_rate("recall", rate, f"recall at {100 * rate:g} %, points", 100, 1) for rate in rates),
            Column(
                "",
                "recall at the thresholds used, points",
                lambda found: difference_cell(found, 100, 1),
                "found.thresholds_used",
            ),
            Column("", f"false positives of {first}, %", lambda fpr: _percent(fpr[0]), "found.fpr"),
            Column("", "false positives of the arm, %", lambda fpr: _percent(fpr[1]), "found.fpr"),
        ),
        rows,
        1,
        f"Each arm less {first}, with the paired interval of a bootstrap over groups and its p, not corrected "
        "for the number of arms. Partial AUC is standardised: 0.5 by chance. Recall at a rate is read from the "
        "ROC curve of the test conversations, where both arms flag equally many benign ones; no threshold is "
        "known in advance there. The thresholds used answer the operational question, at the false-positive "
        f"rates that came out: that interval {ONE_THRESHOLD}.",
    )


def _percent(rate: Any) -> str:
    return f"{100 * rate.count / rate.of:.1f}"
