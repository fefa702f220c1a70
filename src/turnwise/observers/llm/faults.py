"""Requests that get no reply: which fault it is, what to mend, and how long to wait before the next try."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from turnwise._support.visible import shortened
from turnwise.errors import TurnwiseError
from turnwise.linear_regex import LinearRegex


class FaultKind(StrEnum):
    """Ways in which a request gets no reply."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CONNECTION = "connection"
    TRUNCATED = "truncated"
    THROTTLED = "throttled"
    SERVER = "server"
    REJECTED = "rejected"
    FATAL = "fatal"


PASSING = frozenset(FaultKind) - {FaultKind.REJECTED, FaultKind.FATAL}
"""Faults that may pass when the request is sent again."""

MAYBE_PAID = frozenset({FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.TRUNCATED})
"""Faults after which the provider may bill a reply that nobody has read."""


class ChatError(TurnwiseError):
    """A request that got no reply. The message is for a person, and holds no key.

    After `FaultKind.FATAL` no other request would fare better. `retry_after` is the seconds that the provider asks
    to wait, `status` that of HTTP, None where there was no answer; `names_structure` tells whether the provider
    says that it does not take the way in which JSON was asked for.
    """

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        retry_after: float | None = None,
        *,
        status: int | None = None,
        names_structure: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.names_structure = names_structure


_SHOWN = 300
"""Characters of a provider's own words that a message quotes at most."""

_FIELDS = 5
"""Errors in fields of a request that are looked at."""

_STRUCTURE_REFUSED = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses of an answer that may refuse a structure; the others have another cause, whatever the words."""

_PASSING = {408: FaultKind.TIMEOUT, 409: FaultKind.SERVER, 425: FaultKind.SERVER, 429: FaultKind.THROTTLED}
_NO_CREDIT = LinearRegex("insufficient_quota|billing_hard_limit_reached|insufficient_credits|credit balance")
_NO_MODEL = LinearRegex(
    r"model_not_found|invalid_model|unknown_model"
    r"|model\b.{0,80}\b(not found|not exist|unknown|not a valid|not valid)"
)
_NO_FIELD = LinearRegex(
    r"unsupported_parameter|unsupported_value|unknown_parameter|response_format|max_(completion_)?tokens.{0,60}not"
)
_NO_STRUCTURE = LinearRegex(
    r"response_format|json_schema|json_object|structured[ _-]?outputs?|guided_json|grammar|logprobs"
)
_KEY_REFUSED = LinearRegex("invalid_api_key|incorrect api key|api[ _-]key (is )?(not valid|invalid|missing)")


def status_fault(
    status: int,
    body: object,
    retry_after: float | None,
    *,
    spec: str,
    base_url: str,
    key_variable: str,
    hide: Callable[[str], str] = str,
) -> ChatError:
    """The fault that an HTTP status and its body stand for; `hide` takes the key out of the provider's words.

    >>> status_fault(429, None, 2.0, spec="llm:x/y", base_url="https://x", key_variable="").kind
    <FaultKind.THROTTLED: 'throttled'>
    """
    words, codes = _error_of(body, hide)
    clue = f"{codes} {words}".lower()
    said = f" ({status}: {words})" if words else f" ({status})"
    key = f"the key in {key_variable}" if key_variable else "a request without key"
    mends = (
        (status == 402 or _NO_CREDIT.search(clue), f"the account has no credit left{said}: top it up"),
        (status in _PASSING or status >= 500, ""),
        (status == 401 or _KEY_REFUSED.search(clue), f"{base_url} refuses {key}{said}: check it"),
        (status == 403, f"{base_url} forbids this to {key}{said}: check what it may use, and from where"),
        (
            status == 404 or _NO_MODEL.search(clue),
            f"{base_url} does not know the model{said}: check its name and the base URL",
        ),
        (status < 400, f"{base_url} is not a chat-completions API{said}: check the base URL"),
        (
            _NO_FIELD.search(clue),
            f"the model does not take a setting{said}: try --temperature none or --structured none",
        ),
    )
    mend = next((mend for holds, mend in mends if holds), "")
    kind, told = FaultKind.REJECTED, f"the provider rejects this request{said}"
    if mend:
        kind, told = FaultKind.FATAL, f"{spec}: {mend}"
    elif status in _PASSING:
        kind, told = _PASSING[status], f"the provider is busy{said}"
    elif status >= 500:
        kind, told = FaultKind.SERVER, f"the provider failed{said}"
    asked = status in _STRUCTURE_REFUSED and _NO_STRUCTURE.search(clue) is not None
    passing = kind is not FaultKind.FATAL and kind is not FaultKind.REJECTED
    return ChatError(kind, told, retry_after if passing else None, status=status, names_structure=asked)


def _error_of(body: object, hide: Callable[[str], str]) -> tuple[str, str]:
    """A provider's words and its codes for the error, without the key and only then shortened."""
    error: Any = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict) and "detail" in error:
        error = _detail(error["detail"])
    if isinstance(error, list) and error:
        error = error[0].get("error", error[0]) if isinstance(error[0], dict) else error[0]
    if not isinstance(error, dict):
        return short(hide(error)) if isinstance(error, str) else "", ""
    words = error.get("message")
    told = (error.get(name) for name in ("code", "type", "param", "status"))
    codes = short(hide(" ".join(str(code) for code in told if code and isinstance(code, str | int | float))))
    return short(hide(words)) if isinstance(words, str) else codes, codes


