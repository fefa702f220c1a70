"""Tables of this package in YAML: names of things, and the patterns (RE2) that they are known by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


@cache
def read_table(file: str) -> Mapping[str, Any]:
    """A YAML file of this package, read once."""
    import yaml

    text = resources.files("turnwise.guard.recognisers").joinpath(file).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


def marked(parts: Mapping[str, str]) -> Mapping[str, str]:
    """Parts of patterns by the marks that stand for them: their names in braces."""
    return {f"{{{name}}}": part for name, part in parts.items()}


def filled(pattern: str, parts: Mapping[str, str]) -> str:
    """A pattern with parts put in for their marks; a part may hold marks of others that come before it.

    >>> filled("{greeting}, you", {"{word}": "hello", "{greeting}": "(oh )?{word}"})
    '(oh )?hello, you'
    """
    for mark, part in reversed(parts.items()):
        pattern = pattern.replace(mark, part)
    return pattern
