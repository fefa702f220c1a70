"""The explorer: trajectories of a store in a browser, on this machine. Extra ``[explorer]``.

`data` holds what is shown, without a web page; `views` shows it, one file for each view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TERMS: Final[Mapping[str, str]] = {
    "T": "Truth of a turn, 0 to 1: how far it keeps to a principle. T, I and F need not sum to 1.",
    "I": "Indeterminacy of a turn, 0 to 1: how far you can't tell whether it keeps to a principle.",
    "F": "Falsity of a turn, 0 to 1: how far it breaks a principle. The higher, the more serious.",
    "principle": "What turns are judged by, such as reciprocity: one question, answered with T, I and F.",
    "detector": "A rule that reads the scores of a conversation turn by turn and fires where they went too far.",
    "operating point": "The threshold that a detector has by default: set so that few harmless chats are flagged.",
    "false-positive rate": "The share of benign conversations that are flagged all the same.",
}
"""Meanings by word, in the order in which they are read: for hints, the help, and docs/glossary.md."""
