"""The page of an analysis with its charts: one file that opens offline, runs no script and fetches nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from turnwise.conversation import Conversation, Side, ToolCall, ToolResult, Turn
from turnwise.errors import ChartError
from turnwise.forensics.analysis import in_words
from turnwise.forensics.evidence import piece_in_words, stands_in_words
from turnwise.guard.finding import CONTEXT
from turnwise.linear_regex import LinearRegex
from turnwise.plots import draw, trajectory_chart
from turnwise.plots.style import CONFIG
from turnwise.scoring import Score
from turnwise.scoring.trajectory import scores_by_turn

NO_CHARTS: Final = 'Charts need altair and vl-convert: python -m pip install "turnwise[study]"'
"""Said where charts can't be drawn."""

_STYLE = """
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #222; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .92rem; }
dt { color: #666; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } .note { color: #666; font-size: .9rem; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .22rem .7rem .22rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
td { overflow-wrap: anywhere; } .number { text-align: right; }
.blocked { color: #a33c00; font-weight: 600; } .warned { color: #8a6100; }
.turn { border-left: 4px solid #ddd; padding: .1rem 0 .1rem .9rem; margin: .9rem 0; }
.turn.blocked { border-color: #D55E00; font-weight: inherit; color: inherit; }
.turn.warned { border-color: #E69F00; color: inherit; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
.who { color: #666; font-size: .85rem; }
@media print { body { max-width: none; } .turn, table { break-inside: avoid; } }
"""

_SHOWN = 4_000  # characters of a text that the page shows


def forensics_page(conversation: Conversation, analysis: Mapping[str, Any]) -> str:
    """Return the page of an analysis as HTML, with the texts of the conversation in it.

    Anybody may have written those texts and names: all are escaped, and the page forbids scripts and requests.

    Args:
        conversation: the conversation.
        analysis: what `analyze_conversation_forensics` gave for it.
    """
    title = f"Conversation {conversation.conversation_id}"
    parts = [f"<h1>{_text(title)}</h1>", _facts(analysis), "<h2>What was found</h2><ul>"]
    parts += [f"<li>{_text(line)}</li>" for line in in_words(analysis)]
    parts.append("</ul>")
    if can_draw():
        for name, drawing in drawings(analysis).items():
            shown = drawing if isinstance(drawing, str) else f"<p class='note'>{_text(drawing)}</p>"
            parts.append(f"<h2>{_text(name)}</h2><div class='wide'>{shown}</div>")
    elif analysis["trajectory"]:
        parts += ["<h2>Trajectory</h2>", _scores(analysis), f"<p class='note'>{_text(NO_CHARTS)}</p>"]
    parts += [_evidence(analysis), _guardrails(analysis), _timeline(analysis), "<h2>What was said</h2>"]
    parts += [_turn(turn, analysis) for turn in conversation]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _facts(analysis: Mapping[str, Any]) -> str:
    sides, times, totals = analysis["participants"], analysis["times"], analysis["totals"]
    model = ", ".join(f"{key} {value}" for key, value in analysis["model_info"].items())
    facts = {
        "Participants": f"{sides['initiator']} ({sides['initiator_type']}) with {sides['responder']} "
        f"({sides['responder_type']})",
        "Model": model,
        "Time": f"{_time(times['first'])} to {_time(times['last'])}" if times["first"] else "not known",
        "Turns": f"{analysis['total_turns']}, of which {totals['complete']} with their response",
        "Checks": f"{totals['checks']} ({totals['input_checks']} of inputs, {totals['output_checks']} of outputs, "
        f"{totals['tool_call_checks']} of tool calls, {totals['tool_result_checks']} of tool results"
        + "".join(
            f", {totals[f'{kind}_checks']} of {kind.replace('_', ' ')}"
            for kind in CONTEXT
            if totals.get(f"{kind}_checks")
        )
        + ")",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items() if value)
    return f"<dl>{rows}</dl>"


def _scores(analysis: Mapping[str, Any]) -> str:
    points = analysis["trajectory"]
    names = sorted({name for point in points for name in point["scores"]})
    rows = [
        [str(point["turn"]), point["side"], *(_triple(point["scores"].get(name)) for name in names)]
        for point in points
    ]
    return _table(["turn", "side", *(f"{name} (T, I, F)" for name in names)], rows)


def _triple(score: Mapping[str, float] | None) -> str:
    return "not scored" if score is None else ", ".join(f"{score[name]:.2f}" for name in ("T", "I", "F"))


