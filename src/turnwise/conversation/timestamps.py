"""Times of turns: always aware and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from turnwise.errors import ConversationError
from turnwise.visible import shown


def as_utc(stamp: object, where: str) -> datetime:
    """Return a time in UTC.

    Args:
        stamp: an aware datetime of any zone.
        where: what the time belongs to, for messages.

    Raises:
        ConversationError: no datetime, one without a zone, or one that UTC can't hold.

    >>> from datetime import timedelta, timezone
    >>> as_utc(datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1))), "turn 1").isoformat()
    '2024-12-31T23:00:00+00:00'
    """
    if not isinstance(stamp, datetime):
        raise ConversationError(f"{where} is {type(stamp).__name__}, not a datetime")
    if stamp.tzinfo is UTC:
        return stamp
    if stamp.utcoffset() is None:
        raise ConversationError(f"{where} {stamp} has no time zone; add one, such as UTC")
    try:
        return stamp.astimezone(UTC)
    except OverflowError:
        raise ConversationError(f"{where} {stamp} is out of range in UTC") from None


def read_utc(text: object, where: str) -> datetime | None:
    """Return the time that a JSON value tells; None for null.

    Args:
        text: ISO 8601 with a time zone, or None.
        where: what the time belongs to, for messages.

    Raises:
        ConversationError: the value tells no time, or one without a zone.

    >>> read_utc("2025-01-31T12:00:00Z", "turn 1")
    datetime.datetime(2025, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if text is None:
        return None
    try:
        stamp = datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text is refused below
    except (TypeError, ValueError):
        raise ConversationError(
            f"{where} is {shown(text)}; use ISO 8601 with a time zone, such as 2025-01-31T12:00:00+00:00"
        ) from None
    return as_utc(stamp, where)
