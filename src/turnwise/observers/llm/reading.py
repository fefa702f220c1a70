"""Reading a reply: three numbers and a reason, or a plain statement that there are none."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from turnwise.scoring import Reply, Score

MALFORMED = "malformed"
REFUSED = "refused"

_SHOWN = 160
"""Characters of a reply that a message quotes at most."""

_CUT_OFF = {"length", "max_tokens"}
_FILTERED = {"content_filter", "safety", "refusal"}
_THOUGHTS = re.compile(r"\A\s*<think>.*?(</think>|\Z)", re.DOTALL)
_REFUSES = re.compile(
    r"""\W*(?:
        i['’]?m\ sorry | i\ am\ sorry | sorry\b | i\ apologi[sz]e | unfortunately | as\ an\ ai\b
      | i\ can['’]?t | i\ can\ ?not | i\ won['’]?t | i\ will\ not | i\ must\ decline | i\ decline
      | i\ am\ (?:unable|not\ able) | i['’]?m\ (?:unable|not\ able)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How a model begins that declines in words, where it was asked for JSON."""


class Reading(NamedTuple):
    """What a reply says.

    Args:
        score: the score; None where there is none to read.
        reasoning: the reason in words, where there is a score.
        reason: ``malformed`` or ``refused`` where there is no score.
        message: what is wrong with the reply, for a person.
    """

    score: Score | None = None
    reasoning: str | None = None
    reason: str | None = None
    message: str | None = None


def read_reply(reply: Reply) -> Reading:
    """Return the score that a reply gives, or why it gives none. Nothing is ever filled in.

    The first JSON object in the text counts; what a model marks as its thoughts before it does not.
    """
    if reply.refusal:
        return Reading(reason=REFUSED, message=f"the model refused: {_short(reply.refusal)}")
    if (reply.finish_reason or "").lower() in _FILTERED:
        return Reading(reason=REFUSED, message=f"the provider withheld the reply ({reply.finish_reason})")
    text = _THOUGHTS.sub("", reply.text)
    try:
        return _read(text)
    except (ValueError, RecursionError) as error:
        if not text.lstrip().startswith(("{", "```")) and _REFUSES.match(text):
            return Reading(reason=REFUSED, message=f"the model refused: {_short(text)}")
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if reply.finish_reason in _CUT_OFF:
            why += "; it was cut off at the limit that --max-tokens sets"
        return Reading(
            reason=MALFORMED, message=f"{why}: {_short(text)}" if text.strip() else "the reply is empty"
        )


def _read(text: str) -> Reading:
    record = _first_object(text)
    missing = [name for name in ("T", "I", "F", "reasoning") if name not in record]
    if missing:
        raise ValueError(f"the reply has no {', '.join(missing)}")
    numbers = [_degree(name, record[name]) for name in ("T", "I", "F")]
    reasoning = record["reasoning"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        raise ValueError("the reply's reasoning is no text")
    return Reading(score=Score(*numbers), reasoning=reasoning.strip())


def _first_object(text: str) -> dict[str, Any]:
    """Return the first JSON object of a text.

    An object that the text ends in the middle of is not passed over for one inside it: that would be a part of an
    answer taken for the whole.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_distinct)
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if re.match(r'\{\s*"', text[at : at + 80]):
                raise ValueError(f"the reply's JSON is broken ({error.msg})") from None
            at = text.find("{", at + 1)
        else:
            return dict(found)
    raise ValueError("the reply holds no JSON object")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("the reply says one thing twice")
    return record


def _degree(name: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 1:  # type: ignore[operator, arg-type]  # a number
        raise ValueError(f"the reply's {name} is no number from 0 to 1")
    return float(value)  # type: ignore[arg-type]  # a number


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
