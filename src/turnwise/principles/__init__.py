"""Principles: what a turn is judged against, each a versioned folder of settings and text."""

from turnwise.principles.principle import (
    PRINCIPLES,
    HeadContent,
    HeadFile,
    Principle,
    builtin_principles,
    is_named,
    list_principles,
    load_principle,
    principle_names,
    read_head,
    write_head,
)

__all__ = [
    "PRINCIPLES",
    "HeadContent",
    "HeadFile",
    "Principle",
    "builtin_principles",
    "is_named",
    "list_principles",
    "load_principle",
    "principle_names",
    "read_head",
    "write_head",
]
