"""The kinds of code that are known."""

from __future__ import annotations

from typing import Literal, NamedTuple

CodeType = Literal[
    "fenced",
    "shell",
    "powershell",
    "sql",
    "html_script",
    "python",
    "javascript",
    "java",
    "c",
    "go",
    "rust",
    "csharp",
    "ruby",
    "kotlin",
    "php",
    "perl",
    "r",
    "lua",
    "visual_basic",
    "lisp",
    "elixir",
    "swift",
    "scala",
    "haskell",
    "assembly",
]
"""What is known: blocks between fences whatever they hold, and languages."""


class Signs(NamedTuple):
    """What gives a language away.

    Args:
        hints: what any of the expressions contains, as RE2 expressions that ignore case.
        sure: RE2 expressions for a line (or tag) that is code by itself.
    """

    hints: tuple[str, ...]
    sure: tuple[str, ...]
