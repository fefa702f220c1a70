"""Who speaks, in the words of others: what roles in a file mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from turnwise._support.visible import shown
from turnwise.conversation.messages import ROLES, Role
from turnwise.conversation.sharegpt import SPEAKERS
from turnwise.datasets.labels import EVERY_OTHER, parse_meanings
from turnwise.datasets.protocol import RecordError
from turnwise.errors import UsageError

USUAL_ROLES: Final[Mapping[str, str]] = {
    **{str(role): str(role) for role in ROLES},
    **{name: str(role) for name, role in SPEAKERS.items()},
    "prompter": "user",
    "ai": "assistant",
}
"""Roles that tables use, in small letters, and what they are here."""

_ROLES: Final = tuple(Role)


def parse_role_map(given: str | Mapping[Any, str] | None) -> dict[str, str]:
    """Return what roles of a file mean, by the role in small letters; ``*`` stands for every other role.

    Takes ``"agent=assistant,customer=user"``, a YAML or JSON file of ``agent: assistant``, or a mapping.

    >>> parse_role_map("Agent=assistant, *=user")
    {'agent': 'assistant', '*': 'user'}
    """
    found: dict[str, str] = {}
    for theirs, ours in parse_meanings("role map", given, "agent=assistant").items():
        if ours not in ROLES:
            raise UsageError(f"role map: {theirs!r} can't map to {ours!r}; use {', '.join(Role)}")
        found[str(theirs).strip().lower()] = str(ours)
    return found


def read_role(value: str, role_map: Mapping[str, str]) -> str:
    """Translate a role of a file by the map; one that the map lacks stays as it is.

    >>> read_role("Agent", {"agent": "assistant"}), read_role("Agent", {})
    ('assistant', 'Agent')
    """
    return role_map.get(value.strip().lower()) or role_map.get(EVERY_OTHER) or value


def usual_role(value: object, role_map: Mapping[str, str]) -> str | None:
    """What the role in the cell of a table means; None where it is not known.

    >>> usual_role("Bot ", {}), usual_role("agent", {})
    ('assistant', None)
    """
    return USUAL_ROLES.get(read_role(str(value), role_map).strip().lower())


def unknown_role(role: object, known: Collection[str] = USUAL_ROLES, what: str = "role") -> str:
    """Say that a role is not known, and what to do; ``what`` is the file's own word for a role."""
    hint = f"; say what it means with --role-map {role}=user" if isinstance(role, str) and role.strip() else ""
    return f"unknown {what} {shown(role)}; known: {', '.join(known)}{hint}"


def with_roles(messages: list[Any], role_map: Mapping[str, str], speakers: Collection[str] = ()) -> list[Any]:
    """Translate the roles of messages; what is no message stays as it is.

    In ShareGPT entries ``from`` names the role; ``speakers`` are the names it may have, in small letters. A
    RecordError for an unknown role counts messages from 1.

    >>> with_roles([{"role": "Agent", "content": "Hi"}], {"agent": "assistant"})
    [{'role': 'assistant', 'content': 'Hi'}]
    """
    found: list[Any] = []
    for number, message in enumerate(messages, start=1):
        key = "from" if speakers and isinstance(message, dict) and "from" in message else "role"
        if not isinstance(message, dict) or not isinstance(message.get(key), str):
            found.append(message)
            continue
        role = read_role(message[key], role_map)
        what, known = ("speaker", speakers) if key == "from" else ("role", _ROLES)
        if (role.lower() if key == "from" else role) not in known:
            raise RecordError(f"message {number}: {unknown_role(role, known, what)}")
        found.append(message if role == message[key] else {**message, key: role})
    return found
