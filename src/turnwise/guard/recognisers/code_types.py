"""The kinds of code that are known."""

from __future__ import annotations

from typing import Literal

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
