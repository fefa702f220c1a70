"""The arms beside a reader of the turns: a table, a sentence, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from turnwise.rates import Rate
from turnwise.study.compare import ArmAgainstReader, Study
from turnwise.study.report.table import NONE, Table, rate_cell
from turnwise.study.stats.bootstrap import Interval
from turnwise.study.stats.turn_truth import TurnSummary


def reader_tables(study: Study) -> tuple[Table, ...]:
    """The table of all arms beside the reader; none where no reader was named."""
    if study.truth is None:
        return ()
    found = study.truth
    by_arm = {arm.name: arm.run for arm in study.arms}
    rows = []
    for one in found.arms:
        summary = one.summary
        per_thousand = summary.alarms_per_thousand
        rows.append(
            (
                one.arm + (" †" if by_arm[one.arm] == found.reader.run else ""),
                rate_cell(summary.hit),
                _turns(summary.hit, summary.delay),
                rate_cell(summary.early),
                _turns(summary.early, summary.lead),
                rate_cell(summary.miss),
                rate_cell(summary.false_alarm),
                NONE if per_thousand is None else "{:.1f} [{:.1f}, {:.1f}]".format(*per_thousand),
                str(one.missing),
            )
        )
    first = found.arms[0].summary
    note = (
        f"Truth: the turns that the run {found.reader.run} gives F 0.5 or more on any principle. At or after, "
        f"before and never are shares of the {first.hit.of} tested conversations with such a turn. Delay and lead "
        "count turns from the first of them: median [95 % interval], quartiles. False alarms are of the "
        f"{first.false_alarm.of} conversations in which the reader flags nothing, and per 1,000 of their "
        f"{first.quiet_turns} turns. {found.unjudged} tested conversations were not judged, or not up to the "
        "first flag. Thresholds were set on the labels."
    )
    if found.reader.run in by_arm.values():
        note += " † The arm reads the scores that are the truth here."
    columns = (
        "arm",
        "fired at or after, %",
        "delay, turns",
        "before, %",
        "lead, turns",
        "never, %",
        "false alarms, %",
        "per 1,000 quiet turns",
        "not evaluated",
    )
    return (Table("reader", "Against the turns that a reader flags", columns, tuple(rows), 1, note),)


def _turns(counted: Rate, quartiles: Mapping[float, Interval]) -> str:
    if not counted.count:
        return NONE
    low, middle, high = (quartiles[share] for share in sorted(quartiles))
    return f"{middle.value:g} [{middle.low:g}, {middle.high:g}], {low.value:g} to {high.value:g}"


def reader_words(study: Study) -> tuple[str, ...]:
    """What the reference and the arm that is followed do beside the reader, in a paragraph."""
    if study.truth is None:
        return ()
    places = dict.fromkeys(place for place in (study.reference, study.chosen) if place is not None)
    parts = [_said(study.truth.arms[place]) for place in places]
    return (f"Beside the reader ({study.truth.reader.run}): {' '.join(parts)} Labels are the second question.",)


def _said(one: ArmAgainstReader) -> str:
    found = one.summary
    late = f", {found.delay[0.5].value:g} turns after the reader at the median" if found.hit.count else ""
    return (
        f"{one.arm} fires at or after the reader's first turn in {found.hit}{late}, before it in {found.early} "
        f"and never in {found.miss}; where the reader flags nothing it fires in {found.false_alarm}."
    )


def reader_as_json(study: Study) -> dict[str, Any] | None:
    """All numbers of the arms beside the reader; None where no reader was named."""
    found = study.truth
    if found is None:
        return None
    return {
        "run": found.reader.run,
        "turns_sha256": found.reader.digest,
        "partly_judged": found.reader.partly,
        "unjudged": found.unjudged,
        "arms": [{"name": one.arm, "not_evaluated": one.missing, **_numbers(one.summary)} for one in found.arms],
    }


def _numbers(found: TurnSummary) -> dict[str, Any]:
    per_thousand = found.alarms_per_thousand
    rates = {name: getattr(found, name) for name in ("hit", "early", "miss", "false_alarm")}
    return {
        **{
            name: {"count": rate.count, "of": rate.of, "ci": list(rate.interval) if rate.of else None}
            for name, rate in rates.items()
        },
        "quiet_turns": found.quiet_turns,
        "alarms_per_thousand": None if per_thousand is None else list(per_thousand),
        "delay": _quartiles(found.hit, found.delay),
        "lead": _quartiles(found.early, found.lead),
    }


def _quartiles(counted: Rate, quartiles: Mapping[float, Interval]) -> dict[str, Any] | None:
    if not counted.count:
        return None
    return {
        str(share): {
            "value": one.value,
            "ci": [one.low, one.high] if math.isfinite(one.low + one.high) else None,
            "note": one.note,
        }
        for share, one in quartiles.items()
    }
