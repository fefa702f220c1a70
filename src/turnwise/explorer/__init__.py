"""The explorer: trajectories of a store in a browser, on this machine. Extra ``[explorer]``.

`data` holds what is shown, without a web page; `views` shows it, one file for each view.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from turnwise.explorer.access import Access, AccessGate
    from turnwise.explorer.data import overview, question
    from turnwise.explorer.data.answers import Answers, Filter, SequencePage
    from turnwise.explorer.data.conversations import lay_beside, partners, read_chat
    from turnwise.explorer.data.flags import rule_of
    from turnwise.explorer.data.record import SERVICE_KEY, NamedInputs, ViewedStore
    from turnwise.explorer.data.studies import FinishedStudy, find_studies
    from turnwise.explorer.data.trial import MOST_TEXT, Trial, Trials, read_pasted
    from turnwise.explorer.data.turn_scoring import Judging, given_by, judging, next_conversation, score_again
    from turnwise.explorer.data.watch import AuditWatch, ServiceWatch
    from turnwise.explorer.data.words import WordIndex, excerpt, found_words, search_words
    from turnwise.explorer.pages import VIEWS
    from turnwise.explorer.server import PASSWORD, access_for, explore

__all__ = [
    "MOST_TEXT",
    "PASSWORD",
    "SERVICE_KEY",
    "TERMS",
    "VIEWS",
    "Access",
    "AccessGate",
    "Answers",
    "AuditWatch",
    "Filter",
    "FinishedStudy",
    "Judging",
    "NamedInputs",
    "SequencePage",
    "ServiceWatch",
    "Trial",
    "Trials",
    "ViewedStore",
    "WordIndex",
    "access_for",
    "excerpt",
    "explore",
    "find_studies",
    "found_words",
    "given_by",
    "judging",
    "lay_beside",
    "next_conversation",
    "overview",
    "partners",
    "question",
    "read_chat",
    "read_pasted",
    "rule_of",
    "score_again",
    "search_words",
]

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

_LAZY: Final = {
    "turnwise.explorer.access": ("Access", "AccessGate"),
    "turnwise.explorer.data.answers": ("Answers", "Filter", "SequencePage"),
    "turnwise.explorer.data.conversations": ("lay_beside", "partners", "read_chat"),
    "turnwise.explorer.data.flags": ("rule_of",),
    "turnwise.explorer.data.turn_scoring": ("Judging", "given_by", "judging", "next_conversation", "score_again"),
    "turnwise.explorer.data.record": ("SERVICE_KEY", "NamedInputs", "ViewedStore"),
    "turnwise.explorer.data.studies": ("FinishedStudy", "find_studies"),
    "turnwise.explorer.data.trial": ("MOST_TEXT", "Trial", "Trials", "read_pasted"),
    "turnwise.explorer.data.watch": ("AuditWatch", "ServiceWatch"),
    "turnwise.explorer.data.words": ("WordIndex", "excerpt", "found_words", "search_words"),
    "turnwise.explorer.pages": ("VIEWS",),
    "turnwise.explorer.server": ("PASSWORD", "access_for", "explore"),
}
"""What stands where: loaded when it is asked for, as the extra may be missing."""


def __getattr__(name: str) -> object:
    if name in ("overview", "question"):
        return import_module(f"turnwise.explorer.data.{name}")
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
