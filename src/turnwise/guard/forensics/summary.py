"""What each guardrail did over a conversation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from turnwise.guard.forensics.checks import SIDES, KeptCheck, did

_COUNTED = {
    "evaluated": "evaluated",
    "skipped": "skipped",
    "failed": "failed",
    "firings": "found",
    "blocks": "blocked",
    "warnings": "warned",
    "logged": "logged",
}
"""Key of a summary, and what a detail did that counts for it."""


def guardrail_summary(checks: Iterable[KeptCheck]) -> dict[str, dict[str, Any]]:
    """Return by guardrail how often it ran and what came of it, both sides together and each apart.

    Args:
        checks: the checks of a conversation.
    """
    seen: dict[str, dict[str, list[tuple[int, Mapping[str, Any]]]]] = {}
    for check in checks:
        for name, detail in check.details.items():
            seen.setdefault(name, {side: [] for side in SIDES})[check.side].append((check.turn, detail))
    return {
        name: {
            **_counts([detail for details in sides.values() for detail in details]),
            **{side: _counts(details) for side, details in sides.items()},
        }
        for name, sides in seen.items()
    }


def _counts(details: list[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    counts: dict[str, Any] = {
        key: sum(did(detail, what) for _, detail in details) for key, what in _COUNTED.items()
    }
    failed = [detail for _, detail in details if did(detail, "failed")]
    kinds = Counter(kind for _, detail in details for kind in _kinds(detail))
    ran = [seconds for _, detail in details if (seconds := _seconds(detail)) is not None]
    fired = sorted(turn for turn, detail in details if did(detail, "found"))
    return {
        **counts,
        "failed_open": sum(detail.get("path") == "open" for detail in failed),
        "failed_closed": sum(detail.get("path") == "closed" for detail in failed),
        "redactions": dict(sorted(kinds.items())),
        "first_firing": fired[0] if fired else None,
        "last_firing": fired[-1] if fired else None,
        "mean_seconds": sum(ran) / len(ran) if ran else None,
        "longest_seconds": max(ran, default=None),
    }


def _kinds(detail: Mapping[str, Any]) -> list[str]:
    redactions = detail.get("redactions")
    if not isinstance(redactions, list | tuple):
        return []
    return [str(one.get("kind")) for one in redactions if isinstance(one, Mapping)]


def _seconds(detail: Mapping[str, Any]) -> float | None:
    seconds = detail.get("seconds")
    if did(detail, "skipped") or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if math.isfinite(seconds) else None
