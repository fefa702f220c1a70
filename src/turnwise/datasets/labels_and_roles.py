"""Labels and roles in the words of others: what they mean here, and the options that say so."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from turnwise._support.bounded import YamlError, read_yaml
from turnwise._support.locations import to_path
from turnwise._support.visible import shown
from turnwise.conversation import Label, Sequence
from turnwise.conversation.message_entries import ROLES, SPEAKERS, Role
from turnwise.datasets.protocol import RecordError
from turnwise.errors import UnknownNameError, UsageError

_ATTACK: Final = (
    "attack, adversarial, harmful, injection, jailbreak, malicious, manipulation, prompt injection, unsafe, true, "
    "yes, 1"
)
_BENIGN: Final = "benign, clean, fine, harmless, legitimate, normal, ok, safe, false, no, 0"

USUAL_LABELS: Final[Mapping[str, Label]] = {
    **dict.fromkeys(_ATTACK.split(", "), Label.ATTACK),
    **dict.fromkeys(_BENIGN.split(", "), Label.BENIGN),
    **dict.fromkeys(("unlabelled", "unlabeled", "unknown"), Label.UNLABELLED),
}
"""Labels that data sets use, as `label_word` writes them, and what they are here."""

NO_LABELS: Final = frozenset({"", "null", "none", "nan", "n/a"})
"""What stands in a label column where there is no label."""

USUAL_ROLES: Final[Mapping[str, str]] = {
    **{str(role): str(role) for role in ROLES},
    **{name: str(role) for name, role in SPEAKERS.items()},
    "prompter": "user",
    "ai": "assistant",
}
"""Roles that tables use, in small letters, and what they are here."""

_ROLES: Final = tuple(Role)

EVERY_OTHER: Final = "*"
"""In a map of labels or roles: all that it does not name."""

UNKNOWN_LABEL: Final = "unknown_label"
"""Key of the metadata of a sequence that keeps a label that could not be mapped."""


class UnknownLabelError(ValueError):
    """A label that is neither in the user's map nor in `USUAL_LABELS`."""


def label_word(value: object) -> str:
    """Write a label of a file as it is looked up: small letters, spaces between words, ``1`` for ``1.0``.

    >>> label_word("Prompt_Injection"), label_word(1.0), label_word(True), label_word("1.0")
    ('prompt injection', '1', 'true', '1')
    """
    text = (value if isinstance(value, str) else json.dumps(value)).strip().lower()
    if text[:1].isalpha():
        return " ".join(text.replace("_", " ").replace("-", " ").split())
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text


def read_label(value: object, label_map: Mapping[str, Label] | None = None) -> Label | None:
    """Return what the label of a record means here, or None where it has none.

    >>> read_label("jailbreak"), read_label(0), read_label(None), read_label("rude", {"rude": Label.ATTACK})
    (<Label.ATTACK: 'attack'>, <Label.BENIGN: 'benign'>, None, <Label.ATTACK: 'attack'>)
    """
    if value is None or isinstance(value, Label):
        return value
    word, own = label_word(value), label_map or {}
    if word in own:
        return own[word]
    if word in NO_LABELS:
        return None
    label = own.get(EVERY_OTHER) or USUAL_LABELS.get(word)
    if label is None:
        raise UnknownLabelError(word)
    return label


def unknown_label(sequence: Sequence) -> str | None:
    """Return the label of a sequence that could not be mapped, as text; None where there was no such label."""
    if UNKNOWN_LABEL not in sequence.metadata:
        return None
    value = sequence.metadata[UNKNOWN_LABEL]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_role(value: str, role_map: Mapping[str, str]) -> str:
    """Translate a role of a file by the map; one that the map lacks stays as it is."""
    return role_map.get(value.strip().lower()) or role_map.get(EVERY_OTHER) or value


def usual_role(value: object, role_map: Mapping[str, str]) -> str | None:
    """What the role in the cell of a table means; None where it is not known."""
    return USUAL_ROLES.get(read_role(str(value), role_map).strip().lower())


def unknown_role(role: object, known: Collection[str] = USUAL_ROLES, what: str = "role") -> str:
    """Say that a role is not known, and what to do; ``what`` is the file's own word for a role."""
    hint = f"; say what it means with --role-map {role}=user" if isinstance(role, str) and role.strip() else ""
    return f"unknown {what} {shown(role)}; known: {', '.join(known)}{hint}"


def with_roles(messages: list[Any], role_map: Mapping[str, str], speakers: Collection[str] = ()) -> list[Any]:
    """Translate the roles of messages; in ShareGPT entries ``from`` names it, one of ``speakers``.

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


def parse_label_map(given: str | Mapping[Any, str] | None) -> dict[str, Label]:
    """Return what labels of a file mean, by `label_word`; ``*`` stands for every other label.

    >>> parse_label_map("Rude=attack, *=benign")
    {'rude': <Label.ATTACK: 'attack'>, '*': <Label.BENIGN: 'benign'>}
    """
    found: dict[str, Label] = {}
    for theirs, ours in _meanings("label map", given, "malicious=attack").items():
        if ours not in tuple(Label):
            raise UsageError(f"label map: {theirs!r} can't map to {ours!r}; use {', '.join(Label)}")
        found[label_word(theirs)] = Label(ours)
    return found


def parse_role_map(given: str | Mapping[Any, str] | None) -> dict[str, str]:
    """Return what roles of a file mean, by the role in small letters; ``*`` stands for every other role.

    >>> parse_role_map("Agent=assistant, *=user")
    {'agent': 'assistant', '*': 'user'}
    """
    found: dict[str, str] = {}
    for theirs, ours in _meanings("role map", given, "agent=assistant").items():
        if ours not in _ROLES:
            raise UsageError(f"role map: {theirs!r} can't map to {ours!r}; use {', '.join(Role)}")
        found[str(theirs).strip().lower()] = str(ours)
    return found


def parse_columns(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return names of columns by what they hold, given as a mapping or as ``messages=chat, id=uid``."""
    return {} if given is None else _pairs("columns", given, "messages=chat")


def parse_label(given: str | None) -> Label | None:
    if given is not None and given not in tuple(Label):
        raise UnknownNameError("label", given, map(str, Label))
    return None if given is None else Label(given)


def _pairs(what: str, given: str | Mapping[str, str], example: str) -> dict[str, str]:
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, str] = {}
    for part in given.split(","):
        name, equals, value = (piece.strip() for piece in part.rpartition("="))
        if not (name and equals and value):
            raise UsageError(f"{what}: {part.strip()!r} must have the form name=value, as in {example}")
        if name in found:
            raise UsageError(f"{what}: {name!r} is named twice; name it once")
        found[name] = value
    return found


def _meanings(what: str, given: str | Mapping[Any, str] | None, example: str) -> Mapping[Any, str]:
    """What words of a file mean, given as pairs or as a file of them; `what` and `example` are for messages."""
    if given is None:
        return {}
    if isinstance(given, Mapping) or "=" in given:
        return _pairs(what, given, example)
    try:
        value = read_yaml(to_path(given).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{what}: {given!r} is neither a pair such as {example} nor a readable file: {error.strerror}"
        ) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{what}: {given} can't be read: {error}; give UTF-8 text with pairs such as "
            f"{example.replace('=', ': ')}"
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"{what}: {given} must hold pairs such as {example.replace('=', ': ')}")
    return value