def _guardrails(analysis: Mapping[str, Any]) -> str:
    if not analysis["guardrail_summary"]:
        return ""
    columns = ("evaluated", "skipped", "failed", "not_read", "total_firings", "blocks", "warnings")
    rows = [
        [
            name,
            *(str(counts[column]) for column in columns),
            ", ".join(f"{count} {kind}" for kind, count in counts["redactions"].items()),
        ]
        for name, counts in analysis["guardrail_summary"].items()
    ]
    heads = ["guardrail", *(column.removeprefix("total_").replace("_", " ") for column in columns), "redactions"]
    return "<h2>Guardrails</h2>" + _table(heads, rows, numeric=heads[1:-1])


def _evidence(analysis: Mapping[str, Any]) -> str:
    if not analysis["evidence"]:
        return ""
    rows = [
        [
            str(entry["turn"]),
            str(entry["side"]),
            "<br>".join(_text(piece_in_words(piece)) for piece in entry["pieces"]) or "nothing found",
            _text(stands_in_words(entry)),
        ]
        for entry in analysis["evidence"]
    ]
    return "<h2>How evidence grew</h2>" + _table(["turn", "side", "what was added", "then"], rows, escaped=True)


def _timeline(analysis: Mapping[str, Any]) -> str:
    if not analysis["timeline"]:
        return ""
    rows = [[_text(cell) for cell in _when(entry)] + [_what(entry)] for entry in analysis["timeline"]]
    return "<h2>Timeline</h2>" + _table(["time", "turn", "side", "what"], rows, escaped=True)


