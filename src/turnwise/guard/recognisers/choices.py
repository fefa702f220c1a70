"""Settings that name some of the kinds that a guardrail knows."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.errors import GuardError, UnknownNameError


def check_types(what: str, types: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a setting ``types`` that names nothing, or what is not known.

    Args:
        what: what a type is of, such as ``"type of secret"``.
        types: the setting.
        known: the types that there are.

    Raises:
        GuardError: no types.
        UnknownNameError: an unknown one.

    >>> check_types("type of secret", ["aws"], ["aws", "jwt"])
    """
    if not types:
        raise GuardError(f"types is empty; name any of {', '.join(known)}")
    for name in types:
        if name not in known:
            raise UnknownNameError(what, str(name), known)
