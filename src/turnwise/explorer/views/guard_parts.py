"""What the parts of Guard share: checks one below the other, and the timeline of a forensic analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from turnwise._support.visible import visible, visible_lines
from turnwise.explorer.parts import Item, Paged, column, data_table, number

_CHECK = """<q-tr v-for="row in [props.row]" :props="props" :class="row.verdict" data-item="row" tabindex="-1"><td>
<div class="turn-head"><strong>{{ row.where }}</strong><span class="quiet">{{ row.side }}</span>
<span class="tag" :data-word="row.verdict">{{ row.verdict }}</span>
<span v-if="row.stance">stance <span class="tag" :data-word="row.stance">{{ row.stance }}</span></span>
<span v-if="row.trust !== '–'" class="quiet">trust <span class="gauge" aria-hidden="true"><span
:style="{width: 100 * row.trust + '%'}"></span></span> {{ row.trust }}</span>
<span class="quiet small">{{ row.when }}</span></div>
<div v-if="row.text" class="said" dir="auto">{{ row.text[0] }}</div>
<p v-else class="quiet small">The audit keeps no text.</p>
<div v-for="one in row.why" class="why">{{ one }}</div>
<div v-if="row.scores.length" class="triples"><span v-for="one in row.scores" class="triple" :title="one.title">
<span class="gauge" aria-hidden="true"><span :style="{width: 100 * one.F + '%'}"></span></span>
F {{ one.F }} <span class="quiet">{{ one.name }}</span></span><span class="quiet">{{ row.detector }}</span></div>
<p v-if="row.rationale" class="quiet small">Stance: {{ row.rationale }}</p>
<details v-if="row.guardrails.length"><summary>{{ row.ran }}</summary><table><thead><tr>
<th v-for="one in ['guardrail', 'did', 'why', 'ms']" scope="col">{{ one }}</th></tr></thead><tbody>
<tr v-for="cells in row.guardrails"><td v-for="one in cells">{{ one }}</td></tr></tbody></table></details></td>
</q-tr>"""


_PAGE = 50
"""Checks of a page."""


def checks_table(label: str, row: Callable[[Item], dict[str, Any]]) -> Paged[Item]:
    """A table of checks, each made a `check_row` by `row`."""
    table = data_table([column("check")], [], label).classes("checks").props("hide-header")
    table.add_slot("body", _CHECK)
    return Paged(table, row, _PAGE)


def check_row(
    turn: object, side: object, verdict: str, text: str | None, why: Iterable[object], when: str, *,
    stance: str = "", trust: float | None = None, rationale: str = "", scores: Iterable[Mapping[str, str]] = (),
    detector: str = "", ran: str = "", guardrails: Iterable[Sequence[str]] = (),
) -> dict[str, Any]:  # fmt: skip
    """What was made of one text; without a `text` the audit keeps none. `scores` have title, F and name."""
    return {
        "where": "no turn: a rate limit refused it" if turn is None else f"Turn {turn}",
        "side": str(side).replace("_", " "), "verdict": verdict, "when": when, "detector": detector, "ran": ran,
        "text": None if text is None else [visible_lines(text)], "why": [visible(str(one)) for one in why],
        "stance": stance, "trust": number(trust), "rationale": rationale,
        "scores": [{name: visible(value) for name, value in one.items()} for one in scores],
        "guardrails": [[*map(visible, one)] for one in guardrails],
    }  # fmt: skip


def timeline(analysis: Mapping[str, Any], *, texts: bool = False) -> None:
    """The timeline of a forensic analysis, made here or by a service: every check in order of time."""
    entries = analysis.get("timeline")
    known = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    columns = [
        column("when", "when (UTC)", "item"), column("turn", right=True), column("text", kind="lines"),
        column("verdict", kind="tag"), column("stance", kind="tag"), column("why"),
    ]  # fmt: skip
    Paged(data_table(columns, [], "Checks in order of time"), partial(_entry, texts=texts), _PAGE).show(known)


def _entry(entry: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    when = entry.get("time")
    clock = when[11:19] if isinstance(when, str) else "–"
    if entry.get("kind") == "rate_limit":
        return {"when": clock, "turn": "–", "text": ["–"], "verdict": "refused", "stance": "–",
                "why": "a rate limit refused a prompt"}  # fmt: skip
    reasons, warnings = _list(entry.get("reasons")), _list(entry.get("warnings"))
    failures = [f"failed: {one}" for one in _list(entry.get("failures"))]
    unread = [one for one in _list(entry.get("unread")) if one not in (*reasons, *warnings)]
    stance = entry.get("stance")
    side = str(entry.get("pipeline_type", "")).replace("_", " ")
    said = entry.get("response" if side == "output" else "prompt") if texts else None
    return {
        "when": clock, "turn": str(entry.get("turn_number", "–")),
        "text": [visible(line) for line in (side, *(said.split("\n") if isinstance(said, str) else ()))],
        "verdict": "blocked" if entry.get("blocked") else "warned" if warnings else "passed",
        "stance": stance if isinstance(stance, str) and stance else "–",
        "why": "; ".join([*reasons, *warnings, *failures, *unread]),
    }  # fmt: skip


def _list(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []
