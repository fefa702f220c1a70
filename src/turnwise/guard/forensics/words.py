"""What an analysis amounts to, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def findings(analysis: Mapping[str, Any]) -> list[str]:
    """Return what an analysis found, a sentence each, the gravest first.

    Args:
        analysis: what `analyze_conversation_forensics` gave.

    >>> findings({"totals": {"checks": 0, "turns": 3}, "rate_limits": {"count": 0}})
    ['No guard looked at this conversation: not checked is not clean.']
    """
    return list(_findings(analysis))


def _findings(analysis: Mapping[str, Any]) -> Iterator[str]:
    totals = analysis["totals"]
    if analysis["rate_limits"]["count"]:
        yield f"A rate limit refused {_count(analysis['rate_limits']['count'], 'prompt')}."
    if not totals["checks"]:
        yield "No guard looked at this conversation: not checked is not clean."
        return
    for kind in ("blocked", "warned"):
        sides = analysis[f"{kind}_turns"]
        parts = [f"{side}s of {_listed(turns)}" for side, turns in sides.items() if turns]
        if parts:
            yield f"{'Blocked' if kind == 'blocked' else 'Warned of'}: {'; '.join(parts)}."
    for drift in analysis["drift"]:
        yield _drift(drift)
    if totals["failures"]:
        failed = [name for name, counts in analysis["guardrails"].items() if counts["failed"]]
        yield f"{_count(totals['failures'], 'check')} failed, by {', '.join(failed)}: not checked is not clean."
    if totals["unchecked"]:
        yield f"No guard looked at {_listed(analysis['unchecked_turns'])}: not checked is not clean."
    if analysis["stance"]:
        last = analysis["stance"][-1]
        yield f"Last stance, at turn {last['turn']}: {last.get('mode')} ({last.get('rationale')})."
    if not totals["blocked_turns"] and not totals["warned_turns"]:
        yield "Nothing was blocked or warned of."


def _drift(drift: Mapping[str, Any]) -> str:
    name, began = drift["guardrail"], drift["began"]
    if began is None:
        return f"By {name}: the score of {drift['detector']} never rose."
    limit = "" if drift["threshold"] is None else f", threshold {drift['threshold']:.3g}"
    if began["alarm"]:
        return (
            f"By {name}, drift began at turn {began['turn']} and led to the first alarm at turn {began['led_to']} "
            f"({drift['detector']} {began['score']:.3g}{limit})."
        )
    return (
        f"By {name}, no alarm: the score of {drift['detector']} was highest at turn {began['led_to']} "
        f"({began['score']:.3g}{limit}); it rose from turn {began['turn']} on."
    )


def _listed(turns: Sequence[int]) -> str:
    """Return numbers of turns with neighbours joined.

    >>> _listed([1, 2, 3, 7])
    'turns 1–3, 7'
    """
    spans: list[list[int]] = []
    for turn in turns:
        if spans and turn == spans[-1][1] + 1:
            spans[-1][1] = turn
        else:
            spans.append([turn, turn])
    parts = [str(first) if first == last else f"{first}–{last}" for first, last in spans]
    return f"turn{'s' if len(turns) > 1 else ''} {', '.join(parts)}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
