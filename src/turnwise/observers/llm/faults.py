"""What an error of a provider means: whether to wait, to give one request up, or to stop the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.chat import ChatError, FaultKind

_SHOWN = 300
"""Characters of a provider's own words that a message quotes at most."""

_PASSING = {408: FaultKind.TIMEOUT, 409: FaultKind.SERVER, 425: FaultKind.SERVER, 429: FaultKind.THROTTLED}
_NO_CREDIT = LinearRegex("insufficient_quota|billing_hard_limit_reached|insufficient_credits|credit balance")
_NO_MODEL = LinearRegex(
    r"model_not_found|invalid_model|unknown_model"
    r"|model\b.{0,80}\b(not found|not exist|unknown|not a valid|not valid)"
)
_NO_FIELD = LinearRegex(
    r"unsupported_parameter|unsupported_value|unknown_parameter|response_format|max_(completion_)?tokens.{0,60}not"
)
_NO_KEY = LinearRegex("invalid_api_key|incorrect api key|api[ _-]key (is )?(not valid|invalid|missing)")


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
    """Return the fault that an HTTP status stands for.

    Args:
        status: the status.
        body: the body of the answer, parsed where it is JSON.
        retry_after: seconds that the provider asks to wait, where it does.
        spec: specification of the observer, for messages.
        base_url: where the request went, for messages.
        key_variable: environment variable of the key, for messages; empty where there is none.
        hide: takes the key out of a provider's words.

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
        (status == 401 or _NO_KEY.search(clue), f"{base_url} refuses {key}{said}: check it"),
        (status == 403, f"{base_url} forbids this to {key}{said}: check what it may use, and from where"),
        (
            status == 404 or _NO_MODEL.search(clue),
            f"{base_url} does not know the model{said}: check its name and the base URL",
        ),
        (status < 400, f"{base_url} is no chat-completions API{said}: check the base URL"),
        (
            _NO_FIELD.search(clue),
            f"the model does not take a setting{said}: try --temperature none or --structured none",
        ),
    )
    mend = next((mend for holds, mend in mends if holds), "")
    if mend:
        return ChatError(FaultKind.FATAL, f"{spec}: {mend}")
    if status in _PASSING:
        return ChatError(_PASSING[status], f"the provider is busy{said}", retry_after)
    if status >= 500:
        return ChatError(FaultKind.SERVER, f"the provider failed{said}", retry_after)
    return ChatError(FaultKind.REJECTED, f"the provider rejects this request{said}")


def _error_of(body: object, hide: Callable[[str], str]) -> tuple[str, str]:
    """Return a provider's words and its codes for the error, without the key and then shortened."""
    error: Any = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, list) and error:
        error = error[0].get("error", error[0]) if isinstance(error[0], dict) else error[0]
    if not isinstance(error, dict):
        return _short(hide(error)) if isinstance(error, str) else "", ""
    words = error.get("message")
    told = (error.get(name) for name in ("code", "type", "param", "status"))
    codes = _short(hide(" ".join(str(code) for code in told if code and isinstance(code, str | int | float))))
    return _short(hide(words)) if isinstance(words, str) else codes, codes


def _short(text: str) -> str:
    line = " ".join(text.split())
    if line[:1] == "<":  # a page of a proxy, not the words of an API
        return "an HTML page"
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
