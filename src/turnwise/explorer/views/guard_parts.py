"""What the parts of Guard share: gauges, and the timeline of a forensic analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from turnwise.explorer.controls import tag
from turnwise.explorer.markup import element, text_lines


def gauge(share: float | None, kind: str = "") -> Markup:
    """A bar that is full to a share, in [0, 1]; the number stands beside it in words."""
    width = round(100 * min(1.0, max(0.0, share or 0.0)))
    return element(
        "span", element("span", style=f"width:{width}%"), class_=f"gauge {kind}".strip(), aria_hidden="true"
    )


def timeline(analysis: Mapping[str, Any], *, texts: bool = False) -> Markup:
    """The timeline of a forensic analysis, made here or by a service: every check in order of time."""
    entries = analysis.get("timeline")
    rows = (
        [_entry(entry, texts) for entry in entries if isinstance(entry, Mapping)]
        if isinstance(entries, list)
        else []
    )
    heads = ("when (UTC)", "turn", "text", "verdict", "stance", "why")
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", [element("th", head, scope="col") for head in heads])),
            element("tbody", rows),
            class_="wide",
        ),
        class_="scroll",
    )


def _entry(entry: Mapping[str, Any], texts: bool) -> Markup:
    if entry.get("kind") == "rate_limit":
        cells = [element("td", "–"), element("td", "–"), element("td", tag("refused")), element("td", ""),
                 element("td", "a rate limit refused a prompt")]  # fmt: skip
        return element("tr", element("td", _clock(entry.get("time"))), cells)
    reasons, warnings = _list(entry.get("reasons")), _list(entry.get("warnings"))
    failures = [f"failed: {said}" for said in _list(entry.get("failures"))]
    unread = [said for said in _list(entry.get("unread")) if said not in (*reasons, *warnings)]
    verdict = "blocked" if entry.get("blocked") else "warned" if warnings else "passed"
    stance = entry.get("stance")
    side = str(entry.get("pipeline_type", "")).replace("_", " ")
    said = entry.get("response" if side == "output" else "prompt") if texts else None
    return element(
        "tr",
        element("td", _clock(entry.get("time"))),
        element("td", str(entry.get("turn_number", "–")), class_="number"),
        element(
            "td", side, element("div", text_lines(said), class_="said small") if isinstance(said, str) else None
        ),
        element("td", tag(verdict)),
        element("td", tag(stance) if isinstance(stance, str) and stance else "–"),
        element("td", "; ".join([*reasons, *warnings, *failures, *unread]), class_="name"),
        data_item="row",
        tabindex=-1,
    )


def _list(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


def _clock(time: object) -> str:
    """The time of day of a time in ISO 8601, with seconds."""
    return str(time)[11:19] if isinstance(time, str) else "–"
