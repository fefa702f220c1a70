"""Providers of language models: where each is reached, and what it honours."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from turnwise.errors import ObserverError, UnknownNameError, UsageError
from turnwise.observers.llm.settings import STRUCTURED, check_url
from turnwise.observers.llm.tables import entry, read_tables

_KEYS = ("base_url", "key_variable", "key_optional", "structured", "token_limit")
_NAME = frozenset(string.ascii_letters + string.digits + "_.-")
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where language models are reached.

    Args:
        name: as in ``llm:name/model``.
        base_url: root of its chat-completions API.
        key_variable: environment variable that holds the key; empty where none is needed.
        key_optional: whether the server may be run without a key.
        structured: how it can be made to answer in JSON: ``json_schema``, ``json_object`` or ``none``.
        token_limit: field of a request that limits the length of the reply.
    """

    name: str
    base_url: str
    key_variable: str = ""
    key_optional: bool = False
    structured: str = "none"
    token_limit: str = "max_tokens"


def providers(file: Path | None = None) -> Mapping[str, Provider]:
    """Return every provider by name: those that ship, and those of the user's file.

    Args:
        file: a TOML file with a table a provider; None for ``providers.toml`` in the configuration folder of
            turnwise, if there is one.

    Raises:
        ObserverError: the file can't be read, or an entry of it is not what it has to be.

    >>> providers()["ollama"].base_url
    'http://localhost:11434/v1'
    """
    return {
        name: _provider(where, name, value)
        for where, table in read_tables("providers.toml", file)
        for name, value in table.items()
    }


def split_spec(argument: str | None, known: Mapping[str, Provider]) -> tuple[Provider, str]:
    """Return provider and model of ``provider/model``; a model's name may itself hold ``/`` and ``:``.

    Raises:
        ObserverError: a part is missing.
        UnknownNameError: no provider has that name.

    >>> split_spec("openrouter/meta-llama/llama-3.3-70b", providers())[1]
    'meta-llama/llama-3.3-70b'
    """
    name, _, model = (argument or "").partition("/")
    if not name or not model or any(mark.isspace() or mark < " " or mark == "\x7f" for mark in model):
        raise ObserverError(
            "the llm observer needs a provider and a model, such as llm:openai/gpt-4.1-mini or llm:ollama/qwen3:8b"
        )
    if name not in known:
        raise UnknownNameError("provider", name, known)
    return known[name], model


def _provider(where: str, name: str, value: object) -> Provider:
    given = entry(where, name, value, _KEYS)
    place = f"{where}: [{name}]"
    for key, kind in (("base_url", str), ("key_variable", str), ("key_optional", bool)):
        if key in given and not isinstance(given[key], kind):
            raise ObserverError(f"{place} {key} must be {'text' if kind is str else 'true or false'}")
    for key, choices in (("structured", STRUCTURED), ("token_limit", _LIMITS)):
        if key in given and given[key] not in choices:
            raise ObserverError(f"{place} {key} must be one of {', '.join(choices)}")
    if not name or not _NAME.issuperset(name):
        raise ObserverError(f"{place} the name of a provider has letters, digits, '_', '-' and '.' only")
    variable = given.get("key_variable", "")
    if variable and not (variable.isascii() and variable.isidentifier()):
        # Whoever writes the key itself here should not read it in a log.
        raise ObserverError(f"{place} key_variable must be the name of an environment variable, not a key")
    try:
        url = check_url(given.get("base_url", ""), f"{place} base_url")
    except UsageError as error:
        raise ObserverError(str(error)) from error
    return Provider(name=name, **{**given, "base_url": url})
