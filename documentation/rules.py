"""Reference pages of detectors, patterns, tables of scores, and events of an audit."""

from __future__ import annotations

import inspect
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from documentation.reference import HERE, MADE, table, words
from documentation.settings import about, described, plain, settings_table

MARGINS = (
    ("`x > y`, `x >= y`", "x - y"),
    ("`x < y`, `x <= y`", "y - x"),
    ("`x == y`, `x != y`", "negative distance, distance"),
    ("`c and d`, `c or d`, `k_of(k, ...)`", "least, greatest, k-th greatest"),
    ("`not c`", "the negative"),
    ("`any(c)`, `all(c)`", "greatest, least so far, where c was known"),
)
"""Forms of conditions, and by how much each holds."""


def pages() -> dict[str, str]:
    """Return the pages by their path from the repository's root."""
    return {
        "docs/reference/audit-events.md": audit_events_page(),
        "docs/reference/detectors.md": detectors_page(),
        "docs/reference/named-patterns.md": named_patterns_page(),
        "docs/reference/pattern-functions.md": functions_page(),
        "docs/reference/score-tables.md": score_tables_page(),
    }


def audit_events_page() -> str:
    """Return the page of what the guard's audit writes."""
    lines = [
        "# Events of an audit",
        "",
        MADE,
        "",
        "What the guard writes of each check. [Audit and forensics](../audit-and-forensics.md) says how.",
        "",
        *table(("field", "meaning"), ((f"`{name}`", text) for name, text in words("audit-events.toml").items())),
    ]
    return "\n".join(lines).rstrip() + "\n"


def detectors_page() -> str:
    """Return the page of every detector that ships, with its formula, source and parameters."""
    from turnwise.detectors import DETECTORS, describe_detectors

    rows = describe_detectors()
    lines = [
        "# Every detector",
        "",
        MADE,
        "",
        "Formulas, sources and parameters. [Detectors](../detectors.md) says how to choose and use one.",
        "",
        *table(("detector", "what it is for"), ((f"[`{one.name}`](#{one.name})", one.summary) for one in rows)),
    ]
    for one in rows:
        told = described(DETECTORS.get(one.name))
        lines += [f"## {one.name}", "", *about(told), *settings_table(one.parameters, told)]
    return "\n".join(lines).rstrip() + "\n"


def named_patterns_page() -> str:
    """Return the page of the named patterns that ship."""
    from turnwise.patterns import shipped_patterns

    lines = [
        "# Named patterns",
        "",
        MADE,
        "",
        "The [patterns](../patterns.md#named-patterns) that ship. `turnwise list patterns NAME` draws a match.",
        "Calibrate the defaults: they fit no observer in particular.",
        "",
    ]
    for one in shipped_patterns():
        given = ", ".join(f"`{name}={default}`" for name, default in one.parameters.items())
        lines += [f"## {one.name}", "", f"```\n{one.expression}\n```", "", f"Parameters: {given}.", ""]
        lines += [" ".join(one.description.split()), "", f"Source: {' '.join(one.reference.split())}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def functions_page() -> str:
    """Return the page of the functions of the pattern language, made from their forms in Python."""
    from turnwise import patterns

    forms: dict[str, Callable[..., object]] = {"abs": patterns.Expression.__abs__, "k_of": patterns.k_of}
    for name in patterns.FUNCTIONS:
        if name not in forms:
            forms[name] = getattr(patterns, f"{name}_", None) or getattr(patterns, name)
    rows = []
    for name, form in forms.items():
        given = []
        for one in inspect.signature(form).parameters.values():
            word = {"self": "x", "condition": "c", "conditions": "c, d, ..."}.get(one.name, one.name)
            default = "..." if one.default is None else plain(one.default)
            given.append(word if one.default is one.empty else f"{word}={default}")
        meaning = " ".join(described(form).about).removeprefix("Return ").replace("condition)`", "c)`")
        rows.append((f"`{name}({', '.join(given)})`", meaning))
    lines = [
        "# Functions of patterns",
        "",
        MADE,
        "",
        "In the [pattern language](../patterns.md#functions) x is any number and c any condition; both may",
        "contain functions. A *value* is a turn where x is defined. Where nothing else is said, functions of x",
        "keep their value at gaps of x and are undefined before the first.",
        "",
        *table(("function", "value at a turn"), rows),
        "## Margins",
        "",
        "The margin says by how much a pattern holds (above 0) or fails to. An undefined comparison counts as",
        "minus infinity, and a pattern of nothing else has None. At 0 the comparison decides.",
        "",
        *table(("form", "margin"), MARGINS),
    ]
    return "\n".join(lines).rstrip() + "\n"


def score_tables_page() -> str:
    """Return the page of the tables that `query --sql` reads, and of the columns of findings."""
    from turnwise.findings import COLUMNS, STAGE_COLUMNS
    from turnwise.store import Store
    from turnwise.store.query import ask
    from turnwise.study.report import VERDICT_COLUMNS

    told = tomllib.loads((HERE / "score-tables.toml").read_text(encoding="utf-8"))
    lines = [
        "# Tables of scores",
        "",
        MADE,
        "",
        "The tables that [`turnwise query --sql`](../sql.md) asks, and the columns of the Parquet files of",
        "[findings](../findings.md) and of a [study](../study.md#what-it-writes).",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "empty.db", create=True) as store:
        asked = {name: ask(store.mirror, f"DESCRIBE {name}").rows for name in ("evaluations", "sequences", "runs")}
        shown = {f"query: {name}": {row[0]: row[1] for row in rows} for name, rows in asked.items()}
    shown |= {f"files: {name}": dict(columns) for name, columns in COLUMNS.items()}
    shown["files: scores, after a second look"] = dict(STAGE_COLUMNS)
    shown["files: verdicts.parquet of a study"] = VERDICT_COLUMNS
    for head, columns in shown.items():
        meanings = {**told["common"], **told[head]}
        lines += [f"## {head}", "", meanings["about"], ""]
        lines += table(
            ("column", "type", "meaning"), ((f"`{name}`", kind, meanings[name]) for name, kind in columns.items())
        )
    return "\n".join(lines).rstrip() + "\n"
