"""Principles: what a turn is judged against, each a versioned folder of settings and text."""

from turnwise.principles.principle import (
    PRINCIPLES,
    HeadFile,
    Principle,
    builtin_principles,
    is_named,
    list_principles,
    load_principle,
    principle_names,
)

__all__ = [
    "PRINCIPLES",
    "HeadFile",
    "Principle",
    "builtin_principles",
    "is_named",
    "list_principles",
    "load_principle",
    "principle_names",
]