def _detail(detail: object) -> object:
    """The errors that FastAPI finds in a request, each with its field and without its value."""
    if not isinstance(detail, list):
        return detail
    found = [one for one in detail[:_FIELDS] if isinstance(one, dict)]
    fields = [one["loc"] if isinstance(one.get("loc"), list) else [] for one in found]
    places = [".".join(str(step) for step in field if isinstance(step, str | int)) for field in fields]
    return "; ".join(f"{place}: {one.get('msg')}" for place, one in zip(places, found, strict=True))


def short(text: str) -> str:
    line = shortened(text, _SHOWN)
    return "an HTML page" if line[:1] == "<" else line  # a page of a proxy, not the words of an API


_DIGITS = 12
"""Digits of a number of seconds that is taken as one, before the point and after it."""


def retry_after(seconds: str | None, milliseconds: str | None, now: datetime) -> float | None:
    """Seconds that ``Retry-After`` asks for (RFC 9110, section 10.2.3), None where it can't be read.

    >>> retry_after("2", None, datetime(2025, 1, 1, tzinfo=UTC))
    2.0
    >>> retry_after("Wed, 01 Jan 2025 00:00:30 GMT", None, datetime(2025, 1, 1, tzinfo=UTC))
    30.0
    """
    for text, unit in ((milliseconds, 1000.0), (seconds, 1.0)):
        number = (text or "").strip()
        if _is_number(number):
            return float(number) / unit
    if seconds is None:
        return None
    try:
        at = parsedate_to_datetime(seconds)
    except (ValueError, OverflowError):  # a year or an offset beyond what a date can hold
        return None
    wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, wait) if math.isfinite(wait) else None


def _is_number(text: str) -> bool:
    """At most twelve digits, with or without as many decimals."""
    whole, point, decimals = text.partition(".")
    parts = (whole, decimals) if point else (whole,)
    return all(part.isdecimal() and len(part) <= _DIGITS for part in parts)


FIRST = 0.5
"""Seconds before the first retry; each later one doubles it."""

LONGEST = 60.0
"""Seconds that the doubling ends at."""

PATIENCE = 900.0
"""Seconds that a provider may ask to wait; after a longer demand the call is given up."""


def delay(retry: int, asked: float | None, jitter: float) -> float:
    """Seconds before a retry, counted from 1; `jitter` in [0, 1) spreads callers over half of the wait.

    >>> delay(1, None, 0.0), delay(3, None, 1.0), delay(3, 7.0, 0.0)
    (0.25, 2.0, 7.0)
    """
    step = min(FIRST * 2.0 ** min(retry - 1, 30), LONGEST)
    own = step * (0.5 + jitter / 2)
    # Those who were told the same moment should not all come back in it.
    return own if asked is None else max(own, asked + jitter * min(asked, 1.0) / 4)
