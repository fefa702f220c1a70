"""Ground truth in the words of others: what is said of a file on the command line, and what its labels mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from turnwise.bounded import YamlError, read_yaml
from turnwise.conversation import Label, Sequence
from turnwise.errors import UnknownNameError, UsageError
from turnwise.paths import to_path

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
    """A label that neither the user's map nor `USUAL_LABELS` has."""


def label_word(value: object) -> str:
    """Return a label of a file as it is looked up: small letters, spaces between words, ``1`` for ``1.0``.

    >>> label_word("Prompt_Injection"), label_word(1.0), label_word(True), label_word("1.0")
    ('prompt injection', '1', 'true', '1')
    """
    text = (value if isinstance(value, str) else json.dumps(value)).strip().lower()
    if text[:1].isalpha():
        return " ".join(text.replace("_", " ").replace("-", " ").split())
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text


def read_label(value: object, label_map: Mapping[str, Label] | None = None) -> Label | None:
    """Return what the label of a record means here, or None where it carries none.

    Args:
        value: what stands in its label field, any JSON value; None where there is no such field.
        label_map: what `parse_label_map` made of the user's own words.

    Raises:
        UnknownLabelError: it is not known.

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
    """Return what labels of a file mean, by `label_word`.

    Args:
        given: ``"malicious=attack,fine=benign"``; or a YAML or JSON file of ``malicious: attack``; or a mapping.
            ``*`` stands for every other label.

    Raises:
        UsageError: it is not of that form, the file can't be read, or a meaning is no label of turnwise.

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
    """Return names of columns by what they hold, of ``"messages=chat,id=uid"`` or a mapping.

    Raises:
        UsageError: a part that is not of that form, or a name that stands there twice.

    >>> parse_columns("messages=chat, id=uid")
    {'messages': 'chat', 'id': 'uid'}
    """
    return {} if given is None else parse_pairs("columns", given, "messages=chat")


def parse_label(given: str | None) -> Label | None:
    """Return the label of that name; None for None.

    Raises:
        UnknownNameError: no label has that name.
    """
    if given is not None and given not in tuple(Label):
        raise UnknownNameError("label", given, map(str, Label))
    return None if given is None else Label(given)


def parse_pairs(what: str, given: str | Mapping[str, str], example: str) -> dict[str, str]:
    """Return pairs that are given as a mapping, or as text with commas between.

    Args:
        what: name of the option, for messages.
        given: the pairs.
        example: one such pair, for messages.

    Raises:
        UsageError: a part that is not of that form, or a name that stands there twice.
    """
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
    """Return what words of a file mean: pairs as for `parse_pairs`, or those of a YAML or JSON file.

    Args:
        what: name of the option, for messages.
        given: the pairs, or the path of the file; None for none.
        example: one such pair, for messages.

    Raises:
        UsageError: neither pairs nor a file that holds such.
    """
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
