"""Principles: what a turn is judged against, each a versioned folder of settings and text."""

from turnwise.principles.head import HeadContent, HeadFile, head_path, read_head, write_head
from turnwise.principles.principle import (
    PRINCIPLES,
    Principle,
    builtin_principles,
    is_named,
    list_principles,
    load_principle,
    principle_names,
)

__all__ = [
    "PRINCIPLES",
    "HeadContent",
    "HeadFile",
    "Principle",
    "builtin_principles",
    "head_path",
    "is_named",
    "list_principles",
    "load_principle",
    "principle_names",
    "read_head",
    "write_head",
]