def _when(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    if entry["kind"] == "rate_limit":
        return _time(entry["time"]), f"after {entry.get('after_turn', '?')}", "input"
    return _time(entry["time"]), str(entry["turn_number"]), told_side(entry)


def told_side(entry: Mapping[str, Any]) -> str:
    """Which text an entry of a timeline is about, with the name of the tool where it is a tool's.

    >>> told_side({"pipeline_type": "tool_result", "tool": "weather"})
    'tool_result (weather)'
    """
    return f"{entry['pipeline_type']} ({entry['tool']})" if entry.get("tool") else str(entry["pipeline_type"])


def _what(entry: Mapping[str, Any]) -> str:
    if entry["kind"] == "rate_limit":
        return f"<span class='blocked'>rate limit: {_text(entry.get('reason', ''))}</span>"
    parts = [f"<span class='blocked'>blocked by {_text(reason)}</span>" for reason in entry["reasons"]]
    parts += [f"<span class='warned'>warning of {_text(warning)}</span>" for warning in entry["warnings"]]
    parts += [_text(told) for told in (*entry["failures"], *entry.get("unread", ()))]
    if entry["stance"]:
        parts.append(f"stance {_text(entry['stance'])}")
    return "<br>".join(parts) or "passed"


def _turn(turn: Turn, analysis: Mapping[str, Any]) -> str:
    kinds = [
        kind
        for kind in ("blocked", "warned")
        if any(turn.number in numbers for numbers in analysis[f"{kind}_turns"].values())
    ]
    sides = analysis["participants"]
    marks = [_time(turn.timestamp.isoformat() if turn.timestamp else None), *kinds]
    if turn.number in analysis["unchecked_turns"]:
        marks.append("not checked")
    about = ", ".join(mark for mark in marks if mark)
    said = [f"<p class='who'>Turn {turn.number}{' · ' if about else ''}{_text(about)}</p>"]
    texts = [(sides["initiator"], turn.prompt), *map(_step, turn.tool_steps), (sides["responder"], turn.response)]
    for who, text in texts:
        if text is not None:
            said.append(f"<p class='who'>{_text(who)}</p><p class='said'>{_text(_shortened(text))}</p>")
    return f"<div class='turn {' '.join(kinds[:1])}'>{''.join(said)}</div>"


def _step(step: ToolCall | ToolResult) -> tuple[str, str]:
    if isinstance(step, ToolCall):
        return f"call of {step.name} ({step.call_id})", step.arguments
    return f"result of {step.name or 'a tool'} ({step.call_id})", step.content


def _shortened(text: str) -> str:
    left = len(text) - _SHOWN
    return text if left <= 0 else f"{text[:_SHOWN]}… ({left} more characters)"


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[str] = (), *, escaped: bool = False
) -> str:
    kinds = [" class='number'" if column in numeric else "" for column in columns]
    head = "".join(f"<th{kind}>{_text(column)}</th>" for kind, column in zip(kinds, columns, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{cell if escaped else _text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _time(time: str | None) -> str:
    """A time in UTC as people write it; empty for None."""
    return f"{time[:19].replace('T', ' ')} UTC" if time else ""


def _text(text: object) -> str:
    """A text, escaped for HTML; half a surrogate pair, which no file takes, becomes its code point."""
    return html.escape(str(text).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0"))


MODES: Final = {"normal": "#0072B2", "cautious": "#E69F00", "guarded": "#D55E00", "terminated": "#333333"}
"""Colour by engagement mode, of Okabe and Ito's palette."""

_WIDTH, _HEIGHT = 640, 190
_NAMESPACE = LinearRegex(r'\sxmlns(?::\w+)?="[^"]*"')  # what a drawing needs as a file, and not inside a page


def can_draw() -> bool:
    """Whether the packages that draw charts are installed."""
    return all(find_spec(package) is not None for package in ("altair", "vl_convert"))


def drawings(analysis: Mapping[str, Any]) -> dict[str, str | ChartError]:
    """The charts that an analysis has data for, by heading: as SVG for a page, or why one failed."""
    found = {}
    if any(point["scores"] for point in analysis["trajectory"]):
        found["Trajectory"] = _trajectory_drawing(analysis)
    for drift in analysis["drift"]:
        found[f"Score of {drift['guardrail']}"] = _detector(drift)
    if analysis["stance"]:
        found["Stance"] = _stance_drawing(analysis["stance"])
    return {
        name: one if isinstance(one, ChartError) else _NAMESPACE.sub(lambda _: "", one)
        for name, one in draw(found).svg.items()
    }


def _trajectory_drawing(analysis: Mapping[str, Any]) -> dict[str, Any]:
    points = analysis["trajectory"]
    last = max(point["turn"] for point in points)
    scores = (
        (point["turn"], Side.PROMPT if point["side"] == "input" else Side.RESPONSE, name, Score.from_dict(score))
        for point in points
        for name, score in point["scores"].items()
    )
    turns = [Turn(number, "") for number in range(1, last + 1)]
    return trajectory_chart(list(scores_by_turn(last, scores, {})), turns, title="")


def _detector(drift: Mapping[str, Any]) -> dict[str, Any]:
    import altair as alt

    # One point a turn: the prompt's, where both sides were scored.
    by_turn: dict[int, Mapping[str, Any]] = {}
    for point in drift["scores"]:
        by_turn.setdefault(point["turn"], point)
    rows = [{"place": place, **point} for place, point in enumerate(by_turn.values())]
    turns = _turn_axis(rows)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=turns, y=alt.Y("score:Q").title("score of the detector")
    )
    layers = [
        base.mark_line(strokeWidth=2, color="#333333"),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            color=alt.condition("datum.active", alt.value("#D55E00"), alt.value("#333333")),
            shape=alt.condition("datum.active", alt.value("triangle-up"), alt.value("circle")),
        ),
    ]
    for name, colour, dash in (("threshold", "#D55E00", [1, 0]), ("warn", "#E69F00", [5, 3])):
        if drift[name] is not None:
            layers += _level(drift[name], {"threshold": "block", "warn": "warn"}[name], colour, dash)
    began = drift["began"]
    if began is not None and began["alarm"]:
        mark = alt.Chart(
            alt.InlineData(values=[{"turn": began["turn"], "what": f"began at turn {began['turn']}"}])
        )
        layers.append(mark.mark_rule(color="#0072B2", strokeDash=[2, 2], strokeWidth=1.5).encode(x="turn:Q"))
        layers.append(
            mark.mark_text(align="left", dx=4, baseline="top", color="#0072B2", fontSize=11).encode(
                x="turn:Q", y=alt.value(2), text="what:N"
            )
        )
    return _finished(alt.layer(*layers))


def _stance_drawing(stances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import altair as alt

    latest = {one["turn"]: one for one in stances}.values()  # one a turn
    rows = [{"turn": one["turn"], "trust": one.get("trust"), "mode": one.get("mode")} for one in latest]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=_turn_axis(rows), y=alt.Y("trust:Q").title("trust").scale(domain=[0, 1])
    )
    look = alt.Color("mode:N", legend=alt.Legend(title=None, orient="bottom")).scale(
        domain=list(MODES), range=list(MODES.values())
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(color=look)
    return _finished(alt.layer(base.mark_line(color="#999999"), points))


def _level(value: float, name: str, colour: str, dash: list[int]) -> list[Any]:
    import altair as alt

    at = alt.Chart(alt.InlineData(values=[{"value": value, "name": f"{name} at {value:.3g}"}]))
    return [
        at.mark_rule(color=colour, strokeDash=dash).encode(y="value:Q"),
        # At the left, where scores are low as a rule.
        at.mark_text(align="left", dy=-6, color=colour, fontSize=11).encode(
            y="value:Q", x=alt.value(4), text="name:N"
        ),
    ]


def _turn_axis(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    last = max((row["turn"] for row in rows), default=1)
    scale = alt.Scale(domain=[1, max(last, 2)], nice=False, padding=8)
    return alt.X("turn:Q").title("turn").scale(scale).axis(format="d", tickMinStep=1, grid=False)


def _finished(chart: Any) -> dict[str, Any]:
    spec: dict[str, Any] = chart.properties(width=_WIDTH, height=_HEIGHT).to_dict()
    spec["config"] = CONFIG
    return spec
