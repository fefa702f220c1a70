"""Reads three numbers and a reason from a reply, or why there are none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnwise._support.visible import shortened
from turnwise.linear_regex import LinearRegex
from turnwise.scoring import Reply, Score

MALFORMED = "malformed"
REFUSED = "refused"

_SHOWN = 160
"""Characters of a reply that a message quotes at most."""

_CUT_OFF = {"length", "max_tokens"}
_FILTERED = {"content_filter", "safety", "refusal"}
_FENCE = "```"
_THINKS, _THOUGHT = "<think>", "</think>"
_REFUSES = LinearRegex(
    r"(?i)[^\pL\pN_]*(?:i['’]?m sorry|i am sorry|sorry\b|i apologi[sz]e|unfortunately|as an ai\b"
    r"|i can['’]?t|i can ?not|i won['’]?t|i will not|i must decline|i decline"
    r"|i am (?:unable|not able)|i['’]?m (?:unable|not able))"
)
"""How a model begins that declines in words, where it was asked for JSON."""


class ParsedReply(NamedTuple):
    """What a reply says: a score and its reasoning, or the reason ``malformed`` or ``refused`` and a message."""

    score: Score | None = None
    reasoning: str | None = None
    reason: str | None = None
    message: str | None = None


def read_reply(reply: Reply) -> ParsedReply:
    """The score that a reply gives, or why it gives none. Nothing is ever filled in.

    A reply is one JSON object without an object inside it, alone or in one code fence, after thoughts in `<think>`
    if any. Anything else beside it makes it malformed: of two objects one may be quoted from the material.
    """
    (parsed,) = read_parts(reply, ("",))
    return parsed


def read_parts(reply: Reply, prefixes: Sequence[str]) -> list[ParsedReply]:
    """The scores that a reply gives, or why it gives none; the fields of each begin with its prefix."""
    kept_back = withheld(reply)
    if kept_back is not None:
        return [kept_back] * len(prefixes)
    text = reply.text.strip()
    if text.startswith(_THINKS):
        text = text.partition(_THOUGHT)[2].strip()
    cut_off = reply.finish_reason in _CUT_OFF
    try:
        record = _only_object(text)
    except (ValueError, RecursionError) as error:
        return [_failed(text, error, cut_off=cut_off)] * len(prefixes)
    return [_part(record, prefix, text, cut_off=cut_off) for prefix in prefixes]


def _part(record: Mapping[str, Any], prefix: str, text: str, *, cut_off: bool) -> ParsedReply:
    try:
        parsed = _read(record, prefix)
        if cut_off:
            raise ValueError("the reply may go on")
    except ValueError as error:
        return _failed(text, error, cut_off=cut_off)
    return parsed


def _failed(text: str, error: Exception, *, cut_off: bool) -> ParsedReply:
    if "{" not in text and _REFUSES.match(text):
        return ParsedReply(reason=REFUSED, message=f"the model refused: {short(text)}")
    why = "the reply is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if cut_off:
        why += "; it was cut off at the limit that --max-tokens sets"
    return ParsedReply(reason=MALFORMED, message=f"{why}: {short(text)}" if text else "the reply is empty")


def withheld(reply: Reply) -> ParsedReply | None:
    """The refusal, where the provider marks a reply as one."""
    if reply.refusal:
        return ParsedReply(reason=REFUSED, message=f"the model refused: {short(reply.refusal)}")
    if (reply.finish_reason or "").lower() in _FILTERED:
        return ParsedReply(reason=REFUSED, message=f"the provider withheld the reply ({reply.finish_reason})")
    return None


def _read(record: Mapping[str, Any], prefix: str) -> ParsedReply:
    *degrees, words = (f"{prefix}{name}" for name in ("T", "I", "F", "reasoning"))
    missing = [name for name in (*degrees, words) if name not in record]
    if missing:
        raise ValueError(f"the reply has no {', '.join(missing)}")
    numbers = [_degree(name, record[name]) for name in degrees]
    reasoning = record[words]
    if not isinstance(reasoning, str) or not reasoning.strip():
        raise ValueError("the reply's reasoning is not text")
    return ParsedReply(score=Score(*numbers), reasoning=reasoning.strip())


def _only_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; a `ValueError` where the text is anything more or less."""
    body = text
    if text.startswith(_FENCE):
        body = text.removeprefix(_FENCE)
        body = (body[4:] if body[:4].lower() == "json" else body).removesuffix(_FENCE).strip()
    if "{" not in body:
        raise ValueError("the reply holds no JSON object")
    if not body.startswith("{"):
        raise ValueError("the reply is not its JSON object alone: there is text before it")
    objects: list[dict[str, Any]] = []

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        objects.append(dict(pairs))
        if len(objects[-1]) < len(pairs):
            raise ValueError("the reply says one thing twice")
        return objects[-1]

    try:
        found, end = json.JSONDecoder(object_pairs_hook=distinct, parse_constant=_no_number).raw_decode(body)
    except json.JSONDecodeError as error:
        raise ValueError(f"the reply's JSON is broken ({error.msg})") from None
    if end < len(body):
        raise ValueError("the reply is not its JSON object alone: it goes on after it")
    if len(objects) > 1:
        raise ValueError("the reply holds an object inside its object")
    return dict(found)


def _no_number(name: str) -> float:
    raise ValueError(f"the reply's JSON is broken ({name} is not a number)")


def _degree(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"the reply's {name} is not a number from 0 to 1")
    return float(value)


def short(text: str) -> str:
    return shortened(text, _SHOWN)
