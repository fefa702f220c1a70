"""Labels in the words of others: what they mean here, and the options that say so on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from turnwise._support.bounded import YamlError, read_yaml
from turnwise._support.paths import to_path
from turnwise.conversation import Label, Sequence
from turnwise.errors import UnknownNameError, UsageError

USUAL_LABELS: Final[Mapping[str, Label]] = {
    **dict.fromkeys(
        (
            "attack",
            "adversarial",
            "harmful",
            "injection",
            "jailbreak",
            "malicious",
            "manipulation",
            "prompt injection",
            "unsafe",
            "true",
            "yes",
            "1",
        ),
        Label.ATTACK,
    ),
    **dict.fromkeys(
        ("benign", "clean", "fine", "harmless", "legitimate", "normal", "ok", "safe", "false", "no", "0"),
        Label.BENIGN,
    ),
    **dict.fromkeys(("unlabelled", "unlabeled", "unknown"), Label.UNLABELLED),
}
"""Labels that data sets use, as `label_word` writes them, and what they are here."""

NO_LABELS: Final = frozenset({"", "null", "none", "nan", "n/a"})
"""What stands in a label column where there is no label."""

EVERY_OTHER: Final = "*"
"""In a label map: all labels that it does not name."""

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


def parse_label_map(given: str | Mapping[Any, str] | None) -> dict[str, Label]:
    """Return what labels of a file mean, by `label_word`; ``*`` stands for every other label.

    Takes ``"malicious=attack,fine=benign"``, a YAML or JSON file of ``malicious: attack``, or a mapping.

    >>> parse_label_map("Rude=attack, *=benign")
    {'rude': <Label.ATTACK: 'attack'>, '*': <Label.BENIGN: 'benign'>}
    """
    found: dict[str, Label] = {}
    for theirs, ours in parse_meanings("label map", given, "malicious=attack").items():
        if ours not in tuple(Label):
            raise UsageError(f"label map: {theirs!r} can't map to {ours!r}; use {', '.join(Label)}")
        found[label_word(theirs)] = Label(ours)
    return found


def parse_columns(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return names of columns by what they hold.

    >>> parse_columns("messages=chat, id=uid")
    {'messages': 'chat', 'id': 'uid'}
    """
    return {} if given is None else parse_pairs("columns", given, "messages=chat")


def parse_label(given: str | None) -> Label | None:
    """Return the label of that name; None for None."""
    if given is not None and given not in tuple(Label):
        raise UnknownNameError("label", given, map(str, Label))
    return None if given is None else Label(given)


def parse_pairs(what: str, given: str | Mapping[str, str], example: str) -> dict[str, str]:
    """Return pairs given as a mapping or with commas between; ``what`` and ``example`` go into messages."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, str] = {}
    for part in given.split(","):
        name, equals, value = (piece.strip() for piece in part.rpartition("="))
        if not (name and equals and value):
            raise UsageError(f"{what}: {part.strip()!r} is not of the form name=value, as in {example}")
        if name in found:
            raise UsageError(f"{what}: {name!r} is named twice")
        found[name] = value
    return found


def parse_meanings(what: str, given: str | Mapping[Any, str] | None, example: str) -> Mapping[Any, str]:
    """Return what words of a file mean: pairs as for `parse_pairs`, or those in a YAML or JSON file."""
    if given is None:
        return {}
    if isinstance(given, Mapping) or "=" in given:
        return parse_pairs(what, given, example)
    try:
        value = read_yaml(to_path(given).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{what}: {given!r} is neither a pair such as {example} nor a readable file: {error.strerror}"
        ) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise UsageError(f"{what}: {given}: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what}: {given} must hold pairs such as {example.replace('=', ': ')}")
    return value
