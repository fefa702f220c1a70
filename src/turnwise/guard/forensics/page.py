"""The page of an analysis: one file that opens offline, runs no script and fetches nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from turnwise.conversation import Conversation, Turn
from turnwise.guard.forensics.analysis import in_words

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

_SHOWN = 4_000
"""Characters of a text that the page shows."""


def forensics_page(conversation: Conversation, analysis: Mapping[str, Any]) -> str:
    """Return the page of an analysis, with the texts of the conversation in it.

    Anybody may have written those texts and names: all are escaped, and the page forbids scripts and requests.

    Args:
        conversation: the conversation.
        analysis: what `analyze_conversation_forensics` gave for it.
    """
    from turnwise.guard.forensics.charts import can_draw, drawings

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
    parts += [_guardrails(analysis), _timeline(analysis), "<h2>What was said</h2>"]
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
        "Turns": f"{totals['turns']}, of which {totals['complete']} with their response",
        "Checks": f"{totals['checks']} ({totals['input_checks']} of inputs, {totals['output_checks']} of outputs)",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items() if value)
    return f"<dl>{rows}</dl>"


def _scores(analysis: Mapping[str, Any]) -> str:
    points = analysis["trajectory"]
    names = sorted({name for point in points for name in point["scores"]})
    rows = [
        [
            str(point["turn"]),
            point["side"],
            *(_triple(point["scores"].get(name)) for name in names),
        ]
        for point in points
    ]
    return _table(["turn", "side", *(f"{name} (T, I, F)" for name in names)], rows)


def _triple(score: Mapping[str, float] | None) -> str:
    return "not scored" if score is None else ", ".join(f"{score[name]:.2f}" for name in ("T", "I", "F"))


def _guardrails(analysis: Mapping[str, Any]) -> str:
    if not analysis["guardrails"]:
        return ""
    columns = ("evaluated", "skipped", "failed", "firings", "blocks", "warnings")
    rows = [
        [name, *(str(counts[column]) for column in columns), _kinds(counts["redactions"])]
        for name, counts in analysis["guardrails"].items()
    ]
    return "<h2>Guardrails</h2>" + _table(["guardrail", *columns, "redactions"], rows, numeric=columns)


def _kinds(redactions: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in redactions.items())


def _timeline(analysis: Mapping[str, Any]) -> str:
    if not analysis["timeline"]:
        return ""
    rows = [[_text(cell) for cell in _when(entry)] + [_what(entry)] for entry in analysis["timeline"]]
    return "<h2>Timeline</h2>" + _table(["time", "turn", "side", "what"], rows, escaped=True)


def _when(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    if entry["kind"] == "rate_limit":
        return _time(entry["time"]), f"after {entry.get('after_turn', '?')}", "input"
    return _time(entry["time"]), str(entry["turn"]), entry["side"]


def _what(entry: Mapping[str, Any]) -> str:
    if entry["kind"] == "rate_limit":
        return f"<span class='blocked'>rate limit: {_text(entry.get('reason', ''))}</span>"
    parts = [f"<span class='blocked'>blocked by {_text(reason)}</span>" for reason in entry["reasons"]]
    parts += [f"<span class='warned'>warning of {_text(warning)}</span>" for warning in entry["warnings"]]
    parts += [_text(failure) for failure in entry["failures"]]
    if entry["stance"]:
        parts.append(f"stance {_text(entry['stance'])}")
    return "<br>".join(parts) or "passed"


def _turn(turn: Turn, analysis: Mapping[str, Any]) -> str:
    kinds = [kind for kind in ("blocked", "warned") if _among(turn.number, analysis[f"{kind}_turns"])]
    sides = analysis["participants"]
    marks = [_time(turn.timestamp.isoformat() if turn.timestamp else None), *kinds]
    if turn.number in analysis["unchecked_turns"]:
        marks.append("not checked")
    about = ", ".join(mark for mark in marks if mark)
    said = [f"<p class='who'>Turn {turn.number}{' · ' if about else ''}{_text(about)}</p>"]
    for who, text in ((sides["initiator"], turn.prompt), (sides["responder"], turn.response)):
        if text is not None:
            said.append(f"<p class='who'>{_text(who)}</p><p class='said'>{_text(_shortened(text))}</p>")
    return f"<div class='turn {' '.join(kinds[:1])}'>{''.join(said)}</div>"


def _among(number: int, turns: Mapping[str, Sequence[int]]) -> bool:
    return any(number in numbers for numbers in turns.values())


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
    """Return a time in UTC as people write it; nothing for None."""
    return f"{time[:19].replace('T', ' ')} UTC" if time else ""


def _text(text: object) -> str:
    """Return a text as HTML shows it; half a surrogate pair, which no file takes, as its code point."""
    return html.escape(str(text).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0"))
