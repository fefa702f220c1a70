"""The arms beside a reader of the turns: a table, a sentence, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from turnwise.rates import Rate
from turnwise.study.compare import ArmAgainstReader, Study
from turnwise.study.report.table import Table
from turnwise.study.report.value_formats import NONE, Column, ends_of, json_row, make_table, pick, rate_cell
from turnwise.study.stats.bootstrap import Interval


def _rate_as_json(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "of": rate.of, "ci": ends_of(rate)}


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


def _turns(counted: Rate, quartiles: Mapping[float, Interval]) -> str:
    if not counted.count:
        return NONE
    low, middle, high = (quartiles[share] for share in sorted(quartiles))
    return f"{middle.value:g} [{middle.low:g}, {middle.high:g}], {low.value:g} to {high.value:g}"


def _alarms_cell(alarms: tuple[float, float, float]) -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(*alarms)


ARMS = (
    Column("name"),
    Column("not_evaluated", "not evaluated"),
    Column("hit", "fired at or after, %", rate_cell, "summary.hit", _rate_as_json),
    Column("early", "before, %", rate_cell, "summary.early", _rate_as_json),
    Column("miss", "never, %", rate_cell, "summary.miss", _rate_as_json),
    Column("false_alarm", "false alarms, %", rate_cell, "summary.false_alarm", _rate_as_json),
    Column("quiet_turns", at="summary.quiet_turns"),
    Column("alarms_per_thousand", "per 1,000 quiet turns", _alarms_cell, "summary.alarms_per_thousand"),
    Column(
        "delay",
        "delay, turns",
        lambda found: _turns(found.hit, found.delay),
        "summary",
        lambda found: _quartiles(found.hit, found.delay),
    ),
    Column(
        "lead",
        "lead, turns",
        lambda found: _turns(found.early, found.lead),
        "summary",
        lambda found: _quartiles(found.early, found.lead),
    ),
)
"""An arm beside the reader."""


def truth_as_json(study: Study) -> dict[str, Any] | None:
    """All numbers of the arms beside the reader; None where no reader was named."""
    found = study.truth
    if found is None:
        return None
    reader = found.reader
    return {
        "run": reader.run,
        "turns_sha256": reader.turns_sha256,
        "partly_judged": reader.partly_judged,
        "unjudged": found.unjudged,
        "arms": [json_row(ARMS, one) for one in found.arms],
    }


def reader_tables(study: Study) -> tuple[Table, ...]:
    """The table of all arms beside the reader; none where no reader was named."""
    if study.truth is None:
        return ()
    found = study.truth
    of_reader = {arm.name for arm in study.arms if arm.run == found.reader.run}

    def name(one: ArmAgainstReader) -> str:
        return one.name + (" †" if one.name in of_reader else "")

    first = found.arms[0].summary
    note = (
        f"Truth: the turns that the run {found.reader.run} gives F 0.5 or more on any principle. At or after, "
        f"before and never are shares of the {first.hit.of} tested conversations with such a turn. Delay and lead "
        "count turns from the first of them: median [95 % interval], quartiles. False alarms are of the "
        f"{first.false_alarm.of} conversations in which the reader flags nothing, and per 1,000 of their "
        f"{first.quiet_turns} turns. {found.unjudged} tested conversations were not judged, or not up to the "
        "first flag. Thresholds were set on the labels."
    )
    if of_reader:
        note += " † The arm reads the scores that are the truth here."
    order = ("hit", "delay", "early", "lead", "miss", "false_alarm", "alarms_per_thousand", "not_evaluated")
    columns = (Column("", "arm", name, "."), *pick(ARMS, *order))
    return (make_table("reader", "Against the turns that a reader flags", columns, found.arms, 1, note),)


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
        f"{one.name} fires at or after the reader's first turn in {found.hit}{late}, before it in {found.early} "
        f"and never in {found.miss}; where the reader flags nothing it fires in {found.false_alarm}."
    )
