"""The one place where turnwise asks for the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

Clock = Callable[[], datetime]
"""Gives the present time, aware and in UTC. Passed in wherever time matters."""

_START: Final = datetime(2000, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """The present time, aware and in UTC."""
    return datetime.now(UTC)


def monotonic_now() -> datetime:
    """A time that goes on evenly whatever the clock is set to; only differences mean anything."""
    return _START + timedelta(seconds=monotonic())
